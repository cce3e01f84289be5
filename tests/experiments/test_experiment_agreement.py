"""When a figure of a table and the same figure measured again agree; weights; folders."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console
from scipy.stats import ttest_ind

from attnverify import InputError
from attnverify.chapters import registry
from attnverify.experiments import EXPERIMENTS, committed
from attnverify.experiments.engine import agreement, command, results, stored, weights
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.shortpaths import KEPT
from attnverify.runtime import run_folder
from toy_experiment import TOY, register

# ---------------------------------------------------------------- chance and rounding


def test_chance_allows_what_students_test_allows():
    """At the tolerance the two-sided test of scipy gives the level."""
    before, after = [1.0, 2.0, 4.0, 3.5], [2.0, 2.5, 0.5]
    groups = agreement.Group.of(before), agreement.Group.of(after)
    found = agreement.compared("x", *groups, level=1e-3)
    shift = found.stored - found.again + found.tolerance
    p = ttest_ind(before, [value + shift for value in after]).pvalue
    # scipy centers the values anew, and a tail of 10^-3 multiplies an error by some 10
    assert p == pytest.approx(1e-3, rel=1e-9) and found.chance == 1e-3


def test_all_comparisons_together_raise_a_false_alarm_once_in_ten_thousand_at_most():
    assert agreement.ALARM == 1e-4
    count = sum(experiment.by_chance for experiment in EXPERIMENTS.values())
    assert 0 < count <= agreement.COMPARISONS
    assert agreement.LEVEL * agreement.COMPARISONS <= agreement.ALARM * (1 + 1e-12)


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [1.0, float("nan")]])
def test_a_group_without_spread_compares_with_nothing(values):
    with pytest.raises(InputError, match="(group|values): got"):
        agreement.compared("x", agreement.Group.of([1.0, 2.0]), agreement.Group.of(values))


def test_float64_is_within_its_share_of_what_float32_is_off_by():
    """Sums of 200 terms in two orders: at most 200 roundings in a chain."""
    x = torch.rand(50, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wide = x.cumsum(-1)[:, -1].tolist()
    other = x.flip(-1).cumsum(-1)[:, -1].tolist()
    narrow = x.float().cumsum(-1)[:, -1].double().tolist()
    off = agreement.share(200) * agreement.relative(wide, narrow)
    assert all(abs(a - b) <= off * a for a, b in zip(wide, other, strict=True))
    assert 0 < off < 1e-10
    assert agreement.relative([0.0, 2.0], [5.0, 2.5]) == 0.25
    assert agreement.relative([4.0, -2.0, 8.0], [4.25, -2.5, 8.0]) == 0.25
    assert agreement.share(200) == 400 * 2.0**-29


def test_figures_of_tables_have_so_many_digits():
    assert [agreement.significant(1234.5678, n) for n in (2, 6)] == [1200.0, 1234.57]
    assert {agreement.significant(x, 3) for x in (None, math.nan, math.inf, -math.inf)} == {None}


# ---------------------------------------------------------------- weights of the package

#: Several networks of a kind, stacked; the decoder is one.
WITH_WEIGHTS = ("sorting", "convex-hull", "memorization", "circle")


def folder() -> Path:
    return Path(weights.__file__).parents[1] / "weights"


def test_the_weights_of_the_package_say_where_they_come_from():
    files = sorted(folder().iterdir())
    others = {"small-decoder": 1_000_000, "real-spectra": 200_000, "trained-copying": 100_000}
    assert [file.stem for file in files] == sorted([*WITH_WEIGHTS, *others])
    sizes = {file.stem: file.stat().st_size for file in files}
    assert all(sizes.pop(name) < most for name, most in others.items())
    assert sum(sizes.values()) < 3_000_000
    for file in files:
        tensors, trained_by = weights.load(file)
        assert trained_by == committed(file.stem).command
        assert all(torch.isfinite(value).all() for value in tensors.values())
        if file.stem in WITH_WEIGHTS:
            assert {len(v) for v in tensors.values()} == {5 if file.stem == "circle" else KEPT}


def test_spoiled_weights_are_refused(tmp_path):
    file = tmp_path / "sorting.safetensors"
    content = bytearray((folder() / file.name).read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match="whose content is not what was written"):
        weights.load(file)
    stored.save(file, {"a": torch.zeros(1)}, {})
    with pytest.raises(InputError, match="weights: got sorting.safetensors of format None"):
        weights.load(file)


def test_weights_are_written_beside_the_table(tmp_path):
    weights.keep("toy", Settings(), {"a": torch.ones(2)})
    weights.keep("toy", Settings(folder=tmp_path, quick=False, seed=4), {"a": torch.ones(2)})
    tensors, trained_by = weights.load(tmp_path / "toy.safetensors")
    assert trained_by == "attnverify experiment toy --seed 4 --device cpu"
    assert torch.equal(tensors["a"], torch.ones(2))
    weights.keep("toy", Settings(folder=tmp_path, seed=5), {"a": torch.ones(2)})
    again = weights.load(tmp_path / "toy.safetensors")[1]
    assert again == "attnverify experiment toy --quick --seed 5 --device cpu"


# ---------------------------------------------------------------- the folder of a run


def run(folder: Path, name: str = "toy") -> tuple[bool, str]:
    out = Console(file=io.StringIO(), width=100)
    agrees = command.run(name, Settings(), folder, out, registry)
    return agrees, out.file.getvalue()  # type: ignore[attr-defined]


def test_a_bad_folder_is_refused_before_the_run(monkeypatch, tmp_path):
    def never(settings):
        raise AssertionError("the run has started")

    register(monkeypatch)
    monkeypatch.setitem(EXPERIMENTS, "toy", results.replace(TOY, run=never))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="^folder: got .*cannot be written"):
        run(tmp_path / "file")
    (tmp_path / "a" / "toy.json").mkdir(parents=True)
    with pytest.raises(InputError, match="^out: got .*which is a folder"):
        run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "toy.json").write_text("somebody's notes")
    with pytest.raises(InputError, match="^out: got .*which was not written by this"):
        run(tmp_path / "b")
    with stored.own(tmp_path / "d"), pytest.raises(InputError, match="another run is using"):
        run(tmp_path / "d")

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_bytes", full)
    with pytest.raises(
        InputError, match="^folder: got .*/e, where probe .*No space left on device"
    ):
        run(tmp_path / "e")


def test_wrong_settings_leave_no_folder_behind(monkeypatch, tmp_path):
    register(monkeypatch)
    settings = Settings(model=tmp_path)
    with pytest.raises(InputError, match="expected no model"):
        command.run("toy", settings, tmp_path / "new", Console(), registry)
    assert not (tmp_path / "new").exists()


def test_the_table_is_printed_although_it_cannot_be_written(monkeypatch, tmp_path):
    register(monkeypatch)

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "write_text", full)
    out = Console(file=io.StringIO(), width=100)
    with pytest.raises(InputError, match="toy.json cannot be written .No space left"):
        command.run("toy", Settings(), tmp_path, out, registry)
    assert "criterion met: largest value 3" in out.file.getvalue()  # type: ignore[attr-defined]


def test_a_second_run_replaces_the_table_and_sweeps(monkeypatch, tmp_path):
    register(monkeypatch)
    assert run(tmp_path)[0]
    (tmp_path / ".toy.json.a1b2c3d4e5f60718").write_text("half a ta")
    agrees, printed = run(tmp_path)
    assert agrees and "as the book says" in printed and "wrote" in printed
    assert {p.name for p in tmp_path.iterdir()} - {run_folder.LOCK} == {"toy.json"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")]])
def test_a_figure_that_is_not_finite_is_refused(value):
    toy = results.replace(TOY, run=lambda settings: [{"value": 1}, {"value": value}])
    with pytest.raises(InputError, match="^value: got .* in row 1, expected finite figures"):
        results.run(toy)
