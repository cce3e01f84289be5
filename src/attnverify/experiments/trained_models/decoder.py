"""A small decoder of Llama's form on bytes: its text, configuration, start and loss.

It learns from the documentation strings of the package's text; one in ten is held out.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from attnverify.experiments import texts
from attnverify.experiments.engine.model import Row
from attnverify.experiments.engine.train import Parameters, stream
from attnverify.support.extras import import_transformers
from attnverify.support.seeds import generator

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


BETWEEN = b"\n\n"  # two documents
EVERY = 10  # one document of so many is held out


class Corpus(NamedTuple):
    """Bytes as whole numbers 0..255, (length,) int64 each; no document is in both."""

    train: Tensor
    held_out: Tensor


@cache
def corpus() -> Corpus:
    """All distinct documentation strings of the package's text, in its order."""
    every = dict.fromkeys(t for each in texts.stored().docstrings.values() for t in each)
    documents = [text.strip().encode() for text in every if text.strip()]
    unseen = documents[EVERY - 1 :: EVERY]
    seen = [each for i, each in enumerate(documents) if i % EVERY != EVERY - 1]
    return Corpus(_joined(seen), _joined(unseen))


def _joined(documents: list[bytes]) -> Tensor:
    return torch.tensor(list(BETWEEN.join(documents)), dtype=torch.int64)


#: What config.json says: 4 layers, 4 heads that share 2 keys, rotary positions, gated MLPs.
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
    "torch_dtype": "float32",
}
CONTEXT = CONFIG["max_position_embeddings"]
NAME = "small-decoder"


def model() -> LlamaForCausalLM:
    """The module, with weights that are not those of any training."""
    transformers = import_transformers()
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG)).eval()


def start(module: nn.Module, seed: int) -> Parameters:
    """Normal weights of deviation 1/sqrt(inputs), embeddings of 1/sqrt(width).

    What writes to the stream, twice a layer, is smaller by the root of the number of writers.
    """
    random, found = generator(seed, NAME), {}
    writers = 2 * CONFIG["num_hidden_layers"]
    for name, value in module.named_parameters():
        narrow = name.endswith(("o_proj.weight", "down_proj.weight"))
        size = (value.shape[-1] * (writers if narrow else 1)) ** -0.5
        drawn = torch.randn(value.shape, generator=random) * size
        found[name] = torch.ones_like(value) if "norm" in name else drawn
    return {name: value.detach() for name, value in found.items()}


def losses(module: nn.Module, parameters: Parameters, words: Tensor) -> Tensor:
    """-log p of every byte but the first given those before it, in nats; (batch, length - 1)."""
    logits = functional_call(module, parameters, (words[:, :-1],), {"use_cache": False}).logits
    return nn.functional.cross_entropy(logits.mT, words[:, 1:], reduction="none")


def windows(text: Tensor, context: int, step: int) -> Tensor:
    """Pieces of context + 1 bytes that begin every ``step`` bytes, (pieces, context + 1)."""
    return text.unfold(0, context + 1, step)


class Goals:
    """Loss of a step and metrics of the trainer. ``batch`` windows of ``context`` bytes a step."""

    def __init__(self, seed: int, batch: int, context: int, unseen: int) -> None:
        self.seed, self.batch, self.context = seed, batch, context
        self.module, text = model(), corpus()
        self.pieces = windows(text.train, context, 1)
        self.unseen = windows(text.held_out, context, context)[:unseen]

    def start(self) -> Parameters:
        return start(self.module, self.seed)

    def loss(self, parameters: Parameters, done: int) -> Tensor:
        random = stream(self.seed, NAME, done)
        chosen = torch.randint(len(self.pieces), (self.batch,), generator=random)
        return losses(self.module, parameters, self.pieces[chosen]).mean()

    def measure(self, parameters: Parameters, done: int) -> Row:
        """Bits per byte of the held-out windows."""
        bits = losses(self.module, parameters, self.unseen).mean() / math.log(2)
        return {"bits": float(f"{float(bits):.6g}")}


def scored(
    module: nn.Module, parameters: Parameters, pieces: int | None = None
) -> Float[Tensor, "windows bytes"]:
    """-log2 p of held-out bytes; each has half a context or more before it. float64 results.

    pieces: of so many windows, all if None. The first half of the text's first window is not
    scored.
    """
    half = CONTEXT // 2
    every = windows(corpus().held_out, CONTEXT, half)[:pieces]
    with torch.no_grad():
        found = [losses(module, parameters, part)[:, half:].double() for part in every.split(32)]
    return torch.cat(found) / math.log(2)
