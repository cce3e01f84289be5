"""The tool that plants errors: its rules, and that a planted error leaves nothing behind."""

import ast
from pathlib import Path

import pytest
import torch

import mutants
from attnverify.mathematics import norms
from mutation import engine, plant, rules, trial
from mutation.equivalent import EQUIVALENT

pytestmark = pytest.mark.full  # a tool of maintainers, which no reader and no claim meets

EXAMPLE = '''
def value(X, W, scale=2):
    """2 * X stays."""
    require(X > 0, "X", X, "a positive number")
    first = -ops.sum(X.mT, -1) / 3 + 0.0
    second = ops.maximum(first + 1.5, first**2) if scale > 1 else first
    return ops.sqrt(second)
'''


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(EXAMPLE)
    return rules.of_file(path, "attnverify.mathematics.example")


def test_every_rule_changes_one_expression(example):
    found = {m.name.removeprefix("mathematics.example.value: ") for m in example}
    assert {
        "1 % more: ops.sqrt(second) -> __scaled__(ops.sqrt(second))",
        "dropped function: ops.sqrt(second) -> second",
        "condition: ops.maximum(first + 1.5, first ** 2) if scale > 1 else first -> first",
        "comparison: scale > 1 -> scale <= 1",
        "neighbor: ops.maximum(first + 1.5, first ** 2) -> ops.minimum(first + 1.5, first ** 2)",
        "operator: first + 1.5 -> (first) - (1.5)",
        "dropped term: first + 1.5 -> (1.5)",
        "constant: 1.5 -> 1.515",
        "constant: 0.0 -> 0.01",
        "exponent: first ** 2 -> (first) ** ((2) + 1)",
        "operator: -ops.sum(X.mT, -1) / 3 -> (-ops.sum(X.mT, -1)) * (3)",
        "sign: -ops.sum(X.mT, -1) -> ops.sum(X.mT, -1)",
        "transpose: X.mT -> X",
        "axis: -1 -> -2",
        "constant: 3 -> 4",
    } <= found
    assert not any("require" in m.name or "scale=2" in m.name for m in example)


def test_a_mutant_is_the_text_with_one_line_changed(example):
    for mutant in example:
        pairs = zip(EXAMPLE.splitlines(), mutant.source.splitlines(), strict=True)
        changed = [number for number, (a, b) in enumerate(pairs, start=1) if a != b]
        assert changed == [mutant.first] == [mutant.last]
        ast.parse(mutant.source)


def test_names_are_unique_and_those_without_error_are_there():
    names = [m.name for m in mutants.mutants(mutants.AREAS)]
    assert len(names) == len(set(names)) > 1000
    assert set(EQUIVALENT) <= set(names)
    assert {m.area for m in mutants.mutants(mutants.AREAS)} == set(mutants.AREAS)


def test_every_error_of_the_engine_is_in_its_source(root):
    found = engine.mutants(root / "src")
    assert len(found) == len(engine.ERRORS) >= 100
    for mutant in found:
        ast.parse(mutant.source)


def mutant_of(old: str, new: str) -> rules.Mutant:
    """A mutant of mathematics/norms.py."""
    text = Path(norms.__file__).read_text(encoding="utf-8")
    assert text.count(old) == 1
    line = text[: text.index(old)].count("\n") + 1
    return rules.Mutant("formulas", norms.__name__, "m", text.replace(old, new), line, line)


COMPOSITE = "ops.sqrt(composite_squared(A))"


def test_a_planted_error_is_seen_by_everyone_and_ends_with_its_process():
    """Checks and other modules hold the function itself."""
    held, A = norms.composite, torch.eye(2, dtype=torch.float64)[None]
    planted = mutant_of(COMPOSITE, f"{rules.SCALED}({COMPOSITE})")

    def inside() -> float:
        plant.plant(planted.module, planted.source)
        return float(held(A))

    assert trial.in_child(inside, 60) == pytest.approx(1.01)
    assert float(held(A)) == 1
