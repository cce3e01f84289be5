"""A hidden Markov source: drawn, predicted as well as possible, its entropy rate enclosed.

States follow a Markov chain from its stationary law, each state emits a symbol. The best
predictor is the forward filter, so its loss is a floor for every model. The entropy rate h lies in
H(X_n | X_1..X_{n-1}, S_1) <= h <= H(X_n | X_1..X_{n-1}) for every n (Birch 1962; Cover and
Thomas 2006, Theorem 4.5.1), both sides found here by going through all words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnverify.support.errors import require, require_stochastic

MOST_WORDS = 1 << 20


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """transition: (states, states) and emission: (states, symbols), row-stochastic, float64."""

    transition: Float[Tensor, "states states"]
    emission: Float[Tensor, "states symbols"]

    def __post_init__(self) -> None:
        require_stochastic("transition", self.transition)
        require_stochastic("emission", self.emission)
        require(float(self.transition.min()) > 0, "transition", "a zero entry", "positive entries")

    @classmethod
    def sticky(cls, symbols: int, stay: float, right: float) -> HiddenMarkov:
        """One state a symbol: the state stays with probability ``stay`` and emits its own symbol
        with probability ``right``; otherwise all others are equally likely."""

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
            entropies.append(_entropy(emitted.sum(-1)))
            joint = emitted @ self.transition
        return float(entropies[-1] - entropies[-2])


def _entropy(weights: Tensor) -> Tensor:
    return torch.special.entr(weights).sum()


def _choose(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds the uniform number."""
    index = (cumulative <= uniform).sum(-1)
    return index.clamp(max=cumulative.shape[-1] - 1)  # the last sum may round below 1
