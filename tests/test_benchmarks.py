"""The memory bound of the path sums, which is deterministic, and the instrument that measures it.

Times depend on the machine: ``python -m benchmarks`` checks them.
"""

import pytest
import torch
from benchmarks import __main__ as benchmarks
from benchmarks.memory import peak_bytes

import attnverify as av


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
    assert benchmarks.main() == 0
    monkeypatch.setattr(benchmarks, "memory", lambda: missed)
    assert benchmarks.main() == 1
    assert "NO" in capsys.readouterr().out
