"""Queries and keys: the proof that the matrices W_Q, W_K and the scale are those of the model.

The sums over paths do not see what attention is computed from. So the scores are computed again,
with rotations and norms of queries and keys, and their softmax is compared with the model's own
matrices where these are positive.

The bound. Let s be the scores, a the same in absolute values all along, and m the roundings of one
score: those of a query and of a key (width + 1, and the norm), three of each rotation, key_width
of the product, two for scale and mask. The model's scores are off by at most g = gamma_m(u) a.
The softmax is taken in float32 by some models, so with the coarser unit w of the two: converting a
score and subtracting the largest move the exponent by at most 4 w a in a row, and exponential (4
units), sum of n terms and quotient change a probability by a factor within gamma_{n+6}(w). With
the largest a of the row, the logarithm of a probability is off by at most

    E = 2 g + 4 w a + gamma_{n+6}(w),

the row's normalization counted by the factor 2, and a probability p by p (e^E - 1). What is
computed here is as accurate, in float64, so all is taken twice. Norms of queries and keys may be
taken in float32: their roundings count as that many of the finer unit. Probabilities below the
normal range of float32 may be any number there; those that vanish count for nothing in the sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnverify.inspection.maps import gamma, unit_roundoff
from attnverify.inspection.reconstruction import Check, compared
from attnverify.inspection.trace import HeadNorm, Heads

SINGLE = unit_roundoff(torch.float32)
NORMAL = torch.finfo(torch.float32).tiny


def check(heads: Heads, valid: Tensor, place: str) -> Check:
    """The model's attention matrices against those of W_Q, W_K and the scale.

    valid (batch, tokens): rows of padding are left out, which may attend to anything. In place
    where it can be: these are the largest arrays of a report.
    """
    own, absolute, roundings = scores(heads)
    unseen = ~((heads.P > 0) & valid[:, None, :, None])
    expected = torch.softmax(own.masked_fill_(unseen, -torch.inf), -1).nan_to_num_(0.0)
    largest = absolute.masked_fill_(unseen, 0.0).amax(-1, keepdim=True)
    unit = max(heads.unit, SINGLE)
    E = 2 * gamma(roundings, heads.unit) * largest + 4 * unit * largest
    E = E + gamma(heads.P.shape[-1] + 6.0, unit)
    error = (heads.P - expected).masked_fill_(unseen, 0.0)
    bound = expected.mul_(torch.expm1(E)).add_(NORMAL).mul_(2)
    return compared(place, error, bound, heads.P)


def scores(heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (batch, heads, tokens, tokens), the same in absolute values, and the roundings."""
    norms = heads.norms or (None, None)
    q, q_size, m_q = _vectors(heads, heads.W_Q, heads.b_Q, norms[0])
    k, k_size, m_k = _vectors(heads, heads.W_K, heads.b_K, norms[1])
    roundings = m_q + m_k + q.shape[-1] + 8.0
    scale = heads.scale
    own, absolute = (q @ k.mT).mul_(scale), (q_size @ k_size.mT).mul_(scale)
    return own, absolute, torch.as_tensor(roundings)


def _vectors(
    heads: Heads, W: Tensor, b: Tensor, norm: HeadNorm | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries or keys (batch, heads, tokens, key_width), their absolute sizes, their roundings."""
    x = heads.input[:, None]
    v, size = x @ W + b[:, None], x.abs() @ W.abs() + b.abs()[:, None]
    roundings = torch.tensor(W.shape[-2] + 1.0)
    if norm is not None:
        map = norm.at(v)
        roundings = roundings + map.roundings.max() * (max(heads.unit, SINGLE) / heads.unit)
        v, size = map.linear(v) + map.shift, map.absolute(size) + abs(map.shift)
    if heads.rotation is not None:
        cos, sin = (part[:, None] for part in heads.rotation)
        v, size = _rotated(v, cos, sin), _rotated(size, cos.abs(), sin.abs(), sign=1.0)
        roundings = roundings + 3.0
    return v, size, roundings


def _rotated(v: Tensor, cos: Tensor, sin: Tensor, sign: float = -1.0) -> Tensor:
    """The first entries of v, as many as there are cosines, rotated in pairs (i, i + half)."""
    part, rest = v[..., : cos.shape[-1]], v[..., cos.shape[-1] :]
    first, second = part.chunk(2, -1)
    turned = torch.cat([sign * second, first], -1)
    return torch.cat([part * cos + turned * sin, rest], -1)
