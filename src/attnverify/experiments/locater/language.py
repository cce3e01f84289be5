"""Small causal language models with a regularizer of the eigenspectrum, many trained at once.

A *replica* is one model; the parameters of all replicas are stacked along a first axis, and
``torch.func.vmap`` runs the one module on each. So the layers are those of SelfAttentionNetwork,
and replicas do not touch each other.

W_QK = W_Q W_K^T has rank at most k, its key width; its nonzero eigenvalues are those of the k x k
matrix W_K^T W_Q. For a symmetric matrix tr(W^2) is the sum of squared eigenvalues. A trained
W_QK is not symmetric, and then tr(W^2) = |S|^2 - |A|^2 (Frobenius norms of the symmetric and the
antisymmetric part) has no lower bound, so that shrinking it would reward a large antisymmetric
part. Everywhere here tr(W W^T) = |W|^2 takes its place: it is tr(W^2) for symmetric W, it bounds
the sum of squared eigenvalues from above (Schur), and at fixed trace and rank <= k its minimizers
have all k eigenvalues equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import Row
from attnverify.experiments.engine.train import Parameters, Plan, stream
from attnverify.experiments.locater.sources import Source
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import querykey
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.seeds import generator

Weights = Float[Tensor, "*heads width key_width"]

#: Statistics of every head, by name; in this order tr W, |W|^2, tr(W)/|W| (at most sqrt(k), when
#: all k eigenvalues agree), and |A|^2 / |W|^2 for the antisymmetric part A.
STATISTICS = {
    "trace": querykey.trace,
    "squared_norm": querykey.squared_norm,
    "xi": querykey.xi_general,
    "asymmetry": querykey.skew_square,
}


def eigenvalues(W_Q: Weights, W_K: Weights) -> Complex[Tensor, "*heads key_width"]:
    """The k eigenvalues of W_QK that are not zero by its rank."""
    return spectrum.eigenvalues(W_Q, W_K)


def regularizer(
    W_Q: Weights, W_K: Weights, kappa: Tensor, nu: Tensor, target: Tensor
) -> Float[Tensor, "*heads"]:
    """kappa tr(W W^T) + nu (tr W - target)^2 of every head (Bao, Hataya, Karakida 2024)."""
    size, trace = querykey.squared_norm(W_Q, W_K), querykey.trace(W_Q, W_K)
    return kappa * size + nu * (trace - target) ** 2


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. mlp_width None: attention only."""

    symbols: int
    context: int
    depth: int
    heads: int
    width: int
    mlp_width: int | None

    @property
    def key_width(self) -> int:
        return self.width // self.heads


class LanguageModel(nn.Module):
    """A causal network between embeddings of symbols and places and a linear map to logits.

    It has skip connections and a layer norm after each sublayer; float32."""

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__()
        random = generator(seed, "language model")
        V, T, d = shape.symbols, shape.context, shape.width
        self.symbols = nn.Parameter(torch.randn(V, d, generator=random))
        self.places = nn.Parameter(torch.randn(T, d, generator=random))
        self.network = SelfAttentionNetwork.random(
            shape.depth,
            shape.heads,
            d,
            skip=True,
            bias=False,
            mlp_width=shape.mlp_width,
            norm=True,
            mask="causal",
            seed=seed,
            dtype=torch.float32,
        )
        self.output = nn.Parameter(torch.randn(d, V, generator=random) / d**0.5)

    def forward(
        self, words: Int[Tensor, "batch length"]
    ) -> tuple[Float[Tensor, "batch length symbols"], Float[Tensor, "batch length"]]:
        """Logits for the next symbol, and the entropy of attention in each row.

        Entropy: of the rows of all attention matrices, averaged over layers and heads, relative
        to log t at the t-th place, so 0 is one key alone (as at the first place) and 1 uniform.
        """
        X = self.symbols[words] + self.places[: words.shape[-1]]
        entropies = []
        for layer in range(self.network.depth):
            P = self.network.layer_attention(layer, X)
            entropies.append(torch.special.entr(P.detach()).sum(-1).mean(0))
            X = self.network.layer(layer, X, P)
        return X @ self.output, torch.stack(entropies).mean(0) / self._log_places(words)

    @staticmethod
    def _log_places(words: Tensor) -> Tensor:
        return torch.arange(1, words.shape[-1] + 1, device=words.device).log().clamp(min=1e-30)


def start(shape: Shape, seeds: list[int], device: str = "cpu") -> dict[str, Tensor]:
    """Initial parameters of one replica a seed, stacked: leaves for the trainer."""
    models = [dict(LanguageModel(shape, seed).named_parameters()) for seed in seeds]
    return {
        name: torch.stack([model[name].detach() for model in models]).to(device)
        for name in models[0]
    }


def predict(
    shape: Shape, parameters: dict[str, Tensor], words: Int[Tensor, "replicas batch length"]
) -> tuple[Float[Tensor, "replicas batch length-1"], Float[Tensor, "replicas batch length-1"]]:
    """The loss of each next symbol, -log p in nats, and the relative entropy of attention."""
    module = LanguageModel(shape, seed=0)

    def one(own: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        logits, entropy = functional_call(module, own, (words[:, :-1],))
        losses = nn.functional.cross_entropy(logits.mT, words[:, 1:], reduction="none")
        return losses, entropy

    return vmap(one)(parameters, words)


def heads(parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of every head, (replicas, depth, heads, width, key_width)."""
    return parameters["network.weights.W_Q"], parameters["network.weights.W_K"]


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
        self.shape = Shape(self.source.symbols, c.context, c.depth, c.heads, c.width, mlp_width)
        words = self.source.held_out(c.held_out, c.context + 1)
        self.floor = self.source.floor(words)
        self.unseen = words.to(self.device).expand(len(self.points) * len(self.seeds), -1, -1)
        column = partial(torch.tensor, dtype=torch.float32, device=self.device)
        each = [point for point in self.points for _ in self.seeds]
        self.strength = column([p.strength for p in each])[:, None, None]
        self.target = column([p.target * self.shape.key_width for p in each])[:, None, None]

    def start(self) -> Parameters:
        """The stacked parameters before training."""
        return start(self.shape, list(self.seeds) * len(self.points), self.device)

    def loss(self, parameters: Parameters, done: int) -> Tensor:
        """Mean loss in nats plus the regularizer of all heads, summed over replicas.

        Each replica then has the gradient of its own loss."""
        batch, length = self.case.batch, self.case.context + 1
        own = [
            self.source.batch(batch, length, stream(seed, self.case.source, done))
            for seed in self.seeds
        ]
        words = torch.stack(own * len(self.points)).to(self.device)
        losses, _ = predict(self.shape, parameters, words)
        W_Q, W_K = heads(parameters)
        penalty = regularizer(W_Q, W_K, self.strength, self.strength, self.target)
        return losses.mean((1, 2)).sum() + penalty.sum()

    def measure(self, parameters: Parameters, done: int) -> Row:
        """The metrics of a step: loss on held-out words, entropy of attention, spectra of heads.

        The loss is in nats, the entropy relative and from the second place on; the statistics of
        the spectrum are means over heads: a value a replica each. Real parts of the eigenvalues of
        all heads: of the first seed, a list a point.
        """
        losses, entropy = predict(self.shape, parameters, self.unseen)
        W_Q, W_K = heads(parameters)
        row = {"loss": losses.mean((1, 2)), "entropy": entropy[..., 1:].mean((1, 2))}
        for name in ("xi", "trace", "squared_norm", "asymmetry"):
            row[name] = STATISTICS[name](W_Q, W_K).mean((1, 2))
        first = slice(None, None, len(self.seeds))
        values = eigenvalues(W_Q[first], W_K[first]).real.flatten(1)
        out = {name: _rounded(value, 6) for name, value in row.items()}
        return out | {"eigenvalues": [_rounded(own, 3) for own in values.sort(-1).values]}


def _rounded(values: Tensor, digits: int) -> list[float | None]:
    return [significant(value, digits) for value in values.tolist()]
