"""Adapters of decoders with norms behind their branches, fused maps or projections at their ends.

See :mod:`attninspect.families`, which lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from attninspect.architecture import (
    MLP,
    Architecture,
    Attention,
    Block,
    Norm,
    layer_norm,
    linear,
    linears,
    norm_after,
    norm_before,
    rms_norm,
)


def _shifted(module: Any) -> Norm:
    """Gemma's RMS norm, whose weights are 1 + w."""
    return Norm(module, module.eps, centered=False, single=True, offset=1.0)


def _gated(mlp: Any, behind: Norm | None = None) -> MLP:
    return MLP(linear(mlp.up_proj), linear(mlp.down_proj), mlp.act_fn, behind)


def _decoder(model: Any, blocks: Callable[[Any], list[Block]], norm: Any) -> Architecture:
    c = model.config
    causal = not getattr(c, "use_bidirectional_attention", False)
    return Architecture(
        [*model.layers], blocks, norm(model.norm), c.max_position_embeddings, causal
    )


def gemma(model: Any) -> Architecture:
    """Gemma 1, 2 and 3: RMS norm with weights 1 + w before each branch.

    In 2 and 3 also behind it; in 2 a soft cap on scores; in 3 norms of queries and keys.
    """
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, ends = layer.self_attn, (None, None)
        middle = layer.post_attention_layernorm
        if c.model_type != "gemma":
            ends = _shifted(middle), _shifted(layer.post_feedforward_layernorm)
            middle = layer.pre_feedforward_layernorm
        own = (_shifted(a.q_norm), _shifted(a.k_norm)) if hasattr(a, "q_norm") else None
        # Gemma 3 has the option, too, and does not use it.
        cap = a.attn_logit_softcapping if c.model_type == "gemma2" else None
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        options: Any = {"rotary": True, "norms": own, "cap": cap, "behind": ends[0]}
        attention = Attention(a, *parts, *heads, a.scaling, **options)
        norms = layer.input_layernorm, middle
        return norm_before(layer, attention, _gated(layer.mlp, ends[1]), norms, _shifted)

    return _decoder(model, blocks, _shifted)


def olmo2(model: Any) -> Architecture:
    """OLMo 2, 3: RMS norm behind each branch alone, and of queries and keys before heads part."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a = layer.self_attn
        ends = map(rms_norm, (layer.post_attention_layernorm, layer.post_feedforward_layernorm))
        own, (first, second) = (rms_norm(a.q_norm), rms_norm(a.k_norm)), ends
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads = c.num_attention_heads, c.num_key_value_heads
        options: Any = {"rotary": True, "norms": own, "whole": True, "behind": first}
        attention = Attention(a, *parts, *heads, a.scaling, **options)
        return [
            Block([(None, attention)], (layer.mlp, "input")),
            Block([(None, _gated(layer.mlp, second))], (layer, "output")),
        ]

    return _decoder(model, blocks, rms_norm)


def phi3(model: Any) -> Architecture:
    """Phi 3: as Llama, queries, keys and values fused, and so the MLP's gate and up."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, mlp = layer.self_attn, layer.mlp
        heads, groups = c.num_attention_heads, c.num_key_value_heads
        sizes = [n * a.head_dim for n in (heads, groups, groups)]
        q, k, v = (linear(a.qkv_proj, at) for at in torch.arange(sum(sizes)).split(sizes))
        parts = q, k, v, linear(a.o_proj)
        attention = Attention(a, *parts, heads, groups, a.scaling, rotary=True)
        inner = c.intermediate_size
        up = linear(mlp.gate_up_proj, torch.arange(inner, 2 * inner))
        gated = MLP(up, linear(mlp.down_proj), mlp.activation_fn)
        norms = layer.input_layernorm, layer.post_attention_layernorm
        return norm_before(layer, attention, gated, norms, rms_norm)

    return _decoder(model, blocks, rms_norm)


def opt(model: Any) -> Architecture:
    """OPT: layer norm before each branch or behind each sum, a map to narrower embeddings."""
    c, decoder = model.config, model.decoder

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.self_attn, c.num_attention_heads
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.out_proj)
        attention = Attention(a, *parts, heads, heads, a.scaling)
        mlp = MLP(linear(layer.fc1), linear(layer.fc2))
        norms = layer.self_attn_layer_norm, layer.final_layer_norm
        if layer.do_layer_norm_before:
            return norm_before(layer, attention, mlp, norms)
        return norm_after(attention, mlp, norms)

    final, out = decoder.final_layer_norm, decoder.project_out
    return Architecture(
        [*decoder.layers],
        blocks,
        None if final is None else layer_norm(final),
        c.max_position_embeddings,
        causal=True,
        projection=None if out is None else linear(out),
    )
