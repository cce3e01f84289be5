"""Results found again by what they follow from: a key, and the files that were read on the way.

A key has a list of the names of files that were read when a result was found. A result is found
again if all of them hold what they held then. So versions of a file do not push out one another.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnverify.runtime.cache import Key, Store

SOURCE = Path(__file__).resolve().parents[2]  # the names of files are paths from here
MOST = 8  # lists of names that one key keeps


class Kept:
    """The results in a store, as the files are while this object lives.

    What was written since it was made is of an unknown text: nothing that follows from it is kept.
    """

    def __init__(self, store: Store, folder: Path = SOURCE) -> None:
        self.store, self.folder = store, folder
        self._made, self._digests = time.time_ns(), dict[str, str]()

    def get(self, key: Key) -> Any | None:
        """The result of a key, None if there is none of the files as they are."""
        for names in self.store.get(_lists(key)) or ():
            value = self.store.get(self._whole(key, names))
            if value is not None:
                return value
        return None

    def put(self, key: Key, names: Sequence[str], value: Any) -> None:
        """Keep a result (JSON) that was found by reading these files, unless one was written."""
        names = sorted(names)
        if not all(map(self.unwritten, names)):
            return
        self.store.put(self._whole(key, names), value)
        known = self.store.get(_lists(key)) or []
        if known[:1] != [names]:
            others = [other for other in known if other != names]
            self.store.put(_lists(key), [names, *others][:MOST])

    def unwritten(self, name: str) -> bool:
        """Whether a file is there and was not written since this was made."""
        try:
            stat = (self.folder / name).stat()
        except OSError:
            return False
        return max(stat.st_mtime_ns, stat.st_ctime_ns) < self._made

    def digest(self, names: Sequence[str]) -> str:
        """SHA-256 of the names of files and of what they hold; a file may be missing."""
        lines = "".join(f"{name}\0{self._digest(name)}\n" for name in names)
        return hashlib.sha256(lines.encode()).hexdigest()

    def _whole(self, key: Key, names: Sequence[str]) -> Key:
        return {**key, "files": self.digest(names)}

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            path = self.folder / name
            content = path.read_bytes() if path.is_file() else None
            found = "" if content is None else hashlib.sha256(content).hexdigest()
            self._digests[name] = found
        return self._digests[name]


def _lists(key: Key) -> Key:
    return {**key, "what": f"files of {key['what']}"}
