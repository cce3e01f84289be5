"""Every experiment: its committed table, its criterion, its twins, and a sample made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attnverify import InputError
from attnverify.chapters import registry
from attnverify.checking.search import Settings as Search
from attnverify.experiments import EXPERIMENTS, committed, find
from attnverify.experiments.engine import agreement, results
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.engine.results import Table, plus_minus
from attnverify.support.threads import one_thread
from attnverify.verification.status import own, required
from toy_experiment import TOY, register

NAMES = list(EXPERIMENTS)


def test_every_experiment_has_a_claim_and_every_such_claim_an_experiment():
    claims = {c.id for c in registry.values() if c.kind == "experiment"}
    assert {e.claim for e in EXPERIMENTS.values()} == claims
    assert all(name == e.name for name, e in EXPERIMENTS.items())
    folder = Path(results.__file__).parents[1] / "results"
    assert {p.stem for p in folder.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_table_is_of_the_full_setting(name):
    result = committed(name)
    assert result.experiment == name and result.settings["quick"] is False
    assert result.command.startswith(f"attnverify experiment {name} --seed")
    assert {"torch", "python", "attnverify"} <= set(result.versions)
    assert set(result.machine) == {"system", "architecture", "cores"}
    assert result.seconds >= 0 and result.rows


@pytest.mark.parametrize("name", NAMES)
def test_the_criterion_comes_out_as_the_book_says(name):
    result, experiment = committed(name), find(name)
    verdict = experiment.judge(result.rows)
    assert verdict.as_json() == result.verdict
    assert verdict.holds is (registry[experiment.claim].asserts == "holds")
    assert experiment.twins
    for title, judge in experiment.twins:
        assert judge(result.rows).holds is False, title


class Asked(dict):
    """A row that knows which of its figures were asked for."""

    def __init__(self, row):
        super().__init__(row)
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def group(self):
        """Rows of equal words are of one kind."""
        return frozenset((k, v) for k, v in self.items() if isinstance(v, str | bool))


#: Groups of rows that are not measured again, as the limits of their experiment say.
NOT_AGAIN = {
    "circle": lambda row: "MLP" in row["variant"],
    "small-decoder": lambda row: row["kind"] == "training",
    "three-models": lambda row: row["model"] == "decoder",
    "trained-copying": lambda row: "layer 1" not in row,
    "training-failures": lambda row: row["kind"] == "run",
}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_the_table_comes_out_again(name):
    """Some figure of every group of rows; most within a fiftieth of what is stored."""
    rows, left_out = [Asked(row) for row in committed(name).rows], NOT_AGAIN.get(name)
    with one_thread():
        again = find(name).sample(rows)
    seen = {r.group() for r in rows for key in r.asked if isinstance(r.get(key), float | list)}
    missed = [row for row in rows if row.group() not in seen]
    assert all(left_out and left_out(row) for row in missed), missed[:1]
    assert bool(missed) == bool(left_out) == ("measured again" in find(name).limits)
    near = [each.tolerance <= abs(each.stored) / 50 + 1e-9 for each in again if not each.chance]
    assert 2 * sum(near) >= len(near)
    by_chance = [each for each in again if each.chance]
    assert again and len(by_chance) == find(name).by_chance
    assert all(each.chance <= agreement.LEVEL for each in by_chance)
    for each in again:
        assert abs(each.again - each.stored) <= each.tolerance, each


@pytest.mark.parametrize("name", ["path-counts", "both-collapses", "real-spectra", "random-gap"])
def test_a_quick_run_comes_out_again(name):
    """All that it measures anew of its rows, as far as the rows go: other code than the run's."""
    again = find(name).sample(find(name).run(Settings(seed=results.seed(name))))
    assert again and all(abs(each.again - each.stored) <= each.tolerance for each in again)


@pytest.fixture
def toy(monkeypatch):
    return lambda **options: register(monkeypatch, **options)


def gathered(claim):
    return registry.origin_of(claim.id).gather(claim.id, Search(), ["measured"])


def test_measured_evidence_passes_if_the_criterion_is_as_claimed(toy):
    claim = toy()
    found = gathered(claim)
    (record,), (twin,) = found.records, found.twins
    assert (record.kind, record.outcome, record.instances) == ("measured", "pass", 3)
    assert record.detail == "largest value 3" and record.limits == TOY.limits
    assert twin.rejected and twin.twin == "at most 2"
    assert required(registry, claim) == {("measured", "criterion")}
    assert own(registry, claim, found.records, found.twins).status == "criterion met"


def test_a_finding_that_does_not_come_out_fails_or_is_reported_as_such(toy):
    claim = toy(judge=TOY.twins[0][1])
    found = gathered(claim)
    assert found.records[0].outcome == "fail"
    assert own(registry, claim, found.records, found.twins).status == "failed"
    claim = toy(judge=TOY.twins[0][1], asserts="fails")
    found = gathered(claim)
    assert own(registry, claim, found.records, found.twins).status == "criterion not met"


def test_a_twin_that_comes_out_true_fails_the_claim(toy):
    claim = toy(twins=(("at most 3", TOY.judge),))
    found = gathered(claim)
    assert not found.twins[0].rejected
    assert own(registry, claim, found.records, found.twins).status == "failed"


def test_an_undecided_criterion_is_unknown(toy):
    claim = toy(judge=lambda rows: replace(TOY.judge(rows), holds=None))
    assert gathered(claim).records[0].outcome == "unknown"
    checks = registry.origin_of(claim.id).checks_of(claim.id)
    assert checks["criterion"].kinds == ("measured",)


def test_a_result_survives_the_file(tmp_path):
    result = results.run(TOY, Settings(seed=5))
    assert result.settings == {"quick": True, "seed": 5, "device": "cpu"}
    assert result.verdict["holds"] is True
    file = tmp_path / "toy.json"
    results.save(file, result)
    assert results.load(file) == result
    assert '\n  {"value": 1},\n' in file.read_text(), "one row a line"


def test_a_result_says_how_to_measure_it_again(tmp_path):
    """What the user gave is named without its folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "$(own).txt").write_text("")
    own = replace(TOY, takes_model=True, takes_text=True, quick_decides=False)
    given = {"model": tmp_path / "model", "text": tmp_path / "$(own).txt"}
    full = results.run(own, Settings(quick=False, seed=4, device="cpu", **given))
    names = {"model": "model", "text": "$(own).txt"}
    assert full.settings == {"quick": False, "seed": 4, "device": "cpu"} | names
    words = "attnverify experiment toy --seed 4 --device cpu --model model --text '$(own).txt'"
    assert full.command == words and full.verdict["holds"] is True
    quick = results.run(own)
    assert quick.command == "attnverify experiment toy --quick --seed 0 --device cpu"
    assert quick.settings == {"quick": True, "seed": 0, "device": "cpu"}
    assert quick.verdict["holds"] is None, "the quick setting decides nothing here"
    assert quick.rows == full.rows == [{"value": value} for value in (1, 2, 3)]
    assert results.seed("locater") == committed("locater").settings["seed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "truncated or no table"),
        ("[1]", "truncated or no table"),
        (json.dumps({"format": "another"}), "truncated or no table"),
        (json.dumps({"format": results.FORMAT, "rows": [1]}), "truncated or no table"),
        (" " * (results.LARGEST + 1), "expected at most"),
        (None, "does not exist, expected an existing table"),
    ],
)
def test_spoiled_tables_are_refused(tmp_path, text, message):
    file = tmp_path / "toy.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=message):
        results.load(file)


def test_a_model_is_refused_where_none_is_taken(tmp_path):
    with pytest.raises(InputError, match="model: got .*, expected no model"):
        results.run(TOY, Settings(model=tmp_path))
    with pytest.raises(InputError, match="expected an existing folder"):
        results.run(replace(TOY, takes_model=True), Settings(model=tmp_path / "none"))


def test_an_unknown_name_gets_the_nearest_match(toy):
    toy()
    with pytest.raises(InputError, match=r"name: got 'toi', .*did you mean 'toy'"):
        find("toi")


def test_tables_are_told_in_both_forms():
    table = Table("Loss & co", ["model", "loss"], [["a<b", "1"], ["c", "2"]])
    assert repr(table) == "Loss & co\nmodel  loss\na<b    1\nc      2"
    html = table._repr_html_()
    assert '<th scope="row">a&lt;b</th><td>1</td>' in html and "aria-label" in html
    with pytest.raises(InputError, match=r"rows: got rows of \[1\] cells"):
        Table("t", ["a", "b"], [["1"]])


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (2.8779, 0.0093, "2.878 ± 0.009"),
        (1.0, 0.0, "1 ± 0"),
        (5.0, 10.0, "5 ± 10"),
        (5.0, 1.0, "5.0 ± 1.0"),
        (5.0, 0.99, "5.00 ± 0.99"),
        (5.0, 0.0012, "5.000 ± 0.001"),
    ],
)
def test_errors_have_two_digits(value, error, shown):
    assert plus_minus(value, error) == shown
