"""Folders that one run has to itself, and what is said where the system refuses to write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from attnverify.support.errors import InputError
from attnverify.support.files import half_written, write_bytes

LOCK, PROBE = ".lock", "probe"
WRITTEN = (PROBE, "*.safetensors", "*.jsonl", "*.json")  # names of the files that runs write


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Writing to ``path``: what the system refuses becomes an InputError that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"folder: got {path.parent}, where {path.name} cannot be written ({error.strerror}), "
            "expected a folder to write to; what was saved before is whole"
        ) from error


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Have a folder to oneself: it is made, locked, and rid of what killed writers left.

    Raises InputError for a folder that cannot be made or written to, and at once while another
    run has it. The system frees the lock of a process that was killed.
    """
    lock = filelock.FileLock(folder / LOCK, timeout=0)
    with told(folder / LOCK):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except filelock.Timeout as error:  # which is an OSError too
            raise InputError(
                f"folder: got {folder}, which another run is using, expected a folder of its own"
            ) from error
    try:
        with told(folder / PROBE):
            write_bytes(folder / PROBE, bytes(4096))  # a full disk still makes empty files
            os.unlink(folder / PROBE)
        for name in WRITTEN:  # under the lock nobody can be writing them
            for left in half_written(folder, name):
                os.unlink(left)
        yield
    finally:
        lock.release()
