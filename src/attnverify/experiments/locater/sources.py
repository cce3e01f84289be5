"""What the language models read: a hidden Markov source with a known floor, and real text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnverify.experiments.locater.hidden_markov import HiddenMarkov
from attnverify.support.errors import require
from attnverify.support.seeds import generator

UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, eq=False)
class MarkovSource:
    """Words drawn from a hidden Markov model."""

    model: HiddenMarkov

    @property
    def symbols(self) -> int:
        return self.model.symbols

    def batch(
        self, batch: int, length: int, random: torch.Generator
    ) -> Int[Tensor, "{batch} {length}"]:
        """Fresh words: a model cannot learn any by heart."""
        return self.model.draw(batch, length, random)

    def held_out(self, words: int, length: int) -> Int[Tensor, "{words} {length}"]:
        """The same words for every model."""
        return self.model.draw(words, length, generator(0, "held-out words"))

    def floor(self, words: Int[Tensor, "words length"]) -> Float[Tensor, "words length-1"] | None:
        """The least possible loss in nats, of the predictor that knows the model."""
        return self.model.best_loss(words)


@dataclass(frozen=True, eq=False)
class TextSource:
    """Characters of real text, the rarest taken as one; every tenth piece of it is held out."""

    alphabet: str
    known: Int[Tensor, "known"]
    unseen: Int[Tensor, "unseen"]

    @classmethod
    def of(cls, pieces: Sequence[str], symbols: int = 64) -> TextSource:
        """The ``symbols - 1`` most common characters and one for all others."""
        count = Counter("".join(pieces))
        common = sorted(count, key=lambda c: (-count[c], c))[: symbols - 1]
        alphabet = "".join(common) + UNKNOWN
        place = {c: k for k, c in enumerate(alphabet)}

        def codes(chosen: Sequence[str]) -> Tensor:
            text = "\n\n".join(chosen)
            return torch.tensor([place.get(c, len(alphabet) - 1) for c in text], dtype=torch.long)

        known = [piece for k, piece in enumerate(pieces) if k % 10]
        return cls(alphabet, codes(known), codes(pieces[::10]))

    @property
    def symbols(self) -> int:
        return len(self.alphabet)

    def batch(
        self, batch: int, length: int, random: torch.Generator
    ) -> Int[Tensor, "{batch} {length}"]:
        """Pieces that start anywhere in the known text."""
        return _windows(self.known, batch, length, random)

    def held_out(self, words: int, length: int) -> Int[Tensor, "{words} {length}"]:
        """The same pieces of the held-out text for every model."""
        return _windows(self.unseen, words, length, generator(0, "held-out words"))

    def floor(self, words: Int[Tensor, "words length"]) -> Float[Tensor, "words length-1"] | None:
        """Not known for real text."""
        return None


Source = MarkovSource | TextSource


def _windows(codes: Tensor, batch: int, length: int, random: torch.Generator) -> Tensor:
    require(
        len(codes) > length,
        "text",
        f"{len(codes)} characters",
        f"more than {length}, in the known part and in the held-out tenth",
    )
    first = torch.randint(len(codes) - length, (batch,), generator=random)
    return codes[first[:, None] + torch.arange(length)]
