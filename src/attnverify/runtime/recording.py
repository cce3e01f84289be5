"""What this process has read: the modules that it imported and the files that it opened.

Importing this module starts the record. A piece of work that runs in a process of its own depends
on no other files. Chapters are left out: what follows from one has its cells in its key. What is
opened by native code (safetensors) is told by whoever has it opened, by the same audit event; what
another process reads is not seen.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from attnverify.runtime.kept import SOURCE
from attnverify.support.extras import INSPECT

PACKAGES = tuple(f"{SOURCE / name}{os.sep}" for name in ("attnverify", INSPECT))
ROOT = SOURCE.parent
CHECKOUT = SOURCE.name == "src" and (ROOT / "pyproject.toml").is_file()
_OPENED: set[str] = set()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str):
        if not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            _OPENED.add(os.path.abspath(arguments[0]))


sys.addaudithook(_note)


def files() -> list[str]:
    """The files of both packages, and of their checkout, that were read; paths from their folder.

    >>> "attnverify/runtime/recording.py" in files()
    True
    """
    modules = [getattr(m, "__dict__", {}).get("__file__") for m in list(sys.modules.values())]
    paths = {os.path.realpath(path) for path in {*modules, *_OPENED} if path}
    return sorted(os.path.relpath(path, SOURCE) for path in paths if _counts(path))


def _counts(path: str) -> bool:
    if path.endswith((".pyc", ".md")) or not os.path.isfile(path):
        return False
    if path.startswith(PACKAGES):
        return True
    rest = path.removeprefix(f"{ROOT}{os.sep}")  # not what is installed, built or of git
    return CHECKOUT and rest != path and not rest.startswith((".", "_"))
