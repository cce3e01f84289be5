"""Tensors on disk with a digest of all they hold."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnverify.runtime.run_folder import own as own
from attnverify.runtime.run_folder import told as told
from attnverify.support.errors import InputError, require
from attnverify.support.files import write_bytes

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
    sys.audit("open", str(path), "r", os.O_RDONLY)  # or nobody would see it (runtime.recording)
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
