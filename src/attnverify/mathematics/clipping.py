"""Scores that are kept small, and what is left of a row of attention then.

Queries are scaled by one factor for each head, so that no score of the tokens at hand is larger
than a limit. By Cauchy and Schwarz a score is at most |q| |k| times the scale of scores, which is
1/sqrt(d_qk) as a rule, and rotations by position change neither length. A row of n tokens whose
logits spread by at most D has a covariance of at least ``least_share(D, n) diam^2``. This serves
the claim ``training.clipped-scores``.

Shapes: queries and keys (..., tokens, key_width). All work in any arithmetic of
:mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import clipping
>>> Q = torch.tensor([[3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
>>> clipping.score_bound(Q, Q, 1.0).item()
25.0
>>> clipping.factor(Q, Q, 1.0, 5.0).item()
0.2
"""

from __future__ import annotations

from attnverify.arithmetic import ops


def score_bound(Q, K, scale):
    """Largest |q| |k| times the scale of a query and a key: no score is larger in size; (...)."""
    queries, keys = (ops.sqrt(ops.amax(ops.sum(ops.square(Y), -1), -1)) for Y in (Q, K))
    return queries * keys * scale


def factor(Q, K, scale, largest):
    """What to multiply queries with so that no score is above ``largest`` in size: 1 or less."""
    bound = score_bound(Q, K, scale)
    return largest / ops.maximum(bound, 0 * bound + largest)


def least_share(D, tokens: int):
    """Least largest eigenvalue of the covariance of tokens at diameter 1, for logits of spread D.

    1/(4 + 2 (n - 2) e^D) for n >= 3 tokens, and 1/(2 + e^D + e^-D) for two.
    """
    if tokens == 2:
        return 1 / (2 + ops.exp(D) + ops.exp(-D))
    return 1 / (4 + 2 * (tokens - 2) * ops.exp(D))
