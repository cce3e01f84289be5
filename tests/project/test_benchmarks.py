"""The memory bound of the path sums, which is deterministic, and the instrument that measures it.

Times depend on the machine: ``python -m benchmarks scale`` checks them.
"""

import pytest
import torch

import attnverify as av
from benchmarks import __main__ as benchmarks
from benchmarks import scale
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
