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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnverify.inspection import scores
from attnverify.inspection.maps import gamma, unit_roundoff
from attnverify.inspection.reconstruction import Check, compared
from attnverify.inspection.trace import Block, Branch, Layer, Step, Trace

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
        """At the input of the first layer: one path, of length 0."""
        zero = torch.zeros_like(X)
        return cls(torch.stack([X, zero]), zero, X, X.abs(), valid)

    @property
    def lengths(self) -> Tensor:
        """S_0, ..., S_L."""
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
        """Through one layer; raises ReconstructionError where a step misses its bound."""
        for number, block in enumerate(layer.blocks, 1):
            self.through_block(block, f"layer {layer.number}, block {number}")
        self.checks.append(scores.check(layer.heads, self.valid, f"layer {layer.number}, scores"))

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
        """Through steps; each is compared."""
        if not steps:
            return
        self.sums, after = _carried(self.sums, steps)
        for step, totals in zip(steps, after, strict=True):
            m, k = step.roundings, len(self.sums) + 1.0
            before = self.size + self.rest.abs()
            theirs, ours = gamma(m, step.unit), gamma(m + k, HERE)
            bound = step.size(theirs * self.seen.abs() + ours * before, theirs + ours)
            bound += underflow(step.unit)
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
