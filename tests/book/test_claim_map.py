"""The map holds every claim and every cited paper, and says of them what the other pages say."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from bs4 import BeautifulSoup

import evidence_files
from attnverify.book.pages import claim_map, errata, papers
from attnverify.book.pages.common import anchor, read_evidence
from attnverify.chapters import Claim, registry
from attnverify.verification.claim import Source
from places import ROOT
from visits import FAINT, PHONE, SMALLEST_CONTRAST, STICKING_OUT, serve, visiting

OPEN = "collapse.single-head"  # published, and no claim rests on it


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    file = tmp_path_factory.mktemp("evidence") / "evidence.json"
    return read_evidence(evidence_files.write(file, {OPEN: "unknown"}))


@pytest.fixture(scope="module")
def text(evidence) -> str:
    return claim_map.text(evidence, ROOT)


@pytest.fixture(scope="module")
def figure(text) -> BeautifulSoup:
    return BeautifulSoup(re.findall(r"```\{raw\} html\n(.*?)\n```", text, re.S)[0], "html.parser")


@pytest.fixture(scope="module")
def rows(text) -> dict[str, list[str]]:
    """The cells of the table by the key of the paper."""
    lines = re.findall(r"^\| (\[\]\{#paper-(\w+)\}.*) \|$", text, re.M)
    return {key: line.split(" | ") for line, key in lines}


CHAPTERS = papers.chapters(ROOT)
CITED = {key for chapter in CHAPTERS.values() for key in chapter.cites}


def test_every_claim_is_in_the_figure(figure):
    """Once, as a link to its box on the page that prints it, with a name."""
    marks = {mark["id"]: mark for mark in figure.select("a.claim")}
    assert len(figure.select("a.claim")) == len(registry)
    for id, claim in registry.items():
        mark = marks[anchor(id, "map")]
        assert mark["href"] == f"../../notebooks/{claim.notebook}.html#{anchor(id)}"
        page = (ROOT / "notebooks" / f"{claim.notebook}.md").read_text(encoding="utf-8")
        assert f"```{{claim}} {id}\n" in page
        assert mark["aria-label"] == f"{claim.title}: {mark['data-verdict']}"


def test_every_cited_paper_is_in_the_table_with_what_it_claims(rows):
    """A sentence a work, and none of works that no chapter cites."""
    sentences = tomllib.loads((ROOT / "book" / "papers.toml").read_text(encoding="utf-8"))
    sources = {s.key for claim in registry.values() for s in claim.sources}
    assert len(CITED) > 50 and sources <= set(rows) == CITED == set(sentences)
    assert list(sentences) == sorted(sentences)
    for key, (first, claims, *_) in rows.items():
        assert f"{{cite}}`{key}`" in first and claims == sentences[key]
        assert claims.endswith(".") and len(claims.split()) <= 25 and "|" not in claims, key


def test_links_of_the_page_lead_somewhere(figure, rows, text):
    """From the figure to the table and back, along the lines, and to chapters that exist."""
    names = [e["id"] for e in figure.select("[id]")]
    drawn = {e["href"].removeprefix("#paper-") for e in figure.select("a.paper")}
    assert len(names) == len(set(names))
    assert drawn == set(re.findall(r'href="#map-(\w+)"', text)) <= set(rows)
    for line in figure.select("svg[role] path"):
        assert {line["data-a"], line["data-b"]} <= set(names)
    titled = figure.select("a.chapter")
    assert {e["href"] for e in titled} == {
        f"../../notebooks/{claim.notebook}.html" for claim in registry.values()
    }
    assert all(f"({stem})" not in text for stem in CHAPTERS)
    assert set(re.findall(r"</notebooks/([\w-]+)>", text)) <= set(CHAPTERS)


def test_lines_follow_the_registry_and_the_citations(figure):
    """Solid where a statement is taken; a claim without a line names no paper, nor its chapter."""
    lines = {
        kind: {(e["data-a"], e["data-b"]) for e in figure.select(f"svg[role] .{kind} path")}
        for kind in claim_map.LINES
    }
    taken = {
        (f"map-{s.key}", anchor(claim.id, "map"))
        for claim in registry.values()
        for s in claim.sources
        if not s.related
    }
    assert lines["taken"] == taken
    assert sum(map(len, lines.values())) == len(set().union(*lines.values()))  # one a pair
    reached = {b for pairs in lines.values() for _, b in pairs}
    for id, claim in registry.items():
        if anchor(id, "map") not in reached:
            assert not claim.sources and not CHAPTERS[claim.notebook].cites, id
    assert ("map-dong2021", "map-skip-lower-bound") in lines["related"]  # it sharpens
    assert ("map-abnar2020", "map-rollout-binomial") not in lines["taken"]


def test_verdicts_agree_with_the_page_on_the_two_papers(evidence, figure, rows):
    """Section by section, with the same claims; what is open is told as open."""
    words = {
        "Refuted": {"corrected", "false as stated"},
        "Sharpened": {"sharpened"},
        "Completed": {"completed"},
        "As published": {"holds as stated"},
        "Criterion met here": {"criterion met"},
        "Criterion not met here": {"criterion not met"},
    }
    told = {e["id"]: e["data-verdict"] for e in figure.select("a.claim")}
    listed = set()
    for section in errata.text(evidence).split("\n## ")[1:]:
        for id in re.findall(r"^\| \{claim\}`[^`]+ <([\w.-]+)>`", section, re.M):
            listed.add(id)
            expected = words[section.splitlines()[0]] if id != OPEN else {"not settled"}
            assert told[anchor(id, "map")] in expected, id
    published = {id for id, claim in registry.items() if claim.published}
    assert listed <= published and OPEN in listed
    settled = {"holds as stated", "completed", "sharpened", "corrected", "false as stated"}
    statements = {id for id in registry if told[anchor(id, "map")] in settled}
    assert statements | {OPEN} == {id for id in listed if registry[id].derived}
    of_dong = [id for id, c in registry.items() if ("dong2021", False) in _keys(c)]
    counted = re.findall(r"([a-z ]+): (\d+)", rows["dong2021"][2])
    assert sum(int(number) for _, number in counted) == len(of_dong) > 20
    assert (" not settled", "1") in counted
    assert rows["wu2024"][2].startswith("not settled (on its subject: ")
    failing = {r.near for _, r in errata.failing_readings()}
    assert failing == {k for k, row in rows.items() if "{ref}`possible misreadings" in row[2]}
    assert rows["devlin2019"][2] == "cited" and "no claim" in rows["devlin2019"][0]


def _keys(claim: Claim) -> set[tuple[str, bool]]:
    return {(source.key, source.related) for source in claim.sources}


def test_a_verdict_follows_from_claim_and_status():
    taken = Claim("a.b", "t", "theorem", "$x$", sources=(Source("dong2021", "1"),))
    related = Claim("a.b", "t", "theorem", "$x$", sources=(Source("dong2021", "1", related=True),))
    false = Claim("a.b", "t", "theorem", "$x$", sources=taken.sources, asserts="fails")
    verdict = claim_map.verdict
    assert verdict(taken, "verified") == "holds as stated"
    assert verdict(taken, "failed") == verdict(false, "partial") == "not settled"
    assert verdict(related, "verified") == "proved here"
    assert verdict(false, "refuted") == "false as stated"
    assert verdict(false, "corrected") == "corrected"


def test_the_page_is_in_the_contents_and_on_the_first_page():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    reference = next(part for part in toc["parts"] if part["caption"] == "Reference")
    assert {"file": "book/generated/map"} in reference["chapters"]
    index = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    assert index.count("</book/generated/map>`") == 1


STATE = "[...document.querySelectorAll('svg[role] [transform], svg[role] path')].map(%s)"
PLACES = STATE % "e => e.getAttribute('transform') ?? e.getAttribute('d')"
SHOWN = "[...document.querySelectorAll('a.%s')].filter(e => e.checkVisibility()).map(e => e.id)"
LIT = "[...document.querySelectorAll('svg a.on')].map(e => e.id)"
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta name="viewport"
content="width=device-width"><link rel="icon" href="data:,"><title>map</title><style>
.attnverify-scroll { overflow-x: auto; }</style><body><article>%s<table><tr><td>
<span id="paper-wu2024"></span><a href="#map-wu2024">back</a><tr><td><span id="paper-bao2024">
</span></table></article>"""


@pytest.mark.browser
def test_the_figure_filters_and_lights(browser, tmp_path, figure):
    """By part and verdict, back to what was written; by pointer, by keyboard, from the table."""
    (tmp_path / "map.html").write_text(PAGE % figure, encoding="utf-8")
    written = [
        e.get("transform") or e["d"] for e in figure.select("svg[role] :is([transform],path)")
    ]
    neighbors = "VIII. Neighboring theorems"
    with serve(tmp_path) as address, visiting(browser, address, PHONE) as visit:
        page = visit.open("map.html").page
        part, verdict = page.locator("select").all()
        assert page.evaluate(PLACES) == written
        assert page.evaluate(STICKING_OUT) == page.evaluate(FAINT, SMALLEST_CONTRAST) == []
        verdict.select_option("corrected")
        assert set(page.evaluate(SHOWN % "claim")) == _marks(figure, verdict="corrected")
        assert page.evaluate(SHOWN % "paper") == ["map-dong2021"]
        verdict.select_option("")
        part.select_option(neighbors)
        claims = page.evaluate(SHOWN % "claim")
        assert set(claims) == _marks(figure, part=neighbors)
        assert page.inner_text("output").startswith(f"{len(claims)} claims, ")
        assert [row.is_visible() for row in page.locator("tr").all()] == [True, False]
        assert page.evaluate(PLACES) != written
        part.select_option("")
        assert page.evaluate(PLACES) == written
        page.locator("#map-kimi2025").focus()
        lines = figure.select("path[data-a=map-kimi2025]")
        assert page.evaluate(LIT) == ["map-kimi2025", *(line["data-b"] for line in lines)]
        page.get_by_text("back").click()
        assert page.evaluate(LIT)[0] == "map-wu2024" and len(page.evaluate(LIT)) > 10
        page.locator("#map-training-clipped-scores").hover()
        assert page.evaluate(LIT) == ["map-kimi2025", "map-training-clipped-scores"]
        assert visit.errors == visit.foreign == []


def _marks(figure: BeautifulSoup, verdict: str = "", part: str = "") -> set[str]:
    found = figure.select("g.row[data-part] a.claim")
    return {
        mark["id"]
        for mark in found
        if mark["data-verdict"] == (verdict or mark["data-verdict"])
        and mark.find_parent("g")["data-part"] == (part or mark.find_parent("g")["data-part"])
    }
