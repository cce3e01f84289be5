"""Exact peak of the live tensor memory that a call allocates."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveStorages(TorchDispatchMode):
    """Counts the bytes of every storage born inside the ``with`` block while it lives.

    A storage is counted once, by its address, when an operation first returns a tensor on it, and
    given back when torch frees it. Storages that operands already had (inputs, weights, views of
    them) are not counted. Not seen: scratch space that a kernel allocates and frees by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None) -> Any:
        known = set(map(_key, _tensors((args, kwargs or {})))) - self.live.keys()
        result = function(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            if _key(tensor) not in known:
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.live:
            return
        self.live[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.now -= self.live.pop(key, 0)


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def peak_bytes(call: Callable[[], Any]) -> int:
    """Largest number of bytes alive at once in tensors that ``call`` made, its result included."""
    with LiveStorages() as storages:
        result = call()
    del result
    return storages.peak
