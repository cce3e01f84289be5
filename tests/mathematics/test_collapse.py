"""Bounds on real networks, the counterexamples as dense tensors, errors for bad input."""

import math

import flint
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import attnverify as av
from attnverify import InputError
from attnverify.mathematics import collapse, layernorm, norms
from attnverify.mathematics.heads import unconditional_ratio
from attnverify.mathematics.weights import MLP, normalize

U = 2.0**-48  # a sum of at most 2^5 products, relative to the sum of their sizes


def rounding(net, X, bounds):
    """How far the diameters of a network without masks and norms come out above their bounds.

    Tokens that have become equal still differ by their rounding. A layer whose rows are off by e
    obeys diameter <= f(diameter before) + 2 e: its sharp bound f holds for the tokens as they came
    out. The slope of f is at most 2 sum_h v_h (+ 1 with a skip connection), times that of the MLP,
    as y/cosh(y)^2 < 1/2. Scores that are off by s move a softmax row by at most s, in the sum of
    absolute values: tanh(osc/4) <= osc/4 in total variation, osc <= 2 s.
    """
    w, room = net.weights, [2 * U * X.norm(dim=-1).amax()]
    for i, tokens in enumerate(net.hidden(X)[:-1]):
        seen = tokens.norm(dim=-1).amax()
        query, key = (
            (tokens[..., None, :, :] @ w[f"W_{k}"][i] + w[f"b_{k}"][i][:, None]).norm(dim=-1)
            for k in "QK"
        )
        scores = query.amax() * key.amax() / net.key_width**0.5
        value = collapse.spectral_norm(w["W_V"][i] @ w["W_O"][i]).sum() + net.skip
        frobenius = w["W_V"][i].norm() * w["W_O"][i].norm() + w["b_V"][i].norm() + 1
        lipschitz = 1 if net.mlp is None else collapse.mlp_lipschitz(net.mlp.at(i)) + net.skip
        off = U * (2 + 2 * scores) * (value + frobenius) * (seen + 1)
        largest = net.hidden(X)[i + 1].norm(dim=-1).amax()
        room.append((2 * value * room[-1] + 2 * off) * lipschitz + 2 * U * (largest + seen))
    return bounds + torch.stack(room)[:, None]


@given(seed=st.integers(0, 1000), skip=st.booleans(), mlp=st.booleans(), scale=st.floats(0.1, 3.0))
@example(seed=275, skip=False, mlp=True, scale=0.33)  # tokens that differ by their rounding alone
@settings(max_examples=40, deadline=None)
def test_sharp_bound_bounds_every_layer(seed, skip, mlp, scale):
    net = av.SelfAttentionNetwork.random(
        3, 2, 4, skip=skip, mlp_width=5 if mlp else None, scale=scale, seed=seed
    )
    X = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    states = norms.diameter(net.hidden(X))
    assert (states <= rounding(net, X, collapse.sharp_bound(net, X))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": True}, "net: got a network with layer norm"),
        ({"mask": "causal"}, "net: got a network with a mask"),
    ],
)
def test_sharp_bound_refuses_what_it_does_not_cover(options, message):
    net = av.SelfAttentionNetwork.random(1, 1, 2, **options)
    with pytest.raises(InputError, match=message):
        collapse.sharp_bound(net, torch.zeros(2, 2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 2.0, 1), "qk_norm: got -1.0"),
        ((1.0, math.nan, 1), "value_norm: got nan"),
        ((1.0, 2.0, 0), "key_width: got 0"),
    ],
)
def test_threshold_names_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        collapse.threshold(*arguments)


@pytest.mark.parametrize("k", [2, 5, 40])
def test_unconditional_family_is_the_dense_instance(k):
    """2k + 1 tokens: anchor, k that pull, k idle; the closed form against the real layer."""
    exponent, n = 4, 2 * k + 1
    M = math.log(2**exponent * k)
    R = torch.zeros(n, k + 1, dtype=torch.float64)
    R[0, k] = 1
    R[1 : k + 1, :k] = torch.eye(k, dtype=torch.float64)
    W_QK = torch.diag(torch.tensor([M] * k + [0.0], dtype=torch.float64))[None]
    b = torch.zeros(1, k + 1, dtype=torch.float64)
    b[0, k] = math.log(2 * k)
    W = torch.zeros(1, k + 1, k + 1, dtype=torch.float64)
    W[0, k, k] = 1
    column = collapse.layer(R, W_QK, b, W, 1)[:, k]
    centered = column - (column.max() + column.min()) / 2
    left = math.sqrt(float(centered.abs().sum() * centered.abs().max()))
    right = collapse.cubic(collapse.published_constant(R, W_QK, W, 1), norms.composite(R))
    assert left / float(right) == pytest.approx(float(unconditional_ratio(k).mid()), rel=1e-12)


def test_layer_norm_formula_is_the_networks():
    X = torch.randn(3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = layernorm.normalize(X)
    theirs = normalize(X, torch.ones(6).double(), torch.zeros(6).double(), 0.0)
    assert torch.allclose(ours, theirs, rtol=0, atol=40 * 2.0**-52 * float(theirs.abs().max()))


def test_feature_norm_is_torchs_batch_norm_in_training():
    Y = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = torch.nn.functional.batch_norm(Y, None, None, training=True, eps=1e-300)
    ours = layernorm.normalize_features(Y)
    # sums over 5 tokens twice, a root and a quotient, on either side
    assert torch.allclose(ours, theirs, rtol=0, atol=40 * 2.0**-52 * float(theirs.abs().max()))
    assert not torch.allclose(ours, layernorm.normalize(Y), atol=0.1)


def test_gelu_slope_is_an_upper_bound():
    """Derivative of z Phi(z): Phi(z) + z phi(z), largest at sqrt 2, enclosed in balls."""
    z = flint.arb(2).sqrt()
    phi = (-z * z / 2).exp() / (2 * flint.arb.pi()).sqrt()
    slope = (1 + (z / flint.arb(2).sqrt()).erf()) / 2 + z * phi
    assert slope < flint.arb(collapse.SLOPES["gelu"]) < slope + flint.arb("1e-9")


@pytest.mark.parametrize(
    ("activation", "slope"), [("relu", 1), ("tanh", 1), ("gelu", 1.1289041452)]
)
def test_lipschitz_constant_of_an_mlp_has_both_norms_and_the_slope(activation, slope):
    draw = torch.Generator().manual_seed(3)
    shapes = ((4, 6), (6,), (6, 4), (4,))
    parts = [torch.randn(*s, dtype=torch.float64, generator=draw) for s in shapes]
    expected = slope * torch.linalg.svdvals(parts[0])[0] * torch.linalg.svdvals(parts[2])[0]
    found = collapse.mlp_lipschitz(MLP(*parts, activation))
    # two singular values, each to a few roundings of the largest
    assert torch.allclose(found, expected, rtol=2.0**-44, atol=0)
