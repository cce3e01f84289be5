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
1, and an underflow loses less than m times the smallest normal number.

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

from attnverify.models import scores
from attnverify.models.maps import gamma, unit_roundoff
from attnverify.models.reconstruction import Check, compared
from attnverify.models.trace import Block, Branch, Layer, Step, Trace

HERE = unit_roundoff(torch.float64)


@dataclass
class Streams:
    """The streams at one place of a trace.

    sums (streams, batch, tokens, width): S_0, S_1, ..., and last the biases; rest and seen
    (batch, tokens, width): what rounding has left, and the model's own values there; valid (batch,
    tokens): False at padding.
    """

    sums: Tensor
    rest: Tensor
    seen: Tensor
    valid: Tensor
    checks: list[Check] = field(default_factory=list)

    @classmethod
    def of(cls, X: Tensor, valid: Tensor) -> Streams:
        """At the input of the first layer: one path, of length 0."""
        return cls(torch.stack([X, torch.zeros_like(X)]), torch.zeros_like(X), X, valid)

    @property
    def lengths(self) -> Tensor:
        """S_0, ..., S_L."""
        return self.sums[:-1]

    @property
    def bias(self) -> Tensor:
        return self.sums[-1]

    def advance(self, layer: Layer) -> None:
        """Through one layer; raises ReconstructionError where a step misses its bound."""
        for number, block in enumerate(layer.blocks, 1):
            self.through_block(block, f"layer {layer.number}, block {number}")
        self.checks.append(scores.check(layer.heads, self.valid, f"layer {layer.number}, scores"))

    def through_block(self, block: Block, place: str) -> None:
        ends = [self._end_of(branch, place) for branch in block.branches]
        sums = _grown(self.sums) if any(b.attention for b in block.branches) else self.sums.clone()
        for branch, end in zip(block.branches, ends, strict=True):
            _add(sums, end.sums, longer=branch.attention)
        at = [self, *ends]
        predicted = sum((each.rest for each in ends), self.rest)
        terms = len(at) + 1.0
        theirs = sum((each.seen.abs() for each in ends), self.seen.abs())
        ours = sum(_absolute(each.sums) + each.rest.abs() for each in at)
        bound = gamma(terms, block.unit) * theirs + gamma(terms, HERE) * ours
        self._arrive(f"{place}, sum", sums, block.seen, predicted, bound)
        self.through(block.after, place)

    def _end_of(self, branch: Branch, place: str) -> Streams:
        own = Streams(self.sums, self.rest, self.seen, self.valid, self.checks)
        own.through(branch.steps, place)
        return own

    def through(self, steps: Sequence[Step], place: str) -> None:
        """Through steps, one by one."""
        for step in steps:
            m, k = step.roundings, len(self.sums) + 1.0
            before = _absolute(self.sums) + self.rest.abs()
            theirs, ours = gamma(m, step.unit), gamma(m + k, HERE)
            bound = step.size(theirs * self.seen.abs() + ours * before, theirs + ours)
            predicted = step.linear(self.rest)
            sums = step.carry(self.sums)
            self._arrive(f"{place}, {step.name}", sums, step.seen, predicted, bound)

    def _arrive(
        self, place: str, sums: Tensor, seen: Tensor, predicted: Tensor, bound: Tensor
    ) -> None:
        """Take the new values, and compare the rest with its prediction."""
        rest = seen - sums.sum(0)
        around = (len(sums) + 1) * HERE * (_absolute(sums) + seen.abs())
        bound = 2 * (bound + around) + torch.finfo(torch.float32).tiny * 2**20
        self.checks.append(compared(place, rest - predicted, bound))
        self.sums, self.rest, self.seen = sums, rest, seen


def _absolute(sums: Tensor) -> Tensor:
    """The sum of the streams in absolute values, without an array of these."""
    return torch.linalg.vector_norm(sums, ord=1, dim=0)


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
