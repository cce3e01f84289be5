"""Residuals and their centers; the formulas themselves are checked as claims."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.mathematics import norms
from attnverify.mathematics.center import Program, optimal_center
from attnverify.mathematics.spectral import spectral_norm

MATRICES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    elements=st.floats(-4, 4, allow_subnormal=False),
)
# the linear programs are solved to 1e-9 of the size of X, and a sum has at most 5 such terms
TOLERANCE = 1e-7


@given(MATRICES)
@settings(max_examples=60, deadline=None)
def test_no_center_beats_the_optimal_one(X):
    X = torch.from_numpy(X)
    best = float(norms.composite(norms.residual(X, "optimal")))
    room = TOLERANCE * (1 + float(X.abs().max()))
    for center in ("median", "mean"):
        assert best <= float(norms.composite(norms.residual(X, center))) + room
    for row in X:
        assert best <= float(norms.composite(X - row)) + room


@pytest.mark.parametrize("seed", [3, 49, 117])
def test_no_vertex_of_the_frontier_beats_the_optimal_center(seed):
    """Vertices for many weights, without the search's pruning: where it stops early, one is lower
    by less than 1 % (seeds 49 and 117)."""
    random = np.random.default_rng(seed)
    size = (6, 4)
    X = random.integers(-4, 5, size).astype(float) if seed == 49 else random.normal(size=size)
    far = np.abs(X - optimal_center(X))
    program = Program(X)
    vertices = [program.minimize(1.0, w) for w in np.logspace(-3, 3, 120)]
    least = min(vertex.product for vertex in vertices)
    assert far.sum(0).max() * far.sum(1).max() <= least * (1 + TOLERANCE)


def test_a_wrong_singular_vector_widens_the_enclosure(monkeypatch):
    """Floats propose the vector; what bounds from above is shown by an elimination."""
    A = ops.balls(np.array([[3, 0], [4, 5]]))
    right = spectral_norm(A)
    real = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda A: (*real(A)[:2], real(A)[2][::-1]))
    wrong = spectral_norm(A)
    assert wrong.contains(right) and float(wrong.rad()) > 1 and float(right.rad()) < 1e-10


def test_residual_is_batched():
    X = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(norms.residual(X)[1, 2], norms.residual(X[1, 2]))


def test_diameter_of_close_tokens_keeps_its_digits():
    X = torch.tensor([[1e8, 0.0], [1e8, 1e-8]], dtype=torch.float64)
    assert float(norms.diameter(X)) == 1e-8


@pytest.mark.parametrize(
    ("X", "center", "message"),
    [
        (torch.zeros(0, 3), "mean", r"X: got shape \(0, 3\), expected at least one token"),
        (torch.full((2, 2), torch.nan), "mean", "X: got 4 NaN or infinite entries"),
        (torch.zeros(3), "mean", r"X: got shape \(3,\), expected shape \(..., tokens, width\)"),
    ],
)
def test_bad_input_is_named(X, center, message):
    with pytest.raises((InputError, TypeError), match=message if X.ndim > 1 else None):
        norms.residual(X, center)
