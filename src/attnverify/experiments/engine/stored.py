"""Tensors on disk with a digest of all they hold, and folders that one run has to itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import filelock
import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnverify.support.errors import InputError, require
from attnverify.support.files import half_written, write_bytes

LOCK, PROBE = ".lock", "probe"
WRITTEN = (PROBE, "*.safetensors", "*.jsonl", "*.json")  # names of the files that are written here
Tensors = Mapping[str, Tensor]


def digest(tensors: Tensors, words: Mapping[str, str]) -> str:
    """SHA-256 of names, types, shapes and every bit of the tensors, and of the words."""
    found = hashlib.sha256()

    def add(content: bytes) -> None:
        found.update(len(content).to_bytes(8, "big") + content)  # lengths keep parts apart

    for name, value in sorted(words.items()):
        add(f"{name}={value}".encode())
    for name, tensor in sorted(tensors.items()):
        add(f"{name}: {tensor.dtype} {tuple(tensor.shape)}".encode())
        add(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def save(path: Path, tensors: Tensors, words: Mapping[str, str]) -> None:
    """Write tensors and words with their digest; raises InputError if the disk does not let us."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    content = safetensors.torch.save(plain, {**words, "digest": digest(plain, words)})
    with told(path):
        write_bytes(path, content)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and words of :func:`save`; raises InputError unless their digest is right."""
    try:
        with safe_open(path, framework="pt") as file:
            words = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"folder: got {path.name}, which is truncated or not ours "
            f"({type(error).__name__}: {error}); remove it to start again"
        ) from error
    stated = words.pop("digest", "none")
    require(
        stated == digest(tensors, words),
        "folder",
        f"{path.name}, whose content is not what was written",
        "the file as it was written; remove it to start again",
    )
    return tensors, words


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn errors of the system while ``path`` is written into an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"folder: got {path.parent}, where {path.name} cannot be written ({error.strerror}), "
            "expected a folder to write to; what was saved before is whole"
        ) from error


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Hold a folder alone: it is made, locked, and cleared of what killed writers left.

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
        _try_to_write(folder)
        _sweep(folder)
        yield
    finally:
        lock.release()


def _try_to_write(folder: Path) -> None:
    """Write some bytes, since a full disk still makes empty files."""
    with told(folder / PROBE):
        write_bytes(folder / PROBE, bytes(4096))
        os.unlink(folder / PROBE)


def _sweep(folder: Path) -> None:
    """Remove temporary files; under the lock nobody can be writing them."""
    for name in WRITTEN:
        for left in half_written(folder, name):
            os.unlink(left)
