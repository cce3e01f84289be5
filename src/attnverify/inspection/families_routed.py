"""Adapters of families whose MLP is a choice of experts, which is held as the model made it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnverify.inspection.architecture import (
    Architecture,
    Attention,
    Block,
    Experts,
    linears,
    norm_before,
    rms_norm,
    rotated,
)
from attnverify.inspection.record import quotient
from attnverify.inspection.trace import double


def mixtral(model: Any) -> Architecture:
    """Mixtral: as Mistral, with routed experts in place of the MLP."""
    c = model.config

    def held(call: Any) -> tuple[Tensor, float]:
        return double(call.outputs[0]), 0.0

    def blocks(layer: Any) -> list[Block]:
        a, experts = layer.self_attn, layer.mlp.experts
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        attention = Attention(a, *parts, *heads, a.scaling, rotary=True)
        up = double(experts.gate_up_proj)[:, experts.intermediate_dim :].mT, None
        down = double(experts.down_proj).mT, None
        mlp = Experts(experts, layer.mlp.gate, experts.act_fn, up, down, held)
        norms = layer.input_layernorm, layer.post_attention_layernorm
        return norm_before(layer, attention, mlp, norms, rms_norm)

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
