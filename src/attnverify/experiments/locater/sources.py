"""The language models read words of a hidden Markov source, with a known least loss, or real text.

States of the hidden Markov source follow a chain from its stationary law, each state emits a
symbol. The best predictor is the forward filter, so its loss is a floor for every model. The
entropy rate h lies in H(X_n | X_1..X_{n-1}, S_1) <= h <= H(X_n | X_1..X_{n-1}) for every n (Birch
1962; Cover and Thomas 2006, Theorem 4.5.1), both sides found here by going through all words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnverify.experiments import texts
from attnverify.support.errors import require, require_stochastic
from attnverify.support.seeds import generator

MOST_WORDS = 1 << 20


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """Row-stochastic float64 matrices: transition (states, states), emission (states, symbols)."""

    transition: Float[Tensor, "states states"]
    emission: Float[Tensor, "states symbols"]

    def __post_init__(self) -> None:
        require_stochastic("transition", self.transition)
        require_stochastic("emission", self.emission)
        require(float(self.transition.min()) > 0, "transition", "a zero entry", "positive entries")

    @classmethod
    def sticky(cls, symbols: int, stay: float, right: float) -> HiddenMarkov:
        """A source with one state a symbol, which stays and emits its own with given probabilities.

        stay, right: these probabilities; otherwise all others are equally likely.
        """

        def matrix(diagonal: float) -> Tensor:
            other = (1 - diagonal) / (symbols - 1)
            rest = torch.full((symbols, symbols), other, dtype=torch.float64)
            return rest.fill_diagonal_(diagonal)

        return cls(matrix(stay), matrix(right))

    @property
    def symbols(self) -> int:
        return self.emission.shape[1]

    def stationary(self) -> Float[Tensor, "states"]:
        """The law of the state that the chain keeps: pi P = pi, with sum 1."""
        equations = self.transition.T - torch.eye(len(self.transition)).double()
        equations[-1] = 1  # one equation follows from the others; the sum takes its place
        right = torch.zeros(len(equations)).double()
        right[-1] = 1
        return torch.linalg.solve(equations, right)

    def draw(
        self, batch: int, length: int, random: torch.Generator
    ) -> Int[Tensor, "{batch} {length}"]:
        """Independent sequences of symbols."""
        uniform = torch.rand(length, 2, batch, 1, generator=random, dtype=torch.float64)
        moves, emits = self.transition.cumsum(-1), self.emission.cumsum(-1)
        law = self.stationary().cumsum(-1).expand(batch, -1)
        out = []
        for to_state, to_symbol in uniform:
            state = _choose(law, to_state)
            out.append(_choose(emits[state], to_symbol))
            law = moves[state]
        return torch.stack(out, -1)

    def best_loss(self, words: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length-1"]:
        """-log P(X_t | X_1..X_{t-1}) in nats, t = 2..length: no predictor has less on average."""
        belief = self.stationary().expand(len(words), -1)
        losses = []
        for symbol in words.T:
            joint = belief * self.emission[:, symbol].T
            total = joint.sum(-1)
            losses.append(-total.log())
            belief = (joint / total[:, None]) @ self.transition
        return torch.stack(losses[1:], -1)

    def entropy_bounds(self, length: int) -> tuple[float, float]:
        """Lower and upper bound of the entropy rate in nats, from all words of this length.

        Sums of at most 2^20 positive terms in float64: rounding is below 10^-9.
        """
        words = self.symbols**length
        require(
            2 <= length and words <= MOST_WORDS,
            "length",
            length,
            f"at least 2, and at most {MOST_WORDS} words",
        )
        return (
            self._conditional(torch.diag(self.stationary()), length),
            self._conditional(self.stationary()[None], length),
        )

    def _conditional(self, start: Tensor, length: int) -> float:
        """H(X_n | X_1..X_{n-1}, G) from the weights P(G = g, S_1 = s) as rows, one a group."""
        joint, entropies = start[None], []  # (words, groups, states)
        for _ in range(length):
            emitted = joint[:, None] * self.emission.T[None, :, None, :]
            emitted = emitted.reshape(-1, *joint.shape[1:])
            entropies.append(torch.special.entr(emitted.sum(-1)).sum())
            joint = emitted @ self.transition
        return float(entropies[-1] - entropies[-2])


def _choose(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds the uniform number."""
    index = (cumulative <= uniform).sum(-1)
    return index.clamp(max=cumulative.shape[-1] - 1)  # the last sum may round below 1


CHARACTERS = 400_000


def documentation(characters: int = CHARACTERS) -> tuple[str, ...]:
    """The first documentation strings that have so many characters together.

    Of modules, classes and functions of top-level modules in alphabetical order; the same on every
    Python (:mod:`attnverify.experiments.texts`).
    """
    require(0 <= characters <= CHARACTERS, "characters", characters, f"0 to {CHARACTERS}")
    found, total = [], 0
    for each in texts.stored().docstrings.values():
        for text in each:
            if total >= characters:
                return tuple(found)
            found.append(text)
            total += len(text)
    return tuple(found)


def paragraphs(path: Path) -> tuple[str, ...]:
    """The paragraphs of a local text file in UTF-8, in order."""
    require(path.is_file(), "text", path, "an existing text file")
    text = path.read_text(encoding="utf-8", errors="replace")
    return tuple(part.strip() for part in text.split("\n\n") if part.strip())


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
        """Fresh words, so that a model cannot learn any by heart."""
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
        """None: the least loss is not known for real text."""
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
