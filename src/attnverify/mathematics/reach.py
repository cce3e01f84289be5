"""How far the last token's logits reach, by the spectral norm of the query-key matrix.

w (..., d, d), X (..., T, d); in any arithmetic of :mod:`attnverify.arithmetic.ops`.
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import norms
from attnverify.mathematics.spectral import spectral_norm


def logit_spread_bound(w, X, temperature):
    """||W||_2 ||x_T||_2 diam(X)/lambda >= the spread of the last token's logits; (...)."""
    return _reach(w, X) * norms.diameter(X) / temperature


def centered_norm_bound(w, X, temperature):
    """||W||_2 ||x_T||_2 ||X - 1 mean'||_2/lambda >= the norm of the centered logits; (...)."""
    return _reach(w, X) * spectral_norm(norms.mean_centered(X)) / temperature


def _reach(w, X):
    return spectral_norm(w) * ops.sqrt(ops.sum(ops.square(X[..., -1, :]), -1))
