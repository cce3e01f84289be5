"""The text that the experiments read, the same on every Python: it comes with the package.

Documentation strings of the standard library of Python 3.11.7, module by module, and the essay on
heap queues by François Pinard (``heapq.__about__``), both under the license in
``LICENSE-Python.txt``. ``maintenance/gather_texts.py`` made the file. Passages of English are words
of the essay and, behind its end, of the documentation strings.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from attnverify.support.errors import InputError, require

FILE = "python-3.11.json.xz"
#: SHA-256 of the text before compression.
DIGEST = "2e9b4b17cad8857a7addde596679403239f8b29f4895185e4b6620e66434f50c"


class Texts(NamedTuple):
    """python: the version they come from; docstrings: of every module, in the order of its source;
    essay: ``heapq.__about__``."""

    python: str
    docstrings: dict[str, list[str]]
    essay: str


@cache
def stored() -> Texts:
    """The texts; raises InputError unless they are those of the committed tables."""
    try:
        content = lzma.decompress((resources.files(__name__) / FILE).read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise InputError(
            f"text: got {FILE}, which cannot be read ({error}), expected that of the package; "
            "install it again"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    require(
        found == DIGEST,
        "text",
        f"{FILE} with SHA-256 {found[:12]}",
        f"SHA-256 {DIGEST[:12]}, the text of the committed tables; install the package again",
    )
    return Texts(**json.loads(content))


def words() -> list[str]:
    """The words of ``heapq.__about__`` without its diagram: paragraphs of mostly letters.

    The same on every Python (:mod:`attnverify.experiments.texts`).
    """
    return _prose(stored().essay)


@cache
def _with_documentation() -> list[str]:
    """The words of the essay and then those of every module's documentation strings, once each."""
    every = dict.fromkeys(t for each in stored().docstrings.values() for t in each)
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
