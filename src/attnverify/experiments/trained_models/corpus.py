"""The text of the small decoder as bytes: documentation strings, nine to learn, one held out."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnverify.experiments import texts

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
