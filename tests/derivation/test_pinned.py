"""A claim and its derivation count only as long as they are those that somebody read."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import evidence_files
from attnverify import InputError, cli
from attnverify.chapters import Claim, cells, registry
from attnverify.chapters.verify import verify
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources, reviewed_record, run_cells
from attnverify.derivation.myst import code_cells
from attnverify.runtime.kept import SOURCE
from attnverify.verification import derived_evidence, formal, statements
from attnverify.verification.status import own

CLAIM, NOTEBOOK = "norms.square-variant", "norms"
STEP = "(root(c**2 * p + c**2), c * root(p + 1))"
CELL = """\
import attnverify as av, sympy as sp
c, p = sp.symbols("c p", positive=True)
root = lambda x: sp.sqrt(x)
av.ledger.derived("norms.square-variant", {
    "degree 1": (root(c**2 * p + c**2), c * root(p + 1)),
    "a square": ((c + p)**2 - 4 * c * p, (c - p)**2),
}, given={"notation": "p + 1 is a product of two norms"})
av.ledger.rejected("norms.square-variant", {
    "degree 1 without the root": ((c**2 * p).subs({c: 2, p: 1}), (c * p).subs({c: 2, p: 1})),
    "degree 3": (c**3, c),
})
"""


def run(cell: str) -> run_cells.NotebookRun:
    done = run_cells.run(notebook_sources.Source(NOTEBOOK, (cell,), "here", "0"))
    assert not done.error
    return done


@pytest.fixture
def reviewed(tmp_path, monkeypatch) -> Path:
    """The file of a record that holds the derivation of CELL alone."""
    monkeypatch.setattr(reviewed_record, "FILE", tmp_path / "reviewed.json")
    return reviewed_record.write(NOTEBOOK, run(CELL).entries, registry)


def record(cell: str):
    (found,), _ = derived_evidence.records(registry[CLAIM], run(cell))
    return found


def test_the_recorded_derivation_passes(reviewed):
    found = record(CELL)
    assert (found.outcome, found.detail) == ("pass", "degree 1; a square")
    assert found.limits == "given: p + 1 is a product of two norms (notation)"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        (STEP, "(1 * root(c**2 * p + c**2), c * root(p + 1))", "derivation"),
        # it passes the ledger and says nothing of the degree
        (STEP, "(c * (root(p) + 1), c * root(p) + c)", "derivation"),
        ("sp.sqrt(x)", "sp.sqrt(x) + 0", "derivation"),
        ('    "a square": ((c + p)**2 - 4 * c * p, (c - p)**2),\n', "", "derivation"),
        ('"a square":', '"two squares":', "derivation"),
        ('    "degree 3": (c**3, c),\n', "", "derivation"),
        ("positive=True", "positive=True, integer=True", "sides"),
        ("p + 1 is a product of two norms", "p is one norm", "derivation"),
        ('"notation"', '"hypothesis"', "derivation"),
    ],
)
def test_a_derivation_that_differs_is_no_evidence(reviewed, old, new, part):
    assert CELL.count(old) == 1
    found = record(CELL.replace(old, new))
    assert found.outcome == "unknown" and reviewed_record.CHANGED[part] in found.detail
    assert f"attnverify derivations --write {NOTEBOOK}" in found.detail


def reworded(claim: Claim) -> list[Claim]:
    """A claim with something else in the place of each part of its text that it has."""
    others = [replace(claim, statement=claim.statement.replace(" ", " not ", 1))]
    others += [replace(claim, title=f"{claim.title}, always")]
    others += [replace(claim, asserts="fails" if claim.asserts == "holds" else "holds")]
    if claim.fails_because:
        others += [replace(claim, fails_because="It does.")]
    if claim.refutes:
        others += [replace(claim, refutes=claim.refutes[1:])]
    return others


@pytest.mark.parametrize("id", list(registry)[::10])
def test_a_statement_that_differs_from_the_one_that_was_read_is_told(id):
    claim, origin = registry[id], registry.origin_of(id)
    assert origin.changed(claim) == ""
    assert origin.changed(replace(claim, statement=claim.statement.replace(" ", "\n  "))) == ""
    for other in reworded(claim):
        assert origin.changed(other) == reviewed_record.CHANGED["statement"], other
    if claim.derived:
        text = cells.texts()[claim.notebook]
        (other,) = (c for c in statements.read(_edited(text, id), claim.notebook) if c.id == id)
        assert origin.changed(other) == reviewed_record.CHANGED["check"]


def _edited(text: str, id: str) -> str:
    """A chapter with another number in the first check cell of a claim."""
    for cell in code_cells(text):
        if "check" in cell.tags and f'"{id}"' in cell.source:
            body = cell.source.split("\n", 1)[1]
            return text.replace(body, re.sub(r"\d", lambda d: str(9 - int(d[0])), body, count=1))
    raise AssertionError(f"no check cell of {id}")


@pytest.mark.parametrize("id", ["softmax.total-variation", "norms.diameter", "experiment.sorting"])
def test_a_claim_with_another_statement_is_partial_whatever_its_evidence(id, monkeypatch):
    """Also what rests on it; its mark *machine-checked* goes, as it was compared with another."""
    assert own(registry, registry[id], *all_passes(id)).status in ("verified", "criterion met")
    for other in reworded(registry[id]):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        registry.join([other], registry.home, instead_of=[id])
        standing = own(registry, other, *all_passes(id))
        assert standing.status == "partial" and "changed since it was read" in str(standing.reasons)
        report = evidence_files.report()
        assert not report.as_claimed and report.standing[id].status == "partial"
        for record in formal.evidence_of(id, statement=other.digest)[0]:
            assert record.outcome == "unknown" and other.digest in record.detail
        monkeypatch.undo()


def all_passes(id: str):
    done = evidence_files.report()
    return done.records[id], done.twins[id]


def test_spaces_and_line_ends_change_nothing(reviewed):
    assert record(CELL.replace("    ", "        ")).outcome == "pass"


def test_a_claim_without_record_is_not_verified(reviewed):
    reviewed.unlink()
    found = record(CELL)
    assert found.outcome == "unknown" and reviewed_record.UNREAD in found.detail
    assert own(registry, registry[CLAIM], [found], []).status not in ("verified", "refuted")


def test_derivations_of_another_folder_meet_the_same_record(tmp_path):
    """Whoever brings notebooks of their own does not bring the record."""
    name = registry[CLAIM].notebook
    text = f"```{{code-cell}} ipython3\n:tags: [derivation]\n\n{CELL}```\n"
    (tmp_path / f"{name}.md").write_text(text)
    report = verify([CLAIM], Settings(), ["derived"], jobs=1, notebooks_folder=tmp_path)
    (found,) = report.records[CLAIM]
    assert found.outcome == "unknown" and "changed" in found.detail and not report.as_claimed


def test_another_sympy_compares_the_source_alone(reviewed):
    """It may write the same expression in another way."""
    body = json.loads(reviewed.read_text())
    version, sides = body[CLAIM]["sides"].split()
    for made, outcome in ((f"{version} {'0' * 12}", "unknown"), (f"1.0 {sides}", "pass")):
        body[CLAIM]["sides"] = made
        reviewed.write_text(json.dumps(body))
        reviewed_record._load.cache_clear()
        assert record(CELL).outcome == outcome
    assert record(CELL.replace("sp.sqrt(x)", "sp.sqrt(x) + 0")).outcome == "unknown"


def test_the_record_has_a_line_for_each_claim_in_the_order_of_the_book():
    recorded = reviewed_record.load()
    assert list(recorded) == list(registry)
    assert {id for id in recorded if "derivation" in recorded[id]} == {
        claim.id for claim in registry.values() if claim.derived
    }
    assert len(reviewed_record.FILE.read_text().splitlines()) == len(registry) + 2


RECORD = """
import sys
from attnverify.derivation import notebook_sources, reviewed_record, run_cells
from pathlib import Path
from attnverify.chapters import registry
reviewed_record.FILE = Path(sys.argv[1])
done = run_cells.run(notebook_sources.load("mlp"))
reviewed_record.write("mlp", done.entries, registry)
"""


def test_the_record_is_the_same_with_another_hash_seed(tmp_path):
    command = [sys.executable, "-c", RECORD, str(tmp_path / "mlp.json")]
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(SOURCE)}
    subprocess.run(command, check=True, env=environment)
    made, recorded = json.loads((tmp_path / "mlp.json").read_text()), reviewed_record.load()
    assert made == {c.id: recorded[c.id] for c in registry.values() if c.notebook == "mlp"}


def command(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["attnverify", "derivations", *arguments])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    return int(exit.value.code or 0)


def test_the_command_says_what_differs_and_records_it(tmp_path, monkeypatch, capsys):
    recorded = reviewed_record.load()
    file = tmp_path / "src" / "attnverify" / "derivation" / "reviewed.json"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(reviewed_record, "FILE", file)
    assert command(monkeypatch, "path-lengths") == 1
    assert f"paths.count: {reviewed_record.UNREAD}" in capsys.readouterr().out
    assert command(monkeypatch, "path-lengths", "--write") == 2  # no checkout
    assert "expected a checkout" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").write_text("")
    assert command(monkeypatch, "path-lengths", "--write") == 0
    assert json.loads(file.read_text())["paths.count"] == recorded["paths.count"]
    assert command(monkeypatch, "path-lengths") == 0
    assert "steps as recorded" in capsys.readouterr().out


def test_an_unknown_notebook_is_named(monkeypatch, capsys):
    assert command(monkeypatch, "path-length") == 2
    assert "did you mean 'path-lengths'" in " ".join(capsys.readouterr().err.split())


def test_a_broken_record_is_told(reviewed):
    reviewed.write_text("{")
    reviewed_record._load.cache_clear()
    with pytest.raises(InputError, match="derivations: got reviewed.json, which is truncated"):
        reviewed_record.load()
