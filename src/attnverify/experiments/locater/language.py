"""Small causal language models around the package's attention, many of them trained at once.

A *replica* is one model; the parameters of all replicas are stacked along a first axis, and
``torch.func.vmap`` runs the one module on each. So the layers are those of SelfAttentionNetwork,
and replicas do not touch each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.seeds import generator


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
    """Embeddings of symbols and places, a causal network with skip connections and layer norms
    (after each sublayer), and a linear map to logits. float32."""

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
    """-log of the probability of each next symbol in nats, and the relative attention entropy."""
    module = LanguageModel(shape, seed=0)

    def one(own: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        logits, entropy = functional_call(module, own, (words[:, :-1],))
        losses = nn.functional.cross_entropy(logits.mT, words[:, 1:], reduction="none")
        return losses, entropy

    return vmap(one)(parameters, words)


def heads(parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of every head, (replicas, depth, heads, width, key_width)."""
    return parameters["network.weights.W_Q"], parameters["network.weights.W_K"]
