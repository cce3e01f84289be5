"""Files that somebody else made: regular ones, by plain names, of limited size.

All that a folder of a model makes a library raise comes out of here as one line.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import Repr
from typing import Any

from attnverify.support.errors import InputError, in_words, require

#: Bytes of a file that is read whole; of others 128 MiB.
LARGEST = {"config.json": 1 << 20, "tokenizer_config.json": 1 << 20}
OTHERS = 128 << 20
LARGEST_IDS = 16 << 20  # bytes of a file of token ids
NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def shown(value: Any) -> str:
    """A value of a file in an error message: short, on one line, however deep or long it is."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    return short.repr(value)


@contextmanager
def reading(argument: str, what: str) -> Iterator[None]:
    """What a library raises while it reads a folder is one line that says of what.

    Only calls of libraries stand in such a block: a mistake of this package is to be seen.
    """
    try:
        yield
    except Exception as error:
        given = f"{what}, which does not load ({in_words(error)})"
        raise InputError(f"{argument}: got {given}, expected a whole one") from error


def regular(folder: Path, name: str) -> Path:
    """The file of this name in a folder, which must be one: no device or pipe, nothing outside.

    A link may lead to another file of the folder and, in a hub's cache, from its ``snapshots`` to
    its ``blobs``. folder: without links. Raises InputError (argument ``model``).
    """
    plain = name not in ("", ".", "..") and not set(name) & set("/\\\0")
    require(plain, "model", f"the file name {shown(name)}", "plain names, of files in the folder")
    try:
        file = (folder / name).resolve(strict=True)
        kind = file.stat().st_mode
    except (OSError, RuntimeError) as error:
        words = f"{shown(name)}, which cannot be read ({type(error).__name__})"
        raise InputError(f"model: got {words}, expected a regular file") from error
    homes = [folder]
    if folder.parent.name == "snapshots":
        homes.append(folder.parent.parent / "blobs")
    outside = f"{shown(name)}, a link that leads out of the folder"
    require(file.parent in homes, "model", outside, "a file of the folder, or of its hub cache")
    require(stat.S_ISREG(kind), "model", f"{shown(name)}, which is no file", "a regular file")
    return file


def there(folder: Path, name: str) -> bool:
    """Whether there is anything of this name, be it a file or not."""
    return os.path.lexists(folder / name)


def content(folder: Path, name: str) -> str:
    """The text of such a file, of at most so many bytes as LARGEST says."""
    return text_of(regular(folder, name), "model", LARGEST.get(name, OTHERS))


def text_of(file: Path, argument: str, most: int) -> str:
    """A regular file's text in UTF-8, of at most so many bytes; raises InputError."""
    name = shown(file.name)
    require(file.is_file(), argument, f"no file {shown(str(file))}", "a regular file")
    with reading(argument, name), file.open("rb") as opened:
        raw = opened.read(most + 1)
    require(len(raw) <= most, argument, f"more than {most:,} bytes in {name}", "fewer")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        given = f"{name}, which is no text ({error})"
        raise InputError(f"{argument}: got {given}, expected UTF-8") from error


def parsed(folder: Path, name: str) -> Any:
    """The same file as JSON."""
    text = content(folder, name)
    with reading("model", f"{name}, which is truncated or no JSON"):
        return json.loads(text)


def ids_from(file: Path) -> list[int]:
    """Token ids from a file: a JSON list, or whole numbers with spaces between."""
    expected = "token ids: a JSON list of whole numbers, or these with spaces or lines between"
    text = text_of(file, "tokens", LARGEST_IDS).strip()
    found: Any
    if text.startswith("["):
        with reading("tokens", f"{shown(file.name)}, which is no JSON"):
            found = json.loads(text)
    else:
        found = [int(each) if NUMBER.fullmatch(each) else each for each in text.split()]
    require(bool(found), "tokens", f"no token in {shown(file.name)}", expected)
    bad = [each for each in found if type(each) is not int]
    require(not bad, "tokens", f"{shown(bad[0]) if bad else ''} in {shown(file.name)}", expected)
    return found
