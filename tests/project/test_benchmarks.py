"""The memory bound of the path sums, which is deterministic, and the instrument that measures it.

Times depend on the machine: ``python -m benchmarks`` checks them.
"""

import pytest
import torch

import attnverify as av
from benchmarks import __main__ as benchmarks
from benchmarks import builds, scale, suites, trees
from benchmarks.memory import peak_bytes


@pytest.mark.parametrize(
    ("depth", "heads", "tokens", "width"),
    [
        (6, 6, 64, 384),
        (12, 12, 64, 384),
        (12, 3, 48, 384),
    ],
)
def test_sums_by_length_stay_within_their_memory(depth, heads, tokens, width):
    """See the bar of ``benchmarks.memory``: the sums and what one layer has in flight."""
    assert tokens * width > av.paths.SMALL, "smaller inputs trade memory for speed"
    result = benchmarks.memory(depth, heads, tokens, width)
    assert result.met, f"{result.measured}, bar {result.bar}"


def test_the_bar_is_not_slack():
    """The sums and one layer in flight: less than one activation is left."""
    net, X = benchmarks.instance(depth=6, heads=6, tokens=64, width=384)
    size = X.numel() * X.element_size()
    layer = 6 * 64**2 * X.element_size()
    peak = peak_bytes(lambda: av.paths.by_length(net, X))
    assert 7 * size + 4 * size + 3 * layer < peak <= 7 * size + 5 * size + 3 * layer


def test_peak_counts_what_lives_at_once():
    """Views, operands from outside and what was freed before do not count."""
    outside = torch.zeros(1000, dtype=torch.float64)

    def call():
        first = outside + 1  # 8,000 bytes
        second = first * 2  # 16,000
        del first  # 8,000
        third = torch.zeros(500, dtype=torch.float64)  # 12,000
        second.view(10, 100).add_(1)  # a view, in place
        return third

    assert peak_bytes(call) == 16_000
    assert peak_bytes(lambda: outside.view(10, 100).t()) == 0
    assert peak_bytes(lambda: [outside + 1 for _ in range(3)]) == 24_000
    assert peak_bytes(lambda: [(outside + 1).sum() for _ in range(3)]) == 8_000 + 2 * 8 + 8


@pytest.mark.full
def test_the_scale_of_a_small_model_is_measured():
    """In a process of its own; at this size no bar is meant to be met."""
    time, memory = scale.results((2, 2, 16, 8))
    assert "2 layers, 2 heads, width 16, 8 tokens" in time.name and memory.met
    assert time.bar == "<= 12" and memory.bar == "<= 16 GiB"


def test_a_missed_bar_is_an_error(monkeypatch, capsys):
    met = benchmarks.Result("a", "1", ">= 1", True)
    missed = benchmarks.Result("b", "0", ">= 1", False)
    for name in (
        "against_enumeration",
        "against_forward",
        "against_simulation",
        "center",
        "distances",
    ):
        monkeypatch.setattr(benchmarks, name, lambda *_: met)
    monkeypatch.setattr(benchmarks, "memory", lambda: met)
    assert benchmarks.main(["package"]) == 0
    monkeypatch.setattr(benchmarks, "memory", lambda: missed)
    assert benchmarks.main(["package"]) == 1
    assert "NO" in capsys.readouterr().out


def test_a_checkout_is_run_apart_from_what_surrounds_it(tmp_path, monkeypatch):
    """With its own store, and without what CI or an outer make put into the environment."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("MAKEFLAGS", "n")
    (tmp_path / "Makefile").write_text("told:\n\t@echo $(CI)$(MAKEFLAGS) $$ATTNVERIFY_STORE\n")
    assert trees.make(tmp_path, "told").stdout.split() == [f"{tmp_path}/_build/store"]


def test_the_table_of_builds(tmp_path, monkeypatch):
    """Bars follow from the reference build and from the chapter's own run."""
    (tmp_path / "notebooks").mkdir()
    text = f"{builds.PROSE_EDIT[0]} x\n{builds.CODE_EDIT[0]}"
    (tmp_path / "notebooks" / "norms.md").write_text(text)
    done = iter([(111.0, ""), (1.9, ""), (21.0, ""), (32.0, "    norms: 7.5 s\n")])
    monkeypatch.setattr(builds, "build", lambda tree: next(done))
    rows = list(builds._now(tmp_path, 200.0))
    assert [row.met for row in rows] == [False, True, False, True]
    assert rows[0].bar == "<= 110.0 s" and rows[3].bar == "<= 32.5 s"


def test_a_chapter_that_runs_without_need_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "norms.md").write_text(builds.PROSE_EDIT[0])
    monkeypatch.setattr(builds, "build", lambda tree: (1.0, "    norms: 7.5 s\n"))
    with pytest.raises(RuntimeError, match="prose"):
        list(builds._now(tmp_path, 200.0))


def test_the_table_of_suites(monkeypatch, tmp_path):
    """What failed in either suite is told beside the times."""
    done = iter([(200.0, "3 failed, 9 passed"), (61.0, "12 passed"), (60.0, "4 passed")])
    monkeypatch.setattr(suites, "suite", lambda tree, options="": next(done))
    monkeypatch.setattr(suites, "build", lambda tree: None)
    quick, everything = suites.results(trees.Trees(tmp_path, tmp_path))
    assert not quick.met and "3 failed" in quick.measured and quick.bar == "<= 60.0 s"
    assert everything.met and everything.bar == "<= 130.0 s" and "4 passed" in everything.measured


def test_what_is_unknown_is_named():
    with pytest.raises(SystemExit, match="some of package, scale, commands, builds, suites"):
        benchmarks.main(["bulids"])
