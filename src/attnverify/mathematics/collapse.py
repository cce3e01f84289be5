"""How fast attention makes tokens alike: published, repaired and sharp bounds of rank collapse.

Every attention layer replaces tokens by averages of tokens, so without skip connections all tokens
tend to one. The formulas bound how much is left after a layer, in the composite value of the
residual (Dong, Cordonnier, Loukas 2021) and in the diameter. They serve the claims collapse.*.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. Arrays of one layer: X (...,
tokens, width); W_QK = W_Q W_K^T (..., heads, width, width); b_QK = W_K b_Q (..., heads, width); W =
W_V W_O (..., heads, width, width). ``key_width`` is d_qk; biases after the attention shift all
tokens alike and are left out. D is the vector of the oscillations of the rows of E = R W_QK R^T /
sqrt(d_qk).

Sources: Dong et al. (2021), section 2.2 and appendix, for the published bounds; the sharp ones are
proved in the chapters on collapse.

>>> import torch
>>> import attnverify as av
>>> round(av.collapse.threshold(qk_norm=1.0, value_norm=2.0, key_width=4), 6)
2.096294
>>> D = torch.tensor(1.0, dtype=torch.float64)
>>> round(av.collapse.unconditional_constant(D).item(), 6)
1.165822
"""

from __future__ import annotations

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes_input
from attnverify.mathematics import norms
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.masks import Mask
from attnverify.mathematics.softmax import oscillation, variation_bound
from attnverify.mathematics.spectral import spectral_norm
from attnverify.mathematics.weights import MLP
from attnverify.support.errors import require, require_tokens

# ---------------------------------------------------------------- layers


def attention(X, W_QK, b_QK, key_width: int):
    """P_h = softmax((X W_QK,h + 1 b_QK,h^T) X^T / sqrt(d_qk)), (..., heads, tokens, tokens)."""
    Y = X[..., None, :, :]
    scores = (Y @ W_QK + b_QK[..., None, :]) @ ops.transpose(Y)
    return ops.softmax(scores / ops.root(key_width, X))


def layer(X, W_QK, b_QK, W, key_width: int):
    """Output of one layer without biases after the attention: sum_h P_h X W_h, shape of X."""
    return ops.sum(attention(X, W_QK, b_QK, key_width) @ X[..., None, :, :] @ W, -3)


def network(X, W_QK, b_QK, W, key_width: int, skip: bool = False):
    """Output of all layers in turn; weights (..., depth, heads, ...); shape of X."""
    for i in range(W.shape[-4]):
        Y = layer(X, W_QK[..., i, :, :, :], b_QK[..., i, :, :], W[..., i, :, :, :], key_width)
        X = X + Y if skip else Y
    return X


def scores(X, W_QK, key_width: int):
    """Logits x_i W_QK x_j^T / sqrt(d_qk) of one head, W_QK (..., width, width)."""
    return X @ W_QK @ ops.transpose(X) / ops.root(key_width, X)


def masked_layer(X, W_QK, key_width: int, causal: bool = True, window: int | None = None):
    """Output of one head with W_V = I under a causal mask, or under none with ``causal`` off.

    X (..., tokens, width), W_QK (..., width, width); shape of X. With a window token i sees itself
    and the ``window`` - 1 tokens before it.
    """
    keep = ops.causal(X.shape[-2], X, window) if causal else None
    return ops.softmax(scores(X, W_QK, key_width), keep) @ X


# ---------------------------------------------------------------- bounds in the composite value


def scores_of_residual(R, W_QK, key_width: int):
    """Scores of the residual, E_h = R W_QK,h R^T / sqrt(d_qk), (..., heads, tokens, tokens)."""
    S = R[..., None, :, :]
    return S @ W_QK @ ops.transpose(S) / ops.root(key_width, R)


def published_constant(R, W_QK, W, key_width: int):
    """Published constant 4 H beta / sqrt(d_qk), with beta = max_h ||W_QK,h||_1 ||W_h||_{1,inf}.

    Without gamma, as in version 1 of Dong, Cordonnier, Loukas (2021), Theorems 2.2 and 2.3.
    """
    beta = ops.amax(norms.max_column_sum(W_QK) * norms.composite(W), -1)
    return ops.constant(4 * W.shape[-3], R) * beta / ops.root(key_width, R)


def gamma(R, W_QK, key_width: int):
    """Factor gamma_h = sqrt(||D 1||_1 ||D 1||_inf) / (2 ||E||_1) of version 2; (..., heads).

    D 1 is the vector of row oscillations: its sum and its largest entry.
    """
    E = scores_of_residual(R, W_QK, key_width)
    D = oscillation(E)
    size = ops.sqrt(ops.sum(D, -1) * ops.amax(D, -1))
    return size / (ops.constant(2, R) * norms.max_column_sum(E))


def corrected_constant(R, W_QK, W, key_width: int):
    """Constant that holds: 4 sqrt(sum_h q_h ||W_h||_1 sum_h q_h ||W_h||_inf) / sqrt(d_qk).

    q_h = ||W_QK,h||_1.
    """
    q = norms.max_column_sum(W_QK)
    columns = ops.sum(q * norms.max_column_sum(W), -1)
    rows = ops.sum(q * norms.max_row_sum(W), -1)
    return ops.constant(4, R) * ops.sqrt(columns * rows) / ops.root(key_width, R)


def unconditional_constant(D):
    """Constant min{kappa(D/2), e^(D/2) / sqrt(2)} that needs no condition; kappa(x) = (e^x - 1)/x.

    Times beta / sqrt(d_qk) ||R||^3 it bounds the residual of a layer whose scores oscillate by at
    most D > 0 (claim collapse.single-head-sharpened).
    """
    half = D / ops.constant(2, D)
    kappa, tilt = ops.expm1(half) / half, ops.exp(half) / ops.root(2, D)
    return -ops.maximum(-kappa, -tilt)


def cubic(constant, size):
    """constant * size^3: the bound of one layer."""
    return constant * size * ops.square(size)


def iterate(constant, size, depth: int):
    """Value of a <- constant a^3 after L layers: constant^((3^L - 1)/2) size^(3^L)."""
    for _ in range(depth):
        size = cubic(constant, size)
    return size


# ---------------------------------------------------------------- sharp bounds for the diameter


def rate(W_QK, key_width: int):
    """Rate c_h = ||W_QK,h||_2 / (4 sqrt(d_qk)) of every head, (..., heads)."""
    return spectral_norm(W_QK) / (ops.constant(4, W_QK) * ops.root(key_width, W_QK))


def falls(size, c):
    """Total variation t_h = tanh(c_h size^2) that a diameter allows each head, (..., heads).

    size (...), c (..., heads). The bound of attnverify.mathematics.softmax at osc = 4 c size^2.
    """
    return variation_bound(4 * c * ops.square(size)[..., None])


def sharp_factor(size, c, v):
    """Largest share of the diameter ``size`` that a layer leaves: sum_h v_h tanh(c_h size^2).

    c, v: (..., heads), rates and largest singular values of the value maps.
    """
    return ops.sum(v * falls(size, c), -1)


def threshold(qk_norm: float, value_norm: float, key_width: int) -> float:
    """Diameter below which one head with these norms collapses: see claim collapse.threshold.

    qk_norm = ||W_QK||_2 >= 0, value_norm = ||W_V||_2 >= 0, key_width = d_qk; all layers alike.
    Infinite for value_norm <= 1 and for qk_norm = 0.
    """
    for name, value in {"qk_norm": qk_norm, "value_norm": value_norm}.items():
        require(math.isfinite(value) and value >= 0, name, value, "a finite number >= 0")
    require(key_width >= 1, "key_width", key_width, "a positive whole number")
    if value_norm <= 1 or qk_norm == 0:
        return math.inf
    return math.sqrt(4 * math.sqrt(key_width) * math.atanh(1 / value_norm) / qk_norm)


def two_token_step(size, c, v):
    """Distance v size tanh(c size^2) of two tokens along the singular vectors, one layer later."""
    return v * size * variation_bound(4 * c * ops.square(size))


@takes_input
def sharp_bound(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Float[Tensor, "{net.depth}+1 *batch"]:
    """Upper bound on the diameter of X and of every layer's output, layer by layer.

    The last entry bounds diam(net(X)). Skip connections add 1 to the factor of a layer, an MLP
    multiplies it by its Lipschitz constant (1 more with a skip connection around it). Raises
    InputError for layer norm, masks and positions, for which the bound does not hold; with a mask
    that hides padding alone, the diameters are those of the real tokens (claim modern.padding).
    """
    import torch

    require_tokens("X", X, net.width)
    require(net.norm is None, "net", "a network with layer norm", "one without")
    padding = isinstance(net.mask, Mask) and net.mask.hides_padding_alone
    require(net.mask is None or padding, "net", "a network with a mask", "one of padding alone")
    require(net.positions is None, "net", "a network with positions", "one without")
    w = net.weights
    c = rate(w["W_Q"] @ w["W_K"].mT, net.key_width)
    v = spectral_norm(w["W_V"] @ w["W_O"])
    sizes = [norms.diameter(net.mask.real_alone(X) if isinstance(net.mask, Mask) else X)]
    for i in range(net.depth):
        size = sizes[-1] * (sharp_factor(sizes[-1], c[i], v[i]) + net.skip)
        sizes.append(size if net.mlp is None else size * (mlp_lipschitz(net.mlp.at(i)) + net.skip))
    return torch.stack(sizes)


# largest slope of each activation: 1 for relu and tanh; for gelu the slope at sqrt(2), rounded up
SLOPES = {"relu": 1.0, "tanh": 1.0, "gelu": 1.1289041452}


def mlp_lipschitz(mlp: MLP) -> Any:
    """Lipschitz constant slope ||W_1||_2 ||W_2||_2 of one layer's MLP in the Euclidean norm."""
    return SLOPES[mlp.activation] * spectral_norm(mlp.W_1) * spectral_norm(mlp.W_2)


# ---------------------------------------------------------------- the many-heads counterexample


def many_heads_counterexample(d: int, t: float = 0.1) -> dict[str, Tensor]:
    """Two tokens and two heads for which the printed many-heads bound fails when d is large.

    X = +-(t/2) e_1, W_QK,h = e_1 e_1^T (d_qk = 1), W_1 = sqrt(d) e_1 e_1^T, W_2 = e_1 1^T.
    Dense float64 tensors, for d that fit in memory; see :func:`many_heads_ratio` for any d.
    """
    import torch

    X = torch.zeros(2, d, dtype=torch.float64)
    X[:, 0] = torch.tensor([t / 2, -t / 2])
    W_QK = torch.zeros(2, d, d, dtype=torch.float64)
    W_QK[:, 0, 0] = 1
    W = torch.zeros(2, d, d, dtype=torch.float64)
    W[0, 0, 0] = math.sqrt(d)
    W[1, 0, :] = 1
    return {"X": X, "W_QK": W_QK, "b_QK": torch.zeros(2, d, dtype=torch.float64), "W": W}


def many_heads_ratio(d, t):
    """Left over right side of the printed bound on that instance (H = 2, L = 1, gamma = 1).

    (tanh(t^2/4) / t^2) (sqrt(d) + 1) d^(1/4) / (4 sqrt(d)); d and t in one arithmetic. Everything
    is rank one: left = t tanh(t^2/4) (sqrt(d) + 1) d^(1/4) / sqrt(2),
    right = 2 sqrt(2) sqrt(d) t^3.
    """
    root = ops.sqrt(d)
    fall = variation_bound(ops.square(t)) / ops.square(t)
    return fall * (root + 1) * ops.sqrt(root) / (4 * root)


# ------------------------------------------------------------------- the best constant of one head


def column_and_row_changes(base, E):
    """How far the rows P_i = softmax(base + E_i) move from p = softmax(base), by column and by row.

    Returns max_j sum_i |P_ij - p_j| and max_i TV(P_i, p), each (...); base (..., tokens), E (...,
    rows, tokens).
    """
    p, rows = ops.softmax(base)[..., None, :], ops.softmax(base[..., None, :] + E)
    return norms.max_column_sum(rows - p), ops.amax(norms.total_variation(rows, p), -1)


def best_constant(R, W_QK, W, key_width: int):
    """Best constant of one head, ||W_QK||_1 ||W_V||_{1,inf} / sqrt(2 d_qk).

    See claim collapse.single-head-best-constant.
    """
    return corrected_constant(R, W_QK, W, key_width) / ops.root(32, R)
