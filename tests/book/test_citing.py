"""BibTeX, permanent addresses, the words that search looks at, previews: the texts alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from pybtex.database import parse_string

from attnverify.book.pages.common import anchor
from attnverify.book.sphinx import citing, previews, search_page
from attnverify.chapters import registry

BASE = "https://x.invalid/book/"


def config(base: str = "") -> SimpleNamespace:
    book = {"author": "a and b group", "copyright": "2026", "project": "Book"}
    return SimpleNamespace(**book, html_baseurl=base)


@pytest.mark.parametrize("base", ["", BASE, BASE.rstrip("/")])
def test_entries_are_bibtex(base):
    """A key and a title for each claim, the author as one name, an address if there is one."""
    texts = [citing.of_book(config(base))]
    texts += [citing.of_claim(claim, config(base)) for claim in registry.values()]
    entries = parse_string("\n".join(text.astext() for text in texts), "bibtex").entries
    assert len(entries) == len(registry) + 1
    for claim in registry.values():
        entry = entries[f"attnverify:{claim.id}"]
        assert entry.fields["title"] == f"{{{claim.title}}}"
        assert [str(p) for p in entry.persons["author"]] == ["{a and b group}"]
        assert entry.fields.get("url", "") == (f"{BASE}claims/{claim.id}.html" if base else "")


@pytest.mark.parametrize("base", ["", BASE])
def test_an_address_leads_to_the_box(base):
    claim = registry["paths.count"]
    page = BeautifulSoup(citing.redirect(claim, "notebooks/p.html", config(base)), "html.parser")
    target = f"../notebooks/p.html#{anchor(claim.id)}"
    assert page.find("a")["href"] == target
    assert page.find("meta", {"http-equiv": "refresh"})["content"] == f"0; url={target}"
    canonical = page.find("link", rel="canonical")
    assert (canonical["href"] if canonical else "") == (f"{BASE}notebooks/p.html" if base else "")


def test_words_of_formulas_are_names_and_letters_and_no_layout():
    text = r"Words $\operatorname{osc}(e) \le \tanh\frac{\rho}{4}$ then $$\lVert X \rVert_2$$ end."
    assert search_page.formula_words(text) == ["le", "osc", "rho", "tanh"]
    assert all(
        search_page.formula_words(claim.statement) is not None for claim in registry.values()
    )


BODY = """<section><div class="proof attnverify-claim" id="claim-a"><p class="t">T</p>
<section id="claim-a-content"><p>One <span class="katex"><span class="katex-mathml"><math><mi>x</mi>
</math></span><span class="katex-html">x</span></span><a href="#b" title="t">there</a></p>
<div class="inner"></div><details><p>x</p><details>y</details></details>
<div class="attnverify-footer docutils container"><p>
<span class="attnverify-badge"><span>v</span> ok</span> evidence</p></div>
</section></div><p>after</p>
<figure id="fig-x"><img src="../_images/x.svg" alt="x"/></figure>
<div class="note" id="id4">no citation</div>
<dt class="sig" id="attnverify.a.b">b()</dt>
<dd><p>First.</p><p>Second.</p></dd></section>"""


def test_previews_are_the_elements_without_ids_links_and_doubles():
    found = previews.previews(BODY)
    assert list(found) == ["claim-a", "fig-x", "attnverify.a.b"]
    claim = found["claim-a"]
    assert (
        "details" not in claim
        and "after" not in claim
        and "evidence" not in claim
        and "ok</span>" in claim
    )
    assert "<math>" not in claim and "<a" not in claim and " id=" not in claim
    assert claim.count("<div") == claim.count("</div>")
    assert 'src="ROOT/_images/x.svg"' in found["fig-x"]
    assert "First." in found["attnverify.a.b"] and "Second." not in found["attnverify.a.b"]


def test_an_element_without_an_end_is_an_error():
    with pytest.raises(ValueError, match="got no end"):
        previews.element("<div><p>x</p>", 0)


def test_formulas_of_an_excerpt_are_read_without_layout():
    """What a line of text would change, as a root or an exponent of several signs, is left out."""
    told = {tex: search_page.formula(tex) for tex in ("D/4", r"\tanh(D/4)", r"\delta \tanh y")}
    assert list(told.values()) == ["D/4", "tanh(D/4)", "δ tanh y"]
    for tex in (r"\lVert W \rVert_2", "d^{1/4}", r"\sqrt 2", r"\operatorname{tr}(W)"):
        assert search_page.formula(tex) == "…"
