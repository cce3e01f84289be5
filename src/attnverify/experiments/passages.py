"""Real English text that every Python carries: the essay on heap queues by François Pinard."""

from __future__ import annotations

import hashlib
import heapq
import re

from attnverify.errors import require


def words() -> list[str]:
    """The words of ``heapq.__about__`` without its diagram: paragraphs of mostly letters."""
    paragraphs = re.split(r"\n\s*\n", heapq.__about__)
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


def digest() -> str:
    """SHA-256 of the words, to tell whether another Python carries another text."""
    return hashlib.sha256(" ".join(words()).encode()).hexdigest()
