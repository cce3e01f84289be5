"""Adapters of families whose MLP is a choice of experts, which is held as the model made it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attninspect.architecture import (
    MLP,
    Architecture,
    Attention,
    Block,
    Experts,
    Norm,
    linear,
    linears,
    norm_before,
    rms_norm,
    rotated,
)
from attninspect.record import Call, quotient
from attninspect.trace import double
from attnverify.support.errors import require

SHARED = "1: the roundings of several, which the model sums in one product, are not counted"


def _held(call: Call) -> tuple[Tensor, float]:
    """Of a gated expert: its activations are the factors."""
    return double(call.outputs[0]), 0.0


def mixtral(model: Any) -> Architecture:
    """Mixtral: as Mistral, with routed experts in place of the MLP."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, experts = layer.self_attn, layer.mlp.experts
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        attention = Attention(a, *parts, *heads, a.scaling, rotary=True)
        up = double(experts.gate_up_proj)[:, experts.intermediate_dim :].mT, None
        down = double(experts.down_proj).mT, None
        mlp = Experts(experts, layer.mlp.gate, experts.act_fn, up, down, _held)
        norms = layer.input_layernorm, layer.post_attention_layernorm
        return norm_before(layer, attention, mlp, norms, rms_norm)

    return Architecture([*model.layers], blocks, rms_norm(model.norm), rotated(c), causal=True)


def afmoe(model: Any) -> Architecture:
    """AFMoE (Trinity): gated heads, norms before and behind branches, rotary in windows alone.

    First layers have an MLP; others routed experts and a shared one, the last, of weight 1.
    """
    c = model.config
    given = f"num_shared_experts {c.num_shared_experts}"
    dense = c.num_dense_layers >= len(model.layers)
    require(dense or c.num_shared_experts == 1, "model", given, SHARED)

    def with_shared(call: Call) -> tuple[Tensor, Tensor]:
        _, weights, chosen = (part.reshape(-1, part.shape[-1]) for part in call.outputs)
        parts = (weights, 1.0), (chosen, c.num_experts)
        w, e = (torch.cat([p, p.new_full((len(p), 1), last)], -1) for p, last in parts)
        return w, e

    def mlp_of(mlp: Any, behind: Norm) -> MLP | Experts:
        if not hasattr(mlp, "experts"):
            return MLP(linear(mlp.up_proj), linear(mlp.down_proj), mlp.act_fn, behind)
        routed, shared = mlp.experts, mlp.shared_experts
        up = double(routed.gate_up_proj)[:, routed.intermediate_dim :].mT
        down = double(routed.down_proj).mT
        last = linear(shared.up_proj).weight[None], linear(shared.down_proj).weight[None]
        up, down = (torch.cat([*pair]) for pair in zip((up, down), last, strict=True))
        more: Any = {"routed": with_shared, "shared": shared.act_fn, "behind": behind}
        return Experts(mlp, mlp.router, routed.act_fn, (up, None), (down, None), _held, **more)

    def blocks(layer: Any) -> list[Block]:
        a = layer.self_attn
        ends = map(rms_norm, (layer.post_attention_layernorm, layer.post_mlp_layernorm))
        own, (first, second) = (rms_norm(a.q_norm), rms_norm(a.k_norm)), ends
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        more: Any = {"rotary": a.is_local_attention, "norms": own, "behind": first}
        attention = Attention(a, *parts, *heads, a.scaling, gate=linear(a.gate_proj), **more)
        norms = layer.input_layernorm, layer.pre_mlp_layernorm
        return norm_before(layer, attention, mlp_of(layer.mlp, second), norms, rms_norm)

    return Architecture([*model.layers], blocks, rms_norm(model.norm), rotated(c), causal=True)


def gpt_oss(model: Any) -> Architecture:
    """GPT-OSS: sinks in the softmax, routed experts with biases and a clamped gate.

    An expert is down(g (u + 1)) with u of up's result cut off at +-limit, and g of its gate's. Held
    are g, and which entries of u are cut off: these are constants.
    """
    c = model.config

    def held(call: Any) -> tuple[Tensor, Tensor]:
        limit, result = c.swiglu_limit, double(call.outputs[0])
        up = call.input[..., 1::2]
        cut = up.clamp(-limit, limit)
        gates = quotient(result, double(cut + 1))
        inside = up == cut
        return torch.where(inside, gates, 0.0), torch.where(inside, gates, result)

    def blocks(layer: Any) -> list[Block]:
        a, experts = layer.self_attn, layer.mlp.experts
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        more: dict[str, Any] = {"rotary": True, "half_angles": True, "sinks": double(a.sinks)}
        attention = Attention(a, *parts, *heads, a.scaling, **more)
        weight, bias = double(experts.gate_up_proj), double(experts.gate_up_proj_bias)
        up = weight[..., 1::2].contiguous(), bias[..., 1::2]
        down = double(experts.down_proj), double(experts.down_proj_bias)
        gate = vars(experts).get("_apply_gate", experts)  # once a run makes it visible
        mlp = Experts(experts, layer.mlp.router, gate, up, down, held)
        norms = layer.input_layernorm, layer.post_attention_layernorm
        return norm_before(layer, attention, mlp, norms, rms_norm)

    return Architecture([*model.layers], blocks, rms_norm(model.norm), rotated(c), causal=True)
