"""Trained copying: its task, what is measured on the weights of the theorem, the criterion."""

from __future__ import annotations

import math

import pytest
import torch

from attnverify.experiments import committed, trained_copying
from attnverify.experiments.engine import weights
from attnverify.experiments.engine.model import Settings
from attnverify.mathematics import copying
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.weights import AttentionWeights

V, N, D = trained_copying.WORDS, trained_copying.TOKENS, trained_copying.WIDTH


def test_places_are_those_of_the_theorem():
    words = torch.tensor([[0, 1, 0, 0, 2, 1, 3]])
    assert trained_copying.places(words).tolist() == [[0, 0, 1, 3, 0, 2, 0]]
    texts = trained_copying.texts(torch.Generator().manual_seed(0), 40)
    for text, k in zip(texts, trained_copying.places(texts)[:, -1], strict=True):
        T = torch.eye(V, dtype=torch.float64)[text]
        assert torch.equal(copying.follower(T), T[k] * (k > 0))


def written(beta: float, gamma: float) -> SelfAttentionNetwork:
    """The network of heads.induction, with W_QK as W_Q; layer 2 adds the word to the last block."""
    W_1, W_2, copy = (torch.zeros(D, D, dtype=torch.float64) for _ in range(3))
    word, place, last = (slice(a, a + size) for a, size in ((0, V), (V, N), (V + N, V)))
    W_1[place, place] = beta * torch.eye(N).double().roll(-1, 1).tril()
    W_2[word, last] = N * gamma * torch.eye(V).double()
    W_2[place, place] = gamma * torch.arange(N).double()
    copy[word, last] = torch.eye(V).double()
    one, heads = torch.eye(D, dtype=torch.float64), (2, 1, D, D)
    maps = AttentionWeights(
        W_Q=math.sqrt(D) * torch.stack([W_1, W_2])[:, None],
        W_K=one.expand(heads),
        W_V=copy.expand(heads),
        W_O=one.expand(heads),
    )
    return SelfAttentionNetwork(maps, skip=True, mask="causal")


@pytest.mark.parametrize(("beta", "kind"), [(8.0, "trained"), (2.0, "exact")])
def test_the_written_weights_are_measured_as_they_are(beta, kind):
    """The readout takes the last block, of which layer 1 has a share that layer 2 outweighs."""
    gamma, readout = 0.5, torch.zeros(D, V, dtype=torch.float64)
    readout[V + N :] = torch.eye(V)
    words = trained_copying.texts(torch.Generator().manual_seed(1), 300)
    row = trained_copying.measured(written(beta, gamma), readout, words, kind)
    off = (N - 1) / (math.exp(beta) + N - 1) if kind == "trained" else 0.0
    assert row["misplaced"] == pytest.approx(off, abs=1e-6)
    assert [row[key] for key in ("match", "late", "explained")] == pytest.approx([8, 0.5, 1])
    assert row["before"] == row["after"] == 1 and row["worst"] <= row["bound"] + 1e-6 < 0.9
    assert row["wrong"] < row["worst"] and row["gap"] >= 0.5 - 8 * off - 1e-6
    kept = words[trained_copying.places(words)[:, -1] > 0]
    T = torch.eye(V, dtype=torch.float64)[kept]
    one = torch.ones(len(kept), 1, dtype=torch.float64)
    output = copying.induction(T, (beta if kind == "trained" else 60) * one, gamma * one)
    wrong = (output * (1 - torch.stack([copying.follower(t) for t in T]))).sum(1)
    assert row["wrong"] == pytest.approx(float(wrong.mean()), rel=1e-5)
    assert row["worst"] == pytest.approx(float(wrong.max()), rel=1e-5)


def test_the_mean_sees_all_tokens_so_far():
    P = torch.rand(1, 2, 4, 4).tril()
    mean = trained_copying.first_layer("mean", P)
    assert torch.equal(mean[0, 1], torch.ones(4, 4).tril() / torch.arange(1.0, 5.0)[:, None])


def test_no_text_is_near_a_tie():
    """The shares are those of float32, whose rounding is far larger."""
    given = weights.committed(trained_copying.NAME)
    narrow = trained_copying.rows_of(given, 0, torch.float32)
    for old, new in zip(committed(trained_copying.NAME).rows[-9:], narrow, strict=True):
        assert all(new[key] == old[key] for key in ("network", "texts", *trained_copying.SHARES))


def rows(**changed):
    row = {"layer 1": "trained", "accuracy": 0.99, "before": 0.99, "after": 0.99}
    row |= {"misplaced": 0.3, "bound": 0.95, "wrong": 0.1}
    return [*({**row, "network": i} for i in range(2)), {**row, "network": 2, **changed}]


@pytest.mark.parametrize("key", trained_copying.SHARES)
def test_at_the_limits(key):
    assert trained_copying.judge(rows()).holds is True
    assert trained_copying.judge(rows(**{key: 0.989})).holds is False
    assert trained_copying.judge(rows(), misplaced=0.3, bound=0.95).holds is True
    assert trained_copying.judge(rows(misplaced=0.31), misplaced=0.3).holds is False
    assert trained_copying.judge(rows(bound=0.96), bound=0.95).holds is False
    assert trained_copying.judge(rows()[1:]).holds is None


def test_the_quick_setting_takes_the_first_steps(tmp_path):
    found = trained_copying.run(Settings(folder=tmp_path))
    assert [row["step"] for row in found if "step" in row] == [0, 20]
    assert [(row["network"], row["layer 1"]) for row in found if "network" in row] == [
        (i, kind) for i in range(3) for kind in trained_copying.FIRST
    ]
    kept, _ = weights.load(tmp_path / "trained-copying.safetensors")
    assert {name: w.shape for name, w in kept.items()} == {
        name: w.shape for name, w in weights.committed(trained_copying.NAME).items()
    }
    assert trained_copying.run(Settings()) == found
