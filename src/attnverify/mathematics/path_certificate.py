"""What a search for the largest paths found, as a file that a second program checks.

``tools/recheck_paths.py`` shares no code with the search and computes in whole numbers, so it is
for small networks of attention alone. Every float is written in hexadecimal, which is exact.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attnverify.mathematics.largest_paths import LargestPaths, covector_of, held_at
from attnverify.mathematics.maps import Branches
from attnverify.support.errors import require

FORMAT = "attnverify paths 1"


def certificate(found: LargestPaths, subject: Any, scalar: Any, *, X: Any = None) -> dict[str, Any]:
    """The result of ``av.paths.largest`` for this subject, scalar and X, ready for ``json.dumps``.

    The held maps, the covector, the listed paths and the frontier: nodes, by the indices of their
    last layers, such that every path ends in exactly one, with a bound of the root of the energy
    of their completions. Raises InputError for networks that are more than attention.

    >>> import torch
    >>> import attnverify as av
    >>> X = torch.eye(3, 4, dtype=torch.float64)
    >>> net = av.SelfAttentionNetwork.random(2, 2, 4, skip=True, seed=0)
    >>> made = certificate(av.paths.largest(net, (0, 1), 2, X=X), net, (0, 1), X=X)
    >>> made["format"], len(made["layers"]), len(made["paths"])
    ('attnverify paths 1', 2, 2)
    """
    held = held_at(subject, X)
    around = [map for layer in held.layers for map in layer.around] + [*held.final]
    alone = all(map == Branches() for map in around)
    require(alone, "subject", "maps of tokens beside the attention", "attention alone")
    layers = [
        {
            "skip": layer.bypass is not None,
            "heads": [
                {"P": _hex(P), "V": _hex(V), "O": _hex(O)}
                for P, V, O in zip(layer.P, layer.W_V, layer.W_O, strict=True)  # noqa: E741
            ],
        }
        for layer in held.layers
    ]
    return {
        "format": FORMAT,
        "X": _hex(held.X),
        "covector": _hex(covector_of(scalar, held.output)),
        "layers": layers,
        "paths": [list(path) for path in found.paths],
        "contributions": [value.hex() for value in found.contributions],
        "error": found.error.hex(),
        "unseen": found.unseen.hex(),
        "energy": [bound.hex() for bound in found.energy],
        "frontier": [[list(suffix), bound.hex()] for suffix, bound in found.frontier.items()],
    }


def _hex(array: Tensor) -> list[Any]:
    return [[entry.hex() for entry in row] for row in array.tolist()]
