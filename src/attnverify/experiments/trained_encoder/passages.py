"""Real English text that every Python carries: the essay on heap queues by François Pinard."""

from __future__ import annotations

import hashlib
import heapq
import re

from attnverify.errors import require

#: Of the words in the Pythons that measured the committed tables.
DIGEST = "4474f81249fee190cd361770ce58fd5f39deaacd5adc60a97e522c6a17c6619a"


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


def require_same_text() -> None:
    """Raise InputError unless this Python carries the text of the committed tables."""
    found = hashlib.sha256(" ".join(words()).encode()).hexdigest()
    require(found == DIGEST, "heapq.__about__", f"SHA-256 {found[:12]}", f"SHA-256 {DIGEST[:12]}")
