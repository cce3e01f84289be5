"""One formula, three arithmetics: the operations agree wherever they are all defined."""

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from attnverify.arithmetic import ops
from attnverify.mathematics import spectral

# zero or at least 2^-20, so that no square underflows
SIZES = st.floats(2.0**-20, 8)
FLOATS = st.just(0.0) | SIZES | SIZES.map(lambda x: -x)
UNIT = 2.0**-53


TIES = st.sampled_from([1.0, -1.0, 0.5, 30.0, -30.0, 2.0**-300, -(2.0**-300)])
ROWS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=FLOATS | TIES
)


def lower(x):
    """Indices (row, column) with column <= row, True; the first column always."""
    return torch.from_numpy(np.tri(*x.shape, dtype=bool))


def added(x):
    total = ops.full((len(x), len(x)), 1, x)
    ops.add_product_(total, x, ops.transpose(x))
    return total


def size(x, axis=-1):
    return abs(x).sum(axis)


def softmax_room(x, y):
    """Logits are shifted by the largest, 2u of it; exponentials, n additions and a quotient."""
    return y * (4 * abs(x).max() + x.shape[-1] + 9) * UNIT * 1.01 + 2.0**-1022


def whole(x, y):
    return 0 * y


def ulps(count):
    """So many roundings of the result; a function of the library counts as good to 2."""
    return lambda x, y: count * UNIT * abs(y) + 2.0**-1074


def positive(x):
    return abs(x) + 2.0**-20


#: By operation: a formula, its rounding error at x (rows, n) with result y, where it is defined.
CASES = {
    "constant": (lambda x: ops.constant(0.75, x), whole),
    "full": (lambda x: ops.full((2, 3), 0.75, x), whole),
    "eye": (lambda x: ops.eye(3, x), whole),
    "counting": (lambda x: ops.counting(4, x), whole),
    "causal": (lambda x: ops.causal(4, x, window=2), whole),
    "transpose": (ops.transpose, whole),
    "stack": (lambda x: ops.stack([x, -x], -1), whole),
    "join": (lambda x: ops.join([x, -x], -1), whole),
    "join_heads": (lambda x: ops.join_heads(ops.stack([x, -x], 0)), whole),
    "amax": (lambda x: ops.amax(x, -1, keepdims=True), whole),
    "maximum": (lambda x: ops.maximum(x, -x), whole),
    "descending": (ops.descending, whole),
    "where": (lambda x: ops.where(lower(x), x, -x), whole),
    "sum": (
        lambda x: ops.sum(x, -1),
        lambda x, y: (x.shape[-1] - 1) * UNIT * size(x) * (1 + 2.0**-40),
    ),
    "add_product_": (
        added,
        lambda x, y: (x.shape[-1] + 2) * UNIT * (1 + abs(x) @ abs(x).T) * (1 + 2.0**-40),
    ),
    "square": (ops.square, ulps(1)),
    "sqrt": (ops.sqrt, ulps(1), abs),
    "root": (lambda x: ops.root(3, x), ulps(1)),
    "pi": (ops.pi, ulps(1)),
    **{
        name: (getattr(ops, name), ulps(2))
        for name in ("exp", "expm1", "tanh", "sin", "cos", "atan")
    },
    "log": (ops.log, ulps(2), positive),
    "log1p": (ops.log1p, ulps(2), positive),
    # x / sqrt(2) has two roundings, of which log erfc makes at most x^2 + 2 times as much; the ball
    # is 1 + erf, so its digits end where that is small
    "normal_cdf": (
        ops.normal_cdf,
        lambda x, y: ulps(8)(x, y) + 2 * (x * x + 2) * UNIT * abs(y),
        lambda x: x.clip(-8, 8),
    ),
    "log_beta": (
        lambda x: ops.log_beta(x, 1 + 0 * x),  # B(x, 1) = 1/x
        lambda x, y: 16 * UNIT * (1 + 3 * abs(np.log(x)) + x * abs(np.log(1 + x))),
        positive,
    ),
    "digamma": (ops.digamma, lambda x, y: 64 * UNIT * np.maximum(1, abs(y)), positive),
    "softmax": (ops.softmax, softmax_room),
}
NO_NUMBERS = {"is_torch", "precision", "balls", "rationals"}  # what is around the operations


def test_every_operation_has_a_case():
    made = {name for name, f in vars(ops).items() if getattr(f, "__module__", "") == ops.__name__}
    assert {name for name in made if not name.startswith("_")} - NO_NUMBERS == set(CASES)


@given(ROWS)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", CASES)
def test_floats_of_an_operation_lie_at_its_balls(name, x):
    """Within the rounding of the operation: another branch in floats than in balls is seen."""
    formula, room, *domain = CASES[name]
    x = domain[0](x) if domain else x
    compare(formula, x, room)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_floats_of_a_softmax_with_hidden_entries_lie_at_its_balls(x):
    compare(lambda x: ops.softmax(x, lower(x)), x, softmax_room)


def compare(formula, x, room):
    floats = np.asarray(formula(torch.from_numpy(x.copy())), dtype=float)
    with ops.precision(256):
        exact = np.asarray(formula(ops.balls(x)), dtype=object)
        assert floats.shape == exact.shape
        values = np.vectorize(float, otypes=[float])(exact)
        allowed = np.broadcast_to(room(x, values), values.shape)
        for found, ball, most in zip(floats.flat, exact.flat, allowed.flat, strict=True):
            assert abs(flint.arb(float(found)) - flint.arb(ball)) <= flint.arb(float(most)), (
                found,
                ball,
            )


def test_balls_hold_the_float_and_not_the_decimal():
    ball = ops.balls(torch.tensor([0.1], dtype=torch.float64))[0]
    assert ball == flint.fmpq(*(0.1).as_integer_ratio())
    assert not ball.contains(flint.fmpq(1, 10))


def test_rationals_are_exact():
    assert ops.rationals(np.array([0.375]))[0] == flint.fmpq(3, 8)


def test_precision_is_restored_after_an_error():
    before = flint.ctx.prec
    with pytest.raises(RuntimeError), ops.precision(777):
        assert flint.ctx.prec == 777
        raise RuntimeError
    assert flint.ctx.prec == before


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


def test_balls_of_balls_and_of_whole_numbers_lose_nothing():
    with ops.precision(256):
        third = flint.arb(1) / 3
    kept, large = ops.balls([third, 2**80 + 1])
    assert kept.mid() == third.mid() and kept.rad() == third.rad() > 0
    assert large.contains(2**80 + 1)


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
