"""The notebooks: their derivations are decided, and every claim has one. The strict book build
executes the whole of them (tests/test_pages.py)."""

import json
import re
from pathlib import Path

import pytest

from attnverify.claims import registry
from attnverify.evidence import derive

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted({claim.notebook for claim in registry.values()})
CODE = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.M | re.S)
OPTIONS = re.compile(r"\A---\n.*?^---\n", re.M | re.S)  # caption and alternative text of a figure


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_claim_of_a_notebook_is_derived_with_a_twin(name):
    """Outcomes of experiments are measured and need no derivation."""
    done = derive.run(name)
    assert done.error == ""
    for claim in registry.values():
        if claim.notebook == name and claim.derived:
            records, twins = derive.records(claim.id, done)
            assert [r.outcome for r in records] == ["pass"], claim.id
            assert twins, f"{claim.id}: no rejected neighbor of the derivation"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_claim_has_its_box_and_its_evidence(name):
    text = (ROOT / "notebooks" / f"{name}.md").read_text()
    for claim in registry.values():
        if claim.notebook == name:
            assert f"```{{claim}} {claim.id}" in text
            assert re.search(rf"```\{{evidence\}}[^\n]*{re.escape(claim.id)}", text), claim.id


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.md")), ids=lambda p: p.stem)
def test_chapter_is_readable(path):
    """Words, length of code cells, exercises with solutions, limits said."""
    text = path.read_text()
    prose = CODE.sub("", text)
    assert 1300 <= len(prose.split()) <= 2800
    for cell in CODE.findall(text):
        code = OPTIONS.sub("", cell)
        lines = [s for s in code.splitlines() if s.strip() and not s.startswith(":")]
        assert len(lines) <= 25, lines[0]
    assert "oes not show" in prose
    assert len(re.findall(r"olution", prose)) >= 3


def notebook(tmp_path, *cells: str) -> None:
    content = [
        {"cell_type": "code", "metadata": {"tags": [derive.TAG]}, "source": [c]} for c in cells
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": content}))


def test_a_failing_derivation_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv(derive.NOTEBOOKS, str(tmp_path))
    notebook(
        tmp_path,
        "import attnverify as av, sympy as sp\nx = sp.Symbol('x')",
        "av.ledger.derived('paths.count', {'wrong': (x, x + 1)})",
    )
    done = derive.run("n")
    records, _ = derive.records("paths.count", done)
    assert records[0].outcome == "fail" and "step 'wrong': false" in records[0].detail


def test_a_notebook_without_the_claim_leaves_it_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv(derive.NOTEBOOKS, str(tmp_path))
    notebook(tmp_path, "x = 1")
    records, _ = derive.records("paths.count", derive.run("n"))
    assert records[0].outcome == "unknown"


def test_only_tagged_cells_run(tmp_path, monkeypatch):
    monkeypatch.setenv(derive.NOTEBOOKS, str(tmp_path))
    cells = [{"cell_type": "code", "metadata": {}, "source": ["1 / 0"]}]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    assert derive.run("n").error == ""
