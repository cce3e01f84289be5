"""A model is run once and followed layer by layer.

Hooks record what the modules of a layer did; when the layer ends, a layer of a trace is made of it
(:mod:`attninspect.record`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attninspect.architecture import Architecture, Attention, Experts
from attninspect.families import architecture_of
from attninspect.inputs import Inputs
from attninspect.load import Folder
from attninspect.modules import (
    OWN,
    choose,
    dtype_of,
    forget,
    listed,
    make_visible,
    notes_of,
    precision,
    require_bounded,
    require_numbers,
    require_plain,
    unwrapped,
)
from attninspect.reconstruction import ReconstructionError
from attninspect.record import Calls, Record, first_input, places
from attninspect.shares import fits
from attninspect.trace import Layer, Step, Trace, unit_roundoff
from attnverify.support.errors import InputError, RunError, require

MODULE = "a module or a folder"


@dataclass(frozen=True)
class Subject:
    """A model ready to be looked at: without dropout and gradients, with visible attention.

    stored: dtypes of the weights as they came; came: the implementations of "attn" and "experts"
    that they came with, where there are several; "eager" runs in their place.
    """

    model: nn.Module
    architecture: Architecture
    notes: tuple[str, ...] = ()
    whole: nn.Module | None = None
    stored: str = ""
    came: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Any,
        dtype: str | torch.dtype | None = torch.float64,
        device: str = "cpu",
        number: str = "",
    ) -> Subject:
        """A copy of the model in ``dtype``; None: its own, that of a folder as transformers has it.

        bfloat16 runs if weights are bfloat16. Then nothing is cast: float32 buffers such as rotary
        frequencies stay. number: "logit" or "class", for which ``whole`` is the model with its
        head; else that is left out. Raises InputError for a family without an adapter, for a dtype
        too coarse for a proof and for weights that are no numbers.
        """
        wanted, head = precision(dtype), number in ("logit", "class")
        if isinstance(model, Folder):
            own, run = {*model.dtypes}, {wanted or dtype_of(model)}
            require_bounded(run, own)
            model, cast = model.model(next(iter(run)), number), False
        else:
            require(isinstance(model, nn.Module), "model", type(model).__name__, MODULE)
            require_plain(model)
            model = unwrapped(model)
            own = {each.dtype for each in model.parameters()}
            kept = wanted == torch.bfloat16 and wanted in own
            run = own if wanted is None or kept else {wanted}
            cast = run != own
        base = getattr(model, "base_model", model)
        given = architecture_of(base)  # before the copy, which may be large
        require_bounded(run, own)
        require_numbers(model)
        model = copy.deepcopy(model if head else base).eval().requires_grad_(False)
        model = model.to(_device(device))
        model = model.to(next(iter(run))) if cast else model
        came = make_visible(model)
        whole = model if head else None
        model = getattr(model, "base_model", model)
        architecture = replace(architecture_of(model), tokens_first=given.tokens_first)
        for layer in architecture.layers:
            layer.register_forward_pre_hook(_with_own_keys, with_kwargs=True)
        return cls(model, architecture, notes_of(own, run), whole, listed(own), came)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def words(self) -> dict[str, Any]:
        """Family, number of parameters, dtypes and implementations of attention."""
        return {
            "family": getattr(getattr(self.model, "config", None), "model_type", "torch"),
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": listed({p.dtype for p in self.model.parameters()}),
            "stored": self.stored,
            "attention": "eager" if "attn" in self.came else OWN,
            "attention_as_given": self.came.get("attn", OWN),
        }

    @property
    def outer(self) -> Any:
        """The model with its head where that is looked at."""
        return self.model if self.whole is None else self.whole

    def scores(self, output: Any) -> Tensor:
        """Logits, or the last hidden state, of what :attr:`outer` returned."""
        hidden = getattr(output, "last_hidden_state", output)
        return hidden if self.whole is None else output.logits

    def as_given(self, inputs: Inputs) -> Tensor | None:
        """:meth:`scores` in the implementations that the model came with.

        None where they do not run here, as those for a GPU on a processor.
        """
        forget(self.model)
        try:
            choose(self.outer, self.came)
            with torch.no_grad():
                return self.scores(self.outer(**inputs.arguments))
        except (RuntimeError, ValueError, TypeError, ImportError):
            return None
        finally:
            choose(self.outer, dict.fromkeys(self.came, "eager"))

    def counts_padding(self, inputs: Inputs) -> bool:
        """Whether positions that enter with the tokens count the padding before a text.

        They do if the model takes the positions 0, 1, 2, ... for these tokens, and others matter.
        """
        left = inputs.mask is not None and not bool(inputs.mask[:, 0].all())
        taken = "position_ids" in signature(self.outer.forward).parameters
        if not left or not taken or inputs.arguments.get("position_ids") is not None:
            return False
        places = torch.arange(inputs.shape[1], device=self.device).expand(inputs.shape)
        plain, counted, turned = (
            self._entering(replace(inputs, arguments={**inputs.arguments, **more}))
            for more in ({}, {"position_ids": places}, {"position_ids": places.flip(1)})
        )
        return torch.equal(plain, counted) and not torch.equal(plain, turned)

    @property
    def unit(self) -> float:
        """The coarsest unit roundoff of the weights."""
        return max(unit_roundoff(p.dtype) for p in self.model.parameters())

    def memory(self, inputs: Inputs, kept: int = 0) -> float:
        """Bytes that a run takes at most beside the model, as counted in the code and seen in runs.

        One layer: its weights twice in float64 and once more in absolute values; 16 arrays of the
        size of its attention matrices; the streams, one a length and three more, three times at
        their widest, with eight single activations; where rollout is compared, as many streams as
        tokens, four times; a byte a weight of the first text; and 16 MiB for all that is small.
        kept: layers that stay until the end, each with its weights twice, its attention matrices
        and 16 arrays at the widest.
        """
        batch, tokens = inputs.shape
        layers = self.architecture.layers
        weights = max(sum(p.numel() for p in layer.parameters()) for layer in layers)
        widest = max(max(p.shape) for layer in layers for p in layer.parameters())
        heads = 0
        for layer in (layers[0], layers[-1]):  # experts may begin behind the first
            blocks = self.architecture.blocks(layer)
            for _, body in chain.from_iterable(block.branches for block in blocks):
                if isinstance(body, Attention):
                    heads = max(heads, body.heads)
                elif isinstance(body, Experts):
                    each = getattr(body.router, "top_k", 1) + (body.shared is not None)
                    widest = max(widest, each * body.down[0].shape[-2])
        require(heads > 0, "model", "a layer without attention", "one with it")
        streams = 3 * (len(layers) + 3) + 8
        entries = 3 * weights + 16 * batch * heads * tokens**2 + streams * batch * tokens * widest
        entries += len(layers) * heads * tokens**2 / 8  # patterns, a byte a weight
        entries += kept * (2 * weights + batch * heads * tokens**2 + 16 * batch * tokens * widest)
        if fits(batch, tokens, masked=inputs.mask is not None):
            entries += 4 * tokens * tokens * widest
        return 8.0 * entries + 2.0**24

    def follow(
        self,
        inputs: Inputs,
        each: Callable[[Layer], None],
        head: Callable[[Calls, Tensor | None], None] | None = None,
    ) -> Sequence[Step]:
        """Run the model; ``each`` gets every layer as it ends. Returns the steps of the final norm.

        What a layer computed is forgotten when ``each`` returns, unless that keeps it. head: gets
        the calls of linear maps and norms behind the final norm, and the logits of ``whole``.
        """
        record, number, blocks, end = Record(), 0, self.architecture.blocks, torch.empty(0)

        def ended(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            nonlocal number, end
            number += 1
            with _fitting(number):
                found = record.layer(number, record.of(layer).input, blocks(layer))
                each(found)
            end = found.output
            record.clear()

        final, last = self.architecture.final, self.architecture.projection
        # Blocks hold weights in float64, so those of one layer are made at a time.
        watched = [m for layer in self.architecture.layers for m in places(blocks(layer))]
        ends = (final.module if final else None, last.module if last else None)
        watched += [*self.architecture.layers, *(end for end in ends if end is not None)]
        outside = [] if head is None else _outside(self.whole, watched)
        forget(self.model)
        with _hooks([*watched, *outside], record.note), _hooks(self.architecture.layers, ended):
            with torch.no_grad(), taken(inputs), _hooks([self.model], record.note):
                output = self.outer(**inputs.arguments)
        expected = len(self.architecture.layers)
        require(number == expected, "model", f"{number} layers called", f"{expected}")
        if head is not None:
            made = {id(module): module for module in outside}
            calls = [(made[key], call) for key, call in record.calls.items() if key in made]
            head(calls, getattr(output, "logits", None))
        steps = record.end(final, last)
        if id(self.model) in record.calls:
            _require_end(record.of(self.model).outputs[0], steps[-1].seen if steps else end)
        self._require_entry(inputs)
        return steps

    def _require_entry(self, inputs: Inputs) -> None:
        """Raise ReconstructionError unless what enters the first layer is made token by token.

        Else an adapter could leave out leading layers. The first and the last valid token of each
        text are changed in turn; causal attention shows the first, any other both. All other rows
        must stay the same to the last bit, as they come from the same operations in the same order.
        """
        if inputs.shape[1] == 1 and self.architecture.positions != 1:
            inputs = inputs.twice()  # a token alone has no other row
        before = self._entering(inputs)
        for last in (False, True):
            given, rows = inputs.changed(self.model, last)
            other = (self._entering(given) != before).any(-1).cpu()
            other[torch.arange(len(rows)), rows] = False
            if other.any():
                which = "last" if last else "first"
                raise ReconstructionError(
                    "layer 1, input: the adapter is not this model there: tokens are mixed before "
                    f"its first layer (a change of the {which} token changes {int(other.sum())} "
                    "other rows); an Architecture names all layers, and a model that mixes tokens "
                    "in front of them cannot be inspected"
                )

    def _entering(self, inputs: Inputs) -> Tensor:
        """What enters the first layer (batch, tokens, width); the run ends there."""

        def reached(layer: nn.Module, args: Any, kwargs: Any) -> None:
            raise _Reached(first_input(args, kwargs))

        forget(self.model)
        first = self.architecture.layers[0]
        handle = first.register_forward_pre_hook(reached, with_kwargs=True)
        try:
            with torch.no_grad(), taken(inputs):
                self.outer(**inputs.arguments)
        except _Reached as end:
            return end.input
        finally:
            handle.remove()
        raise InputError("model: got a first layer that is not called, expected one that is")


class _Reached(Exception):
    """The first layer is reached."""

    def __init__(self, input: Tensor) -> None:
        super().__init__()
        self.input = input


def _require_end(output: Any, seen: Tensor) -> None:
    """Raise ReconstructionError unless what the model returned is what the trace ends at.

    output: a tensor, or what has a last hidden state; nothing is said of others, nor of a tensor of
    another shape, as logits are.
    """
    last = getattr(output, "last_hidden_state", None)
    known = isinstance(output, Tensor) and output.shape == seen.shape
    last = output if known else last
    same = not isinstance(last, Tensor) or (
        last.shape == seen.shape and torch.equal(last.double().nan_to_num(), seen.nan_to_num())
    )
    if not same:
        raise ReconstructionError(
            "end: the adapter is not this model there: the model returns something else than what "
            "the last layer, the final norm and the projection of its Architecture give"
        )


def _outside(whole: nn.Module | None, watched: Sequence[nn.Module]) -> list[nn.Module]:
    """The linear maps and norms of a model that are no part of its layers."""
    inside = {id(part) for module in watched for part in module.modules()}
    parts = [] if whole is None else whole.modules()
    kinds = nn.Linear | nn.LayerNorm
    return [part for part in parts if isinstance(part, kinds) and id(part) not in inside]


def _with_own_keys(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Let a token of padding see itself where the mask hides all keys from it.

    Without a key its row is NaN where the mask is lower than the softmax's dtype can be, and what
    it sends is NaN times 0. A token of the text sees itself in any case, so its row stays.
    """

    def mended(value: Any) -> Any:
        square = isinstance(value, Tensor) and value.ndim == 4 and value.is_floating_point()
        if not square or value.shape[-1] != value.shape[-2]:
            return value
        hidden = (value <= torch.finfo(value.dtype).min).all(-1, keepdim=True)
        own = torch.eye(value.shape[-1], dtype=torch.bool, device=value.device)
        return value.masked_fill(hidden & own, 0.0)

    return tuple(map(mended, args)), {name: mended(value) for name, value in kwargs.items()}


def _device(name: Any) -> torch.device:
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(f"device: got {name!r} ({error}), expected one that is there") from error
    return found


@contextmanager
def _fitting(number: int) -> Iterator[None]:
    """Report shapes that do not fit in a layer as a mistake of its adapter."""
    try:
        yield
    except RunError:
        raise
    except (RuntimeError, IndexError) as error:
        raise ReconstructionError(
            f"layer {number}: the adapter does not fit this model ({error})"
        ) from error


@contextmanager
def taken(inputs: Inputs) -> Iterator[None]:
    """Report a failure of the model's own forward pass as an error of its inputs."""
    try:
        yield
    except (RunError, InputError):
        raise
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
        names, words = ", ".join(inputs.arguments), f"{type(error).__name__}: {error}"
        raise InputError(
            f"inputs: got {names}, at which the model's own forward pass fails ({words}), "
            "expected inputs that it runs at"
        ) from error


@contextmanager
def _hooks(modules: Sequence[nn.Module], hook: Callable[..., None]) -> Iterator[None]:
    distinct = {id(module): module for module in modules}.values()
    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in distinct]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def trace(
    model: nn.Module | str | Path, inputs: Any, dtype: str | torch.dtype | None = "float64"
) -> Trace:
    """The whole trace of a model at its inputs, all layers held at once, float64.

    model: a module of ``transformers``, a ``torch.nn.TransformerEncoder`` or a folder; inputs:
    token ids, embeddings, pixels, the keyword arguments of its forward pass, or a text for a folder
    with a tokenizer; dtype: as of ``attnverify.inspect``. Raises InputError.

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> traced = av.trace(model, torch.randn(5, 8))
    >>> [layer.number for layer in traced.layers]
    [1, 2]
    """
    folder = Folder.of(model) if isinstance(model, str | Path) else None
    if folder is not None and isinstance(inputs, str):
        inputs, _ = folder.encode(inputs)
    subject = Subject.of(folder or model, dtype)
    given = Inputs.of(subject.model, subject.architecture, inputs)
    layers: list[Layer] = []
    final = subject.follow(given, layers.append)
    X = layers[0].input
    return Trace(X, layers, final, given.valid(*X.shape[:2]))
