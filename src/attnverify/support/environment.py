"""Versions and kind of machine, which reports and tables record about where they were made."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Packages that no requirement leads to: only their files are read, not their dependencies used.
ALONE = ("rxnmapper",)
PACKAGES = ("attnverify", "torch", "numpy", "sympy", "python-flint", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def machine() -> dict[str, str | int]:
    """System, architecture and number of cores, but nothing that identifies one machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
    }


@cache
def code_digest() -> str:
    """SHA-256 of the package's files, by name and content, as they are at the first call."""
    return digest_of(Path(__file__).parents[1])


def digest_of(root: Path) -> str:
    """SHA-256 of all files of a folder, data too, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


@cache
def processor() -> str:
    """Model name of the processor, which decides the instructions that numerical libraries use."""
    listing = Path("/proc/cpuinfo")  # where the standard library has no name to give
    text = listing.read_text() if listing.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found[1] if found else platform.processor()


#: Settings of numerical libraries and of plots that can change what comes out. TORCH_ and not
#: TORCH: other packages set TORCHINDUCTOR_CACHE_DIR when they are imported.
VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|ONEDNN|DNNL|NPY|TORCH|ATEN|MPL|SYMPY|KMP)_[A-Z_]*|MPLBACKEND|MPLCONFIGDIR"
    r"|GLIBC_TUNABLES|PYTHONHASHSEED|ATTNVERIFY_NOTEBOOKS"
)


def variables() -> dict[str, str]:
    """The environment variables that are set and that can change a result."""
    return {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)}


@cache
def installed(*extras: str) -> dict[str, str]:
    """Versions of Python and of every installed package that the project's requirements lead to.

    extras: optional groups of requirements to follow too. Packages of :data:`ALONE` are
    included; packages that are not installed are left out.
    """
    found = {"python": platform.python_version()}
    for name in ALONE:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    waiting = [("attnverify", extra) for extra in ("", *extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = package.version
        for needed in map(Requirement, package.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), e) for e in ("", *needed.extras)]
    return found


def kind_of_machine() -> dict[str, Any]:
    """Properties of the machine and its settings that can change the last digits of a result."""
    return {**machine(), "processor": processor(), "variables": variables()}


#: Variables that no piece of work follows: of threads, as a piece has one, of the order of hashes,
#: which differs between any two runs, of figures and folders of chapters.
FREE = re.compile(r"(OMP|KMP)_\w*|\w+_NUM_THREADS|PYTHONHASHSEED|MPL\w+|ATTNVERIFY_NOTEBOOKS")


def identity() -> dict[str, str]:
    """What must be equal for evidence to be equal: versions, the package's code, the machine.

    Of the machine all that :func:`kind_of_machine` holds but for the number of cores and the
    variables of :data:`FREE`; and the instructions that torch uses, which need not be all that the
    processor has.
    """
    import torch

    kind = {key: str(machine()[key]) for key in ("system", "architecture")}
    kind |= {"processor": processor(), "instructions": torch.backends.cpu.get_cpu_capability()}
    settings = {name: value for name, value in variables().items() if not FREE.fullmatch(name)}
    return {**versions(), "code": code_digest(), **kind, **settings}
