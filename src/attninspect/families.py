"""How a family builds its layers: which modules of the model hold which part of a block.

An adapter is a function from a model to an
:class:`~attninspect.architecture.Architecture`. It names modules; it computes nothing.
What the modules did in a forward pass is seen through hooks, and the trace made from both is
checked against the model at every step (:mod:`attninspect.reconstruction`), so that an
adapter cannot be wrong unnoticed. To add a family of ``transformers``, write its adapter and enter
it in FAMILIES under the ``model_type`` of its config.json; outside of this package, register it
with :func:`adapter`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from typing import Any

from torch import nn

from attninspect.architecture import (
    MLP,
    Architecture,
    Attention,
    Block,
    Linear,
    layer_norm,
    linear,
    linears,
    norm_after,
    norm_before,
    rms_norm,
    rotated,
    third,
    third_of_each,
)
from attninspect.families_biased import bloom, falcon, t5
from attninspect.families_decoders import gemma, olmo2, opt, phi3
from attninspect.families_routed import afmoe, gpt_oss, mixtral
from attninspect.trace import double
from attnverify.support.errors import InputError, require, shown

Adapter = Callable[[Any], Architecture]


def gpt2(model: Any) -> Architecture:
    """GPT-2: layer norm before, fused queries, keys and values, learned positions."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.attn, c.num_attention_heads
        q, k, v = (third(a.c_attn, part) for part in range(3))
        parts = q, k, v, linear(a.c_proj)
        scale = (c.hidden_size // heads) ** -0.5 if c.scale_attn_weights else 1.0
        if c.scale_attn_by_inverse_layer_idx:
            scale /= a.layer_idx + 1
        attention = Attention(a, *parts, heads, heads, scale)
        mlp = MLP(linear(layer.mlp.c_fc), linear(layer.mlp.c_proj))
        return norm_before(layer, attention, mlp, (layer.ln_1, layer.ln_2))

    return Architecture([*model.h], blocks, layer_norm(model.ln_f), c.n_positions, causal=True)


def llama(model: Any) -> Architecture:
    """Llama, Mistral, Qwen 2 and 3, SmolLM3: RMS norm before, rotary, grouped keys, gated MLP."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, mlp = layer.self_attn, layer.mlp
        own = (rms_norm(a.q_norm), rms_norm(a.k_norm)) if hasattr(a, "q_norm") else None
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        heads, rotary = (c.num_attention_heads, c.num_key_value_heads), getattr(a, "use_rope", True)
        attention = Attention(a, *parts, *heads, a.scaling, rotary=bool(rotary), norms=own)
        gated = MLP(linear(mlp.up_proj), linear(mlp.down_proj), gate=mlp.act_fn)
        norms = layer.input_layernorm, layer.post_attention_layernorm
        return norm_before(layer, attention, gated, norms, rms_norm)

    final = rms_norm(model.norm)
    return Architecture([*model.layers], blocks, final, rotated(c), causal=True)


def bert(model: Any) -> Architecture:
    """BERT, RoBERTa, ELECTRA and their kin: layer norm after each sum, learned positions."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, after, heads = layer.attention.self, layer.attention.output, c.num_attention_heads
        parts = linears(a.query, a.key, a.value, after.dense)
        attention = Attention(a, *parts, heads, heads, a.scaling)
        mlp = MLP(linear(layer.intermediate.dense), linear(layer.output.dense))
        ends = after.LayerNorm, layer.output.LayerNorm
        return norm_after(attention, mlp, ends)

    positions = c.max_position_embeddings
    if c.model_type in ("camembert", "roberta", "xlm-roberta"):
        given = f"pad_token_id {c.pad_token_id} in config.json"
        require(c.pad_token_id is not None, "model", given, "a number: positions start behind it")
        positions -= c.pad_token_id + 1
    return Architecture([*model.encoder.layer], blocks, None, positions, causal=c.is_decoder)


def distilbert(model: Any) -> Architecture:
    """DistilBERT: as BERT, under other names."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a = layer.attention
        parts = linears(a.q_lin, a.k_lin, a.v_lin, a.out_lin)
        attention = Attention(a, *parts, c.n_heads, c.n_heads, a.scaling)
        mlp = MLP(linear(layer.ffn.lin1), linear(layer.ffn.lin2))
        ends = layer.sa_layer_norm, layer.output_layer_norm
        return norm_after(attention, mlp, ends)

    return Architecture([*model.transformer.layer], blocks, None, c.max_position_embeddings)


def albert(model: Any) -> Architecture:
    """ALBERT: as BERT, one layer's weights at all depths (or a few groups of layers)."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.attention, c.num_attention_heads
        parts = linears(a.query, a.key, a.value, a.dense)
        attention = Attention(a, *parts, heads, heads, a.scaling)
        mlp = MLP(linear(layer.ffn), linear(layer.ffn_output))
        ends = a.LayerNorm, layer.full_layer_layer_norm
        return norm_after(attention, mlp, ends)

    groups, per_group = model.encoder.albert_layer_groups, c.num_hidden_layers / c.num_hidden_groups
    order = (groups[int(i / per_group)] for i in range(c.num_hidden_layers))
    layers = [layer for group in order for layer in group.albert_layers]
    return Architecture(layers, blocks, None, c.max_position_embeddings)


def gpt_neox(model: Any) -> Architecture:
    """GPT-NeoX: rotary, queries, keys and values fused head by head, both branches in parallel."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.attention, c.num_attention_heads
        q, k, v = (third_of_each(a.query_key_value, part, heads) for part in range(3))
        parts = q, k, v, linear(a.dense)
        attention = Attention(a, *parts, heads, heads, a.scaling, rotary=True)
        mlp = MLP(linear(layer.mlp.dense_h_to_4h), linear(layer.mlp.dense_4h_to_h))
        norms = layer.input_layernorm, layer.post_attention_layernorm
        if not layer.use_parallel_residual:
            return norm_before(layer, attention, mlp, norms)
        first, second = map(layer_norm, norms)
        return [Block([(first, attention), (second, mlp)], (layer, "output"))]

    final = layer_norm(model.final_layer_norm)
    return Architecture([*model.layers], blocks, final, rotated(c), causal=True)


def phi(model: Any) -> Architecture:
    """Phi: one layer norm for attention and MLP in parallel, rotary in part of a head."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, norms = layer.self_attn, None
        if c.qk_layernorm:
            norms = layer_norm(a.q_layernorm), layer_norm(a.k_layernorm)
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.dense)
        heads = c.num_attention_heads, c.num_key_value_heads
        attention = Attention(a, *parts, *heads, a.scaling, rotary=True, norms=norms)
        mlp = MLP(linear(layer.mlp.fc1), linear(layer.mlp.fc2))
        before = layer_norm(layer.input_layernorm)
        return [Block([(before, attention), (before, mlp)], (layer, "output"))]

    final = layer_norm(model.final_layernorm)
    return Architecture([*model.layers], blocks, final, rotated(c), causal=True)


def vit(model: Any) -> Architecture:
    """Vision transformer: layer norm before, full attention over patches."""
    c = model.config

    def blocks(layer: Any) -> list[Block]:
        a, heads = layer.attention, c.num_attention_heads
        parts = linears(a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        attention = Attention(a, *parts, heads, heads, a.scaling)
        mlp = MLP(linear(layer.mlp.fc1), linear(layer.mlp.fc2))
        norms = layer.layernorm_before, layer.layernorm_after
        return norm_before(layer, attention, mlp, norms)

    return Architecture([*model.layers], blocks, layer_norm(model.layernorm))


FAMILIES: dict[str, Adapter] = {
    "afmoe": afmoe,
    "albert": albert,
    "bert": bert,
    "bloom": bloom,
    "camembert": bert,
    "distilbert": distilbert,
    "electra": bert,
    "ernie": bert,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma,
    "gemma3_text": gemma,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "gpt_oss": gpt_oss,
    "llama": llama,
    "mistral": llama,
    "mixtral": mixtral,
    "mt5": t5,
    "olmo2": olmo2,
    "olmo3": olmo2,
    "opt": opt,
    "phi": phi,
    "phi3": phi3,
    "qwen2": llama,
    "qwen3": llama,
    "roberta": bert,
    "smollm3": llama,
    "t5": t5,
    "vit": vit,
    "xlm-roberta": bert,
}


GROUP = "attnverify.adapters"  # entry points, a model_type each


def adapter(model_type: Any, *, replace: bool = False) -> Callable[[Adapter], Adapter]:
    """Register a function from a module to its architecture, as a decorator.

    model_type: what ``model.config.model_type`` says. A package may name its adapter in the entry
    point group ``attnverify.adapters`` instead, which is read when a type is unknown. Raises
    InputError for a type that has an adapter, unless ``replace`` is true.

    >>> import attnverify as av
    >>> @av.adapter("my_type", replace=True)
    ... def mine(model): ...
    >>> av.adapter("llama")
    Traceback (most recent call last):
        ...
    attnverify.support.errors.InputError: model_type: got 'llama', which has an adapter, expected \
another name, or replace=True
    """
    text = isinstance(model_type, str) and model_type != ""
    require(text, "model_type", shown(model_type), "the model_type of a configuration")
    taken = f"{shown(model_type)}, which has an adapter"
    free = replace or model_type not in FAMILIES
    require(free, "model_type", taken, "another name, or replace=True")

    def register(function: Adapter) -> Adapter:
        require(callable(function), "adapter", shown(function), "a function of the module")
        FAMILIES[model_type] = function
        return function

    return register


def _of_package(model_type: str) -> Adapter | None:
    """The adapter that an installed package names for a type."""
    found = [*entry_points(group=GROUP, name=model_type)]
    packages = ", ".join(sorted(each.dist.name if each.dist else each.value for each in found))
    given = f"adapters for {shown(model_type)} from several packages ({packages})"
    require(len(found) < 2, "model", given, f"one, or an adapter of your own ({OWN})")
    return found[0].load() if found else None


OWN = "@av.adapter(model_type)"


def require_family(model_type: Any, where: str, known: Collection[str] = FAMILIES) -> str:
    """The model type, if it is a known one; raises InputError with the others."""
    if isinstance(model_type, str) and model_type in known:
        return model_type
    raise InputError(
        f"model: got model_type {shown(model_type)} in {where}, expected one of "
        f"{', '.join(known)}; a module of another takes an adapter of about 20 lines ({OWN})"
    )


def architecture_of(model: nn.Module) -> Architecture:
    """The architecture of a module of ``transformers``, or of a ``torch.nn.TransformerEncoder``."""
    if isinstance(model, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        return torch_encoder(model)
    name = type(model).__name__
    family = getattr(getattr(model, "config", None), "model_type", None)
    what = "model.config = types.SimpleNamespace(model_type=...) and an adapter for that type"
    require(family is not None, "model", f"{name} without config.model_type", f"{what} ({OWN})")
    if isinstance(family, str) and family not in FAMILIES and (outside := _of_package(family)):
        FAMILIES[family] = outside
    found = FAMILIES[require_family(family, name)](model)
    given = f"{shown(found)} from the adapter of {shown(family)}"
    require(isinstance(found, Architecture), "model", given, "an Architecture")
    require(len(found.layers) > 0, "model", "an Architecture without layers", "one with layers")
    return found


def torch_encoder(model: nn.TransformerEncoder | nn.TransformerEncoderLayer) -> Architecture:
    """Layer norm after each sum, or before each branch with ``norm_first``."""
    alone = isinstance(model, nn.TransformerEncoderLayer)
    layers: list[Any] = [model] if alone else list(model.layers)
    final = None if alone or model.norm is None else layer_norm(model.norm)
    orders = {layer.self_attn.batch_first for layer in layers}
    require(len(orders) == 1, "model", "layers with and without batch_first", "one of them")
    return Architecture(layers, _torch_blocks, final, tokens_first=orders == {False})


def _torch_blocks(layer: Any) -> list[Block]:
    a = layer.self_attn
    q, k, v = (_fused_part(a, part) for part in range(3))
    bias = None if a.out_proj.bias is None else double(a.out_proj.bias)
    out = Linear(double(a.out_proj.weight).mT, bias)
    attention = Attention(a, q, k, v, out, a.num_heads, a.num_heads, a.head_dim**-0.5)
    mlp = MLP(linear(layer.linear1), linear(layer.linear2))
    norms = layer.norm1, layer.norm2
    if layer.norm_first:
        return norm_before(layer, attention, mlp, norms)
    return norm_after(attention, mlp, norms)


def _fused_part(a: nn.MultiheadAttention, part: int) -> Linear:
    """Queries, keys or values of the fused matrix, whose product no module shows."""
    rows = slice(part * a.embed_dim, (part + 1) * a.embed_dim)
    weight = double(a.in_proj_weight)[rows].mT.contiguous()
    bias = None if a.in_proj_bias is None else double(a.in_proj_bias)[rows]
    return Linear(weight, bias)
