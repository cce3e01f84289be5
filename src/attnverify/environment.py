"""Versions and machine kind: what a report or a table of results says about where it was made."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("attnverify", "torch", "numpy", "sympy", "python-flint", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def machine() -> dict[str, str | int]:
    """System, architecture and number of cores; nothing that names one machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
    }


@cache
def code_digest() -> str:
    """SHA-256 of the package's files, by name and content, as they are at the first call."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()
