"""What an adapter says of a model: the modules that hold each part of a block.

These classes name modules and the few numbers that no module holds (scales, numbers of heads). A
family's adapter (:mod:`attninspect.families`) fills in an :class:`Architecture`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attninspect.trace import double
from attnverify.support.errors import require

Place = tuple[nn.Module, Literal["input", "output"]]


@dataclass(frozen=True)
class Linear:
    """A linear map: weight (in, out), bias (out,) or None, both float64.

    module: whose output shows the result, if one does; columns: which of that output's entries
    these are, all if None.
    """

    weight: Tensor
    bias: Tensor | None
    module: nn.Module | None = None
    columns: Tensor | None = None


def linear(module: Any, columns: Tensor | None = None) -> Linear:
    """An ``nn.Linear`` (out, in), or the Conv1D of transformers' GPT-2 (in, out).

    columns: the outputs of one part of a fused map (queries, keys, values).
    """
    weight = double(module.weight)
    weight = weight.mT if isinstance(module, nn.Linear) else weight
    bias = None if module.bias is None else double(module.bias)
    if columns is not None:
        weight = weight[:, columns]
        bias = None if bias is None else bias[columns]
    return Linear(weight.contiguous(), bias, module, columns)


def linears(query: Any, key: Any, value: Any, output: Any) -> tuple[Linear, Linear, Linear, Linear]:
    """The four maps of an attention that has a module for each."""
    return linear(query), linear(key), linear(value), linear(output)


def third(module: Any, part: int) -> Linear:
    """Queries (0), keys (1) or values (2) of a fused map that has them one after the other."""
    width = double(module.weight).shape[0 if isinstance(module, nn.Linear) else 1] // 3
    return linear(module, torch.arange(part * width, (part + 1) * width))


def third_of_each(module: Any, part: int, heads: int) -> Linear:
    """The same of a fused map that has queries, keys and values head by head (GPT-NeoX)."""
    columns = torch.arange(module.weight.shape[0]).reshape(heads, 3, -1)
    return linear(module, columns[:, part].flatten())


@dataclass(frozen=True)
class Norm:
    """Layer norm, or RMS norm; ``single``: computed in float32 whatever the model's dtype.

    offset: what the weight is added to, in float32 (the 1 of Gemma's 1 + w).
    """

    module: nn.Module
    epsilon: float
    centered: bool = True
    single: bool = False
    offset: float = 0.0

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "epsilon", f"{self.epsilon}", "a number >= 0")


def layer_norm(module: Any) -> Norm:
    """An ``nn.LayerNorm``."""
    return Norm(module, module.eps)


def rms_norm(module: Any) -> Norm:
    """The RMS norm of transformers' Llama and its kin, which computes in float32."""
    return Norm(module, module.variance_epsilon, centered=False, single=True)


@dataclass(frozen=True)
class Attention:
    """Attention: ``module`` returns the matrices as its last output.

    scale: what scores are multiplied by; rotary: queries and keys are rotated by position, as the
    module's argument ``position_embeddings`` says; norms: those of queries and keys, head by head,
    or with ``whole`` of all heads at once; half_angles: cosines and sines come once for each pair.
    cap: scores s become cap tanh(s / cap); bias: what is added to the scores, (1 or batch, heads, 1
    or tokens, tokens), from the call of the module (:class:`attninspect.record.Call`);
    sinks (heads,): one more score of each row, whose weight goes to no token. gate: its sigmoid
    multiplies what the heads give, entry by entry, in front of the output map. behind: the norm of
    what the branch adds.
    """

    module: nn.Module
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    key_heads: int
    scale: float
    rotary: bool = False
    norms: tuple[Norm, Norm] | None = None
    bias: Callable[[Any], Tensor] | None = None
    sinks: Tensor | None = None
    gate: Linear | None = None
    half_angles: bool = False
    whole: bool = False
    cap: float | None = None
    behind: Norm | None = None

    def __post_init__(self) -> None:
        require(self.scale > 0, "scale", f"{self.scale}", "a number > 0: signs belong to weights")
        given = f"{self.cap}"
        require(self.cap is None or self.cap > 0, "cap", given, "a number > 0, or None")
        seen = self.gate is None or None not in (self.gate.module, self.output.module)
        given = "a gate, and no module for it or for the output map"
        require(seen, "gate", given, "modules for both, which show the gate and what is gated")


@dataclass(frozen=True)
class MLP:
    """down(activation(up x)), or down(activation(gate x) * up x) where ``gate`` is the activation.

    up's module and down's module are seen. Without a gate the activation is held fixed as the
    quotient of down's input and up's output, so it may be any that is 0 at 0. behind: as above.
    """

    up: Linear
    down: Linear
    gate: nn.Module | None = None
    behind: Norm | None = None


@dataclass(frozen=True)
class Experts:
    """Routed experts: sum over the experts e chosen for a token of weight_e down_e(gates * up_e x).

    module: whose output is seen; routed: from a call of the router the weights and numbers of the
    chosen experts, (tokens, chosen). up, down: (experts, in, out), with biases (experts, out)
    or None. gate: called once an expert, in order, with what the tokens that chose it give it;
    held: from such a call what multiplies the entries of up's result and what is added, (rows,
    width). shared: called once, as ``gate`` is, for one more expert, the last, which ``routed`` has
    for every token. Which experts are chosen, their weights and the gates are held fixed. behind:
    as above.
    """

    module: nn.Module
    router: nn.Module
    gate: nn.Module
    up: tuple[Tensor, Tensor | None]
    down: tuple[Tensor, Tensor | None]
    held: Callable[[Any], tuple[Tensor, Tensor | float]]
    #: A router gives logits, weights, numbers of experts.
    routed: Callable[[Any], tuple[Tensor, Tensor]] = lambda call: (call.outputs[1], call.outputs[2])
    shared: nn.Module | None = None
    behind: Norm | None = None


Body = Attention | MLP | Experts


@dataclass(frozen=True)
class Block:
    """input + what the branches give, each behind its norm; then the norms of ``after``.

    total: where that sum is seen.
    """

    branches: Sequence[tuple[Norm | None, Body]]
    total: Place
    after: Sequence[Norm] = ()


@dataclass(frozen=True)
class Architecture:
    """The layers in order (one module may stand for several), and what stands behind the last.

    blocks: from a layer's module to its blocks; positions: the largest number of tokens, if there
    is one; causal: whether tokens see earlier ones alone; tokens_first: inputs are (tokens, batch,
    width); projection: the map behind the final norm, if there is one.
    """

    layers: Sequence[nn.Module]
    blocks: Callable[[nn.Module], Sequence[Block]]
    final: Norm | None = None
    positions: int | None = None
    causal: bool = False
    tokens_first: bool = False
    projection: Linear | None = None


Norms = tuple[nn.Module, nn.Module]  # of attention and MLP


def norm_before(
    layer: Any,
    attention: Attention,
    mlp: MLP | Experts,
    norms: Norms,
    norm: Callable[[Any], Norm] = layer_norm,
) -> list[Block]:
    """The blocks of a layer that normalizes the input of each branch."""
    return [
        Block([(norm(norms[0]), attention)], (norms[1], "input")),
        Block([(norm(norms[1]), mlp)], (layer, "output")),
    ]


def norm_after(attention: Attention, mlp: MLP | Experts, norms: Norms) -> list[Block]:
    """The blocks of a layer that normalizes each sum."""
    return [
        Block([(None, body)], (norm, "input"), [layer_norm(norm)])
        for body, norm in zip((attention, mlp), norms, strict=True)
    ]


def rotated(config: Any) -> int | None:
    """The largest number of tokens; none where the rotation is stretched to the text's length."""
    dynamic = (config.rope_parameters or {}).get("rope_type") == "dynamic"
    return None if dynamic else config.max_position_embeddings
