"""Maps by the planes that rotations turn, and two tokens in one that attain a layer's bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Instance
from attnverify.mathematics import position_bounds
from attnverify.topics.shared.instances import two_tokens


def in_plane(
    size: float, middle: float, heads: int = 1, angle: float = 1.0, bias: float = 0.0
) -> Instance:
    """Tokens (middle, -+size/2) and weights that are multiples of the identity of a plane.

    Head h = 1, 2, ... turns by angle / h, has h times the scores and 1/h of the value map; bias:
    what a token's own score gets. Maps have an axis for the two features of a plane, see
    :func:`flat`.
    """
    h = torch.arange(1, heads + 1, dtype=torch.float64)
    eye, zero = torch.eye(2, dtype=torch.float64), torch.zeros(heads, 2, 1, dtype=torch.float64)
    places = torch.zeros(heads, 3, dtype=torch.float64)
    places[:, 1] = bias
    return {
        "X": torch.tensor([[middle, -size / 2], [middle, size / 2]], dtype=torch.float64),
        "W_Q": h[:, None, None, None] * eye[..., None],
        "W_K": eye[..., None].repeat(heads, 1, 1, 1),
        "b_Q": zero,
        "b_K": zero,
        "angles": (angle / h)[:, None],
        "bias": places,
        "W": eye / h[:, None, None],
    }


def by_bias(size: float, bias: float) -> Instance:
    """Tokens -+size/2 on a line, no rotation, ``bias`` for a token's own score."""
    return {**in_plane(size, 0.0, angle=0.0, bias=bias), "X": two_tokens(2, size)}


def flat(instance: Instance) -> Instance:
    """Maps (..., 2, planes) as they are stored, (..., key_width): feature p and p + planes.

    Keys then have an even width by their shape, and as many planes as there are angles.
    """
    split = {"W_Q", "W_K", "b_Q", "b_K", "Q", "K"} & instance.keys()
    return {**instance, **{k: instance[k].reshape(*instance[k].shape[:-2], -1) for k in split}}


def by_planes(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of stored maps as one of maps by planes."""

    @wraps(formula)
    def of(**instance: Any) -> Any:
        return formula(**flat(instance))

    return of


def mixed(X, **maps):
    """P X for the P of one head."""
    return ops.softmax(position_bounds.logits(X, **maps))[..., 0, :, :] @ X
