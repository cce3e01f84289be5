"""A number of a model without one head, or without one layer's attention: the model runs again.

The share *through* of a head is what its removal takes from the number while attention, gates and
norms behind it are held at their values. Here nothing is held: later layers read a stream without
the head, and their attention, gates and norms move.

The output of a head is what enters the output projection, z = P (X W_V + b_V), with its bias of
values, times its gates if it has some; the bias of the projection stays. It is replaced at every
token, padding included:

- *zero*: by 0, as if the head's rows of W_O were 0;
- *mean*: by the mean of z over the tokens of the text that are no padding;
- *resample*: by what the head gives at this place when the model reads the same tokens in another
  order. The first and the last token stay, so that what the number is read from still is there.

Many rows are run at once: the text as it is, for *resample* the text in its other order, and a row
for each part that is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attninspect import forward
from attninspect.architecture import Attention
from attninspect.inputs import BY_TOKEN, DATA, Inputs
from attninspect.modules import forget
from attninspect.trace import double
from attninspect.watch import attention_of
from attnverify.support.errors import require, shown
from attnverify.support.memory import require_bytes

KINDS = ("zero", "mean", "resample")
MOST = 32  # rows that are run at once
ROOM = 2**28  # bytes that their activations may take, as estimated, unless there are only 4
Part = tuple[int, int | None]  # layer and head, from 1; None: all heads of the layer
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Ablation:
    """What stands in the place of a head's output; seed: of the other order of tokens."""

    kind: str
    seed: int = 0

    @classmethod
    def of(cls, kind: Any, seed: Any) -> Ablation:
        """Checked; raises InputError (arguments ``ablate``, ``seed``)."""
        known = isinstance(kind, str) and kind in KINDS
        require(known, "ablate", shown(kind), f"one of {', '.join(KINDS)}")
        require(type(seed) is int and seed >= 0, "seed", shown(seed), "a whole number from 0")
        return cls(kind, seed)

    @property
    def before(self) -> int:
        """How many rows of a run lack nothing."""
        return 2 if self.kind == "resample" else 1

    def order(self, inputs: Inputs) -> list[int]:
        """The tokens in the order that is run beside the text, from 0; padding stays."""
        places = list(range(inputs.shape[1]))
        if self.kind != "resample":
            return places
        given = "resample of pixels, whose patches have no order here"
        require("pixel_values" not in inputs.arguments, "ablate", given, "zero or mean")
        inner = inputs.valid(*inputs.shape)[0].nonzero()[1:-1, 0].tolist()
        given = f"resample of a text of {len(inner) + 2} tokens"
        require(len(inner) >= 2, "ablate", given, "4 tokens or more, or zero or mean")
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randperm(len(inner), generator=generator).tolist()
        drawn = drawn if drawn != sorted(drawn) else [*drawn[1:], 0]  # not the same order again
        for place, other in zip(inner, drawn, strict=True):
            places[place] = inner[other]
        return places


@dataclass
class _Removal:
    """Replaces outputs of heads as the model runs; parts: one for each row that lacks one."""

    ablation: Ablation
    heads: int
    valid: Tensor
    parts: Sequence[Part]
    layer: int = field(default=0)

    def __call__(self, z: Tensor) -> Tensor:
        """z (rows, tokens, heads * size) of the next layer, in the order in which layers run."""
        self.layer += 1
        z, size = z.clone(), z.shape[-1] // self.heads
        for row, (layer, head) in enumerate(self.parts, self.ablation.before):
            if layer == self.layer:
                columns = slice(None) if head is None else slice((head - 1) * size, head * size)
                z[row, :, columns] = self._instead(z, row)[..., columns]
        return z

    def _instead(self, z: Tensor, row: int) -> Tensor:
        if self.ablation.kind == "resample":
            return z[1]
        mean = z[row, self.valid].mean(0).expand(z.shape[1:])
        return mean if self.ablation.kind == "mean" else torch.zeros_like(mean)


def _hooked(stack: ExitStack, body: Attention, removal: _Removal) -> None:
    """Let the removal change what the output projection of an attention gets."""

    def projected(module: nn.Module, args: Any) -> Any:
        return removal(args[0]), *args[1:]

    def whole(module: nn.Module, args: Any, output: Any) -> Any:  # it calls no module to project
        like = output[0]
        own = (body.value.weight, body.output.weight, body.value.bias)
        V, W, b = (None if part is None else part.to(like) for part in own)
        values = args[0] @ V + (0.0 if b is None else b)
        values = values.unflatten(-1, (body.heads, -1)).transpose(1, 2)
        z = (output[1] @ values).transpose(1, 2).flatten(-2)
        return like + (removal(z) - z) @ W, *output[1:]

    if body.output.module is None:
        stack.callback(body.module.register_forward_hook(whole).remove)
    else:
        stack.callback(body.output.module.register_forward_pre_hook(projected).remove)


@dataclass(frozen=True)
class Effects:
    """The number minus the number without each part; facts: of the runs."""

    of: dict[Part, float]
    facts: dict[str, Any]


def effects(
    subject: forward.Subject,
    inputs: Inputs,
    ablation: Ablation,
    sizes: tuple[int, int],
    number: Callable[[Tensor], Tensor],
    value: float,
    progress: Progress,
) -> Effects:
    """Remove every head by itself, and the attention of every layer.

    sizes: layers and heads; number: from logits or last hidden states, with an axis of rows, to the
    number (rows,); value: the number itself, as the model's own run gave it.
    """
    depth, heads = sizes
    layers = range(1, depth + 1)
    parts: list[Part] = [(layer, head) for layer in layers for head in range(1, heads + 1)]
    parts += [(layer, None) for layer in layers]
    free = _rows(subject, inputs, heads) - ablation.before
    pieces = [parts[i : i + free] for i in range(0, len(parts), free)]
    bodies, order = attention_of(subject.architecture), ablation.order(inputs)
    valid = inputs.valid(*inputs.shape)[0].to(subject.device)
    found: dict[Part, float] = {}
    off = 0.0
    for count, piece in enumerate(pieces, 1):
        removal = _Removal(ablation, heads, valid, piece)
        arguments = _arguments(inputs, len(piece) + ablation.before, order)
        with ExitStack() as stack, torch.no_grad(), forward.taken(inputs):
            _read_last(stack, subject.whole)
            for body in bodies:
                _hooked(stack, body, removal)
            forget(subject.model)
            output = subject.outer(**arguments)
        scores = subject.scores(output)
        whole, *rest = number(scores).tolist()
        off = max(off, abs(whole - value))
        lacking = rest[ablation.before - 1 :]
        found |= {part: whole - each for part, each in zip(piece, lacking, strict=True)}
        progress(f"ablation, pass {count} of {len(pieces)}", count / len(pieces))
    rows = len(parts) + ablation.before * len(pieces)
    facts = {"kind": ablation.kind, "seed": ablation.seed, "passes": len(pieces), "rows": rows}
    return Effects(found, facts | {"unchanged": off})


def _read_last(stack: ExitStack, whole: Any) -> None:
    """Let a causal classifier without a token of padding read the last one of many rows.

    It does so of one row, and refuses more. No token has the number that stands for padding here.
    """
    config = getattr(whole, "config", None)
    if config is not None and getattr(config, "pad_token_id", 0) is None:
        config.pad_token_id = -1
        stack.callback(setattr, config, "pad_token_id", None)


def _rows(subject: forward.Subject, inputs: Inputs, heads: int) -> int:
    """How many rows are run at once; raises InputError where memory lacks.

    A row has at most 16 arrays of the widest activation at a time, 4 of its attention and 2 of its
    logits. The number of rows follows from sizes alone, so that every machine computes the same.
    """
    tokens = inputs.shape[1]
    layers = subject.architecture.layers
    widest = max(max(p.shape) for layer in layers for p in layer.parameters())
    words = getattr(subject.model.config, "vocab_size", 0) if subject.whole is not None else 0
    one = 8 * (16 * tokens * widest + 4 * heads * tokens**2 + 2 * tokens * int(words))
    rows = min(MOST, max(4, ROOM // one))
    instead = "fewer tokens"
    require_bytes("ablate", rows * one, subject.device, f"{rows} rows at once", instead)
    return rows


def _arguments(inputs: Inputs, rows: int, order: Sequence[int]) -> dict[str, Any]:
    """The same arguments for so many rows, the second with its tokens in this order."""
    found = dict(inputs.arguments)
    for name in found.keys() & {*DATA, *BY_TOKEN}:
        if isinstance(found[name], Tensor):
            found[name] = found[name].expand(rows, *found[name].shape[1:])
        if name in DATA and list(order) != sorted(order):
            found[name] = found[name].clone()
            found[name][1] = found[name][1][list(order)]
    for name in found.keys() & {"mask", "src_mask"}:  # of torch's encoder, perhaps one a head
        if found[name] is not None and found[name].ndim == 3:
            found[name] = found[name].repeat(rows, 1, 1)
    return found


def at(token: int, indices: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The number of each row: an entry at the token, minus another one where there are two."""

    def number(scores: Tensor) -> Tensor:
        scores = scores[:, token] if scores.ndim == 3 else scores
        entries = double(scores)[:, list(indices)]
        return entries[:, 0] - entries[:, 1:].sum(-1)

    return number
