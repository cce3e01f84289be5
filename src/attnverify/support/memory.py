"""Checks that an array fits into the free memory before it is made."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from attnverify.support.errors import require

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def available(device: torch.device) -> float:
    """Free bytes for a new tensor on the device; infinite where the system does not tell."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return min(_of_machine(), _of_group()) if device.type == "cpu" else math.inf


def require_memory(
    argument: str, shape: tuple[int, ...], like: torch.Tensor, what: str, instead: str
) -> None:
    """Raises InputError if an array of this shape, like ``like``, exceeds the free memory.

    The limit is the memory that is free at the time (of the machine, and of the control group the
    process runs in). instead: what the caller can do.
    """
    needed = math.prod(shape) * like.element_size()
    require_bytes(argument, needed, like.device, f"{what}, shape {shape}, {like.dtype}", instead)


def require_bytes(
    argument: str, needed: int | float, device: torch.device, what: str, instead: str
) -> None:
    """Raises InputError if so many bytes are more than what is free; see :func:`require_memory`."""
    free = available(device)
    expected = f"at most the {readable(free)} free ({instead})"
    require(needed <= free, argument, f"{readable(needed)} of {what}", expected)


def _of_machine() -> float:
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return 1024.0 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return _physical()


def _physical() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return math.inf


def _of_group() -> float:
    try:
        limit = int((CGROUP / "memory.max").read_text(encoding="ascii"))
        return float(limit) - int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no group, or "max"
        return math.inf


def readable(size: int | float) -> str:
    """A number of bytes in words."""
    return f"{size / 2**30:.3g} GiB" if size >= 2**27 else f"{size / 2**20:.3g} MiB"
