"""The Sphinx extension in a small book, built strictly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

import evidence_files
from attnverify.book.figures import COLORS
from attnverify.book.pages.__main__ import write
from attnverify.book.pages.common import anchor
from attnverify.chapters import registry
from attnverify.verification import formal
from pagechecks import broken_links, soup

CONF = """
project = "small"
extensions = ["myst_parser", "attnverify.book.sphinx.extension"]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
bibtex_bibfiles = ["references.bib"]
html_theme = "basic"
"""
PAGES = {
    "index": "# Book\n\n```{verdict}\n```\n\n{status}`paths.count`\n\n"
    "```{toctree}\n:glob:\n:numbered:\n\nnotebooks/*\nbook/*\nbook/generated/*\n```\n",
    "book/evidence": "# Evidence\n\nSee {claim}`softmax.total-variation` and "
    "{claim}`this <norms.diameter>`.\n",
    "book/formal": "# Proofs\n\n"
    + "".join(
        f"## {part}\n\n```{{include}} generated/formal-{part}.inc\n```\n\n"
        for part in ("list", "theorems", "words", "axioms")
    ),
    "book/bibliography": "# Bibliography\n\n```{bibliography}\n```\n",
}
MISTAKES = """\
# Bad

```{claim} paths.decompositon
```

{claim}`norms.diametr` {status}`norms.diametr` {claim}`norms.diameter`

```{evidence} nothing.*
```

```{claim} paths.count
```
"""
TOUCHED = "norms.submultiplicative"  # its derivation stayed unknown
UNPRINTED = "paths.count"  # its chapter has no evidence directive for it


EXPECTED = evidence_files.report({TOUCHED: "unknown"})


def chapter(name: str) -> str:
    """A page that prints the claims of a notebook and their evidence."""
    ids = [claim.id for claim in registry.values() if claim.notebook == name]
    boxes = "".join(f"```{{claim}} {id}\n```\n\n" for id in ids)
    printed = " ".join(id for id in ids if id != UNPRINTED)
    return f"# {name}\n\n{boxes}```{{evidence}} {printed}\n```\n"


def project(folder: Path, root: Path, pages: dict[str, str]) -> Path:
    """Write a small book into a folder."""
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "conf.py").write_text(CONF)
    (folder / "references.bib").write_text((root / "book" / "references.bib").read_text("utf-8"))
    return folder


#: One process for all builds: most of a small build's time is starting Python.
BUILDS = """
import sys
from sphinx.cmd.build import main
for folder in sys.argv[1:]:
    code = main(["-b", "html", "-n", "-W", "--keep-going", "-q", "-w", folder + "/warnings",
                 folder, folder + "/_build/html"])
    open(folder + "/code", "w").write(str(code))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory, root) -> dict[str, Path]:
    """Three small books, each built strictly: a good one, one of mistakes, one without evidence."""
    chapters = {f"notebooks/{c.notebook}": chapter(c.notebook) for c in registry.values()}
    pages = {
        "good": {**PAGES, **chapters},
        "mistakes": {"index": MISTAKES},
        "bare": {"index": "# Bare\n\n```{verdict}\n```\n"},
    }
    folders = {name: project(tmp_path_factory.mktemp(name), root, pages[name]) for name in pages}
    for name in ("good", "mistakes"):
        (folders[name] / "_build").mkdir()
    good = folders["good"]
    evidence = evidence_files.write(good / "_build" / "evidence.json", {TOUCHED: "unknown"})
    write(evidence, good / "book" / "generated")
    for page in ("practice", "map"):  # they link to chapters without claims
        (good / "book" / "generated" / f"{page}.md").unlink()
    (good / "book" / "results.inc").write_text("The results in words.\n")
    (folders["mistakes"] / "_build" / "evidence.json").write_text('{"version": 1, "claims": [')
    command = [sys.executable, "-c", BUILDS, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folders


def result(folder: Path) -> tuple[int, str]:
    """Exit code and warnings of a build."""
    return int((folder / "code").read_text()), (folder / "warnings").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def book(built) -> Path:
    """Pages of the good book, which holds every claim."""
    assert result(built["good"]) == (0, "")
    return built["good"] / "_build" / "html"


def box(book: Path, id: str) -> BeautifulSoup:
    found = soup(book / "notebooks" / f"{registry[id].notebook}.html").find(id=anchor(id))
    assert found is not None, id
    return found


@pytest.mark.parametrize("id", registry)
def test_every_claim_has_a_numbered_box(book, id):
    """Kind, number, title, source, status and links; the statement's math is math."""
    found, claim = box(book, id), registry[id]
    title = " ".join(found.find(class_="admonition-title").get_text().split())
    kind = claim.kind if claim.asserts == "holds" or not claim.derived else "false statement"
    assert re.fullmatch(rf"{kind.title()} \d+\.\d+ \({re.escape(claim.title)}\)", title)
    assert ("attnverify-false" in found["class"]) == (kind == "false statement")
    assert found.select(".math"), "no formula in the statement"
    text = found.get_text()
    assert ("Source:" in text) == claim.published
    assert ("Related:" in text) == any(s.related for s in claim.sources)
    assert (f"{claim.done.capitalize()} here: {claim.here}" in text) == bool(claim.here)
    badge = found.select_one(".attnverify-badge")
    status = EXPECTED.standing[id].status
    assert " ".join(badge.get_text().split()[1:]) == status
    assert COLORS[status] in badge["style"]
    links = [a["href"] for a in found.find_all("a", href=True)]
    status_page = f"../book/generated/status.html#{anchor(id, 'status')}"
    assert (status_page if id == UNPRINTED else f"#{anchor(id, 'evidence')}") in links
    assert sum("bibliography.html#" in link for link in links) == len(claim.sources)


PROVED = "softmax.total-variation"


def test_a_machine_checked_claim_has_its_mark_and_its_formal_statement(book):
    """The mark leads to the page on formal proofs; the statement is folded below the footer."""
    (theorem,) = formal.theorems_of(PROVED)
    found = box(book, PROVED)
    mark = found.select_one("a .attnverify-checked")
    assert mark.get_text().split()[1].startswith("machine-checked")
    assert mark.find("span")["aria-hidden"] == "true"
    assert mark.find_parent("a")["href"] == f"../book/formal.html#{anchor(PROVED, 'formal')}"
    fold = found.select_one("details.attnverify-formal")
    assert not fold.has_attr("open") and theorem.name in fold.get_text()
    assert fold.pre.get_text().rstrip() == formal.statement(theorem.name)
    assert theorem.says in " ".join(fold.get_text().split())
    unproved = next(id for id in registry if not formal.theorems_of(id))
    other = box(book, unproved)
    assert not other.select(".attnverify-checked") and not other.select(".attnverify-formal")


def test_the_page_on_formal_proofs_has_every_theorem_and_its_neighbors(book):
    page = soup(book / "book" / "formal.html")
    text = " ".join(page.get_text().split())
    printed = [code.get_text().rstrip() for code in page.find_all("pre")]
    known = formal.registered()
    for theorem in known.theorems:
        assert page.find(id=anchor(theorem.claim, "formal")), theorem.name
        assert formal.statement(theorem.name) in printed
        assert f"{theorem.name} in formal/{formal.module(theorem.name)}.v" in text
    assert text.count("False neighbor: ") == len(known.neighbors)
    claims = len({t.claim for t in known.theorems})
    assert f"{claims} of {len(registry)} claims have a formal proof" in text
    assert all(f"A{k}" in text and name in text for k, name in enumerate(known.axioms, start=1))


def test_every_definition_of_the_record_is_on_the_page(book):
    """Those of the dictionary under their words, all others folded below them."""
    page = soup(book / "book" / "formal.html")
    printed = "\n".join(code.get_text() for code in page.find_all("pre"))
    for entry in formal.registered().record["definitions"]:
        assert entry["text"] in printed, entry["name"]


def test_boxes_count_together(book):
    """Lemma 1.1, lemma 1.2, theorem 1.3: one counter for all kinds."""
    titles = soup(book / "notebooks" / "softmax.html").find_all(class_="admonition-title")
    numbers = [re.search(r"\d+\.(\d+)", title.get_text()).group(1) for title in titles]
    assert numbers == [str(k) for k in range(1, len(titles) + 1)]


def test_links_lead_to_places_that_exist(book):
    """Boxes and status page: there and back."""
    ours = [link for link in broken_links(book) if "genindex" not in link and "search" not in link]
    assert ours == []


def test_ids_are_unique(book):
    for page in book.rglob("*.html"):
        ids = [element["id"] for element in soup(page).find_all(id=True)]
        assert len(ids) == len(set(ids)), page.name


def test_role_shows_the_number_or_the_given_text(book):
    """The title of the claim is on hover."""
    page = soup(book / "book" / "evidence.html")
    links = {a["href"]: a for a in page.find_all("a", href=True)}
    short = links[f"../notebooks/softmax.html#{anchor('softmax.total-variation')}"]
    assert re.fullmatch(r"Theorem \d+\.2", short.get_text())
    assert short["title"] == "The sharp bound in total variation"
    assert links[f"../notebooks/norms.html#{anchor('norms.diameter')}"].get_text() == "this"


def test_a_box_names_what_it_rests_on_by_number(book):
    """Kind and number, with the title where the pointer rests."""
    footer = box(book, "norms.diameter").select_one(".attnverify-footer")
    assert len(footer.find_all("p", recursive=False)) == 2
    used = registry[registry["collapse.sharp-depth"].uses[0]]
    links = box(book, "collapse.sharp-depth").select(".attnverify-footer a")
    named = next(link for link in links if anchor(used.id) in link["href"])
    assert re.fullmatch(rf"{used.kind.capitalize()} \d+\.\d+", named.get_text())
    assert named["title"] == used.title


def test_one_line_of_evidence_a_claim(book):
    """The claim by number, its badge and the line; below it, closed, the two tables."""
    page = soup(book / "notebooks" / "norms.html")
    lines = page.select("p.attnverify-evidence")
    ids = [claim.id for claim in registry.values() if claim.notebook == "norms"]
    assert [line["id"] for line in lines] == [anchor(id, "evidence") for id in ids]
    line, details = lines[0], page.select("details.attnverify-details")
    text = " ".join(line.get_text().split())
    assert re.match(r"Theorem \d+\.\d+ . partial |Lemma \d+\.\d+ . partial ", text), text
    assert "derived: unknown;" in text and "twins rejected." in text
    assert len(details) == len(ids) and not any(fold.has_attr("open") for fold in details)
    assert line.find_next_sibling() is details[0]
    for fold, id in zip(details, ids, strict=True):
        assert [box["id"] for box in fold.select(".attnverify-scroll")] == [
            anchor(id, "records"),
            anchor(id, "twins"),
        ]


def test_evidence_tables_show_records_and_twins_without_times(book):
    page = soup(book / "notebooks" / "norms.html")
    records = page.find(id=anchor(TOUCHED, "records"))
    twins = page.find(id=anchor(TOUCHED, "twins"))
    text = records.get_text(" ")
    assert "|x| ≤ *1* at `n` = 2" in text and "these | instances" not in text
    assert "1\N{NO-BREAK SPACE}−\N{NO-BREAK SPACE}3.0·10⁻⁸" in text
    assert "?\N{NO-BREAK SPACE}unknown" in text and "0.25" not in text
    assert "Seconds" not in text
    assert "✓\N{NO-BREAK SPACE}rejected" in twins.get_text()
    assert "times the right side" in twins.get_text()
    title = registry[TOUCHED].title
    for box, caption in ((records, "What was found"), (twins, "Twins")):
        assert box.table.find().name == "caption"
        assert box.table.caption.get_text().startswith(caption)
        assert box["tabindex"] == "0" and box["aria-label"].endswith(f": {title}")


def test_limits_stand_once_below_the_tables(book):
    """What several checks share is told once; what is true of a kind is on the page on evidence."""
    fold = soup(book / "notebooks" / "norms.html").select_one("details.attnverify-details")
    note = fold.select_one("p.attnverify-limits")
    kinds = {record.kind for record in EXPECTED.records[TOUCHED]}
    assert note.get_text().count("these | instances") == len(kinds)
    assert note.a["href"] == "../book/evidence.html"


def test_status_page_leads_to_the_line_and_to_the_twins(book):
    page = soup(book / "book" / "generated" / "status.html")
    links = {a["href"]: a.get_text() for a in page.find_all("a", href=True)}
    chapter = "../../notebooks/norms.html#"
    assert "derived ? unknown" in links[f"{chapter}{anchor(TOUCHED, 'evidence')}"]
    twins = len(EXPECTED.twins[TOUCHED])
    assert links[f"{chapter}{anchor(TOUCHED, 'twins')}"] == f"{twins} of {twins}"
    assert f"#{anchor(UNPRINTED, 'status')}" in links


def test_verdict_counts(book):
    text = " ".join(soup(book / "index.html").select_one(".attnverify-verdict").get_text().split())
    statuses = [standing.status for standing in EXPECTED.standing.values()]
    assert f"{len(registry)} claims: {statuses.count('verified')} ✓ verified" in text
    for status in ("partial", "corrected"):
        assert re.search(rf"{statuses.count(status)} \S+ {status}", text), status
    theorems = formal.registered().theorems
    proved, exact = {t.claim for t in theorems}, {t.claim for t in theorems if t.exact}
    assert f"; {len(proved)} machine-checked, {len(exact)} of them exactly as stated." in text


def test_status_page_says_what_the_evidence_is_made_of(book):
    page = soup(book / "book" / "generated" / "status.html")
    text = " ".join(page.get_text().split())
    twins = sum(map(len, EXPECTED.twins.values()))
    total = sum(map(len, EXPECTED.records.values()))
    assert f"{total - 1} of {total} checks pass" in text
    assert f"{twins} of {twins} altered, false versions are rejected." in text
    theorems = formal.registered().theorems
    proved, exact = {t.claim for t in theorems}, {t.claim for t in theorems if t.exact}
    assert f"{len(proved)} are machine-checked, {len(exact)} of them exactly as stated." in text


def test_status_role_prints_the_badge(book):
    badges = soup(book / "index.html").select("p > .attnverify-badge")
    assert badges[-1].get_text().split() == ["✓", "verified"]


def test_style_sheet_is_served(book):
    css = (book / "_static" / "attnverify.css").read_text()
    assert ".attnverify-badge" in css and "http" not in css
    assert "attnverify.css" in (book / "index.html").read_text()


@pytest.mark.parametrize(
    "words",
    [
        "index.md:3: ERROR: id: got 'paths.decompositon', expected a claim id "
        "(did you mean 'paths.decomposition'?)",
        "index.md:6: ERROR: id: got 'norms.diametr', expected a claim id "
        "(did you mean 'norms.diameter'?)",
        "id: got 'nothing.*', expected a claim id or a glob",
        "claim norms.diameter has no box: no page prints it with the claim directive",
        "no page book/generated/status (run python -m attnverify.book.pages)",
        "evidence: got evidence.json, which is truncated or no evidence file (JSONDecodeError",
    ],
)
def test_mistakes_fail_the_build_and_are_named(built, words):
    """Unknown ids with the nearest match, a claim without a box, a missing page, a broken file."""
    code, warnings = result(built["mistakes"])
    assert code != 0
    assert words in warnings


def test_a_broken_evidence_file_is_told_once(built):
    assert result(built["mistakes"])[1].count("truncated or no evidence file") == 1


def test_missing_evidence_is_a_clear_warning(built):
    code, warnings = result(built["bare"])
    assert code != 0
    assert "evidence.json, which does not exist, expected a file written by" in warnings
    assert "not checked" in (built["bare"] / "_build" / "html" / "index.html").read_text()


def test_badges_tell_the_status_without_color(book):
    """The mark is for eyes only; the word is what a screen reader reads."""
    badge = box(book, "paths.count").select_one(".attnverify-badge")
    assert badge.find("span")["aria-hidden"] == "true"
    assert badge.get_text().split() == ["✓", "verified"]
