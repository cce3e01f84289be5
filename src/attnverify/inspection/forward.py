"""A model is run once and followed layer by layer.

Hooks record what the modules of a layer did; when the layer ends, a layer of a trace is made of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnverify.inspection import families
from attnverify.inspection.families import Architecture, Attention, architecture_of
from attnverify.inspection.inputs import Inputs
from attnverify.inspection.reconstruction import ReconstructionError
from attnverify.inspection.shares import fits
from attnverify.inspection.trace import (
    Block,
    Branch,
    HeadNorm,
    Heads,
    Layer,
    Step,
    Trace,
    double,
    rounded_to,
    unit_roundoff,
)
from attnverify.mathematics.maps import Dense, Gate, Map, Mix, Norm
from attnverify.support.errors import InputError, RunError, require

HIDDEN = (
    "model: got attention that does not return its matrices ({}), "
    'expected attn_implementation="eager"'
)


@dataclass(frozen=True)
class Call:
    """First input and all outputs of one call of a module; rotation: cosines and sines, if any."""

    input: Tensor
    outputs: Sequence[Any]
    rotation: tuple[Tensor, Tensor] | None = None


@dataclass
class Record:
    """The calls of a layer's modules since the last layer ended."""

    calls: dict[int, Call] = field(default_factory=dict)

    def note(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A forward hook (``with_kwargs=True``) of every module that a trace looks at."""
        first = args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None))
        outputs = output if isinstance(output, tuple) else (output,)
        self.calls[id(module)] = Call(first, outputs, kwargs.get("position_embeddings"))

    def of(self, module: nn.Module) -> Call:
        name = type(module).__name__
        require(id(module) in self.calls, "model", f"{name} that was not called", "its adapter's")
        return self.calls[id(module)]

    def at(self, place: families.Place) -> Tensor:
        """The tensor at an input or output, in its own dtype."""
        call = self.of(place[0])
        return call.input if place[1] == "input" else call.outputs[0]

    def result(self, linear: families.Linear) -> Tensor | None:
        """The output of a linear map, if a module shows it."""
        if linear.module is None:
            return None
        out = self.of(linear.module).outputs[0]
        return out if linear.columns is None else out[..., linear.columns]

    def layer(self, number: int, x: Tensor, blocks: Sequence[families.Block]) -> Layer:
        """The trace of one layer whose input is x."""
        x = double(x)
        made: list[Block] = []
        heads = None
        for block in blocks:
            before = made[-1].output if made else x
            branches = []
            for norm, body in block.branches:
                branch = self._branch(norm, body, before)
                branches.append(branch)
                if isinstance(body, families.Attention):
                    inner = branch.steps[0].seen if norm else before
                    heads = self._heads(body, inner)
            total = self.at(block.total)
            after = self._norms(block.after, double(total))
            made.append(Block(branches, double(total), unit_roundoff(total.dtype), after))
        if heads is None:
            raise InputError("model: got a layer without attention, expected one with it")
        return Layer(number, x, made, heads)

    def end(self, final: families.Norm | None) -> list[Step]:
        """The norm behind the last layer, if there is one."""
        return self._norms([final], double(self.of(final.module).input)) if final else []

    def _branch(self, norm: families.Norm | None, body: Any, x: Tensor) -> Branch:
        steps = self._norms([norm] if norm else [], x)
        parts = self._attention(body) if isinstance(body, families.Attention) else self._mlp(body)
        waiting: list[Map] = []
        for name, map, seen in parts:
            waiting.append(map)
            if seen is not None:
                steps.append(Step(name, waiting, double(seen), unit_roundoff(seen.dtype)))
                waiting = []
        return Branch(steps)

    def _norms(self, norms: Sequence[families.Norm], x: Tensor) -> list[Step]:
        steps = []
        for norm in norms:
            map = Norm.at(x, norm.epsilon, norm.centered, *_affine(norm.module))
            seen = self.of(norm.module).outputs[0]
            unit = unit_roundoff(seen.dtype)
            unit = max(unit, unit_roundoff(torch.float32)) if norm.single else unit
            x = double(seen)
            steps.append(Step("norm", [map], x, unit))
        return steps

    def _attention(self, body: families.Attention) -> list[tuple[str, Map, Tensor | None]]:
        output = body.output.module
        mixed = None if output is None else self.of(output).input
        result = self.result(body.output)
        return [
            ("values", _dense(body.value), self.result(body.value)),
            ("attention", Mix(self.matrices(body), body.key_heads), mixed),
            (
                "heads together",
                _dense(body.output),
                self.of(body.module).outputs[0] if result is None else result,
            ),
        ]

    def matrices(self, body: families.Attention) -> Tensor:
        """The attention matrices of a layer, (batch, heads, tokens, tokens), float64."""
        outputs = self.of(body.module).outputs
        P = outputs[1] if len(outputs) > 1 else None
        if not isinstance(P, Tensor):
            raise InputError(HIDDEN.format(type(body.module).__name__))
        shape, heads = tuple(P.shape), body.heads
        require(
            P.ndim == 4 and P.shape[1] == heads and P.shape[2] == P.shape[3],
            "model",
            f"attention matrices of shape {shape}",
            f"shape (batch, {heads} heads, tokens, tokens)",
        )
        expected = "finite entries >= 0"
        good = bool((P >= 0).all() and torch.isfinite(P).all())
        require(good, "model", "attention with NaN, negative or infinite entries", expected)
        return double(P)

    def _rotation(self, body: families.Attention) -> tuple[Tensor, Tensor] | None:
        if not body.rotary:
            return None
        rotation = self.of(body.module).rotation
        if rotation is None:
            raise InputError(
                f"model: got {type(body.module).__name__} without position_embeddings, "
                "expected cosines and sines there"
            )
        return double(rotation[0]), double(rotation[1])

    def _mlp(self, body: families.MLP) -> list[tuple[str, Map, Tensor | None]]:
        if body.up.module is None or body.down.module is None:
            raise InputError("model: got an MLP without modules, expected ones to look at")
        up, down = self.of(body.up.module).outputs[0], self.of(body.down.module)
        if body.gate is None:
            factors = _quotient(double(down.input), double(up))
        else:
            factors = double(self.of(body.gate).outputs[0])
        return [
            ("MLP, up", _dense(body.up), up),
            ("MLP, gates", Gate(factors), down.input),
            ("MLP, down", _dense(body.down), down.outputs[0]),
        ]

    def _heads(self, body: families.Attention, x: Tensor) -> Heads:
        Q = _per_head(body.query, body.heads, body.heads)
        K, V = (_per_head(part, body.heads, body.key_heads) for part in (body.key, body.value))
        out = body.output.weight
        return Heads(
            input=x,
            P=self.matrices(body),
            W_Q=Q[0],
            b_Q=Q[1],
            W_K=K[0],
            b_K=K[1],
            W_V=V[0],
            W_O=out.reshape(body.heads, -1, out.shape[-1]),
            key_heads=body.key_heads,
            scale=body.scale,
            unit=unit_roundoff(self.of(body.module).outputs[1].dtype),
            softmax_unit=rounded_to(self.of(body.module).outputs[1]),
            rotation=self._rotation(body),
            norms=(_head_norm(body.norms[0]), _head_norm(body.norms[1])) if body.norms else None,
        )


def _head_norm(norm: families.Norm) -> HeadNorm:
    return HeadNorm(norm.epsilon, norm.centered, *_affine(norm.module))


def _affine(module: nn.Module) -> tuple[Tensor | float, Tensor | float]:
    """Scale and bias of a norm."""
    scale, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    return 1.0 if scale is None else double(scale), 0.0 if bias is None else double(bias)


def _dense(part: families.Linear) -> Dense:
    return Dense(part.weight, 0.0 if part.bias is None else part.bias)


def _per_head(part: families.Linear, heads: int, groups: int) -> tuple[Tensor, Tensor]:
    """(heads, width, size) and (heads, size) from ``groups`` maps that heads in a row share."""
    width, total = part.weight.shape
    bias = part.weight.new_zeros(total) if part.bias is None else part.bias
    weight = part.weight.reshape(width, groups, -1).movedim(1, 0)
    each = heads // groups
    return weight.repeat_interleave(each, 0), bias.reshape(groups, -1).repeat_interleave(each, 0)


def _quotient(after: Tensor, before: Tensor) -> Tensor:
    """activation(z) / z; 0 at z = 0, where the activation must vanish."""
    zero = before == 0
    given = "an activation that is not 0 at 0"
    require(bool((after[zero] == 0).all()), "model", given, "one such as gelu, silu, relu, tanh")
    return torch.where(zero, 0.0, after / torch.where(zero, 1.0, before))


def places(blocks: Sequence[families.Block]) -> list[nn.Module]:
    """All modules whose calls a layer's trace is made from."""
    found: list[nn.Module | None] = []
    for block in blocks:
        found += [block.total[0], *(norm.module for norm in block.after)]
        for norm, body in block.branches:
            found += [norm.module] if norm else []
            if isinstance(body, families.Attention):
                found += [body.module, body.value.module, body.output.module]
            else:
                found += [body.up.module, body.down.module, body.gate]
    return list({id(module): module for module in found if module is not None}.values())


COARSE = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Subject:
    """A model ready to be looked at: without dropout and gradients, with visible attention."""

    model: nn.Module
    architecture: Architecture
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, model: nn.Module, dtype: torch.dtype | None = torch.float64, device: str = "cpu"
    ) -> Subject:
        """A copy of the model in ``dtype`` (None: its own, which must be float32 or float64).

        The head of a language model or classifier is left out. Raises InputError for a family
        without an adapter, for a dtype too coarse for a proof and for weights that are no numbers.
        """
        model = getattr(model, "base_model", model)
        given = architecture_of(model)  # before the copy, which may be large
        own = next(model.parameters()).dtype
        expected = "float32 or float64, in which its roundings can be bounded"
        require((dtype or own) not in COARSE, "dtype", dtype or own, expected)
        _require_numbers(model)
        model = copy.deepcopy(model).to(_device(device), dtype or own).eval().requires_grad_(False)
        _make_visible(model)
        notes = () if own == (dtype or own) else (f"weights promoted from {own} to {dtype}",)
        architecture = replace(architecture_of(model), tokens_first=given.tokens_first)
        for layer in architecture.layers:
            layer.register_forward_pre_hook(_with_own_keys, with_kwargs=True)
        return cls(model, architecture, notes)

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
        tokens, four times; and 16 MiB for all that is small. kept: layers that stay until the
        end, each with its weights twice, its attention matrices and 16 arrays at the widest.
        """
        batch, tokens = inputs.shape
        layers = self.architecture.layers
        weights = max(sum(p.numel() for p in layer.parameters()) for layer in layers)
        widest = max(max(p.shape) for layer in layers for p in layer.parameters())
        bodies = [
            body for block in self.architecture.blocks(layers[0]) for _, body in block.branches
        ]
        heads = max(body.heads for body in bodies if isinstance(body, Attention))
        streams = 3 * (len(layers) + 3) + 8
        entries = 3 * weights + 16 * batch * heads * tokens**2 + streams * batch * tokens * widest
        entries += kept * (2 * weights + batch * heads * tokens**2 + 16 * batch * tokens * widest)
        if fits(batch, tokens, masked=inputs.mask is not None):
            entries += 4 * tokens * tokens * widest
        return 8.0 * entries + 2.0**24

    def follow(self, inputs: Inputs, each: Callable[[Layer], None]) -> Sequence[Step]:
        """Run the model; ``each`` gets every layer as it ends. Returns the steps of the final norm.

        What a layer computed is forgotten when ``each`` returns, unless that keeps it.
        """
        record, number, blocks = Record(), 0, self.architecture.blocks

        def ended(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            nonlocal number
            number += 1
            with _fitting(number):
                each(record.layer(number, record.of(layer).input, blocks(layer)))
            record.calls.clear()

        final = self.architecture.final
        # Blocks hold weights in float64, so those of one layer are made at a time.
        watched = [m for layer in self.architecture.layers for m in places(blocks(layer))]
        watched += [*self.architecture.layers, *([final.module] if final else [])]
        _forget(self.model)
        with _hooks(watched, record.note), _hooks(self.architecture.layers, ended):
            with torch.no_grad(), _taken(inputs):
                self.model(**inputs.arguments)
        expected = len(self.architecture.layers)
        require(number == expected, "model", f"{number} layers called", f"{expected}")
        return record.end(final)


def _make_visible(model: Any) -> None:
    """Ask for the implementation of attention that gives its matrices."""
    part: Any
    for part in model.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.register_forward_pre_hook(with_weights, with_kwargs=True)
            part.batch_first = True  # the same function; inputs are turned (Inputs)
        if hasattr(part, "reorder_and_upcast_attn"):
            cast(
                Any, part
            ).reorder_and_upcast_attn = False  # the same function, in the dtype of the run
    if isinstance(model, nn.TransformerEncoder):
        model.use_nested_tensor = False
    choose = getattr(model, "set_attn_implementation", None)
    if choose is not None:
        try:
            choose("eager")
        except ValueError as error:
            raise InputError(f"model: got no eager attention ({error}), expected it") from error


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


def _forget(model: nn.Module) -> None:
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
def _taken(inputs: Inputs) -> Iterator[None]:
    """Report a failure of the model's own forward pass as an error of its inputs."""
    try:
        yield
    except (RunError, InputError):
        raise
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
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
