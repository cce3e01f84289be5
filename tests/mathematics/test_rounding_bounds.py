"""Bounds of rounding errors against their formulas, worked out by hand at numbers without rounding.

Errors in practice are far below these bounds, so no comparison with errors sees a bound that is
halved. Here u = 2^-53; where a bound has the size 1, what it adds is compared in units of u.
"""

import math
from types import SimpleNamespace

import mpmath
import pytest
import torch

import attnverify as av
from attnverify.arithmetic.rounding import gamma, softmax_error, unit
from attnverify.mathematics.energy import FLOOR, LEAST, Envelope
from attnverify.mathematics.held import Held, HeldLayer
from attnverify.mathematics.maps import Branches, Chosen, Dense, Gate, Mix, Norm, Weighted, count
from attnverify.support.errors import InputError

U = 2.0**-53


def near(value, expected, rel=1e-12):
    assert float(value) == pytest.approx(expected, rel=rel, abs=0.0)


def ones(*shape):
    return torch.ones(*shape, dtype=torch.float64)


def test_units_and_gammas():
    for dtype, u in ((torch.float64, U), (torch.float32, 2.0**-24), (torch.bfloat16, 2.0**-8)):
        x = torch.ones(1, dtype=dtype)
        assert unit(x) == u and gamma(3, x) == 3 * u / (1 - 3 * u)
    assert gamma(255, x) == 255
    with pytest.raises(InputError, match="256 roundings, expected fewer roundings than 1/u = 256"):
        gamma(256, x)


@pytest.mark.parametrize(
    ("dtype", "u", "tiny"), [(torch.float64, 53, -1022), (torch.float32, 24, -126)]
)
@pytest.mark.parametrize(("off", "largest"), [(-20, 0.0), (-60, 0.5), (-60, 2.0**40)])
def test_the_bound_of_a_softmax(dtype, u, tiny, off, largest):
    """2.02 (e^(2e) - 1 + (n + 9) u) P with e = off + 2 u largest, and the least normal number."""
    P = torch.tensor([0.25, 0.75, 0.0], dtype=dtype)
    if u == 24 and largest > 1:
        largest = 2.0**12
    given = (torch.tensor(value, dtype=dtype) for value in (2.0**off, largest))
    e = mpmath.mpf(2) ** off + 2 * mpmath.mpf(2) ** -u * largest
    relative = float(mpmath.mpf("2.02") * (mpmath.expm1(2 * e) + (3 + 9) * mpmath.mpf(2) ** -u))
    for found, p in zip(softmax_error(P, *given).tolist(), P.tolist(), strict=True):
        near(found, relative * p + 2.0**tiny, rel=1e-6)


def layer(heads=1, tokens=1, width=1, value_width=1, **more):
    """A layer whose factors are all 1."""
    V, O = ones(heads, width, value_width), ones(heads, value_width, width)  # noqa: E741
    return HeldLayer(ones(heads, tokens, tokens), V, O, more.pop("bypass", None), **more)


def test_roundings_are_inner_products_both_ways():
    dense, five = Dense(ones(5, 3)), ones(1, 1, 5)
    chosen = torch.tensor([[[0, 1]]])
    assert count([dense]) == 5 + 3
    assert count([Norm.at(five, 0.0, True, 1.0, 0.0)]) == 5 + 8
    assert count([Gate(five)]) == 2 == count([Mix(ones(1, 1, 4, 4), 1)])
    assert count([Weighted(ones(1, 1, 4))]) == 4 + 1
    assert count([Chosen(ones(2, 5, 3), None, chosen)]) == (5 + 1) + (2 * 3 + 1)
    assert count([Branches([[dense, Gate(five)], [dense]]), dense]) == (8 + 2) + 2 + 1 + 8
    made = layer(2, 4, 5, 3, gates=ones(2, 4, 3), before=[dense], tail=[dense])
    assert made.roundings == (5 + 3) + 2 * 4 + (3 + 5) + 8 + 8 + 2
    assert layer(2, bypass=Branches([[dense]])).roundings == 8 + 1 + 1


def test_the_bound_at_a_covector():
    """2 gamma_m <|C|, f> with m = tokens width + columns + 4; and sqrt(C S C) where F = 0.

    The form has 2 width roundings, twice; its root half of them; the sum over tokens 4 width + 1.
    """
    d = 256
    zero, C = torch.zeros(1, 1, d).double(), torch.zeros(1, 1, d).double()
    C[0, 0, 0] = 1
    F = zero.clone()
    F[0, 0, 0] = 3
    S = torch.zeros(1, d, d).double()
    near(Envelope(F, S).rest(C), 2 * 3 * (d + 1 + 4) * U)
    assert Envelope(zero, S).rest(C) == LEAST == 2.0**-500
    S[0, 0, 0] = 1
    assert float(Envelope(zero, S).rest(C) - 1) / U == pytest.approx(2 * d + 4 * d + 1, abs=8)


def test_the_roundings_of_a_layer_and_of_a_map_of_tokens():
    """Columns of size 3 are off by 2 gamma_m 3 after m roundings, whose square S gets."""
    start = Envelope.at(3 * ones(1, 1))
    near(start.after(layer(), 8).S.sqrt(), 2 * 6 * U * 3)
    near(start.through(Branches([[Dense(ones(1, 1))]])).S.sqrt(), 2 * (2 + 1 + 1) * U * 6)
    assert Envelope.at(0 * ones(1, 1)).after(layer(), 8).S == FLOOR == 2.0**-600


def test_the_roundings_of_products_with_s():
    """At S = diag(1, 0) and maps that are 1, what stands in the second place is the bound.

    Maps at (1, 1) have the square 2, so 2 gamma_m 2 with m = 2 (roundings + width); V and O have
    2 * 2, and the sum has the norm 1. Joining two parts takes 2 gamma_8 of the norm.
    """
    S, eye = torch.diag(ones(2))[None].clone(), torch.eye(2, dtype=torch.float64)
    S[0, 1, 1] = 0
    start, rows = Envelope(0 * ones(1, 1, 2), S), Branches([[Dense(eye)]], skip=False)
    assert count([rows]) == 4 + 1 + 1
    near(start.through(rows).S[0, 1, 1], (2 * 2 * (6 + 2) * 2 + 2 * 8) * U)
    made = HeldLayer(ones(1, 1, 1), eye[None], eye[None], None)
    m = 2 * (4 + 2 + 4) + 2 * (4 + 1) + 8 + 2
    near(start.after(made, 8).S[0, 1, 1], (2 * m * (4 + 1) + 2 * 8) * U)


def test_fewer_columns():
    """Columns 3 and 0 made one: nothing is left but roundings, in units of 3 u.

    2 * 6 of the layer; U R 2 * 2 and its skew 2 * 4, both twice more; 2 * 5 of the new column;
    2 * 3 of what is left of either part of size 1. By the best factors roots add up.
    """
    made = HeldLayer(ones(2, 1, 1), ones(2, 1, 1), torch.tensor([[[1.0]], [[0.0]]]).double(), None)
    found = Envelope.at(3 * ones(1, 1)).after(made, 1)
    assert found.F.abs().tolist() == [[[3.0]]]
    near(found.S.sqrt(), (12 + 2 * (4 + 8) + 10 + 2 * 3 * 2) * 3 * U)


def traced(w: float, g: float):
    """What is held of one token, 1: skip connection, a head that is w, behind it a factor g."""
    X, one = ones(1, 1), ones(1, 1, 1)
    layers = [HeldLayer(one, w * one, one, Branches())]
    held = Held(layers, [Gate(g * X)], X, g * (1 + w) * X)
    return SimpleNamespace(held=lambda: held)


def test_errors_of_paths():
    """X and C of size 1: contributions 1 and w = 3/4, all outputs together of size 5/4.

    Behind the layer 2 gamma_2 5/4; in it 2 gamma_6 of what the path gives, as has the product with
    its two columns, of 1 + 1 + 4 roundings. Of the larger path that is (5 + 12 + 12) u.
    """
    found = av.paths.largest(traced(0.75, 1.0), ones(1, 1), 2)
    assert found.contributions == [1.0, 0.75]
    near(found.error, (5 + 12 + 12) * U)
    rests = [(5 + 24) * U, (5 + 24 * 0.75) * U]
    whole = 1 + 0.75**2
    for end, sign in zip(found.energy, (-1, 1), strict=True):  # squares and roots: 2 gamma_8
        off = sum(2 * r * c + 16 * U * c * c for r, c in zip(rests, (1, 0.75), strict=True))
        assert (end - whole) / U == pytest.approx(sign * off / U, abs=4)
    assert found.frontier[(0,)] == pytest.approx(math.sqrt(1 + 74 * U) + 2.0**-50, abs=2 * U)
