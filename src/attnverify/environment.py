"""Versions and machine kind: what a report or a table of results says about where it was made."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

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
