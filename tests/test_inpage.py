"""Derivations as a page in a browser runs them: without torch, numpy, scipy, matplotlib, flint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attnverify.book.inpage.absent import LIBRARIES, AbsentError, standing_in
from attnverify.book.inpage.session import Session
from attnverify.evidence import notebooks
from attnverify.formulas import softmax
from falsified import falsified

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(p.stem for p in (ROOT / "notebooks").glob("*.md"))
CELLS = {name: notebooks.load(name).cells for name in NAMES}

#: Runs every cell of the notebooks named on the command line with the libraries out of reach.
ALONE = """
import json, sys
from attnverify.book.inpage.absent import LIBRARIES, standing_in
from attnverify.evidence.notebooks import load

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LIBRARIES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

assert not LIBRARIES & set(sys.modules)
sys.meta_path.insert(0, Blocked())
with standing_in():
    from attnverify.book.inpage.session import Session
    ended = {}
    for name in sys.argv[1:]:
        session, cells = Session(name), load(name).cells
        for k, cell in enumerate(cells):
            shown = session.check(cells[:k], cell)
            ended[f"{name} {k + 1}"] = shown.message or shown.outcome
print(json.dumps({"ended": ended, "loaded": sorted(LIBRARIES & set(sys.modules))}))
"""


@pytest.mark.slow
def test_every_derivation_cell_runs_without_the_libraries():
    command = [sys.executable, "-c", ALONE, *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {k: v for k, v in found["ended"].items() if v != "holds"} == {}
    assert len(found["ended"]) == sum(map(len, CELLS.values())) > 200
    assert found["loaded"] == []


FIRST = "import sympy as sp\nimport attnverify as av\nx = sp.Symbol('x', real=True)"
TRUE = "av.ledger.derived('norms.diameter', {'square': ((x + 1)**2, x**2 + 2 * x + 1)})"


def test_a_false_step_is_called_false_and_the_next_check_starts_afresh():
    session = Session("norms")
    assert session.check([FIRST], TRUE).outcome == "holds"
    shown = session.check([FIRST], TRUE.replace("2 * x", "3 * x"))
    assert (shown.outcome, shown.number, shown.boxes) == ("false", 2, [])
    assert shown.message == "norms.diameter, step 'square': false, expected true"
    assert "square" in session.check([FIRST], TRUE).boxes[0]
    session.check([FIRST], "x = 1")
    assert session.check([FIRST], TRUE).outcome == "holds"


def test_names_of_earlier_cells_are_looked_up_where_they_were():
    session, first = Session("norms"), "n = 1\ndef f():\n    return n"
    assert session.check([first], "n = 5\nf()").value == "5"
    assert session.check([first], "print('n is', n)\nf()").value == "1"
    assert session.check([first], "print('n is', n)").printed == "n is 1\n"


def test_an_error_names_the_cell_and_the_line_that_led_to_it():
    session = Session("norms")
    shown = session.check([FIRST, "y = 1 / 0"], TRUE)
    assert (shown.outcome, shown.number) == ("error", 2)
    assert "derivation cell 2" in shown.message and "y = 1 / 0" in shown.message
    assert shown.message.endswith("ZeroDivisionError: division by zero")
    assert session.check([FIRST], "(").message.endswith("was never closed")
    assert session.check([FIRST], "raise SystemExit").outcome == "error"


def test_what_is_absent_can_be_named_and_not_used():
    space = {"__name__": "attnverify.example"}
    with standing_in(frozenset({"nowhere"})):
        exec("import nowhere.inner as inner\nfrom nowhere import Thing\nimport nowhere", space)
        assert not isinstance("3", space["Thing"] | int)
        with pytest.raises(AbsentError, match="nowhere.inner.function: got a call without nowhere"):
            space["inner"].function(1)
        with pytest.raises(ModuleNotFoundError):  # for anyone else
            exec("import nowhere", {"__name__": "sympy.core"})
        with pytest.raises(ModuleNotFoundError):  # and for what is not listed
            exec("import elsewhere", space)
    with pytest.raises(ModuleNotFoundError):
        exec("import nowhere", space)
    assert "torch" in LIBRARIES


def test_the_float_made_on_demand_is_the_ball():
    assert float(softmax.critical_oscillation()) == softmax.CRITICAL_OSCILLATION
    with pytest.raises(AttributeError, match="CRITICAL"):
        _ = softmax.CRITICAL


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if CELLS[name]])
def test_the_first_step_edited_to_be_false_says_so(name):
    session, tried = Session(name), 0
    for k, cell in enumerate(CELLS[name]):
        edited = falsified(cell)
        if edited is not None:
            shown = session.check(CELLS[name][:k], edited)
            assert (shown.outcome, shown.number) == ("false", k + 1), shown.message
            tried += 1
    assert tried
