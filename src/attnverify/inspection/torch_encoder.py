"""The adapter of ``torch.nn.TransformerEncoder`` and of one ``TransformerEncoderLayer``."""

from __future__ import annotations

from typing import Any

from torch import nn

from attnverify.inspection.spec import (
    MLP,
    Architecture,
    Attention,
    Block,
    Linear,
    layer_norm,
    linear,
)
from attnverify.inspection.trace import double
from attnverify.support.errors import require


def torch_encoder(model: nn.TransformerEncoder | nn.TransformerEncoderLayer) -> Architecture:
    """Layer norm after each sum, or before each branch with ``norm_first``."""
    alone = isinstance(model, nn.TransformerEncoderLayer)
    layers: list[Any] = [model] if alone else list(model.layers)
    final = None if alone or model.norm is None else layer_norm(model.norm)
    orders = {layer.self_attn.batch_first for layer in layers}
    require(len(orders) == 1, "model", "layers with and without batch_first", "one of them")
    return Architecture(layers, _blocks, final, tokens_first=orders == {False})


def _blocks(layer: Any) -> list[Block]:
    a = layer.self_attn
    attention = Attention(
        a,
        _part(a, 0),
        _part(a, 1),
        _part(a, 2),
        Linear(double(a.out_proj.weight).mT, _bias(a.out_proj.bias), None),
        heads=a.num_heads,
        key_heads=a.num_heads,
        scale=a.head_dim**-0.5,
    )
    mlp = MLP(linear(layer.linear1), linear(layer.linear2))
    first, second = layer_norm(layer.norm1), layer_norm(layer.norm2)
    if layer.norm_first:
        return [
            Block([(first, attention)], (layer.norm2, "input")),
            Block([(second, mlp)], (layer, "output")),
        ]
    return [
        Block([(None, attention)], (layer.norm1, "input"), [first]),
        Block([(None, mlp)], (layer.norm2, "input"), [second]),
    ]


def _part(a: nn.MultiheadAttention, part: int) -> Linear:
    """Queries, keys or values of the fused matrix, whose product no module shows."""
    rows = slice(part * a.embed_dim, (part + 1) * a.embed_dim)
    weight = double(a.in_proj_weight)[rows].mT.contiguous()
    bias = None if a.in_proj_bias is None else double(a.in_proj_bias)[rows]
    return Linear(weight, bias)


def _bias(bias: Any) -> Any:
    return None if bias is None else double(bias)
