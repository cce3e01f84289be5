"""A derivation is evidence only as long as it is the one that somebody read and recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnverify import InputError, cli
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources, reviewed_record, run_cells
from attnverify.runtime.source_dependencies import SOURCE, Sources
from attnverify.topics import registry
from attnverify.topics.verify import verify
from attnverify.verification import cache_keys, derived_evidence
from attnverify.verification.status import own

CLAIM, NOTEBOOK = "norms.square-variant", "n"
CELL = """\
import attnverify as av, sympy as sp
c, p = sp.symbols("c p", positive=True)
root = lambda x: sp.sqrt(x)
av.ledger.derived("norms.square-variant", {
    "degree 1": (root(c**2 * p), c * root(p)),
    "a square": ((c + p)**2 - 4 * c * p, (c - p)**2),
}, given={"notation": "p is a product of two norms"})
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
    monkeypatch.setattr(reviewed_record, "FOLDER", tmp_path)
    return reviewed_record.write(NOTEBOOK, run(CELL).entries)


def record(cell: str):
    (found,), _ = derived_evidence.records(CLAIM, run(cell))
    return found


def test_the_recorded_derivation_passes(reviewed):
    found = record(CELL)
    assert (found.outcome, found.detail) == ("pass", "degree 1; a square")
    assert found.limits == "given: p is a product of two norms (notation)"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "(root(c**2 * p), c * root(p))",
            "(c * root(p) * 1, c * root(p))",
            "'degree 1' is written",
        ),
        ("sp.sqrt(x)", "sp.sqrt(x) + 0", "step 'degree 1' is computed from other source"),
        ('    "a square": ((c + p)**2 - 4 * c * p, (c - p)**2),\n', "", "step 'a square' is gone"),
        ('"a square":', '"two squares":', "step 'two squares' is new"),
        ('    "degree 3": (c**3, c),\n', "", "rejected neighbor 'degree 3' is gone"),
        ("positive=True", "positive=True, integer=True", "comes out as other expressions"),
        ("p is a product of two norms", "p is one norm", "given anew: p is one norm (notation)"),
        ('"notation"', '"hypothesis"', "given no longer: p is a product of two norms (notation)"),
    ],
)
def test_a_derivation_that_differs_is_no_evidence(reviewed, old, new, said):
    assert CELL.count(old) == 1
    found = record(CELL.replace(old, new))
    assert found.outcome == "unknown" and said in found.detail
    assert "attnverify derivations --write n" in found.detail


def test_a_step_that_became_a_tautology_is_no_evidence(reviewed):
    """It passes the ledger, since something is computed, and meets the record."""
    found = record(CELL.replace("(root(c**2 * p), c * root(p))", "(c * root(p), root(p) * c)"))
    assert found.outcome == "unknown" and "step 'degree 1'" in found.detail


def test_spaces_and_line_ends_change_nothing(reviewed):
    assert record(CELL.replace("    ", "        ")).outcome == "pass"


def test_a_claim_without_record_is_not_verified(reviewed):
    reviewed.unlink()
    reviewed_record._load.cache_clear()
    found = record(CELL)
    assert found.outcome == "unknown"
    assert "nobody has recorded this derivation" in found.detail
    assert own(registry, registry[CLAIM], [found], []).status not in ("verified", "refuted")


def test_derivations_of_another_folder_meet_the_same_record(tmp_path):
    """Whoever brings notebooks of their own does not bring the record."""
    name = registry[CLAIM].notebook
    text = f"```{{code-cell}} ipython3\n:tags: [derivation]\n\n{CELL}```\n"
    (tmp_path / f"{name}.md").write_text(text)
    report = verify([CLAIM], Settings(), ["derived"], jobs=1, notebooks_folder=tmp_path)
    (found,) = report.records[CLAIM]
    assert found.outcome == "unknown" and "is gone" in found.detail and not report.as_claimed


def test_another_sympy_compares_the_source_alone(reviewed):
    """It may write the same expression in another way."""
    body = json.loads(reviewed.read_text())
    for line in body["claims"][CLAIM]["derived"]:
        line["sides"] = "0" * 12
    reviewed.write_text(json.dumps(body))
    reviewed_record._load.cache_clear()
    assert "comes out as other expressions" in record(CELL).detail
    reviewed.write_text(json.dumps({**body, "sympy": "1.0"}))
    reviewed_record._load.cache_clear()
    assert record(CELL).outcome == "pass"
    assert record(CELL.replace("sp.sqrt(x)", "sp.sqrt(x) + 0")).outcome == "unknown"


def test_a_line_of_the_record_is_a_step(reviewed):
    lines = [line for line in reviewed.read_text().splitlines() if '"step"' in line]
    names = ["degree 1", "a square", "degree 1 without the root", "degree 3"]
    assert [json.loads(line.strip().rstrip(","))["step"] for line in lines] == names


def test_the_committed_record_has_the_claims_that_are_derived():
    recorded = reviewed_record.load()
    assert set(recorded) == {claim.id for claim in registry.values() if claim.derived}
    files = {path.stem for path in reviewed_record.FOLDER.glob("*.json")}
    assert files == {claim.notebook for claim in registry.values() if claim.derived}


RECORD = """
import sys
from attnverify.derivation import notebook_sources, reviewed_record, run_cells
from pathlib import Path
reviewed_record.FOLDER = Path(sys.argv[1])
done = run_cells.run(notebook_sources.load("mlp"))
reviewed_record.write("mlp", done.entries)
"""


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_record_is_the_same_with_every_hash_seed(tmp_path, seed):
    command = [sys.executable, "-c", RECORD, str(tmp_path)]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCE)}
    subprocess.run(command, check=True, env=environment)
    made = (tmp_path / "mlp.json").read_text()
    assert made == (reviewed_record.FOLDER / "mlp.json").read_text()


def test_the_key_of_derivations_has_their_record(monkeypatch):
    sources = Sources()
    before = cache_keys.of_derivations("norms", ["1"], sources, registry)
    file = "derivation/reviewed/norms.json"
    assert file in sources.files
    sources._digests[file] = "other"
    assert cache_keys.of_derivations("norms", ["1"], sources, registry) != before
    walk = [cache_keys.of_derivations("walk", ["1"], s, registry) for s in (sources, Sources())]
    assert walk[0] == walk[1]


def command(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["attnverify", "derivations", *arguments])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    return int(exit.value.code or 0)


def test_the_command_says_what_differs_and_records_it(tmp_path, monkeypatch, capsys):
    record = (reviewed_record.FOLDER / "path-lengths.json").read_text()
    folder = tmp_path / "src" / "attnverify" / "derivation" / "reviewed"
    folder.mkdir(parents=True)
    monkeypatch.setattr(reviewed_record, "FOLDER", folder)
    assert command(monkeypatch, "path-lengths") == 1
    assert "paths.count: nobody has recorded this derivation" in capsys.readouterr().out
    assert command(monkeypatch, "path-lengths", "--write") == 2  # no checkout
    assert "expected a checkout" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").write_text("")
    assert command(monkeypatch, "path-lengths", "--write") == 0
    assert (folder / "path-lengths.json").read_text() == record
    assert command(monkeypatch, "path-lengths") == 0
    assert "steps as recorded" in capsys.readouterr().out


def test_an_unknown_notebook_is_named(monkeypatch, capsys):
    assert command(monkeypatch, "path-length") == 2
    assert "did you mean 'path-lengths'" in " ".join(capsys.readouterr().err.split())


def test_a_broken_record_is_told(reviewed):
    reviewed.write_text("{")
    reviewed_record._load.cache_clear()
    with pytest.raises(InputError, match="derivations: got n.json, which is truncated"):
        reviewed_record.load()
