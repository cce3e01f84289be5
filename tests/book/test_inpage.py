"""Derivations as a page in a browser runs them: without torch, numpy, scipy, matplotlib, flint."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from attnverify.book.inpage.absent_libraries import LIBRARIES, AbsentError, standing_in
from attnverify.book.inpage.session import Session
from attnverify.derivation import notebook_sources
from attnverify.mathematics import softmax

FEW = ("norms", "attention", "path-theorem")

#: Runs every cell of the notebooks named on the command line with the libraries out of reach.
ALONE = """
import json, sys
from attnverify.book.inpage.absent_libraries import LIBRARIES, standing_in
from attnverify.derivation.notebook_sources import load

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
def test_derivation_cells_run_without_the_libraries():
    """A few chapters here; test_pages_inpage.py runs all of them where the libraries are absent."""
    command = [sys.executable, "-c", ALONE, *FEW]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {k: v for k, v in found["ended"].items() if v != "holds"} == {}
    assert len(found["ended"]) == sum(len(notebook_sources.load(name).cells) for name in FEW) > 20
    assert found["loaded"] == []


FIRST = "import sympy as sp\nimport attnverify as av\nx = sp.Symbol('x', real=True)"
TRUE = "av.ledger.derived('norms.diameter', {'square': ((x + 1)**2, x**2 + 2 * x + 1)})"


def test_a_false_step_is_called_false_and_the_next_check_starts_afresh():
    session = Session("norms")
    assert session.check([FIRST], TRUE).outcome == "holds"
    shown = session.check([FIRST], TRUE.replace("2 * x", "3 * x"))
    assert (shown.outcome, shown.number) == ("false", 2)
    assert shown.message == "norms.diameter, step 'square': false, expected true"
    assert r"\left(x + 1\right)^{2} \neq x^{2} + 3\,x + 1" in shown.boxes[0]
    assert "✗ false" in shown.boxes[0] and "Does not hold" in shown.boxes[0]
    (box,) = session.check([FIRST], TRUE).boxes
    assert r"\left(x + 1\right)^{2} = x^{2} + 2\,x + 1" in box and "✓ identity" in box
    session.check([FIRST], "x = 1")
    assert session.check([FIRST], TRUE).outcome == "holds"


def test_nothing_before_an_error_is_lost():
    session = Session("norms")
    shown = session.check([FIRST], f"{TRUE}\nprint('so far')\n1 / 0")
    assert (shown.outcome, shown.printed, len(shown.boxes)) == ("error", "so far\n", 1)
    two = TRUE.replace("})", ", 'next': (x, 2 * x), 'last': (x, x + x)})")
    shown = session.check([FIRST], f"{TRUE}\n{two}")
    first, second = shown.boxes
    assert "ledger-derived" in first and "ledger-refused" in second
    assert [word in second for word in ("square", "next", "last")] == [True, True, False]


@pytest.mark.parametrize(
    ("steps", "relation", "message"),
    [
        ("{'s': (sp.Function('f')(x), x)}", r"\overset{?}{=}", "undecided, expected true"),
        ("{'s': (sp.Float(2.0) * x, 2 * x)}", "", "got the float 2.0"),
    ],
)
def test_what_does_not_count_is_not_called_false(steps, relation, message):
    shown = Session("norms").check([FIRST], f"av.ledger.derived('norms.diameter', {steps})")
    assert shown.outcome == "refused" and message in shown.message
    assert [relation in box for box in shown.boxes] == [True] * bool(relation)


def test_a_true_step_is_no_false_neighbor():
    shown = Session("norms").check([FIRST], TRUE.replace("derived", "rejected"))
    assert shown.outcome == "false" and "Not rejected" in shown.boxes[0]
    assert "✓ true" in shown.boxes[0] and r"\neq" not in shown.boxes[0]


def test_a_cell_that_needs_an_absent_library_says_so():
    with standing_in(frozenset({"nowhere"})):
        space = {"__name__": "attnverify.example"}
        exec("import nowhere\ndef f():\n    return nowhere.array(1)", space)
    session = Session("norms")
    session._after[0]["f"] = space["f"]
    shown = session.check([], "f()")
    assert shown.outcome == "absent" and "run the notebook in JupyterLab" in shown.message


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


def test_the_critical_float_is_the_balls():
    """Within half a unit in the last place of a ball far narrower than that."""
    assert abs(softmax.critical_float() - 1.2564312086261697) <= 2.0**-52
    assert float(softmax.critical_oscillation()) == softmax.critical_float()
