"""What pages and commands print of a small registry in which no two values are the same.

``toy_book.txt`` was read against the records below: a value in a wrong column, a count of something
else or an exchanged word is a difference. After a change that is meant, the test prints the text
that is to be read and stored.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from docutils import nodes
from rich.console import Console

from attnverify import cli
from attnverify.book.pages import claim_map, errata, evidence_line, practice, status, tables
from attnverify.book.pages.common import Evidence, read_evidence
from attnverify.chapters import Claim, Source, registry
from attnverify.checking.check import Described
from attnverify.checking.definition_agreement import LIMITS as BY_DEFINITION
from attnverify.checking.records import Record, TwinRecord
from attnverify.checking.search import Settings
from attnverify.derivation.notebook_sources import Source as Notebook
from attnverify.verification import formal, printing
from attnverify.verification.claim import Origin, Reading
from attnverify.verification.formal import Registered, Theorem
from attnverify.verification.report import Report
from attnverify.verification.status import own, standings

STORED = Path(__file__).with_name("toy_book.txt")
DONG, BAO = Source("dong2021", "Theorem 2"), Source("bao2024", "Lemma 3")
READINGS = (
    Reading("Loose is tight.", "near2020", "Two tokens:", "main", "norms.part", "loose"),
    Reading("One is all.", "far2019", "One token:", "lemma", "norms.held"),
)
CLAIMS = [
    Claim("norms.held", "Held", "theorem", "$1 = 1$.", "alpha", (DONG,)),
    Claim("norms.weak", "Weak", "theorem", "$1 < 3$.", "alpha", (BAO,)),
    Claim("norms.sharp", "Sharp", "lemma", "$1 < 2$.", "alpha", here="all", sharpens="norms.weak"),
    Claim(
        "norms.false",
        "False",
        "theorem",
        "$1 = 2$.",
        "beta",
        (Source("dong2021", "Theorem 5"),),
        asserts="fails",
        fails_because="One is\n  not two.",
        corrected_by="norms.right",
    ),
    Claim("norms.right", "Right", "theorem", "$1 = 1$.", "beta", here="it", refutes=READINGS),
    Claim("norms.part", "Part", "lemma", "$2$.", "beta", (BAO,), "a half", ("norms.sharp",)),
    Claim("norms.again", "Again", "theorem", "$1$.", "beta", (DONG,), reads="norms.false"),
    Claim("softmax.open", "Open", "lemma", "$3$.", "beta", (Source("near2020", "2", True),), "it"),
    Claim("softmax.bare", "Bare", "lemma", "$4$.", "beta", here="it"),
    Claim("experiment.unmet", "Unmet", "experiment", "5.", "gamma", (BAO,), asserts="fails"),
    Claim("experiment.left", "Left", "experiment", "8.", "gamma", (BAO,), asserts="fails"),
    Claim("experiment.gone", "Gone", "experiment", "9.", "gamma", (BAO,), asserts="fails"),
    Claim("experiment.met", "Met", "experiment", "6.", "gamma", (DONG,)),
    Claim("experiment.broken", "Broken", "experiment", "7.", "gamma", here="it"),
]
SEARCHED = ("sampled", "attacked", "certified")
MAIN = Described("Inequality", SEARCHED, ("loose", "tight"))
LEMMA = Described("Decision", ("decided",), ())
EQUAL = Described("Identity", ("certified",), ("other",))
MEASURED = Described("Measured", ("measured",), ("lower",))
CHECKS = {
    "norms.held": {"main": MAIN, "lemma": LEMMA},
    "norms.weak": {"equal": EQUAL, "entry by entry": Described("Decision", ("certified",), ())},
    "norms.sharp": {"main": MAIN},
    "norms.false": {"lemma": LEMMA},
    "norms.right": {"main": MAIN, "lemma": LEMMA},
    "norms.part": {"lemma": LEMMA},
    "norms.again": {},
    "softmax.open": {"main": MAIN},
    "softmax.bare": {"lemma": LEMMA},
} | {c.id: {"criterion": MEASURED} for c in CLAIMS if not c.derived}
THEOREMS = (
    Theorem("norms.held", "AttnVerify.Toy.held", "Exactly as registered."),
    Theorem("norms.right", "AttnVerify.Toy.right", "For one head."),
)


def searched(sampled: float, attacked: float, certified: float, cases: int, at: float, **open):
    """Records of the three searches for the check "main"."""
    return [
        Record("sampled", "main", "pass", sampled, 1000 + cases, 0.1, "", "a sample"),
        Record("attacked", "main", "pass", attacked, 200 + cases, 0.2, "", "a search", **open),
        Record("certified", "main", "pass", certified, cases, 0.3, "near", "a ball", refuted_at=at),
    ]


def derived(notebook: str, steps: int, outcome="pass"):
    return Record("derived", notebook, outcome, None, steps, 0.4, f"given: {steps}", "a; b")


def decided(detail: str, outcome="pass"):
    return Record("decided", "lemma", outcome, None, 1, 0.5, "the lemma", detail)


def proved(theorem: Theorem):
    return Record("formal", theorem.name, "pass", None, 1, 0.0, theorem.says, "Coq 0; axioms: none")


def judged(cases: int, outcome="pass"):
    return Record("measured", "criterion", outcome, None, cases, 0.6, f"{cases} runs", f"m {cases}")


RECORDS = {
    "norms.held": [
        *searched(0.25, 0.5, 1.0, 11, 0.9375),
        derived("alpha", 3),
        decided("an interval"),
        proved(THEOREMS[0]),
    ],
    "norms.weak": [
        Record("certified", "equal", "pass", None, 13, 0.1, "these", "exact"),
        Record("certified", "entry by entry", "pass", None, 17, 0.1, BY_DEFINITION, "alike"),
        derived("alpha", 4),
    ],
    "norms.sharp": [*searched(0.3, 0.6, 0.8, 19, 0.79), derived("alpha", 5)],
    "norms.false": [derived("beta", 6), decided("a point")],
    "norms.right": [
        *searched(0.2, 0.7, 0.9999999, 23, 0.9999),
        derived("beta", 7),
        decided("a grid"),
        proved(THEOREMS[1]),
    ],
    "norms.part": [derived("beta", 8), decided("a root")],
    "norms.again": [derived("beta", 10)],
    "softmax.open": [
        *searched(0.1, 0.4, 0.35, 29, 0.3, decided=222),
        derived("beta", 9, "unknown"),
    ],
    "softmax.bare": [],
    "experiment.unmet": [judged(31)],
    "experiment.left": [judged(43, "unknown")],
    "experiment.gone": [],
    "experiment.met": [judged(37)],
    "experiment.broken": [judged(41, "fail")],
}


def twins(check: str, *rejected: bool, titles=("loose", "tight")):
    pairs = enumerate(zip(titles, rejected, strict=False), start=1)
    return [TwinRecord(check, title, seen, 1 + n / 8, f"how {n}") for n, (title, seen) in pairs]


TWINS = {
    "norms.held": twins("main", True, True) + twins("alpha", True, titles=("a", "b")),
    "norms.weak": twins("equal", True, titles=("other",)),
    "norms.sharp": twins("main", False, True),
    "norms.right": twins("main", True, True),
    "softmax.open": twins("main", True, True) + twins("beta", True, True, titles=("a", "b")),
    **{c.id: twins("criterion", True, titles=("lower",)) for c in CLAIMS if c.notebook == "gamma"},
}


@pytest.fixture
def book(monkeypatch) -> Report:
    """The toy in the place of the book's registry, and a report on it."""
    monkeypatch.setattr(registry, "_entries", {})
    known = {c.id: CHECKS[c.id] for c in CLAIMS}
    registry.join(CLAIMS, Origin(), known)
    monkeypatch.setattr(formal, "registered", lambda: Registered(Path("formal"), THEOREMS))
    found = {c.id: TWINS.get(c.id, []) for c in CLAIMS}
    report = Report(registry, CLAIMS, RECORDS, found, Settings(43, 47, 53, 59), reused=61)
    report.derivations = [Notebook("alpha", ("1",), "beside the source", "67" * 32)]
    alone = {c.id: own(registry, c, RECORDS[c.id], found[c.id]) for c in CLAIMS}
    report.standing = standings(registry, alone)
    return report


@pytest.fixture
def evidence(book, tmp_path) -> Evidence:
    """What pages read of the report, with versions that stay."""
    body = book.as_json() | {"environment": {"machine": "toy"}}
    (tmp_path / "evidence.json").write_text(json.dumps(body), encoding="utf-8")
    return read_evidence(tmp_path / "evidence.json")


FILES = {
    "_toc.yml": """\
parts:
- {caption: Part one, numbered: true, chapters: [
  {file: notebooks/alpha, title: A}, {file: notebooks/beta, title: B}]}
- {caption: Part two, numbered: true, chapters: [{file: notebooks/gamma, title: C}]}
""",
    "book/practice.inc": "# In practice\n",
    "book/papers.toml": 'bao2024 = "It localizes."\ndong2021 = "It collapses."\n',
    "book/references.bib": "".join(
        f"@misc{{{key}, author={{{author}}}, year={{{key[-4:]}}}, title={{t}}}}\n"
        for key, author in {
            "dong2021": "Dong, Y and Two, A and Three, B",
            "bao2024": "Bao, H and Ha, R",
            "near2020": "Near, N",
            "far2019": "Far, F",
        }.items()
    ),
    "notebooks/alpha.md": "# The first\n{cite}`dong2021`\n**For practice.** See {doc}`beta`.\n",
    "notebooks/beta.md": "# The second\n**For practice.** Do {doc}`that </book/x>`.\n",
    "notebooks/gamma.md": "# The third\n{cite}`far2019, bao2024`\n**For practice.** Rest.\n",
}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with chapters and works."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def cells(found: list[nodes.Node]) -> str:
    """A table of the evidence of a claim, a line a row."""
    rows = [row for node in found for row in node.findall(nodes.row)]
    lines = (" | ".join(entry.astext() for entry in row) for row in rows)
    return "\n".join(lines) or "".join(node.astext() for node in found)


def _tables(claim: Claim, evidence: Evidence) -> str:
    found = [cells(tables.records(claim, evidence)), cells(tables.twins(claim, evidence))]
    return "\n".join([*found, str(tables.limits(claim, evidence))])


def command(monkeypatch, capsys, *arguments: str) -> str:
    """What the command prints."""
    monkeypatch.setattr(sys, "argv", ["attnverify", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        assert not ended.code
    return capsys.readouterr().out


def printed(report: Report) -> str:
    """What ``attnverify verify`` prints of a report."""
    out = io.StringIO()
    printing.print_report(report, Console(file=out, width=110))
    return out.getvalue()


def test_pages_and_commands_show_what_was_found(book, evidence, folder, monkeypatch, capsys):
    """Introductions are left out: they hold no values."""
    map_page = claim_map.text(evidence, folder)
    marks = [f"{id}: {claim_map.verdict(registry[id], evidence.status(id))}" for id in registry]
    links = [f"{id}: {claim_map.concerned(c, {s: x})}" for id, c, s, x in _places(folder)]
    pages = {
        "status": status.text(evidence, folder)
        .replace(status.INTRO, "")
        .replace(status.LEGEND, ""),
        "errata": _without(errata.text(evidence), errata),
        "map": "\n".join([*marks, *links, map_page.split(claim_map.TABLE)[1]]),
        "practice": practice.text(folder),
        "evidence lines": "\n".join(f"{c.id}: {evidence_line.text(c, evidence)}" for c in CLAIMS),
        "tables": "\n".join(f"{c.id}\n{_tables(c, evidence)}" for c in CLAIMS[:4]),
        "verify": printed(book),
        "list": command(monkeypatch, capsys, "list"),
        "show": "".join(
            command(monkeypatch, capsys, "show", id, "--checks")
            for id in ("norms.false", "norms.right")
        ),
    }
    text = "".join(f"=== {name}\n{_plain(page)}\n" for name, page in pages.items())
    assert text == STORED.read_text(encoding="utf-8"), text


def _places(folder: Path):
    from attnverify.book.pages import papers

    chapters = papers.chapters(folder)
    return [(id, c, c.notebook, chapters[c.notebook]) for id, c in registry.items()]


def _without(page: str, module) -> str:
    """A page without the texts of its module."""
    for name, value in vars(module).items():
        if name.isupper() and isinstance(value, str) and value.count("\n") > 1:
            page = page.replace(value, f"[{name}]\n")
    return page


def _plain(text: str) -> str:
    lines = (line.rstrip() for line in text.replace("\N{NO-BREAK SPACE}", "~").splitlines())
    return "\n".join(x for x in lines if x and not x.startswith(("<div", "</div", "| ---")))
