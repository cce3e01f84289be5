"""What the modules of a layer did in a forward pass, and the layer of a trace made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attninspect import architecture as named
from attninspect.trace import (
    SINGLE,
    Block,
    Branch,
    HeadNorm,
    Heads,
    Layer,
    Step,
    double,
    rounded_to,
    unit_roundoff,
)
from attnverify.mathematics.maps import Chosen, Dense, Gate, Map, Mix, Norm, Weighted
from attnverify.support.errors import InputError, require

HIDDEN = (
    "model: got attention that does not return its matrices ({}), "
    'expected attn_implementation="eager"'
)

#: How often y / (1 + exp(-z)) rounds, by the exponential (4 units), sum, quotient and product. What
#: the model projected, z, is taken as it is. Where the exponential overflows the gate underflows.
GATED = 7.0


@dataclass(frozen=True)
class Call:
    """First input and all outputs of one call of a module.

    rotation: cosines and sines, alibi: the bias by distance, mask: what is added to the scores, as
    its arguments have them.
    """

    input: Tensor
    outputs: Sequence[Any]
    rotation: tuple[Tensor, Tensor] | None = None
    alibi: Tensor | None = None
    mask: Tensor | None = None

    def of_texts(self, texts: int, tokens: int) -> Call:
        """The call with an axis of texts where the module saw all tokens in a row (OPT)."""

        def parted(x: Any) -> Any:
            row = isinstance(x, Tensor) and x.ndim == 2 and len(x) == texts * tokens
            return x.unflatten(0, (texts, tokens)) if row else x

        return replace(self, input=parted(self.input), outputs=[*map(parted, self.outputs)])


def first_input(args: Any, kwargs: Any) -> Any:
    """What a module is called with first, by place or by name."""
    return args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None))


Calls = Sequence[tuple[nn.Module, Call]]


@dataclass
class Record:
    """The calls of a layer's modules since the last layer ended."""

    calls: dict[int, Call] = field(default_factory=dict)
    every: dict[int, list[Call]] = field(default_factory=dict)

    def note(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A forward hook (``with_kwargs=True``) of every module that a trace looks at."""
        first = first_input(args, kwargs)
        outputs = output if isinstance(output, tuple) else (output,)
        names = "position_embeddings", "alibi", "attention_mask"
        self.calls[id(module)] = call = Call(first, outputs, *map(kwargs.get, names))
        self.every.setdefault(id(module), []).append(call)

    def clear(self) -> None:
        """Forget all calls."""
        self.calls.clear()
        self.every.clear()

    def of(self, module: nn.Module) -> Call:
        name = type(module).__name__
        require(id(module) in self.calls, "model", f"{name} that was not called", "its adapter's")
        return self.calls[id(module)]

    def at(self, place: named.Place) -> Tensor:
        """The tensor at an input or output, in its own dtype."""
        call = self.of(place[0])
        return call.input if place[1] == "input" else call.outputs[0]

    def result(self, linear: named.Linear) -> Tensor | None:
        """The output of a linear map, if a module shows it."""
        if linear.module is None:
            return None
        out = self.of(linear.module).outputs[0]
        return out if linear.columns is None else out[..., linear.columns]

    def layer(self, number: int, x: Tensor, blocks: Sequence[named.Block]) -> Layer:
        """The trace of one layer whose input is x."""
        x = double(x)
        self.calls = {key: call.of_texts(*x.shape[:2]) for key, call in self.calls.items()}
        made: list[Block] = []
        heads = None
        _require_fine(blocks, self.at(blocks[-1].total))
        for block in blocks:
            before = made[-1].output if made else x
            branches = []
            for norm, body in block.branches:
                branch = self._branch(norm, body, before)
                branches.append(branch)
                if isinstance(body, named.Attention):
                    inner = branch.steps[0].seen if norm else before
                    heads = self._heads(body, inner)
            total = self.at(block.total)
            after = self._norms(block.after, double(total))
            made.append(Block(branches, double(total), unit_roundoff(total.dtype), after))
        if heads is None:
            raise InputError("model: got a layer without attention, expected one with it")
        return Layer(number, x, made, heads)

    def end(self, final: named.Norm | None, projection: named.Linear | None) -> list[Step]:
        """The norm and the map behind the last layer, if there are any."""
        steps = self._norms([final], double(self.of(final.module).input)) if final else []
        seen = None if projection is None else self.result(projection)
        if projection is None or seen is None:
            return steps
        return [*steps, Step("projection", [_dense(projection)], double(seen), _unit(seen))]

    def _branch(self, norm: named.Norm | None, body: Any, x: Tensor) -> Branch:
        steps = self._norms([norm] if norm else [], x)
        if isinstance(body, named.Attention):
            parts = self._attention(body)
        elif isinstance(body, named.Experts):
            parts = self._experts(body, x.shape)
        else:
            parts = self._mlp(body)
        waiting: list[Map] = []
        for name, map, seen in parts:
            waiting.append(map)
            if seen is not None:
                steps.append(Step(name, waiting, double(seen), unit_roundoff(seen.dtype)))
                waiting = []
        return Branch([*steps, *self._norms([body.behind] if body.behind else [], steps[-1].seen)])

    def _norms(self, norms: Sequence[named.Norm], x: Tensor) -> list[Step]:
        steps = []
        for norm in norms:
            map = Norm.at(x, norm.epsilon, norm.centered, *affine(norm.module, norm.offset))
            seen = self.of(norm.module).outputs[0]
            unit = unit_roundoff(seen.dtype)
            unit = max(unit, unit_roundoff(torch.float32)) if norm.single else unit
            x = double(seen)
            steps.append(Step("norm", [map], x, unit))
        return steps

    def _attention(self, body: named.Attention) -> list[tuple[str, Map, Tensor | None]]:
        output = body.output.module
        mixed = None if output is None else self.of(output).input
        result, gate = self.result(body.output), self._gate(body)
        mix = Mix(self.matrices(body), body.key_heads)
        gated = [("attention", Gate(gate, roundings=GATED), mixed)] if gate is not None else []
        return [
            ("values", _dense(body.value), self.result(body.value)),
            ("attention", mix, None if gated else mixed),
            *gated,
            (
                "heads together",
                _dense(body.output),
                self.of(body.module).outputs[0] if result is None else result,
            ),
        ]

    def matrices(self, body: named.Attention) -> Tensor:
        """The attention matrices of a layer, (batch, heads, tokens, tokens), float64."""
        outputs = self.of(body.module).outputs
        P = outputs[-1] if len(outputs) > 1 else None
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

    def _rotation(self, body: named.Attention) -> tuple[Tensor, Tensor] | None:
        if not body.rotary:
            return None
        rotation = self.of(body.module).rotation
        if rotation is None:
            raise InputError(
                f"model: got {type(body.module).__name__} without position_embeddings, "
                "expected cosines and sines there"
            )
        cos, sin = (double(part) for part in rotation[:2])
        if body.half_angles:
            cos, sin = (torch.cat([part, part], -1) for part in (cos, sin))
        return cos, sin

    def _gate(self, body: named.Attention) -> Tensor | None:
        z = None if body.gate is None else self.result(body.gate)
        return None if z is None else double(z).sigmoid()

    def _mlp(self, body: named.MLP) -> list[tuple[str, Map, Tensor | None]]:
        if body.up.module is None or body.down.module is None:
            raise InputError("model: got an MLP without modules, expected ones to look at")
        up, down = self.result(body.up), self.of(body.down.module)
        assert up is not None
        if body.gate is None:
            factors = quotient(double(down.input), double(up))
        else:
            factors = double(self.of(body.gate).outputs[0])
        return [
            ("MLP, up", _dense(body.up), up),
            ("MLP, gates", Gate(factors), down.input),
            ("MLP, down", _dense(body.down), down.outputs[0]),
        ]

    def _experts(
        self, body: named.Experts, shape: torch.Size
    ) -> list[tuple[str, Map, Tensor | None]]:
        """One step of four maps; shape: of the input, (batch, tokens, width)."""
        routed = body.routed(self.of(body.router))
        weights, chosen = (part.reshape(-1, part.shape[-1]) for part in routed)  # a row a token
        hit, modules = chosen.unique().tolist(), (body.gate, body.shared)
        calls = [call for module in modules for call in self.every.get(id(module), [])]
        given = f"experts of which {len(hit)} are chosen and {len(calls)} were called"
        require(len(hit) == len(calls), "model", given, "experts that are called one by one")
        gates = double(weights).new_zeros(2, *chosen.shape, body.down[0].shape[-2])
        for expert, call in zip(hit, calls, strict=True):
            slot, token = torch.where(chosen.mT == expert)
            for part, found in zip(gates, body.held(call), strict=True):
                part[token, slot] = torch.as_tensor(found).to(part)
        factors, shift = (part.reshape(*shape[:2], -1) for part in gates)
        numbers = chosen.reshape(*shape[:2], -1)
        seen = self.of(body.module).outputs[0].reshape(shape)
        return [
            ("", Chosen(*body.up, numbers), None),
            ("", Gate(factors, shift, roundings=3.0), None),
            ("", Chosen(*body.down, numbers, apart=True), None),
            ("MLP, experts", Weighted(double(weights).reshape(numbers.shape)), seen),
        ]

    def _heads(self, body: named.Attention, x: Tensor) -> Heads:
        Q = _per_head(body.query, body.heads, body.heads)
        K, V = (_per_head(part, body.heads, body.key_heads) for part in (body.key, body.value))
        out, P = body.output.weight, self.of(body.module).outputs[-1]
        gate = self._gate(body)
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
            unit=unit_roundoff(P.dtype),
            softmax_unit=rounded_to(P),
            rotation=self._rotation(body),
            norms=(_head_norm(body, 0), _head_norm(body, 1)) if body.norms else None,
            bias=None if body.bias is None else double(body.bias(self.of(body.module))),
            sinks=body.sinks,
            gates=None if gate is None else gate.unflatten(-1, (body.heads, -1)).transpose(1, 2),
            b_V=None if body.sinks is gate is None else V[1],
            cap=body.cap,
            projections=[*self._projections(body)],
        )

    def _projections(self, body: named.Attention) -> Iterator[Step]:
        for name, part in (("queries", body.query), ("keys", body.key), ("gates", body.gate)):
            seen = None if part is None else self.result(part)
            if part is not None and seen is not None:
                yield Step(name, [_dense(part)], double(seen), _unit(seen))


def _require_fine(blocks: Sequence[named.Block], x: Tensor) -> None:
    """Raises InputError for parts whose roundings to bfloat16 are not counted."""
    bodies = [body for block in blocks for _, body in block.branches]
    scored = [body for body in bodies if isinstance(body, named.Attention)]
    uncounted = {
        "a bias of the scores": any(body.bias is not None for body in scored),
        "sinks": any(body.sinks is not None for body in scored),
        "routed experts": len(scored) < sum(not isinstance(body, named.MLP) for body in bodies),
    }
    for what, there in uncounted.items():
        coarse = there and _unit(x) > SINGLE
        require(not coarse, "dtype", f"bfloat16 with {what}", '"float32" or "float64"')


def _unit(x: Tensor) -> float:
    return unit_roundoff(x.dtype)


def _head_norm(body: named.Attention, which: int) -> HeadNorm:
    assert body.norms is not None
    norm = body.norms[which]
    found = affine(norm.module, norm.offset)
    return HeadNorm(norm.epsilon, norm.centered, *found, body.whole)


def affine(module: nn.Module, offset: float = 0.0) -> tuple[Tensor | float, Tensor | float]:
    """Scale and bias of a norm; the scale with an offset is rounded as the model rounds it."""
    scale, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    scale = scale.float() + offset if offset and scale is not None else scale
    return 1.0 if scale is None else double(scale), 0.0 if bias is None else double(bias)


def _dense(part: named.Linear) -> Dense:
    return Dense(part.weight, 0.0 if part.bias is None else part.bias)


def _per_head(part: named.Linear, heads: int, groups: int) -> tuple[Tensor, Tensor]:
    """(heads, width, size) and (heads, size) from ``groups`` maps that heads in a row share."""
    width, total = part.weight.shape
    bias = part.weight.new_zeros(total) if part.bias is None else part.bias
    weight = part.weight.reshape(width, groups, -1).movedim(1, 0)
    each = heads // groups
    return weight.repeat_interleave(each, 0), bias.reshape(groups, -1).repeat_interleave(each, 0)


def quotient(after: Tensor, before: Tensor) -> Tensor:
    """activation(z) / z; 0 at z = 0, where the activation must vanish."""
    zero = before == 0
    given = "an activation that is not 0 at 0"
    require(bool((after[zero] == 0).all()), "model", given, "one such as gelu, silu, relu, tanh")
    return torch.where(zero, 0.0, after / torch.where(zero, 1.0, before))


def places(blocks: Sequence[named.Block]) -> list[nn.Module]:
    """All modules whose calls a layer's trace is made from."""
    found: list[nn.Module | None] = []
    for block in blocks:
        found += [block.total[0], *(norm.module for norm in block.after)]
        for norm, body in block.branches:
            found += [each.module for each in (norm, body.behind) if each]
            if isinstance(body, named.Attention):
                parts = body.query, body.key, body.value, body.output, body.gate
                found += [body.module, *(part.module for part in parts if part)]
            elif isinstance(body, named.Experts):
                found += [body.module, body.router, body.gate, body.shared]
            else:
                found += [body.up.module, body.down.module, body.gate]
    return list({id(module): module for module in found if module is not None}.values())
