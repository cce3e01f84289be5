"""The text that the experiments read, the same on every Python: it comes with the package.

Documentation strings of the standard library of Python 3.11.7, module by module, and the essay on
heap queues by François Pinard (``heapq.__about__``), both under the license in
``LICENSE-Python.txt``. ``maintenance/gather_texts.py`` made the file.
"""

from __future__ import annotations

import hashlib
import json
import lzma
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
