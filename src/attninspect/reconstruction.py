"""All paths of a trace, summed by length, and the proof that they are the model's output.

Streams. ``S_0, ..., S_L`` are the sums over all paths that pass through attention so many times;
``B`` is what the biases carry; both advance step by step, the sums through the linear parts and the
biases through the affine maps. At every place of the model the rest ``r`` = (the model's own
values) - (sum of all streams) is what the model's rounding has left there.

The proof. Let a step be the affine map ``x -> M x + s``, x the model's values before it, y those
after it. Were all exact, y = M x + s, and the rest after it would be M r. The bound, entry by
entry, with bars for absolute values::

    |r_after - M r| <=  gamma_m(u) (|M| |x| + |s|)                         the model's roundings
                      + gamma_{m+k}(v) (|M| (sum |S_l| + |B| + |r|) + |s|)   those made here
                      + k v (sum of the streams after it, absolute, + |y|)

with m the roundings of the map, u the unit roundoff of the model, v = 2^-53 and k the number of
streams, because y differs from M x + s by the first term; x is the sum of the streams and r up to k
roundings, each stream after the step is off by m roundings of its own, and they are summed with k
more. The whole is taken twice, as the bound is itself computed in floats of relative error below
1, and an underflow loses less than m times the smallest normal number of what the model worked in.
Where that is all that a model's values come to, the comparison decides nothing, and says so.

Every step of every layer must meet its bound. Nothing is multiplied up over depth: the worst case
of a whole forward pass is astronomically large for real weights and would accept any adapter. What
the roundings of all steps together come to at the end is not estimated but known: it is the last
rest, one more stream beside the others, so that all streams and r together are the model's output.

Queries and keys. The sums over paths do not see what attention is computed from. Where a module
shows queries or keys as projected, y = x W + b, these are compared with the same map of the model's
own x: both are within their own gamma_m (|x| |W| + |b|) of it. And the scores are computed again,
with rotations and norms of queries and keys, and their softmax is compared with the model's own
matrices where these are positive. Let s be the scores, a the same in absolute values
all along, and m the roundings of one score: those of a query and of a key (width + 1, and the
norm), three of each rotation, key_width of the product, two for scale and mask. A bias that is
added to the scores (ALiBi, relative positions) is taken as the model computed it; it counts in a,
and has two roundings more, of its scale and of the sum. A sink, one more score of a row whose
weight goes to no token, is a number of the model without roundings: it counts in a, and as a term
of the sum (n + 1 in place of n). The model's scores are off by at most g = gamma_m(u) a. The
softmax is taken in float32 by some models, so with the coarser unit w of the two. Converting a
score moves an exponent by at most w a, and rounding its difference to the largest one by 2 w a; the
terms of the row's sum are off by as much, so that a quotient moves by 6 w a. Exponential (4 units),
sum of n terms and quotient change a probability by a factor within gamma_{n+6}(w). With the largest
a of the row, the logarithm of a probability is off by at most

    E = 2 g + 6 w a + gamma_{n+6}(w),

the sum counted by the factor 2 of g as well, and a probability p by p (e^E - 1). What is
computed here is as accurate, in float64, so all is taken twice. Scores decide nothing where equal
ones, those of W_Q = 0, would have passed in every head, unless all rows of the model's matrices are
those of equal scores, up to the softmax's own roundings. Norms of queries and keys may be
taken in float32: their roundings count as that many of the finer unit. A soft cap c tanh(s / c)
moves no two scores further apart, so g stays, and its own quotient, hyperbolic tangent (4 units, as
the exponential) and product are off by six roundings of |s| <= a. Probabilities below the
normal range of float32 may be any number there; those that vanish count for nothing in the sum.

A model in bfloat16 (u = 2^-8) sums in float32 and rounds what it stores, as torch does on every
device by default; one that does otherwise may be refused, and none is accepted for it. So u above
is float32's, and stored values add their own: three roundings of a map's values
(:meth:`attninspect.trace.Step.stored`), and R of a score. With A the scores in absolute
values of the queries' and keys' own entries, these move it by gamma_R(u) A more. R counts two of a
query and of a key, twice that and three with a norm, three of a rotation, three of the product, its
scale and a scale before it, three of a soft cap. A probability is rounded once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attninspect.trace import (
    SINGLE,
    Block,
    Branch,
    HeadNorm,
    Heads,
    Layer,
    Step,
    Trace,
    gamma,
    unit_roundoff,
)
from attnverify.support.errors import RunError


class ReconstructionError(RunError):
    """The trace is not the model: an adapter does not fit. The message names the place."""


@dataclass(frozen=True)
class Check:
    """Where a comparison was made, and the largest error there over its bound.

    idle: zeros in place of all that the model computed there would have passed as well, so that the
    comparison decides nothing.
    """

    place: str
    ratio: float
    idle: bool = False


def compared(place: str, error: Tensor, bound: Tensor, seen: Tensor) -> Check:
    """The check of one place; raises ReconstructionError where an error exceeds its bound.

    seen: what the model computed there.
    """
    error, bound = error.abs(), bound.expand(error.shape)
    # An extreme of numbers one of which is NaN is NaN.
    least, most = torch.aminmax(bound)
    if least < 0:  # any error would pass
        raise ReconstructionError(
            f"{place}: this check is wrong itself: its bound is {float(least):.3g}, below 0; "
            "please report it"
        )
    if not (torch.isfinite(least) and torch.isfinite(most)):
        raise ReconstructionError(
            f"{place}: its roundings cannot be bounded in this dtype; use float64"
        )
    ratios = error / bound
    where = int(ratios.argmax())
    ratio = float(ratios.flatten()[where])
    if not ratio <= 1:
        raise ReconstructionError(
            f"{place}: the adapter is not this model there: off by "
            f"{float(error.flatten()[where]):.3g} where rounding explains "
            f"{float(bound.flatten()[where]):.3g} ({ratio:.3g} times)"
        )
    return Check(place, ratio, idle=not bool((seen.abs() > bound).any()))


def check_projection(step: Step, x: Tensor, place: str) -> Check:
    """What the model computed in a step at its own values x against the step's maps."""
    factor = gamma(step.roundings, step.inner) + gamma(step.roundings, HERE)
    bound = step.size(factor * x.abs(), factor) + step.stored(x.abs()) + underflow(step.unit)
    (own,) = step.carry(x[None])
    return compared(place, step.seen - own, bound.mul_(2), step.seen)


NORMAL = torch.finfo(torch.float32).tiny


def check_scores(heads: Heads, valid: Tensor, place: str) -> Check:
    """The model's attention matrices against those of W_Q, W_K and the scale.

    valid (batch, tokens): rows of padding are left out, which may attend to anything. In place
    where it can be: these are the largest arrays of a report.
    """
    own, absolute, roundings = scores(heads)
    unseen = ~((heads.P > 0) & valid[:, None, :, None])
    own, largest = own.masked_fill_(unseen, -torch.inf), absolute.masked_fill_(unseen, 0.0)
    largest, terms = largest.amax(-1, keepdim=True), heads.P.shape[-1] + 6.0
    if heads.sinks is not None:
        largest, terms = largest.maximum(heads.sinks[:, None, None].abs()), terms + 1
    expected = _rows(own, heads)
    equal = _rows(_equal(heads).expand(unseen.shape).masked_fill(unseen, -torch.inf), heads)
    if heads.unit > SINGLE:
        g = gamma(roundings, SINGLE) * largest[0] + gamma(_stored(heads), heads.unit) * largest[1]
        E = 2 * g + 6 * SINGLE * largest[0] + gamma(terms, SINGLE) + gamma(1.0, heads.unit)
    else:
        unit = max(heads.unit, SINGLE)
        E = 2 * gamma(roundings, heads.unit) * largest + 6 * unit * largest + gamma(terms, unit)
    least = 2 * (expected * gamma(terms, max(heads.softmax_unit, SINGLE)) + NORMAL)
    off = equal.sub_(expected).abs_()
    uneven = bool((off > least).any())
    error = (heads.P - expected).masked_fill_(unseen, 0.0)
    bound = expected.mul_(torch.expm1(E)).add_(NORMAL).mul_(2)
    check = compared(place, error, bound, heads.P)
    return replace(check, idle=check.idle or (uneven and bool((off <= bound).all())))


def _rows(scores: Tensor, heads: Heads) -> Tensor:
    """Softmax along the last axis, sinks included and left out again."""
    count = scores.shape[-1]
    if heads.sinks is not None:
        sinks = heads.sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sinks], -1)
    return torch.softmax(scores, -1).nan_to_num_(0.0)[..., :count]


def _equal(heads: Heads) -> Tensor:
    """The scores of W_Q = 0, b_Q = 0: what is added to them."""
    return torch.zeros_like(heads.P[:1, :1, :1]) if heads.bias is None else heads.bias


def scores(heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (batch, heads, tokens, tokens), the same in absolute values, and the roundings.

    In bfloat16 the second are two: those of all products, and those of queries and keys as stored.
    """
    norms = heads.norms or (None, None)
    q, q_size, m_q = _vectors(heads, heads.W_Q, heads.b_Q, norms[0])
    k, k_size, m_k = _vectors(heads, heads.W_K, heads.b_K, norms[1])
    roundings = m_q + m_k + q.shape[-1] + 8.0
    scale, cap = heads.scale, heads.cap
    own, absolute = (q @ k.mT).mul_(scale), (q_size @ k_size.mT).mul_(abs(scale))
    if heads.bias is not None:
        own, absolute = own.add_(heads.bias), absolute.add_(heads.bias.abs())
        roundings = roundings + 2.0
    if cap is not None:
        own, roundings = (own / cap).tanh_().mul_(cap), roundings + 6.0
    return own, absolute, torch.as_tensor(roundings)


def _vectors(
    heads: Heads, W: Tensor, b: Tensor, norm: HeadNorm | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries or keys (batch, heads, tokens, key_width), their absolute sizes, their roundings."""
    x, b = heads.input[:, None], b[:, None]
    v, size = x @ W + b, x.abs() @ W.abs() + b.abs()
    size = torch.stack([size, v.abs() + b.abs()]) if heads.unit > SINGLE else size
    roundings = torch.tensor(W.shape[-2] + 1.0)
    if norm is not None:
        # Of all heads at once: each of those that differ once, side by side.
        each = heads.count // heads.key_heads if W is heads.W_K else 1
        joined = norm.whole
        v, size = (_joined(part, each) if joined else part for part in (v, size))
        map = norm.at(v)
        roundings = roundings + map.roundings.max() * (max(heads.unit, SINGLE) / heads.unit)
        v, size = map.linear(v) + map.shift, map.absolute(size) + abs(map.shift)
        v, size = (_apart(part, W.shape[-1], each) if joined else part for part in (v, size))
    if heads.rotation is not None:
        cos, sin = (part[:, None] for part in heads.rotation)
        v, size = _rotated(v, cos, sin), _rotated(size, cos.abs(), sin.abs(), sign=1.0)
        roundings = roundings + 3.0
    return v, size, roundings


def _joined(v: Tensor, each: int) -> Tensor:
    """(batch, heads, tokens, key_width) as (batch, tokens, groups * key_width), a group once."""
    return v[..., ::each, :, :].transpose(-3, -2).flatten(-2)


def _apart(v: Tensor, width: int, each: int) -> Tensor:
    """The inverse of :func:`_joined`."""
    return v.unflatten(-1, (-1, width)).transpose(-3, -2).repeat_interleave(each, -3)


def _stored(heads: Heads) -> float:
    """Roundings to bfloat16 of a score."""
    vector = 2.0 if heads.norms is None else 7.0
    vector += 0.0 if heads.rotation is None else 3.0
    return 2 * vector + 3.0 + (0.0 if heads.cap is None else 3.0)


def _rotated(v: Tensor, cos: Tensor, sin: Tensor, sign: float = -1.0) -> Tensor:
    """The first entries of v, as many as there are cosines, rotated in pairs (i, i + half)."""
    part, rest = v[..., : cos.shape[-1]], v[..., cos.shape[-1] :]
    first, second = part.chunk(2, -1)
    turned = torch.cat([sign * second, first], -1)
    return torch.cat([part * cos + turned * sin, rest], -1)


HERE = unit_roundoff(torch.float64)
MOST = 2**20  # roundings of a step, for underflows
TOGETHER = 4  # streams carried at a time: large products, and few arrays at their widest

Totals = tuple[Tensor, Tensor]  # sum of the streams, and of their absolute values


@dataclass
class Streams:
    """The streams at one place of a trace.

    sums (streams, batch, tokens, width): S_0, S_1, ..., and last the biases; rest and seen
    (batch, tokens, width): what rounding has left, and the model's own values there; size, of the
    same shape: the sum of the streams' absolute values; valid (batch, tokens): False at padding;
    apart: False once all lengths are one stream.
    """

    sums: Tensor
    rest: Tensor
    seen: Tensor
    size: Tensor
    valid: Tensor
    apart: bool = True
    checks: list[Check] = field(default_factory=list)

    @classmethod
    def of(cls, X: Tensor, valid: Tensor) -> Streams:
        """The streams at the input of the first layer: one path, of length 0."""
        zero = torch.zeros_like(X)
        return cls(torch.stack([X, zero]), zero, X, X.abs(), valid)

    @property
    def lengths(self) -> Tensor:
        """The streams S_0, ..., S_L without the biases."""
        return self.sums[:-1]

    @property
    def bias(self) -> Tensor:
        return self.sums[-1]

    def together(self) -> Streams:
        """All lengths as one stream from here on; everything is compared as before."""
        sums = torch.stack([self.lengths.sum(0), self.bias])
        rest, size = self.seen - sums.sum(0), _totals(sums)[1]
        return Streams(sums, rest, self.seen, size, self.valid, False, self.checks)

    def advance(self, layer: Layer) -> None:
        """Carry the streams through one layer; raises ReconstructionError where a step is off."""
        for number, block in enumerate(layer.blocks, 1):
            self.through_block(block, f"layer {layer.number}, block {number}")
        heads, place = layer.heads, f"layer {layer.number}"
        for step in heads.projections:
            self.checks.append(check_projection(step, heads.input, f"{place}, {step.name}"))
        self.checks.append(check_scores(heads, self.valid, f"{place}, scores"))

    def through_block(self, block: Block, place: str) -> None:
        ends = [self._end_of(branch, place) for branch in block.branches]
        longer = [self.apart and branch.attention for branch in block.branches]
        sums = _grown(self.sums) if any(longer) else self.sums.clone()
        for end, one in zip(ends, longer, strict=True):
            _add(sums, end.sums, longer=one)
        at = [self, *ends]
        predicted = sum((each.rest for each in ends), self.rest)
        terms = len(at) + 1.0
        theirs = sum((each.seen.abs() for each in ends), self.seen.abs())
        ours = sum(each.size + each.rest.abs() for each in at)
        bound = gamma(terms, block.unit) * theirs + gamma(terms, HERE) * ours
        self.sums = sums
        bound += underflow(block.unit)
        self._arrive(f"{place}, sum", _totals(sums), block.seen, predicted, bound)
        self.through(block.after, place)

    def _end_of(self, branch: Branch, place: str) -> Streams:
        own = Streams(
            self.sums, self.rest, self.seen, self.size, self.valid, self.apart, self.checks
        )
        own.through(branch.steps, place)
        return own

    def through(self, steps: Sequence[Step], place: str) -> None:
        """Carry the streams through steps, comparing each with the model."""
        if not steps:
            return
        self.sums, after = _carried(self.sums, steps)
        for step, totals in zip(steps, after, strict=True):
            m, k = step.roundings, len(self.sums) + 1.0
            before = self.size + self.rest.abs()
            theirs, ours = gamma(m, step.inner), gamma(m + k, HERE)
            bound = step.size(theirs * self.seen.abs() + ours * before, theirs + ours)
            bound += step.stored(self.seen.abs()) + underflow(step.unit)
            predicted = step.linear(self.rest)
            self._arrive(f"{place}, {step.name}", totals, step.seen, predicted, bound)

    def _arrive(
        self, place: str, totals: Totals, seen: Tensor, predicted: Tensor, bound: Tensor
    ) -> None:
        """Take the new values, and compare the rest with its prediction."""
        total, size = totals
        rest = seen - total
        around = (size + seen.abs()).mul_((len(self.sums) + 1) * HERE)
        bound = around.add_(bound).mul_(2)
        self.checks.append(compared(place, rest - predicted, bound, seen))
        self.rest, self.seen, self.size = rest, seen, size


def underflow(unit: float) -> float:
    """What the underflows of a step lose at most, in the format of a unit roundoff."""
    return MOST * torch.finfo(torch.float64 if unit <= HERE else torch.float32).tiny


def _carried(sums: Tensor, steps: Sequence[Step]) -> tuple[Tensor, list[Totals]]:
    """The streams behind the last of the steps, and what they add up to behind each."""
    ends: list[Tensor] = []
    after: dict[int, Totals] = {}
    parts = sums.split(TOGETHER)
    for part in parts:
        for i, step in enumerate(steps):
            part = step.carry(part, biases=len(ends) + 1 == len(parts))
            own = _totals(part)
            after[i] = (after[i][0] + own[0], after[i][1] + own[1]) if i in after else own
        ends.append(part)
    return torch.cat(ends), list(after.values())


def _totals(sums: Tensor) -> Totals:
    """The sum of streams, and that of their absolute values.

    One stream after the other: a norm along the first axis is several times slower.
    """
    total, size = sums[0].clone(), sums[0].abs()
    absolute = torch.empty_like(size)
    for each in sums[1:]:
        total += each
        size += torch.abs(each, out=absolute)
    return total, size


def _grown(sums: Tensor) -> Tensor:
    """Room for one more length, before the biases."""
    return torch.cat([sums[:-1], torch.zeros_like(sums[:1]), sums[-1:]])


def _add(total: Tensor, part: Tensor, longer: bool) -> None:
    """Add a branch to the streams in place; through attention, paths are one longer."""
    first = 1 if longer else 0
    total[first : first + len(part) - 1] += part[:-1]
    total[-1] += part[-1]


def reconstruct(trace: Trace) -> Streams:
    """The streams behind the last layer and the final norm, every step checked."""
    streams = Streams.of(trace.input, trace.valid)
    for layer in trace.layers:
        streams.advance(layer)
    streams.through(trace.final, "end")
    return streams
