"""One formula, three arithmetics: the operations agree wherever they are all defined."""

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from attnverify.arithmetic import ops
from attnverify.mathematics import norms, spectral

# zero or at least 2^-20, so that no square underflows
SIZES = st.floats(2.0**-20, 8)
FLOATS = st.just(0.0) | SIZES | SIZES.map(lambda x: -x)
MATRICES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=4), elements=FLOATS
)
UNIT = 2.0**-53


def middle(x):
    """Midpoints of balls as floats; the balls here are far smaller than float spacing."""
    return np.vectorize(lambda b: float(b.mid()))(np.asarray(x, dtype=object))


@given(MATRICES)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("formula", [norms.composite, norms.composite_squared, norms.diameter])
def test_floats_lie_near_the_balls(formula, A):
    """At most 2 (rows + columns) + 8 roundings a chain: gamma of that, relative."""
    exact = formula(ops.balls(A))
    floats = float(formula(torch.from_numpy(A)))
    roundings = 2 * sum(A.shape) + 8
    assert (
        abs(floats - middle(exact))
        <= roundings * UNIT / (1 - roundings * UNIT) * middle(exact) + 1e-300
    )


def test_balls_hold_the_float_and_not_the_decimal():
    ball = ops.balls(torch.tensor([0.1], dtype=torch.float64))[0]
    assert ball == flint.fmpq(*(0.1).as_integer_ratio())
    assert not ball.contains(flint.fmpq(1, 10))


def test_rationals_are_exact():
    assert ops.rationals(np.array([0.375]))[0] == flint.fmpq(3, 8)


def test_largest_of_overlapping_balls_encloses_both():
    wide = flint.arb(1, 0.5)
    largest = ops.amax(np.array([wide, flint.arb(1.2)], dtype=object), -1)
    assert largest.contains(flint.arb(1.5)) and largest.contains(flint.arb(1.2))


def test_square_of_a_ball_around_zero_is_finite():
    assert ops.square(flint.arb(0, 1)).is_finite()


def test_square_root_cuts_at_zero():
    root = ops.sqrt(np.array([flint.arb(0, 1)], dtype=object))[0]
    assert root.is_finite() and root.contains(0)


def test_precision_is_restored_after_an_error():
    before = flint.ctx.prec
    with pytest.raises(RuntimeError), ops.precision(777):
        assert flint.ctx.prec == 777
        raise RuntimeError
    assert flint.ctx.prec == before


@given(MATRICES)
@settings(max_examples=40, deadline=None)
def test_spectral_norm_encloses_the_float_value(A):
    """LAPACK's largest singular value is off by a modest multiple of u ||A||_F (here 100)."""
    ball = spectral.spectral_norm(ops.balls(A))
    float_value = float(torch.linalg.matrix_norm(torch.from_numpy(A), ord=2))
    room = 100 * UNIT * float(np.linalg.norm(A))
    assert ball.lower() - room <= float_value <= ball.upper() + room
    assert ball.rad() <= 1e-9 * (float_value + 1e-300)


def test_spectral_norm_of_a_hilbert_matrix_is_tight():
    """Cross-check with the largest root of the characteristic polynomial, found by flint."""
    n = 4
    H = np.array([[flint.fmpq(1, i + j + 1) for j in range(n)] for i in range(n)], dtype=object)
    roots = flint.fmpq_mat(n, n, list(H.flat)).charpoly().complex_roots()
    largest = max((r.real for r, _ in roots), key=lambda r: float(r.mid()))
    with ops.precision(256):
        assert spectral.spectral_norm(ops.balls(H)).overlaps(largest)


def test_definiteness_is_not_claimed_for_a_singular_matrix():
    assert not spectral.positive_definite(ops.balls(np.array([[1, 1], [1, 1]])))
    assert spectral.positive_definite(ops.balls(np.array([[2, 1], [1, 2]])))


@pytest.mark.parametrize("x", [0.5, 1.0, 2.0, 64.0])
def test_digamma_of_floats_lies_in_the_balls(x):
    """At 1/2 it is -gamma - 2 log 2. Errors of a few units in the last place; 64 allowed."""
    ball = ops.digamma(ops.balls(np.array([x])))[0]
    found = float(ops.digamma(torch.tensor(x, dtype=torch.float64)))
    assert abs(found - float(ball.mid())) <= 64 * UNIT * max(1.0, abs(found))
    if x == 0.5:
        assert ball.overlaps(-flint.arb.const_euler() - 2 * flint.arb(2).log())


def test_balls_in_falling_order_enclose_the_numbers_in_falling_order():
    """However they overlap: of every choice of numbers in the balls, the k-th largest is inside."""
    random = np.random.default_rng(0)
    for _ in range(50):
        middles, radii = random.integers(-8, 9, 6) / 4, random.integers(0, 9, 6) / 4
        pairs = zip(middles, radii, strict=True)
        balls = np.array([flint.arb(float(m), float(r)) for m, r in pairs], dtype=object)
        ordered = ops.descending(balls)
        for _ in range(20):
            chosen = middles + radii * random.choice([-1, -0.5, 0, 1], 6)
            for ball, value in zip(ordered, np.sort(chosen)[::-1], strict=True):
                assert ball.contains(flint.arb(float(value)))
    nothing = np.array([3.0, 1.0, np.nan, 2.0])
    assert all(ball.is_nan() for ball in ops.descending(ops.balls(nothing)))
    assert torch.isnan(ops.descending(torch.from_numpy(nothing))).all()
    two = ops.descending(np.array([ops.balls(nothing), ops.balls(np.ones(4))]))
    assert [ball.is_nan() for ball in two[:, 0]] == [True, False]
    exact = ops.descending(ops.balls(np.array([[1.0, 3.0, 2.0], [0.0, -1.0, 4.0]])))
    assert [[float(b) for b in row] for row in exact] == [[3, 2, 1], [4, 0, -1]]
