"""A model is run once and followed layer by layer.

Hooks record what the modules of a layer did; when the layer ends, a layer of a trace is made of it
(:mod:`attnverify.inspection.record`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnverify.inspection.architecture import Architecture, Attention, Experts
from attnverify.inspection.families import architecture_of
from attnverify.inspection.inputs import Inputs
from attnverify.inspection.reconstruction import ReconstructionError
from attnverify.inspection.record import Calls, Record, first_input, places
from attnverify.inspection.shares import fits
from attnverify.inspection.trace import Layer, Step, Trace
from attnverify.support.errors import InputError, RunError, require

COARSE = (torch.float16, torch.bfloat16)
COARSE_NOTE = (
    "the model runs in bfloat16, of unit roundoff 2^-8: bounds are as wide, so a small mistake of "
    "an adapter would not show, and tokens that differ by less than an eighth count as equal"
)


@dataclass(frozen=True)
class Subject:
    """A model ready to be looked at: without dropout and gradients, with visible attention."""

    model: nn.Module
    architecture: Architecture
    notes: tuple[str, ...] = ()
    whole: nn.Module | None = None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        dtype: torch.dtype | None = torch.float64,
        device: str = "cpu",
        head: bool = False,
    ) -> Subject:
        """A copy of the model in ``dtype`` (None: its own; bfloat16 only if it is its own).

        The head of a language model or classifier is left out, unless ``head`` is true: then
        ``whole`` is the model with it. Raises InputError for a family
        without an adapter, for a dtype too coarse for a proof and for weights that are no numbers.
        """
        base = getattr(model, "base_model", model)
        _require_unpacked(model)
        given = architecture_of(base)  # before the copy, which may be large
        model = model if head else base
        own = next(model.parameters()).dtype
        expected = "float32 or float64, in which its roundings can be bounded"
        kept = own == (dtype or own) == torch.bfloat16  # others would be rounded to other weights
        words = f"{dtype or own} for weights of {own}"
        require(kept or (dtype or own) not in COARSE, "dtype", words, expected)
        _require_numbers(model)
        model = copy.deepcopy(model).to(_device(device), dtype or own).eval().requires_grad_(False)
        _make_visible(model)
        notes = () if own == (dtype or own) else (f"weights promoted from {own} to {dtype}",)
        notes = (COARSE_NOTE,) if kept else notes
        whole = model if head else None
        model = getattr(model, "base_model", model)
        architecture = replace(architecture_of(model), tokens_first=given.tokens_first)
        for layer in architecture.layers:
            layer.register_forward_pre_hook(_with_own_keys, with_kwargs=True)
        return cls(model, architecture, notes, whole)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def words(self) -> dict[str, Any]:
        """Family, number of parameters and dtype."""
        first = next(self.model.parameters())
        return {
            "family": getattr(getattr(self.model, "config", None), "model_type", "torch"),
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(first.dtype).removeprefix("torch."),
        }

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
                output = (self.whole or self.model)(**inputs.arguments)
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
                (self.whole or self.model)(**inputs.arguments)
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


def _make_visible(model: Any) -> None:
    """Ask for the implementation of attention that gives its matrices."""
    part: Any
    config: Any = getattr(model, "config", None)
    for part in model.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.register_forward_pre_hook(with_weights, with_kwargs=True)
            part.batch_first = True  # the same function; inputs are turned (Inputs)
        if type(part).__name__ == "GptOssExperts":
            vars(part)["_apply_gate"] = Method(cast(Any, part)._apply_gate)
        if type(part).__name__ == "FalconMLP":  # the layer adds to its result in place
            part.register_forward_hook(lambda module, args, output: output.clone())
        if type(part).__name__ == "FalconAttention":
            part.register_forward_pre_hook(_added_once, with_kwargs=True)
        if hasattr(part, "reorder_and_upcast_attn"):
            cast(
                Any, part
            ).reorder_and_upcast_attn = False  # the same function, in the dtype of the run
    if isinstance(model, nn.TransformerEncoder):
        model.use_nested_tensor = False
    choose = getattr(model, "set_attn_implementation", None)
    one_by_one: Any = getattr(model, "set_experts_implementation", None)
    if one_by_one is not None and (
        getattr(config, "num_local_experts", 0) or getattr(config, "num_experts", 0)
    ):
        one_by_one("eager")
    if getattr(config, "model_type", None) == "falcon":
        config._attn_implementation = "eager"  # the same modules; its setter does nothing
    elif choose is not None:
        try:
            choose("eager")
        except ValueError as error:
            raise InputError(f"model: got no eager attention ({error}), expected it") from error


class Method(nn.Module):
    """A method in the place of itself, which hooks can look at."""

    def __init__(self, method: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = method


def _added_once(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Take ALiBi out of Falcon's mask: with visible attention its module adds it once more.

    A bias is 0 or above, what the mask hides is below.
    """
    if kwargs.get("alibi") is None:
        return args, kwargs
    mask = kwargs["attention_mask"]
    return args, {**kwargs, "attention_mask": mask.where(mask < 0, 0.0)}


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


def forget(model: nn.Module) -> None:
    """Reset rotations that follow the longest text so far: a run must not depend on others."""
    for part in model.modules():
        if getattr(part, "rope_type", None) == "dynamic":
            start: Any = part.original_inv_freq
            part.register_buffer("inv_freq", start.clone(), persistent=False)
            part.max_seq_len_cached = part.original_max_seq_len


def _device(name: Any) -> torch.device:
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(f"device: got {name!r} ({error}), expected one that is there") from error
    return found


def _require_unpacked(model: nn.Module) -> None:
    """Raise InputError for quantized weights: integers, packed ones, and those of tensor types."""
    expected = "full precision: load it without quantization, or dequantize it (model.dequantize())"
    for name, part in model.named_modules():
        weight = getattr(part, "weight", None)
        packed = callable(weight) and not isinstance(weight, Tensor)  # torch.ao.nn.quantized
        if isinstance(weight, Tensor):  # a tensor type of torchao has a dequantize of its own
            own = type(weight).dequantize is not Tensor.dequantize
            packed = own or weight.is_quantized or not weight.is_floating_point()
        given = f"{name}, a {type(part).__name__} with quantized weights"
        require(not packed and not hasattr(part, "qweight"), "model", given, expected)
    require(any(True for _ in model.parameters()), "model", "no weights", "a model with some")


def _require_numbers(model: nn.Module) -> None:
    """Raise InputError for weights that are not finite floats of a known format."""
    for name, weight in model.named_parameters():
        known = weight.dtype in (*COARSE, torch.float32, torch.float64)
        given = f"{name} of dtype {weight.dtype}"
        require(known, "model", given, "weights of float64, float32, bfloat16 or float16")
        bad = int((~torch.isfinite(weight)).sum())
        require(bad == 0, "model", f"{bad} NaN or infinite entries in {name}", "finite weights")


def with_weights(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}


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


def trace(model: nn.Module, inputs: Any, dtype: torch.dtype | None = torch.float64) -> Trace:
    """The whole trace of a model at its inputs, all layers held at once, float64.

    model: a module of ``transformers`` or a ``torch.nn.TransformerEncoder``; inputs: token ids,
    embeddings, pixels, or the keyword arguments of its forward pass. Raises InputError.

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> traced = av.trace(model, torch.randn(5, 8))
    >>> [layer.number for layer in traced.layers]
    [1, 2]
    """
    subject = Subject.of(model, dtype)
    given = Inputs.of(subject.model, subject.architecture, inputs)
    layers: list[Layer] = []
    final = subject.follow(given, layers.append)
    X = layers[0].input
    return Trace(X, layers, final, given.valid(*X.shape[:2]))
