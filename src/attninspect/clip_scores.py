"""Clip the attention scores of a model in training: scale each head's queries by one factor.

It changes weights and adds nothing to the model. What it guarantees is claim
``training.clipped-scores``; what it did in an experiment stands in the chapter on watching a run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attninspect.architecture import Attention
from attninspect.families import architecture_of
from attninspect.modules import require_plain
from attninspect.watch import arguments_of, attention_of, inner, run_still
from attnverify.mathematics import clipping
from attnverify.support.errors import InputError, require

Bounds = dict[int, Tensor]


def clip_scores(model: nn.Module, batch: Any, largest: float | int = 30.0) -> Tensor:
    """Scale queries so that no score of these tokens is larger than ``largest`` in size.

    model, batch: as for :class:`attninspect.watch.Watch`, but all texts of the batch are
    used. The factor of a head is min(1, largest / (|q| |k| scale)) with its longest query and its
    longest key, and multiplies the weights and biases of its queries in place, layer after layer.
    So the bound holds to rounding, with rotary positions, too, and before a bias by distance
    (ALiBi) is added. (A layer that comes back at other
    depths is scaled at each; its first scores may change afterwards.) Other tokens may have larger
    scores: call it again after every step.

    Returns the factors (layers, heads), 1 where nothing was done; a layer that comes back at other
    depths stands once. Raises InputError for a model that cannot be read, or that normalizes its
    queries and keys, where scaled weights change nothing.

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> factors = av.clip_scores(model, torch.randn(4, 5, 8), largest=0.5)
    >>> factors.shape, bool((factors < 1).all())
    (torch.Size([2, 2]), True)
    """
    require(largest > 0, "largest", largest, "a positive number, the largest score")
    require_plain(model)
    model = inner(model)
    architecture = architecture_of(model)
    layers = attention_of(architecture)
    if any(attention.norms for attention in layers):
        raise InputError(
            "model: got one that normalizes queries and keys, expected one that does not; there "
            "the gains of these normalization layers limit the scores"
        )
    by_module = {id(attention.module): attention for attention in layers}
    factors: dict[int, Tensor] = {}

    def scale(module: nn.Module, x: Tensor) -> None:
        """Before the module runs, so that later layers see what is clipped."""
        attention = by_module[id(module)]
        before = factors.get(id(module), x.new_ones(attention.heads, dtype=torch.float64))
        found = _factors(attention, x, before, largest)
        _scale_queries(attention, found)
        factors[id(module)] = before * found

    modules, turned = [attention.module for attention in layers], architecture.tokens_first
    run_still(model, modules, turned, arguments_of(model, batch, None, None), before=scale)
    return torch.stack([factors[id(attention.module)] for attention in layers])


def _factors(attention: Attention, x: Tensor, before: Tensor, largest: float) -> Tensor:
    """A factor for each head, from the longest query and key of all tokens; (heads,) float64.

    before: what the queries have been multiplied with since the model was read.
    """
    x = x.double().flatten(0, -2)
    Q = _by_head(x, attention.query, attention.heads) * before[:, None, None]
    K = _by_head(x, attention.key, attention.key_heads)
    K = K.repeat_interleave(attention.heads // attention.key_heads, 0)
    return clipping.factor(Q, K, attention.scale, largest)


def _by_head(x: Tensor, linear: Any, heads: int) -> Tensor:
    """Queries or keys, (heads, tokens, key_width)."""
    y = x @ linear.weight
    y = y if linear.bias is None else y + linear.bias
    return y.unflatten(-1, (heads, -1)).transpose(0, 1)


def _scale_queries(attention: Attention, factors: Tensor) -> None:
    """Multiply what gives each head's queries with its factor."""
    outputs = attention.query.weight.shape[1]
    each = factors.repeat_interleave(outputs // attention.heads)
    module: Any = attention.query.module or attention.module
    columns = attention.query.columns
    columns = torch.arange(outputs) if columns is None else columns
    if attention.query.module is None:  # the fused map of torch.nn.MultiheadAttention
        weight, bias, by_row = module.in_proj_weight, module.in_proj_bias, True
    else:
        weight, bias, by_row = module.weight, module.bias, isinstance(module, nn.Linear)
    each = each.to(weight)
    if by_row:
        weight[columns] *= each[:, None]
    else:
        weight[:, columns] *= each
    if bias is not None:
        bias[columns] *= each
