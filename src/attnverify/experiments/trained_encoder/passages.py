"""Real English text: passages of the essay on heap queues by François Pinard.

Behind its end come the documentation strings of the same Python, so that passages stay apart.
"""

from __future__ import annotations

import re
from functools import cache

from attnverify.experiments import texts
from attnverify.support.errors import require


def words() -> list[str]:
    """The words of ``heapq.__about__`` without its diagram: paragraphs of mostly letters.

    The same on every Python (:mod:`attnverify.experiments.texts`).
    """
    return _prose(texts.stored().essay)


@cache
def _with_documentation() -> list[str]:
    """The words of the essay and then those of every module's documentation strings, once each."""
    every = dict.fromkeys(t for each in texts.stored().docstrings.values() for t in each)
    return [*words(), *(word for text in every for word in _prose(text))]


def _prose(text: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", text)
    return [word for each in paragraphs if _is_prose(each) for word in each.split()]


def _is_prose(paragraph: str) -> bool:
    dense = "".join(paragraph.split())
    return len(dense) > 40 and sum(c.isalpha() for c in dense) > 0.7 * len(dense)


def passage(index: int, length: int) -> str:
    """``length`` consecutive words; passages start 97 words apart, in the essay and behind it.

    Raises InputError for a length that the text does not have.
    """
    text = _with_documentation()
    require(1 <= length <= len(text), "length", length, f"1 to {len(text)} words")
    require(index >= 0, "index", index, "a whole number >= 0")
    start = (index * 97) % (len(text) - length + 1)  # a prime, so that starts spread at last
    return " ".join(text[start : start + length])
