"""What a model is run on: token ids, embeddings or pixels, checked before it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attninspect.architecture import Architecture
from attnverify.support.errors import InputError, nearest, require, require_finite

EXPECTED = (
    "token ids (integers, (tokens,) or (batch, tokens)), embeddings ((batch,) tokens, width), "
    "pixels (batch, channels, height, width) or the model's keyword arguments"
)
DATA = ("input_ids", "inputs_embeds", "pixel_values", "src")
BY_TOKEN = ("attention_mask", "token_type_ids", "position_ids", "src_key_padding_mask")


@dataclass(frozen=True)
class Inputs:
    """Keyword arguments of the forward pass, and which tokens are no padding (None: all).

    shape: (batch, tokens), for pixels as many tokens as patches and one; data: the name of what
    holds the tokens.
    """

    arguments: dict[str, Any]
    mask: Tensor | None
    shape: tuple[int, int]
    data: str

    @classmethod
    def of(cls, model: Any, architecture: Architecture, inputs: Any) -> Inputs:
        """Checked and completed; raises InputError (argument ``inputs``)."""
        named = isinstance(inputs, Mapping)
        given = dict(inputs) if named else _named(model, inputs)
        given.pop("labels", None)  # of the loss, which nothing here reads
        names = [name for name in DATA if given.get(name) is not None]
        require(len(names) == 1, "inputs", f"{sorted(given)}", f"exactly one of {DATA}")
        name = names[0]
        _require_known(model, {key: v for key, v in given.items() if named or key != name})
        given = {key: _tensor(key, value) for key, value in given.items()}
        if architecture.tokens_first and given[name].ndim == 3:
            given[name] = given[name].transpose(0, 1)
        value = given[name] = _batched(name, given[name])
        _require_width(model, architecture, name, value)
        if name == "input_ids":
            _require_ids(model, value)
        else:
            require_finite("inputs", value)
        if name != "pixel_values":
            _require_positions(architecture, value.shape[1])
        known = signature(model.forward).parameters
        if architecture.causal and "use_cache" in known:
            given["use_cache"] = False
        if name not in known:  # of a module of someone's own, whatever it is called there
            given[next(iter(known))] = given.pop(name)
            name = next(iter(known))
        tokens = value.shape[1]
        if value.ndim == 4:
            tokens = 1 + math.prod(value.shape[-2:]) // model.config.patch_size**2
        return cls(_placed(model, given), _mask(given, value), (len(value), tokens), name)

    def twice(self) -> Inputs:
        """Each text followed by itself."""
        known = (self.data, *BY_TOKEN)
        more = {k: torch.cat([v, v], 1) for k, v in self.arguments.items() if k in known}
        mask = None if self.mask is None else torch.cat([self.mask, self.mask], 1)
        shape = self.shape[0], 2 * self.shape[1]
        return replace(self, arguments={**self.arguments, **more}, mask=mask, shape=shape)

    def changed(self, model: Any, last: bool) -> tuple[Inputs, Tensor]:
        """With the first, or last, valid token of each text changed, and its row (batch,).

        Of pixels it is a patch, of embeddings every entry. An id becomes another one, neither of
        them that of padding, by which RoBERTa numbers its positions.
        """
        value, valid = self.arguments[self.data].clone(), self.valid(*self.shape)
        config: Any = getattr(model, "config", None)
        texts = torch.arange(self.shape[0])
        if value.ndim == 4:
            size = config.patch_size
            start = [(n // size - 1) * size if last else 0 for n in value.shape[-2:]]
            patch = value[..., start[0] : start[0] + size, start[1] : start[1] + size]
            patch.copy_(_opposite(patch))
            rows = torch.full_like(texts, self.shape[1] - 1 if last else 1)
        elif value.ndim == 2:
            padding = getattr(config, "pad_token_id", None)
            free = valid if padding is None else valid & (value.cpu() != padding)
            rows = _end(torch.where(free.any(-1, keepdim=True), free, valid), last)
            size = getattr(config, "vocab_size", int(value.max()) + 1)
            for text, row in zip(texts.tolist(), rows.tolist(), strict=True):
                known = (padding, int(value[text, row]))
                others = (i for i in range(min(size, 3)) if i not in known)
                value[text, row] = next(others, known[1])
        else:
            rows = _end(valid, last)
            value[texts, rows] = _opposite(value[texts, rows])
        return replace(self, arguments={**self.arguments, self.data: value}), rows

    def valid(self, batch: int, tokens: int) -> Tensor:
        """(batch, tokens), True where there is no padding."""
        return torch.ones(batch, tokens, dtype=torch.bool) if self.mask is None else self.mask


def _opposite(x: Tensor) -> Tensor:
    """Of the same size, and other in every entry."""
    return torch.where(x == 0, 1.0, -x)


def _end(free: Tensor, last: bool) -> Tensor:
    """The first, or last, place of each row (batch, tokens) that is True."""
    tokens = free.shape[1]
    return tokens - 1 - free.flip(1).int().argmax(-1) if last else free.int().argmax(-1)


def _named(model: nn.Module, inputs: Any) -> dict[str, Any]:
    """Inputs that came alone, under the name of the argument they must be."""
    require(not isinstance(inputs, str), "inputs", "a text", EXPECTED + "; a folder reads texts")
    value = _array(inputs)
    if isinstance(model, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        return {"src": value}
    if not value.is_floating_point() or value.ndim < 2:  # which are no embeddings
        return {"input_ids": value}
    return {"pixel_values" if value.ndim == 4 else "inputs_embeds": value}


def _array(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError, OverflowError) as error:
        huge = isinstance(value, list) and any(type(v) is int and abs(v) >= 2**63 for v in value)
        given = "a whole number of more than 64 bits" if huge else type(value).__name__
        raise InputError(f"inputs: got {given}, expected {EXPECTED}") from error


def _tensor(name: str, value: Any) -> Any:
    """Lists and numpy arrays as tensors, with the axis of texts where it was left out."""
    if not isinstance(value, np.ndarray | list | tuple) and name not in DATA:
        return value[None] if name in BY_TOKEN and getattr(value, "ndim", 2) == 1 else value
    found = _array(value)
    return found[None] if name in BY_TOKEN and found.ndim == 1 else found


def _require_width(model: Any, architecture: Architecture, name: str, value: Tensor) -> None:
    """Raise InputError unless embeddings are as wide as the model's own."""
    if name == "src":
        layer: Any = architecture.layers[0]
        width = layer.self_attn.embed_dim
    elif name == "inputs_embeds" and hasattr(model, "get_input_embeddings"):
        width = model.get_input_embeddings().embedding_dim
    else:
        return
    given = f"{name} of width {value.shape[-1]}"
    expected = f"width {width}, the model's; ids are whole numbers, of an integer dtype"
    require(value.shape[-1] == width, "inputs", given, expected)


def _require_known(model: nn.Module, given: Mapping[str, Any]) -> None:
    """Raise InputError for an argument that the model does not name: it might ignore it."""
    known = signature(model.forward).parameters
    for name in given:
        what = f"the argument {name!r}{nearest(name, known)}"
        require(name in known, "inputs", what, f"one of {', '.join(known)}")


def _placed(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """All tensors on the model's device, floats in its dtype."""
    own = next(model.parameters())

    def at_home(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.to(own.device, own.dtype if value.is_floating_point() else value.dtype)

    return {name: at_home(value) for name, value in given.items()}


def _batched(name: str, value: Any) -> Tensor:
    value = torch.as_tensor(value)
    axes = {"input_ids": 2, "pixel_values": 4}.get(name, 3)
    shape = tuple(value.shape)
    require(value.ndim in (axes, axes - 1), "inputs", f"{name} of shape {shape}", EXPECTED)
    value = value if value.ndim == axes else value[None]
    require(min(value.shape) >= 1, "inputs", f"no token ({name} of shape {shape})", "one or more")
    return value


def _require_ids(model: Any, ids: Tensor) -> None:
    whole = not ids.is_floating_point() and ids.dtype != torch.bool
    require(whole, "inputs", f"ids of dtype {ids.dtype}", "whole numbers, of an integer dtype")
    size = getattr(model.config, "vocab_size", 2**63 - 1)  # a module of one's own may not say it
    worst = ids[(ids < 0) | (ids >= size)]
    given = f"token id {int(worst[0])}" if worst.numel() else ""
    expected = f"ids from 0 to {size - 1}: does the tokenizer belong to this model?"
    require(not worst.numel(), "inputs", given, expected)


def _require_positions(architecture: Architecture, tokens: int) -> None:
    most = architecture.positions
    fits = most is None or tokens <= most
    require(fits, "inputs", f"{tokens} tokens", f"at most {most}, the positions of the model")


def _mask(given: Mapping[str, Any], value: Tensor) -> Tensor | None:
    """Which tokens are real, from the mask of the model's own argument."""
    mask, padding = given.get("attention_mask"), given.get("src_key_padding_mask")
    if mask is None and padding is None:
        return None
    told = torch.as_tensor(mask if padding is None else padding)
    expected = "a mask of 0 and 1, or of False and True"
    require(bool(((told == 0) | (told == 1)).all()), "inputs", "a mask of others", expected)
    valid = told.bool() if padding is None else ~told.bool()
    shape, expected = tuple(valid.shape), tuple(value.shape[:2])
    require(shape == expected, "inputs", f"a mask of shape {shape}", f"shape {expected}")
    require(bool(valid.any(-1).all()), "inputs", "a text of padding alone", "tokens in each")
    return valid.cpu()
