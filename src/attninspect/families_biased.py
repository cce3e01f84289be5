"""Adapters of families that add a bias by position to the scores of attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attninspect.architecture import (
    MLP,
    Architecture,
    Attention,
    Block,
    Linear,
    layer_norm,
    linear,
    linears,
    norm_before,
    rms_norm,
    rotated,
)
from attnverify.support.errors import require


def by_group(module: Any, groups: int, size: int) -> tuple[Linear, Linear, Linear]:
    """Queries, keys and values of a fused map that has a group's queries, its key, its value.

    size: entries of one query, key or value.
    """
    columns = torch.arange(module.weight.shape[0]).reshape(groups, -1, size)
    parts = columns[:, :-2], columns[:, -2], columns[:, -1]
    q, k, v = (linear(module, part.flatten()) for part in parts)
    return q, k, v


def bloom(model: Any) -> Architecture:
    """BLOOM: layer norm before, fused queries, keys and values head by head, ALiBi."""
    c = model.config
    given = "slow_but_exact with pretraining_tp > 1, which leaves out biases"
    require(not (c.slow_but_exact and c.pretraining_tp > 1), "model", given, "it without")

    def alibi(call: Any) -> Tensor:
        return call.alibi.unflatten(0, (-1, c.n_head))

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.self_attention, c.n_head
        parts = *by_group(a.query_key_value, heads, a.head_dim), linear(a.dense)
        attention = Attention(a, *parts, heads, heads, a.inv_norm_factor, bias=alibi)
        mlp = MLP(linear(layer.mlp.dense_h_to_4h), linear(layer.mlp.dense_4h_to_h))
        norms = layer.input_layernorm, layer.post_attention_layernorm
        if not c.apply_residual_connection_post_layernorm:
            return norm_before(layer, attention, mlp, norms)
        first, second = map(layer_norm, norms)  # the stream itself is normalized
        return [
            Block([], (norms[0], "input"), [first]),
            Block([(None, attention)], (norms[1], "input"), [second]),
            Block([(None, mlp)], (layer, "output")),
        ]

    return Architecture([*model.h], blocks, layer_norm(model.ln_f), causal=True)


def falcon(model: Any) -> Architecture:
    """Falcon: rotary or ALiBi, grouped keys in a fused map, attention and MLP in parallel."""
    c = model.config
    new = c.new_decoder_architecture
    groups = c.num_kv_heads if new else 1 if c.multi_query else c.num_attention_heads

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.self_attention, c.num_attention_heads
        scale = a.inv_norm_factor

        def alibi(call: Any) -> Tensor:  # with eager attention the mask has it once more
            return call.alibi.double() * scale + call.mask.double().clamp_min(0)

        bias = alibi if c.alibi else None
        parts = *by_group(a.query_key_value, groups, a.head_dim), linear(a.dense)
        attention = Attention(a, *parts, heads, groups, scale, rotary=not c.alibi, bias=bias)
        mlp = MLP(linear(layer.mlp.dense_h_to_4h), linear(layer.mlp.dense_4h_to_h))
        if not (new or c.parallel_attn):
            norms = layer.input_layernorm, layer.post_attention_layernorm
            return norm_before(layer, attention, mlp, norms)
        own = ("ln_attn", "ln_mlp") if hasattr(layer, "ln_attn") else ("input_layernorm",) * 2
        first, second = (layer_norm(getattr(layer, name)) for name in own)
        return [Block([(first, attention), (second, mlp)], (layer, "output"))]

    final = layer_norm(model.ln_f)
    return Architecture([*model.h], blocks, final, None if c.alibi else rotated(c), causal=True)


def t5(model: Any) -> Architecture:
    """The encoder of T5 and mT5: RMS norm before, relative positions in the scores, no scale."""
    encoder = getattr(model, "encoder", model)
    alone = not hasattr(model, "decoder") and not encoder.is_decoder
    given = "a decoder that attends to other tokens"
    require(alone, "model", given, "its encoder (T5EncoderModel, or model.encoder)")

    def relative(call: Any) -> Tensor:
        return call.outputs[1]

    def blocks(layer: Any) -> list[Block]:
        (first, second), heads = layer.layer, encoder.config.num_heads
        a, inner = first.SelfAttention, second.DenseReluDense
        parts = linears(a.q, a.k, a.v, a.o)
        attention = Attention(a, *parts, heads, heads, a.scaling, bias=relative)
        gated = encoder.config.is_gated_act
        up, gate = (inner.wi_1, inner.act) if gated else (inner.wi, None)
        norms = first.layer_norm, second.layer_norm
        return norm_before(
            layer, attention, MLP(linear(up), linear(inner.wo), gate), norms, rms_norm
        )

    return Architecture([*encoder.block], blocks, rms_norm(encoder.final_layer_norm))
