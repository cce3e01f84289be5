"""Normal forms decide equality of sums of noncommuting products."""

import pytest
import sympy as sp

from attnverify.derivation import noncommuting

h, q, k = sp.symbols("h q k", integer=True)
H, N, L = sp.symbols("H N L", integer=True, positive=True)
z = sp.Symbol("z")
P, W, T, S = noncommuting.families("P W T S")
one, b, c = noncommuting.matrices("one b c")
STOCHASTIC = {(P, one): (one,)}


def test_products_do_not_commute():
    assert not noncommuting.equal(b * c, c * b)
    assert noncommuting.equal((b + c) ** 2, b**2 + b * c + c * b + c**2)


def test_a_layer_distributes_over_a_sum_of_paths():
    before = sp.Sum(T(q), (q, 1, N)) + one * b
    layer = sp.Sum(P(h) * before * W(h), (h, 1, H))
    terms = sp.Sum(P(h) * T(q) * W(h), (q, 1, N), (h, 1, H))
    assert noncommuting.equal(layer, terms + one * b * sp.Sum(W(h), (h, 1, H)), STOCHASTIC)
    assert not noncommuting.equal(layer, terms + one * b * sp.Sum(W(h), (h, 1, H)))


def test_products_of_sums_do_not_share_their_variable():
    square = sp.Sum(P(h), (h, 1, H)) * sp.Sum(P(h), (h, 1, H))
    assert noncommuting.equal(square, sp.Sum(P(h) * P(q), (h, 1, H), (q, 1, H)))
    assert not noncommuting.equal(square, sp.Sum(P(h) * P(h), (h, 1, H)))


def test_ranges_shift():
    assert noncommuting.equal(
        sp.Sum(z ** (k + 1) * S(k), (k, 0, L)), sp.Sum(z**k * S(k - 1), (k, 1, L + 1))
    )
    assert not noncommuting.equal(sp.Sum(z**k * S(k), (k, 0, L)), sp.Sum(z**k * S(k), (k, 1, L)))


def test_ranges_that_depend_on_each_other_shift_together():
    triangle = sp.Sum(S(q), (q, h, N), (h, 1, N))
    assert noncommuting.equal(triangle, sp.Sum(S(h + q), (q, 0, N - h), (h, 1, N)))
    assert not noncommuting.equal(triangle, sp.Sum(S(h + q), (q, 0, N - h), (h, 0, N - 1)))


def test_a_sum_of_equal_terms_is_counted():
    assert noncommuting.equal(sp.Sum(b, (h, 1, H)), H * b)


def test_different_ranges_differ():
    assert not noncommuting.equal(sp.Sum(P(h), (h, 1, H)), sp.Sum(P(h), (h, 1, H + 1)))


def test_order_of_independent_sums_does_not_matter():
    left = sp.Sum(sp.Sum(P(h) * W(q), (q, 1, N)), (h, 1, H))
    right = sp.Sum(sp.Sum(P(h) * W(q), (h, 1, H)), (q, 1, N))
    assert noncommuting.equal(left, right)


def test_what_is_no_product_is_refused():
    with pytest.raises(ValueError, match="expected sums and products"):
        noncommuting.normal_form(sp.exp(b))
