"""Real English text: passages of the essay on heap queues by François Pinard."""

from __future__ import annotations

import re

from attnverify.errors import require
from attnverify.experiments import texts


def words() -> list[str]:
    """The words of ``heapq.__about__`` without its diagram: paragraphs of mostly letters.

    The same on every Python (:mod:`attnverify.experiments.texts`).
    """
    paragraphs = re.split(r"\n\s*\n", texts.stored().essay)
    return [word for each in paragraphs if _is_prose(each) for word in each.split()]


def _is_prose(paragraph: str) -> bool:
    dense = "".join(paragraph.split())
    return len(dense) > 40 and sum(c.isalpha() for c in dense) > 0.7 * len(dense)


def passage(index: int, length: int) -> str:
    """``length`` consecutive words; passages of different index start at different places.

    Raises InputError for a length that the text does not have.
    """
    text = words()
    require(1 <= length <= len(text), "length", length, f"1 to {len(text)} words")
    require(index >= 0, "index", index, "a whole number >= 0")
    start = (index * 97) % (len(text) - length + 1)  # a prime, so that starts spread
    return " ".join(text[start : start + length])
