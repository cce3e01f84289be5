"""Three small tasks: sorting letters, finding a convex hull, memorizing random labels.

Dong, Cordonnier, Loukas (2021, section 4) train on tasks of these kinds. Every task labels each
token of a sequence. The sizes here are this book's choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from attnverify.experiments import texts
from attnverify.support.errors import require
from attnverify.support.seeds import generator

#: Modules of the standard library whose documentation strings are the text to memorize.
MODULES = (
    "argparse",
    "difflib",
    "doctest",
    "inspect",
    "random",
    "statistics",
    "textwrap",
    "threading",
    "typing",
)
WORD = re.compile(r"[a-z]+")

Batch = tuple[Tensor, Tensor]  # inputs (networks, count, tokens[, 2]), labels (networks, ...)


@dataclass(frozen=True)
class Task:
    """A task for several networks at once.

    tokens: length of a sequence. labels: number of labels. vocabulary: number of different
    tokens, None if a token is a point of the plane. heads, width: of the networks trained on it.
    draw: (random numbers, count) to that many training sequences for each network. test: the
    sequences on which accuracy is measured, drawn once.
    """

    name: str
    tokens: int
    labels: int
    vocabulary: int | None
    heads: int
    width: int
    draw: Callable[[Generator, int], Batch]
    test: Batch


def sorting(networks: int, seed: int, count: int) -> Task:
    """Eight letters of an alphabet of ten; the label at place i is the i-th smallest letter."""

    def draw(random: Generator, count: int) -> Batch:
        letters = torch.randint(0, 10, (networks, count, 8), generator=random)
        return letters, letters.sort(-1).values

    return Task("sorting", 8, 10, 10, 2, 48, draw, draw(generator(seed, "sorting", "test"), count))


def convex_hull(networks: int, seed: int, count: int) -> Task:
    """Ten points, uniform in a square; the label says whether a point is a corner of their hull."""

    def draw(random: Generator, count: int) -> Batch:
        points = 2 * torch.rand(networks, count, 10, 2, generator=random) - 1
        return points, on_hull(points).long()

    test = draw(generator(seed, "convex-hull", "test"), count)
    return Task("convex-hull", 10, 2, None, 3, 48, draw, test)


def on_hull(points: Float[Tensor, "*batch points 2"]) -> Bool[Tensor, "*batch points"]:
    """Which points are corners of the convex hull, for points in general position.

    Point i is a corner exactly if some other point j has all others on one side of the line
    through i and j, the left side as seen from i.
    """
    edges = points[..., None, :, :] - points[..., :, None, :]  # edges[i, j] = x_j - x_i
    x, y = edges.unbind(-1)
    left = x[..., :, None] * y[..., None, :] - y[..., :, None] * x[..., None, :] >= 0
    others = ~torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
    return (left.all(-1) & others).any(-1)


def memorization(networks: int, seed: int, count: int) -> Task:
    """``count`` windows of 16 words, a random one of ten labels for every word; no rule to learn.

    The windows are cut from the standard library's documentation strings, other windows and other
    labels for each network. Accuracy is measured on the training data: there is nothing else.
    """
    windows, vocabulary = documentation_windows(16)
    require(count <= len(windows), "count", count, f"at most the {len(windows)} windows there are")
    random = generator(seed, "memorization", "data")
    chosen = [torch.randperm(len(windows), generator=random)[:count] for _ in range(networks)]
    inputs = windows[torch.stack(chosen)]
    labels = torch.randint(0, 10, inputs.shape, generator=random)

    def draw(random: Generator, size: int) -> Batch:
        pick = torch.randint(0, count, (size,), generator=random)
        return inputs[:, pick], labels[:, pick]

    return Task("memorization", 16, 10, vocabulary, 2, 64, draw, (inputs, labels))


@cache
def documentation_windows(length: int) -> tuple[Int64[Tensor, "windows length"], int]:
    """Consecutive windows of words as numbers, and the number of different words.

    Words are runs of ASCII letters in lower case, numbered in the order in which they first
    appear. The text is the same on every Python (:mod:`attnverify.experiments.texts`).
    """
    library = texts.stored().docstrings
    words = [word for m in MODULES for text in library[m] for word in WORD.findall(text.lower())]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    coded = torch.tensor([numbers[word] for word in words])
    whole = len(words) // length
    return coded[: whole * length].reshape(whole, length), len(numbers)


TASKS = {"sorting": sorting, "convex-hull": convex_hull, "memorization": memorization}
