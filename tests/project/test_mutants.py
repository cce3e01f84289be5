"""The tool that plants errors: its rules, that it leaves nothing behind, and a small sample."""

import ast
import inspect
import shutil
import signal
import textwrap
from pathlib import Path

import pytest
import torch

import mutants
from attnverify.experiments import phase_diagram
from attnverify.inspection import families
from attnverify.mathematics import norms
from attnverify.runtime.source_dependencies import Sources
from mutation import engine, pieces, plant, rules, trial
from mutation.equivalent import EQUIVALENT

pytestmark = pytest.mark.full  # a tool of maintainers, which no reader and no claim meets
CLAIM = "norms.square-variant"

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


@pytest.fixture(scope="module")
def known():
    found = [pieces.measure(f"{CLAIM}/{name}") for name in ("with the root", "without the root")]
    assert not any(entry["trouble"] for entry in found)
    return [pieces.Piece(**{**entry, "twins": tuple(entry["twins"])}) for entry in found]


def test_evidence_catches_an_error_and_says_how(known):
    outcome = trial.try_mutant(mutant_of(COMPOSITE, "composite_squared(A)"), known, Sources())
    assert outcome.caught == "evidence" and CLAIM in outcome.by


@pytest.fixture
def tests(tmp_path, monkeypatch):
    """What writes the only tests that a mutant meets."""

    def write(*lines: str) -> None:
        monkeypatch.setattr(trial, "_failing", {})
        head = ["import torch", "from attnverify.mathematics import norms", "def test_it():"]
        body = [*head, *(f"    {line}" for line in lines)]
        (tmp_path / "test_it.py").write_text("\n".join(body) + "\n")

    monkeypatch.setattr(trial, "ROOT", tmp_path)
    monkeypatch.setattr(trial, "_tests", lambda mutant, sources: ["test_it.py"])
    return write


def test_an_error_that_is_none_survives(known, tests):
    """Else the tool catches itself."""
    tests("assert norms.composite(torch.eye(2)) == 1")
    outcome = trial.try_mutant(mutant_of(COMPOSITE, f"+{COMPOSITE}"), known, Sources())
    assert outcome.caught == "survived"


def test_a_test_catches_what_evidence_does_not_run(tests):
    tests("assert norms.composite(2 * torch.eye(2)) == 2")
    for _ in range(2):  # what was found without the error is kept for the next
        outcome = trial.try_mutant(mutant_of(COMPOSITE, "composite_squared(A)"), [], Sources())
        assert (outcome.caught, outcome.by) == ("tests", "test_it.py::test_it")


def test_a_test_that_fails_without_the_error_too_catches_nothing(tests):
    tests("assert norms.composite(2 * torch.eye(2)) == 3")
    same = mutant_of(COMPOSITE, f"({COMPOSITE})")
    assert trial.try_mutant(same, [], Sources()).caught == "survived"


def test_a_test_that_only_planting_breaks_catches_nothing(tests):
    text = mutant_of(COMPOSITE, f"({COMPOSITE})")
    tests("import builtins", f"assert not hasattr(builtins, {rules.SCALED!r})")
    assert trial.try_mutant(text, [], Sources()).caught == "survived"


def test_a_default_is_the_function_that_the_module_has():
    """A criterion asks which of two functions it was given; the text as it is changes nothing."""
    source = Path(phase_diagram.__file__).read_text(encoding="utf-8")

    def inside() -> list:
        plant.plant(phase_diagram.__name__, source)
        default = inspect.signature(phase_diagram.judge).parameters["localizing"].default
        return [default is phase_diagram.concentrated, default.__name__]

    assert trial.in_child(inside, 60) == [True, "concentrated"]


def test_a_table_has_the_functions_that_the_module_has():
    """What they make is of the classes that others know; the text as it is changes nothing."""
    source = Path(families.__file__).read_text(encoding="utf-8")

    def inside() -> list:
        held, table = families.albert, families.FAMILIES
        plant.plant(families.__name__, source)
        return [held is families.albert, table is families.FAMILIES]

    assert trial.in_child(inside, 60) == [True, True]


def test_what_has_no_number_to_scale_is_no_mutant(known, tests):
    tests("pass")
    shape = mutant_of(COMPOSITE, f"{rules.SCALED}(None) or {COMPOSITE}")
    assert trial.try_mutant(shape, known, Sources()).caught == "void"


def test_a_row_has_its_numbers_scaled():
    """A dictionary that holds none is remembered; whole numbers in it count or name something."""

    def inside() -> list:
        row = {"size": 2.0, "layer": 3, "values": torch.tensor([4.0]), "unknown": None}
        found = plant._scaled(row)
        found["values"] = found["values"].tolist()
        return [found, plant._scaled({"layer": 3}), plant.NOTHING]

    found, other, nothing = trial.in_child(inside, 60)
    assert found["values"] == pytest.approx([4.04], rel=2.0**-23)  # a product in float32
    assert found | {"values": None} == {"size": 2.02, "layer": 3, "values": None, "unknown": None}
    assert nothing == [other] == [{"layer": 3}]


def test_whoever_runs_out_of_time_is_ended():
    def inside() -> None:
        while True:
            pass

    assert trial.in_child(inside, 1) == f"{trial.ENDED} {signal.SIGXCPU:d} (24: out of time)"


def test_a_file_that_always_runs_out_of_time_catches_nothing(tests):
    """Nor does it hide what a later file sees; an endless loop of the error alone is caught.

    The files send themselves the signal that a limit on processor time sends: how long a test
    takes on a busy machine decides nothing here.
    """
    changed = mutant_of(COMPOSITE, "composite_squared(A)")
    ends = "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)"
    tests(ends)
    assert trial.try_mutant(changed, [], Sources()).caught == "survived"
    tests("if norms.composite(2 * torch.eye(2)) != 2:", f"    {ends}")
    outcome = trial.try_mutant(changed, [], Sources())
    assert outcome.caught == "tests" and "out of time" in outcome.by


def test_models_and_experiments_are_met_by_tests_alone(root, known):
    """Modules in folders have their dotted names; what draws or prints has no mutant."""
    found = [m for m in mutants.mutants(rules.TESTED)]
    modules = {m.module for m in found}
    assert {
        "attnverify.inspection.inspect_model",
        "attnverify.experiments.engine.agreement",
    } <= modules
    assert "attnverify.experiments.shortpaths" in modules
    assert not {m.rpartition(".")[2] for m in modules} & set(rules.NO_MEASURE)
    assert not any(trial.reached(m, known) for m in found)


@pytest.mark.timeout(60)
def test_a_child_does_not_wait_for_threads_that_a_fork_does_not_have():
    ones, threads = torch.ones(1_000_000, dtype=torch.float64), torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        assert float((2 * ones).sum()) == 2e6  # its kernels have eight threads from here on
        assert trial.in_child(lambda: float((2 * ones).sum()), 30) == 2e6
    finally:
        torch.set_num_threads(threads)


def test_an_error_of_the_tool_is_not_taken_for_a_catch():
    def broken():
        raise ValueError("of the tool")

    with pytest.raises(RuntimeError, match="a child of this run: ValueError: of the tool"):
        trial.in_child(broken, 10)


def test_the_cause_of_an_error_of_the_tool_is_told(tmp_path, monkeypatch, capfd):
    """Its traceback and an exit code; the outcomes so far stay on disk."""

    def broken(mutant, known, sources) -> trial.Outcome:
        if mutant == "bad":
            raise ValueError("the cause")
        return trial.Outcome("formulas", mutant, "survived")

    monkeypatch.setattr(mutants, "WORK", tmp_path)
    monkeypatch.setattr(mutants, "try_mutant", broken)
    with pytest.raises(SystemExit, match="2 of 4 were not tried") as raised:
        mutants.trials(["bad", "b", "c", "d"], [], None, 2)
    assert "ValueError: the cause" in capfd.readouterr().err
    assert "ended with [1, 0]" in str(raised.value)
    kept = [o.name for file in sorted(tmp_path.iterdir()) for _, o in mutants._outcomes(file)]
    assert kept == ["b", "d"]


def test_outcomes_come_in_order_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "WORK", tmp_path)
    monkeypatch.setattr(
        mutants, "try_mutant", lambda mutant, *_: trial.Outcome("formulas", mutant, "survived")
    )
    assert [o.name for o in mutants.trials(["a", "b", "c"], [], None, 2)] == ["a", "b", "c"]
    assert list(tmp_path.iterdir()) == []


def test_the_baseline_is_made_again_when_what_it_follows_from_changes(tmp_path, monkeypatch):
    """The tool's own files, its settings, the versions; not the list of what is no error."""
    folder, sources = tmp_path / "maintenance" / "mutation", Sources()
    shutil.copytree(mutants.ROOT / "maintenance" / "mutation", folder)
    for name, value in (("ROOT", tmp_path), ("WORK", tmp_path / "kept")):
        monkeypatch.setattr(mutants, name, value)
    monkeypatch.setattr(pieces, "all_names", lambda claims: [])

    def kept() -> int:
        mutants.baseline(sources)
        return len(list((tmp_path / "kept").iterdir()))

    assert kept() == 1
    (folder / "equivalent.py").write_text("EQUIVALENT = {}")
    assert kept() == 1
    (folder / "pieces.py").write_text("QUICK = 1")
    assert kept() == 2
    monkeypatch.setattr(mutants, "BASELINE_SECONDS", 1)
    assert kept() == 3
    monkeypatch.setattr(mutants, "installed", lambda *_: {"torch": "0"})
    assert kept() == 4


def test_the_table_counts_by_area():
    name = next(iter(EQUIVALENT))
    outcomes = [
        trial.Outcome("formulas", "a", "evidence", "x"),
        trial.Outcome("formulas", "b", "tests", "y"),
        trial.Outcome("formulas", "c", "survived"),
        trial.Outcome("formulas", name, "survived"),
        trial.Outcome("formulas", "d", "void"),
        trial.Outcome("engine", "e", "tests", "z"),
    ]
    expected = f"""\
        area         planted  evidence  tests only  survived   caught
        formulas           3         1           1         1    66.7%
        engine             1         0           1         0   100.0%
        survived: c
        no error: {name} ({EQUIVALENT[name]})"""
    assert mutants.table(outcomes) == textwrap.dedent(expected)
