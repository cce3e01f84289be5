"""Bounds on the diameter after a layer that treat its heads together instead of one by one.

The sum of the bounds of single heads is too large when heads write in different directions, or when
they share keys and values. The factor of a layer is the largest share of the diameter that it
leaves. The formulas serve the claims modern.concatenated-heads and modern.grouped-keys.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`: t (..., heads) with t_h =
tanh(c_h diam(X)^2), the total variation that :func:`attnverify.mathematics.collapse.falls` allows
head h; W (..., heads, width, size), the value maps.
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm


def along(t, W, y):
    """Factor along a unit direction y (..., size): sum_h t_h ||W_h y||_2; shape (...)."""
    written = (W @ y[..., None, :, None])[..., 0]
    return ops.sum(t * ops.sqrt(ops.sum(ops.square(written), -1)), -1)


def along_best(r):
    """Largest sum_h |r_h y| over all unit vectors y; r (..., heads, size), shape (...).

    It is the maximum over signs of ||sum_h +-r_h||_2, since each y has its own best signs.
    """
    sums = r[..., :1, :]
    for h in range(1, r.shape[-2]):
        sums = ops.join([sums + r[..., h : h + 1, :], sums - r[..., h : h + 1, :]], -2)
    return ops.sqrt(ops.amax(ops.sum(ops.square(sums), -1), -1))


def stack(W, s):
    """Scaled maps s_h W_h stacked by rows, (..., heads * width, size); s (..., heads)."""
    scaled = s[..., None, None] * W
    return scaled.reshape(*scaled.shape[:-3], -1, scaled.shape[-1])


def stacked_factor(t, W, s):
    """Factor ||stack(W, s)||_2 sqrt(sum_h t_h^2 / s_h^2) of the layer, for any s_h > 0."""
    return spectral_norm(stack(W, s)) * ops.sqrt(ops.sum(ops.square(t / s), -1))


def balanced_factor(t, W):
    """Stacked factor with s_h^2 = t_h / ||W_h||_2, which never exceeds sum_h t_h ||W_h||_2.

    Every t_h and W_h must differ from 0.
    """
    return stacked_factor(t, W, ops.sqrt(t / spectral_norm(W)))


def repeat(A, times: int, axis: int):
    """Array with every entry of an axis repeated ``times`` times in a row; axis < 0."""
    shape = tuple(A.shape)
    more = (*shape[:axis], shape[axis] * times, *shape[len(shape) + axis + 1 :])
    return ops.stack([A] * times, axis).reshape(more)


def grouped_factor(t, W_V, W_O):
    """Factor sum_g ||W_V,g||_2 ||O_g||_2 sqrt(sum of t_h^2 in group g) of heads in groups.

    O_g holds the output maps of group g, stacked.

    W_V (..., groups, width, value_width); W_O (..., heads, value_width, width), the heads of a
    group in a row; t (..., heads).
    """
    G, (H, k, d) = W_V.shape[-3], W_O.shape[-3:]
    O_g = W_O.reshape(*W_O.shape[:-3], G, H // G * k, d)
    t_g = t.reshape(*t.shape[:-1], G, H // G)
    sizes = ops.sqrt(ops.sum(ops.square(t_g), -1))
    return ops.sum(spectral_norm(W_V) * spectral_norm(O_g) * sizes, -1)


def stored_constant(W_Q, W_K, W_V, W_O):
    """Cubic constant of heads in groups, in the norms of the stored matrices.

    It is sum_g ||W_K,g|| ||W_V,g|| ||O_g|| sqrt(sum of ||W_Q,h||^2 in group g) / (4 sqrt(d_qk)).

    Times diam(X)^3 it bounds the layer. W_Q (..., heads, width, key_width), W_K (..., groups,
    width, key_width), W_V and W_O as in :func:`grouped_factor`.
    """
    keys = repeat(spectral_norm(W_K), W_Q.shape[-3] // W_K.shape[-3], -1)
    four = ops.constant(4, W_Q) * ops.root(W_Q.shape[-1], W_Q)
    return grouped_factor(spectral_norm(W_Q) * keys, W_V, W_O) / four
