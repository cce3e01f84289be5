r"""Attention whose exponential is replaced, and attention as a posterior mean.

A row has scores s (..., keys). Its weights e^s become e^s (1 + t) with |t| <= delta < 1, as for a
polynomial or a feature map in place of exp, and are divided by their sum. Taylor's polynomial of
degree p is T_p. As a posterior, a row tells from which of several Gaussian distributions with one
variance a query came. The formulas serve the claims linear.* and kernel.*, in any arithmetic of
:mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import kernels
>>> one = torch.tensor(1.0, dtype=torch.float64)
>>> round(kernels.variation(0.3 * one).item(), 6)
0.153536
>>> [round(kernels.taylor_error(one, p).item(), 4) for p in (1, 2, 3, 4)]
[1.0, 0.3591, 0.0939, 0.0194]
>>> round(kernels.least_error(torch.tensor([-1.0, 0.0, 1.0]).double()).item(), 4)  # degree 1
0.2136
"""

from __future__ import annotations

import math

import torch

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.softmax import oscillation, variation_bound


def spread(delta):
    """Spread log((1 + delta)/(1 - delta)) of the logarithms of 1 + t, |t| <= delta < 1."""
    return ops.log((1 + delta) / (1 - delta))


def variation(delta):
    """Bound tanh(spread/4) = delta/(1 + sqrt(1 - delta^2)) on the total variation of a row."""
    return variation_bound(spread(delta))


def weights(s, factors):
    """Weights e^s times positive factors over their sum; shape of s."""
    w = ops.exp(s) * factors
    return w / ops.sum(w, -1, keepdims=True)


# ------------------------------------------------------------------------------------------ layers


def layer(X, W_QK, W, T, key_width: int):
    """Layer sum_h P_h X W_h whose exponentials are replaced by e^s (1 + T); X (..., tokens, width).

    W_QK, W: (..., heads, width, width). T: (..., heads, tokens, tokens), entries above -1.
    """
    Y = X[..., None, :, :]
    return ops.sum(weights(collapse.scores(Y, W_QK, key_width), 1 + T) @ Y @ W, -3)


def factor(rate, delta):
    """Factor (t + delta)/(1 + t delta), t = tanh(rate), on the diameter of one head's values."""
    t = ops.tanh(rate)
    return (t + delta) / (1 + t * delta)


def longest(X):
    """Largest length of a row; (..., tokens, width) -> (...)."""
    return ops.sqrt(ops.amax(ops.sum(ops.square(X), -1), -1))


def error_after(X, c, delta, depth: int):
    """Bound e_L on how far tokens are off after L layers with ||W_V|| <= 1 and rates <= c; (...).

    Tokens X (..., tokens, width) enter both networks; delta is the relative error of the weights.
    """
    size, length = norms.diameter(X), longest(X)
    theta, eta = ops.tanh(c * ops.square(size)), variation(delta)
    error, D = 0 * size, size
    for _ in range(depth):
        more = ops.tanh(c * error * (D + 2 * length))
        error = error + D * (eta + more) / (1 + eta * more)
        D = theta * D
    return error


def error_at_any_depth(X, c, delta):
    """Bound on :func:`error_after` that holds for every depth; (...)."""
    size, length = norms.diameter(X), longest(X)
    left = 1 - ops.tanh(c * ops.square(size))
    return variation(delta) * size / left * ops.exp(c * size * (size + 2 * length) / left)


# ------------------------------------------------------------------------------------- polynomials


def taylor(s, degree: int):
    """Taylor's polynomial T_p(s), the sum of s^k/k! for k <= degree; shape of s."""
    value = 1 + 0 * s
    for k in range(degree, 0, -1):
        value = 1 + s * value / k
    return value


def relative(s, degree: int):
    """Quotient T_p(s)/e^s; shape of s."""
    return ops.exp(-s) * taylor(s, degree)


def taylor_error(r, degree: int):
    """Largest relative error |T_p(s)/e^s - 1| on |s| <= r, which is the one at s = -r."""
    return abs(relative(-r, degree) - 1)


def taylor_spread(r, degree: int):
    """Largest difference of log(T_p(s)/e^s) on |s| <= r, where T_p is positive there."""
    other = relative(r, degree) if degree % 2 == 0 else 1 + 0 * r
    return abs(ops.log(relative(-r, degree) / other))


def node_weights(s):
    """Weights 1/prod_(k != i) (s_i - s_k) of points s (..., p + 2)."""
    n = s.shape[-1]
    apart = s[..., :, None] - s[..., None, :] + ops.eye(n, s)
    product = apart[..., 0]
    for k in range(1, n):
        product = product * apart[..., k]
    return 1 / product


def least_error(s):
    """Relative error that every polynomial of degree p has at one of the p + 2 points s; (...)."""
    terms = node_weights(s) * ops.exp(s)
    return abs(ops.sum(terms, -1)) / ops.sum(abs(terms), -1)


def leveled(s: torch.Tensor) -> torch.Tensor:
    """Coefficients c (p + 1,) of the polynomial whose errors 1 - e^-s q(s) at s level out.

    They have the size :func:`least_error` at all of the p + 2 float points, with signs in turn.
    """
    powers = s[:, None] ** torch.arange(len(s) - 1)
    turns = (-1.0) ** torch.arange(len(s), dtype=s.dtype)
    return torch.linalg.solve(torch.cat([powers, (turns * s.exp())[:, None]], -1), s.exp())[:-1]


def best_polynomial(r: float, degree: int, rounds: int = 8) -> tuple[torch.Tensor, float]:
    """Points (degree + 2,) for :func:`least_error` and the error of their polynomial on |s| <= r.

    Remez's exchange in float64 on 4001 points: a search, whose points make a bound that is proved.

    >>> points, error = best_polynomial(1.0, 1)
    >>> round(least_error(points).item(), 3), round(error, 3)
    (0.233, 0.233)
    """
    grid = -r * torch.cos(torch.linspace(0, math.pi, 4001, dtype=torch.float64))
    at = torch.linspace(0, 4000, degree + 2).round().long()
    errors = grid
    for _ in range(rounds):
        c = leveled(grid[at])
        errors = 1 - (-grid).exp() * (grid[:, None] ** torch.arange(degree + 1) @ c)
        turns = (errors[1:].sign() != errors[:-1].sign()).nonzero().flatten() + 1
        parts = torch.tensor_split(torch.arange(len(grid)), turns)
        if len(parts) != degree + 2:
            break
        at = torch.stack([part[errors[part].abs().argmax()] for part in parts])
    return grid[at], float(errors.abs().max())


def features(width: int, degree: int) -> int:
    """Number C(d + p, p) of monomials of degree at most p in d variables.

    >>> features(64, 2)
    2145
    """
    return math.comb(width + degree, degree)


# --------------------------------------------------------------------------------------- posterior


def posterior(q, K, prior, variance):
    """Posterior weights, with logits ``prior``, of the keys as means of q; (..., keys).

    q (..., width), K (..., keys, width), variance (...).
    """
    apart = ops.sum(ops.square(q[..., None, :] - K), -1)
    return ops.softmax(prior - apart / (2 * variance[..., None]))


def shell(K, c):
    """Squared distances of the keys from c; K (..., keys, width), c (..., width)."""
    return ops.sum(ops.square(K - c[..., None, :]), -1)


def posterior_bound(K, c, variance):
    """Bound tanh((R^2 - r^2)/(8 variance)) for keys at distances from r to R of c; (...)."""
    return variation_bound(oscillation(shell(K, c)) / (2 * variance))
