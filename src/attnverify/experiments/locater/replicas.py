"""All replicas of one case of the LocAteR experiment: every point of the grid for every seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attnverify.experiments.engine.model import Row
from attnverify.experiments.engine.rounding import significant
from attnverify.experiments.engine.train import Parameters, Plan, stream
from attnverify.experiments.locater import language
from attnverify.experiments.locater import regularizer as eigenspectrum
from attnverify.experiments.locater.sources import Source


@dataclass(frozen=True)
class Point:
    """A point of the grid: kappa = nu = strength, and the trace aimed at over the key width."""

    strength: float
    target: float


@dataclass(frozen=True)
class Case:
    """A source, an architecture and a learning rate, with the sizes of the setting."""

    source: str
    mlp: bool
    plan: Plan
    width: int
    heads: int = 2
    depth: int = 2
    batch: int = 8
    context: int = 32
    held_out: int = 128

    @property
    def architecture(self) -> str:
        return "with MLPs" if self.mlp else "attention only"

    @property
    def name(self) -> str:
        return f"{self.source}, {self.architecture}, learning rate {self.plan.learning_rate:g}"


@dataclass
class Replicas:
    """Models that differ in the point of the grid and the seed; the seeds vary fastest.

    Replicas of one seed start from the same weights and read the same words, so that points of
    the grid are compared in pairs.
    """

    case: Case
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    source: Source
    device: str = "cpu"

    def __post_init__(self) -> None:
        c = self.case
        mlp_width = 4 * c.width if c.mlp else None
        self.shape = language.Shape(
            self.source.symbols, c.context, c.depth, c.heads, c.width, mlp_width
        )
        words = self.source.held_out(c.held_out, c.context + 1)
        self.floor = self.source.floor(words)
        self.unseen = words.to(self.device).expand(len(self.points) * len(self.seeds), -1, -1)
        column = partial(torch.tensor, dtype=torch.float32, device=self.device)
        each = [point for point in self.points for _ in self.seeds]
        self.strength = column([p.strength for p in each])[:, None, None]
        self.target = column([p.target * self.shape.key_width for p in each])[:, None, None]

    def start(self) -> Parameters:
        """The stacked parameters before training."""
        return language.start(self.shape, list(self.seeds) * len(self.points), self.device)

    def loss(self, parameters: Parameters, done: int) -> Tensor:
        """Mean loss in nats plus the regularizer of all heads, summed over replicas: each then
        has the gradient of its own."""
        batch, length = self.case.batch, self.case.context + 1
        own = [
            self.source.batch(batch, length, stream(seed, self.case.source, done))
            for seed in self.seeds
        ]
        words = torch.stack(own * len(self.points)).to(self.device)
        losses, _ = language.predict(self.shape, parameters, words)
        W_Q, W_K = language.heads(parameters)
        penalty = eigenspectrum.regularizer(W_Q, W_K, self.strength, self.strength, self.target)
        return losses.mean((1, 2)).sum() + penalty.sum()

    def measure(self, parameters: Parameters, done: int) -> Row:
        """Loss on the held-out words in nats, relative entropy of attention (from the second
        place on), means over heads of the statistics of the spectrum: a value a replica each.
        Real parts of the eigenvalues of all heads: of the first seed, a list a point."""
        losses, entropy = language.predict(self.shape, parameters, self.unseen)
        W_Q, W_K = language.heads(parameters)
        row = {"loss": losses.mean((1, 2)), "entropy": entropy[..., 1:].mean((1, 2))}
        for name in ("xi", "trace", "squared_norm", "asymmetry"):
            row[name] = eigenspectrum.STATISTICS[name](W_Q, W_K).mean((1, 2))
        first = slice(None, None, len(self.seeds))
        values = eigenspectrum.eigenvalues(W_Q[first], W_K[first]).real.flatten(1)
        out = {name: _rounded(value, 6) for name, value in row.items()}
        return out | {"eigenvalues": [_rounded(own, 3) for own in values.sort(-1).values]}


def _rounded(values: Tensor, digits: int) -> list[float | None]:
    return [significant(value, digits) for value in values.tolist()]
