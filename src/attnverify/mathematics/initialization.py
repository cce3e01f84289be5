"""Tokens at initialization: what attention with random value maps does to their inner products.

A layer is X' = X + alpha sum_h A_h X W_h. Given X and the A_h, the entries of the maps W_h are
uncorrelated, with mean 0 and variance s^2/(d H) for width d and H heads. The average over them of
the Gram matrix of inner products X X' follows from the Gram matrix before the layer, at every
width, with the number gain = alpha^2 s^2. This module serves the claims ``training.*`` on
initialization.

Whole layers, with norms, scores and an MLP, follow such a recursion approximately
(:func:`expected_cosines`); ``experiment.default-initialization`` compares it with real models.

Shapes: Gram matrices G (..., n, n), attention A (..., heads, n, n), gain a number or (...). The
functions of attention alone work in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import initialization
>>> G = torch.eye(8, dtype=torch.float64)  # eight orthogonal tokens of length 1
>>> [round(initialization.uniform_cosine(8, 1.0, layers), 2) for layers in (1, 2, 3, 4)]
[0.11, 0.27, 0.47, 0.65]
>>> after = initialization.uniform_gram(G, 1.0, 4)
>>> round((after[0, 1] / after[0, 0]).item(), 2)
0.65
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.support.errors import require

TERMS, NODES = 40, 120  # of an activation's series, and of the quadrature for its coefficients


def gram_step(G, A, gain):
    """Expected Gram matrix after a layer, G + gain (1/H) sum_h A_h G A_h'; shape of G."""
    mixed = ops.sum(A @ G[..., None, :, :] @ ops.transpose(A), -3) / A.shape[-3]
    return G + _spread(gain) * mixed


def _spread(gain):
    """A number, or numbers (...) with two further axes."""
    return gain[..., None, None] if getattr(gain, "ndim", 0) else gain


def added(gain, layers: int):
    """(1 + gain)^layers - 1, by which the mean token's expected squared length grows; (...)."""
    found = 0 * gain
    for _ in range(layers):
        found = found + gain * (1 + found)  # no cancellation for a small gain
    return found


def uniform_gram(G, gain, layers: int):
    """Expected Gram matrix after layers of uniform attention, G + added |mean|^2 11'."""
    return G + _spread(added(gain, layers) * mean_square(G))


def mean_square(G):
    """Squared length of the mean token, the mean of all entries of G; (...)."""
    return ops.sum(ops.sum(G, -1), -1) / G.shape[-1] ** 2


def centered_square(G):
    """Sum of the squared distances of the tokens from their mean; (...)."""
    n = G.shape[-1]
    return ops.sum(ops.stack([G[..., i, i] for i in range(n)], -1), -1) - n * mean_square(G)


def share(centered, common):
    """Share centered/(centered + common) of two parts of the tokens' sum of squares."""
    return centered / (centered + common)


def uniform_cosine(tokens: int, gain: float, layers: int) -> float:
    """Expected inner product over expected squared length, from orthogonal tokens of one length.

    Under uniform attention it is (g - 1)/(g - 1 + n) with g = (1 + gain)^layers. Raises InputError
    for fewer than 2 tokens, gain < 0 or layers < 0.
    """
    require(tokens >= 2, "tokens", tokens, "an integer >= 2")
    require(gain >= 0, "gain", gain, "a number >= 0")
    require(layers >= 0, "layers", layers, "an integer >= 0")
    grown = math.expm1(layers * math.log1p(gain))
    return grown / (grown + tokens)


def fourth_moment(gain, width: int):
    """(1 + gain)^2 + (4 gain + 2 gain^2)/width: the factor of E |mean|^4 in a Gaussian layer."""
    return ops.square(1 + gain) + (4 * gain + 2 * ops.square(gain)) / width


# ------------------------------------------------------------------ whole layers, approximately


def activation_series(activation: Callable[[Tensor], Tensor], deviation: float) -> Tensor:
    """Squares c_k of an activation's coefficients: E phi(u) phi(v) = sum_k c_k r^k; (TERMS,).

    u and v are Gaussian numbers with mean 0, the given deviation and the correlation r. The c_k are
    the squared coefficients of x -> phi(deviation x) in Hermite's polynomials, orthonormal for a
    standard Gaussian x (Mehler's formula), by Gauss-Hermite quadrature with NODES points. All of
    them add up to E phi(u)^2, and what the first TERMS leave out is at most what they lack of it.

    >>> import torch
    >>> from attnverify.mathematics import initialization
    >>> initialization.activation_series(lambda x: x, 3.0)[:3].round(decimals=9).tolist()
    [0.0, 9.0, 0.0]
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    x = torch.from_numpy(nodes)
    polynomials = [torch.ones_like(x), x]
    for k in range(1, TERMS - 1):
        following = x * polynomials[k] - math.sqrt(k) * polynomials[k - 1]
        polynomials.append(following / math.sqrt(k + 1))
    density = torch.from_numpy(weights) / math.sqrt(2 * math.pi)
    return (torch.stack(polynomials) * density * activation(deviation * x)).sum(-1).square()


def correlation_series(series: Tensor, cosines: Tensor) -> Tensor:
    """Sum of series[k] cosines^k, entry by entry; shape of ``cosines``."""
    total = torch.zeros_like(cosines)
    for coefficient in reversed(series.tolist()):
        total = total * cosines + coefficient
    return total


@dataclass(frozen=True)
class Stack:
    """A transformer at its default initialization: layers, sizes and how its weights are drawn.

    width, hidden: of the stream and of the MLP. deviation: of all weights; output_deviation: of the
    two matrices that write into the stream. token_variance, shared_variance: of an entry of an
    embedded token, without and of what all tokens have in common. activation: of the MLP, with
    ``gated`` times a second linear map. causal: the mask. norm_first: norms before attention and
    MLP, else after their sums with the stream.
    """

    layers: int
    width: int
    hidden: int
    deviation: float
    output_deviation: float
    token_variance: float
    shared_variance: float
    activation: Callable[[Tensor], Tensor]
    gated: bool
    causal: bool
    norm_first: bool


def expected_cosines(
    stack: Stack, tokens: int, mlp: bool = True, scores: bool = True
) -> list[float]:
    """Mean cosine of two different tokens where a layer begins, and after the last; layers + 1.

    The Gram matrix G follows attention and MLP in expectation over their weights, with tokens
    normalized as if G were its expectation, and :func:`attended_cosines` for attention: an
    approximation. Logits have the standard deviation deviation^2 width; where it is far above 1 and
    tokens are few, the approximation of attention fails. Source: the recursion of claim
    ``training.gram-recursion``, with the expectations of attention and of an MLP over Gaussian
    weights. mlp, scores: False leaves out the MLP, or all scores, so that attention is uniform.
    Raises InputError for fewer than 2 tokens.
    """
    require(tokens >= 2, "tokens", tokens, "an integer >= 2")
    ones = torch.ones(tokens, tokens, dtype=torch.float64)
    own = torch.eye(tokens, dtype=torch.float64)
    gram = stack.width * (stack.token_variance * own + stack.shared_variance * ones)
    series = activation_series(stack.activation, stack.deviation * math.sqrt(stack.width))
    written = (stack.deviation * stack.output_deviation) ** 2 * stack.width**3
    variance = (stack.deviation**2 * stack.width) ** 2 if scores else 0.0

    def attention(cosine: Tensor) -> Tensor:
        return written * attended_cosines(cosine, variance, stack.causal)

    found = [mean_cosine(gram).item()]
    for _ in range(stack.layers):
        gram = _summed(stack, gram, attention)
        if mlp:
            gram = _summed(stack, gram, lambda cosine: _mlp_output(stack, series, cosine))
        found.append(mean_cosine(gram).item())
    return found


def attended_cosines(cosine: Tensor, variance: float, causal: bool) -> Tensor:
    """Inner products after attention with random scores, of tokens with these cosines; (n, n).

    For random W_Q, W_K the logits z_ij are Gaussian with covariance v c_il c_jk between z_ij and
    z_lk, where v is their variance. The entry (i, l) of A C A' is the mean of c_jk under the
    weights exp(z_ij + z_lk), and this gives the quotient of the expectations of numerator and
    denominator,

        sum_jk exp(v c_il c_jk) c_jk / sum_jk exp(v c_il c_jk),

    over the keys j, k that i and l see. With v = 0 it is uniform attention, exactly. The series of
    exp in powers of its argument is cut off below 1e-16 of its value.
    """
    tokens = len(cosine)
    power, factor = torch.ones_like(cosine), torch.ones_like(cosine)
    above, below = torch.zeros_like(cosine), torch.zeros_like(cosine)
    term = 0
    while True:
        weights = power.cumsum(0).cumsum(1) if causal else power.sum().expand(tokens, tokens)
        below = below + factor * weights
        power = power * cosine
        weights = power.cumsum(0).cumsum(1) if causal else power.sum().expand(tokens, tokens)
        above = above + factor * weights
        term += 1
        factor = factor * variance * cosine / term
        # Terms fall from here on at least by a half, and all sums of powers are at most n^2.
        if term > 2 * variance and float(factor.abs().max()) < 1e-17:
            return above / below


def cosines(gram: Tensor) -> Tensor:
    """Inner products over lengths; (..., n, n)."""
    lengths = gram.diagonal(dim1=-2, dim2=-1).sqrt()
    return gram / lengths[..., None] / lengths[..., None, :]


def mean_cosine(gram: Tensor) -> Tensor:
    """Mean cosine of two different tokens, from their inner products (n, n)."""
    return cosines(gram)[torch.ones_like(gram).triu(1).bool()].mean()


def _summed(stack: Stack, gram: Tensor, update: Callable[[Tensor], Tensor]) -> Tensor:
    """The Gram matrix after a sublayer whose update is a function of the normalized tokens."""
    cosine = cosines(gram)
    return (gram if stack.norm_first else stack.width * cosine) + update(cosine)


def _mlp_output(stack: Stack, series: Tensor, cosine: Tensor) -> Tensor:
    """Expected Gram matrix of an MLP's output for normalized tokens."""
    hidden = correlation_series(series, cosine)
    if stack.gated:
        hidden = hidden * stack.deviation**2 * stack.width * cosine
    return stack.output_deviation**2 * stack.width * stack.hidden * hidden
