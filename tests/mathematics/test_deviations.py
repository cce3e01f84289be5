"""Deviations of tokens from their center, against exact arithmetic at every size."""

from dataclasses import replace

import mpmath
import pytest
import torch

from attnverify.mathematics import deviations
from attnverify.mathematics.deviations import Layer, Parts, Relative, Tokens
from attnverify.mathematics.encoder import Encoder
from attnverify.support.errors import InputError

CUBIC = mpmath.mpf(0.044715)
ACTIVATIONS = {
    "gelu": lambda z: z * (1 + mpmath.erf(z / mpmath.sqrt(2))) / 2,
    "gelu_new": lambda z: (
        z * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + CUBIC * z**3))) / 2
    ),
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "tanh": mpmath.tanh,
}


def small_layer(activation, relative):
    g = torch.Generator().manual_seed(7)
    H, d, m, k = 2, 6, 5, 3
    sizes = {
        "W_Q": (H, d, k),
        "b_Q": (H, k),
        "W_K": (H, d, k),
        "W_V": (H, d, k),
        "b_V": (H, k),
        "W_O": (H, k, d),
        "b_O": (d,),
        "W_1": (d, m),
        "b_1": (m,),
        "W_2": (m, d),
        "b_2": (d,),
        "scale": (2, d),
        "shift": (2, d),
        "W_R": (H, d, k),
        "bias": (H, k),
    }
    drawn = {
        name: torch.randn(*size, generator=g, dtype=torch.float64) / 2
        for name, size in sizes.items()
    }
    position = Relative(drawn.pop("W_R"), drawn.pop("bias"))
    return Layer(**drawn, activation=activation, relative=position if relative else None)


def exact(x):
    """A matrix's exact values in mpmath."""
    return mpmath.matrix(x.tolist())


def plus(A, b):
    """A + 1 b^T."""
    return entrywise(A, lambda i, j, v: v + mpmath.mpf(b[j].item()))


def entrywise(A, f):
    return mpmath.matrix([[f(i, j, A[i, j]) for j in range(A.cols)] for i in range(A.rows)])


def plain_layer(layer, X, parts):
    """The definition of the layer on mpmath rows, without any splitting."""
    Y = mpmath.matrix(X.rows, X.cols)
    for h in range(len(layer.W_Q)):
        values = plus(X * exact(layer.W_V[h]), layer.b_V[h])
        Y += plain_attention(layer, h, X) * values * exact(layer.W_O[h])
    Y = plain_end(layer, 0, X, plus(Y, layer.b_O), parts)
    if not parts.mlp:
        return Y
    Z = plus(Y * exact(layer.W_1), layer.b_1)
    Z = entrywise(Z, lambda i, j, v: ACTIVATIONS[layer.activation](v)) * exact(layer.W_2)
    return plain_end(layer, 1, Y, plus(Z, layer.b_2), parts)


def plain_attention(layer, h, X):
    queries, n = X * exact(layer.W_Q[h]), X.rows
    scores = plus(queries, layer.b_Q[h]) * (X * exact(layer.W_K[h])).T
    if layer.relative is not None:
        by_offset = exact(deviations.offsets(n, X.cols)) * exact(layer.relative.W_R[h])
        raw = plus(queries, layer.relative.bias[h]) * by_offset.T
        scores = entrywise(scores, lambda i, j, v: v + raw[i, n - 1 - (i - j)])
    weights = entrywise(scores, lambda i, j, v: mpmath.exp(v / mpmath.sqrt(queries.cols)))
    sums = [sum(weights[i, :]) for i in range(n)]
    return entrywise(weights, lambda i, j, v: v / sums[i])


def plain_end(layer, sublayer, before, after, parts):
    X = before + after if parts.skip else after
    if not parts.norm:
        return X
    means = [sum(X[i, :]) / X.cols for i in range(X.rows)]
    X = entrywise(X, lambda i, j, v: v - means[i])
    squares = [sum(v**2 for v in X[i, :]) / X.cols for i in range(X.rows)]
    roots = [mpmath.sqrt(s + mpmath.mpf(layer.epsilon)) for s in squares]
    scale = layer.scale[sublayer]
    X = entrywise(X, lambda i, j, v: v / roots[i] * mpmath.mpf(scale[j].item()))
    return plus(X, layer.shift[sublayer])


@pytest.mark.parametrize("size", [1.0, 1e-60])
@pytest.mark.parametrize(
    ("activation", "relative", "parts"),
    [
        ("gelu", False, Parts()),
        ("gelu", False, deviations.FULL),
        ("gelu", True, Parts(norm=True)),
        ("gelu_new", False, Parts(mlp=True)),
        ("relu", False, Parts(mlp=True, skip=True)),
        ("tanh", False, deviations.FULL),
        ("gelu", False, Parts(mlp=True)),
    ],
)
def test_deviations_keep_their_digits(size, activation, relative, parts):
    """Deviations of any size come out right, where a difference of rows would be noise.

    Sums of at most 12 products and six maps in a row lose 12 * 6 roundings of 2^-53, an activation
    3e-11 of its argument's change (see deviations._gelu_change). Weights of size 1/2 and layer
    norms amplify an error by no more than 30, so 1e-9 relative to the largest deviation.
    """
    layer = small_layer(activation, relative)
    g = torch.Generator().manual_seed(3)
    center = torch.randn(6, generator=g, dtype=torch.float64)
    X = Tokens(center, size * torch.randn(4, 6, generator=g, dtype=torch.float64)).recentered()
    found = deviations.apply(layer, X, parts).deviations
    with mpmath.workdps(200):
        Y = plain_layer(layer, plus(exact(X.deviations), X.center), parts)
        means = [sum(Y[:, j]) / 4 for j in range(6)]
        rows = [[float(Y[i, j] - means[j]) for j in range(6)] for i in range(4)]
    expected = torch.tensor(rows, dtype=torch.float64)
    assert expected.abs().max() > 0
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()


def test_large_logits_do_not_overflow():
    """Logits of size 1e5 give hard attention, not nan."""
    layer = small_layer("gelu", False)
    g = torch.Generator().manual_seed(1)
    X = Tokens.of(400 * torch.randn(5, 6, dtype=torch.float64, generator=g))
    out = deviations.attention(layer, X)
    scores = (X.values @ layer.W_Q + layer.b_Q[:, None]) @ (X.values @ layer.W_K).mT / 3**0.5
    assert scores.abs().max() > 1e4
    P = torch.softmax(scores, -1)
    expected = (P @ (X.values @ layer.W_V + layer.b_V[:, None]) @ layer.W_O).sum(0) + layer.b_O
    # scores of size s carry s 2^-53 roundings, which softmax passes on to its weights
    tolerance = 100 * 2.0**-53 * float(scores.abs().max())
    assert (out.values - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("center", [0.0, 1.0])
def test_logits_that_are_no_number_are_refused(center):
    """Of a pair of tokens, 1e400 - 1e400; what all queries share is 0 or 1e200."""
    layer = small_layer("gelu", False)
    eye = torch.eye(6, 3, dtype=torch.float64).expand(2, 6, 3)
    layer = replace(layer, W_Q=eye, W_K=eye, b_Q=torch.zeros(2, 3, dtype=torch.float64))
    rest = torch.zeros(3, 6, dtype=torch.float64)
    rest[:, :2] = 1e200 * torch.tensor([[1, 1], [1, -1], [-2, 0]]).double()
    X = Tokens(torch.full((6,), center, dtype=torch.float64), rest)
    with pytest.raises(deviations.Unresolved, match="a logit of nan"):
        deviations.attention(layer, X)


def test_logits_beyond_the_digits_are_refused():
    """At 1e13 a rounding error is 1e-3: what is attended to would be chance."""
    layer = small_layer("gelu", False)
    X = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with pytest.raises(deviations.Unresolved, match="beyond 1e.12"):
        deviations.attention(layer, Tokens.of(1e8 * X))


def test_bad_tokens():
    for X in (torch.zeros(0, 4), torch.full((2, 3), torch.nan)):
        with pytest.raises(InputError, match="^X: got"):
            Tokens.of(X)
    bare = Encoder.bundled().attention_stack()
    with pytest.raises(InputError, match="^net: got a network without them"):
        Layer.of(bare, 0)
