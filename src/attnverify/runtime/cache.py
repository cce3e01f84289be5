"""Finished work kept between runs: one small file an entry, found by all that the work depends on.

A key is JSON: everything that the result follows from. The entry's file is named by the key's
SHA-256, written whole by a rename, and carries a digest of its value; a damaged or foreign entry
is as good as none, and is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

from attnverify.support.errors import InputError
from attnverify.support.files import half_written, read_json, write_text

VARIABLE = "ATTNVERIFY_STORE"  # environment: folder of the store, or "none" for no store
FORMAT = "attnverify store 1"
LARGEST = 512 << 20  # bytes kept; what was not used for longest goes first
ENTRY = f"{'?' * 64}.json"
#: Seconds after which a file that is still half written is of a killed process. Writing one takes
#: less than a second; a day also covers clocks that differ where machines share the folder.
ABANDONED = 24 * 3600
CHECKOUT = Path(__file__).resolve().parents[3]

Key = Mapping[str, Any]


class Store:
    """Results by key in one folder, which several processes may use at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: Key) -> Any | None:
        """The value kept under a key, or None: not there, damaged, or of another format."""
        path = self._path(key)
        value = opened(path, {"format": FORMAT, "key": key}, "value", LARGEST)
        if value is not None:
            with contextlib.suppress(OSError):  # a store that is read-only is used all the same
                os.utime(path)  # its last use, for prune
        return value

    def put(self, key: Key, value: Any) -> None:
        """Keep a value (JSON); a full or read-only disk costs the entry, not the work."""
        entry = sealed({"format": FORMAT, "key": key}, "value", value)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self._path(key), json.dumps(entry))

    def prune(self, largest: int = LARGEST) -> None:
        """Remove the entries that were not used for longest until the rest is small enough.

        And, before, what killed processes left half written. Other processes may do the same at
        the same time; a file that cannot be removed stays, and counts.
        """
        end = time.time() - ABANDONED
        found = self._files(half_written(self.folder, ENTRY))
        half = [file for file in found if file[0] > end or not _removed(file[2])]
        entries = sorted(self._files(self.folder.glob("*.json")))
        total = sum(size for _, size, _ in [*half, *entries])
        for _, size, path in entries:
            if total <= largest:
                return
            if _removed(path):
                total -= size

    @staticmethod
    def _files(paths: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, size and path of the files that are still there when looked at.

        A link to nothing is none of them.
        """
        for path in paths:
            with contextlib.suppress(OSError):
                stat = path.stat()
                yield stat.st_mtime, stat.st_size, path

    def _path(self, key: Key) -> Path:
        return self.folder / f"{digest(key)}.json"


def _removed(path: Path) -> bool:
    """Whether the file is gone, by this or by another process."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def sealed(head: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A value under its name, after what it belongs to (``head``) and its digest."""
    return {**head, "sha256": digest(value), name: value}


def opened(path: Path, head: Mapping[str, Any], name: str, largest: int) -> Any | None:
    """The value of a file that holds what :func:`sealed` makes of it and nothing else, or None.

    The digest finds damage and no forgery.
    """
    try:
        with read_json(path, "file", "kept work", largest) as body:
            if _text(body) == _text(sealed(head, name, body[name])):
                return body[name]
    except (InputError, OSError):
        pass
    return None


def digest(value: Any) -> str:
    """SHA-256 of a value as JSON, whatever the order of its keys."""
    return hashlib.sha256(_text(value).encode()).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def default() -> Store | None:
    """The store of this machine: what the environment names, the checkout's, or the user's."""
    named = os.environ.get(VARIABLE)
    if named == "none":
        return None
    if named:
        return Store(Path(named))
    if (CHECKOUT / "pyproject.toml").is_file():
        return Store(CHECKOUT / "_build" / "store")
    return Store(Path(platformdirs.user_cache_dir("attnverify")))
