"""Encoder layers on tokens kept as a center plus deviations, so that tiny deviations keep digits.

Tokens X = 1 c^T + R. When all tokens are nearly alike, R computed as a difference of rows of X is
rounding noise once it is 2^-53 of X. Here c and R are carried apart, and every map gives the new
R from R and c by formulas that subtract nothing close:

- attention: with queries and keys of c and R apart, the logits are a part common to all rows plus
  a part d_ij that vanishes with R (and, with relative positions, a part by position). With
  p = softmax(common), Z_i = sum_j p_j e^(d_ij): P_ij - p_j = p_j (e^(d_ij) - Z_i) / Z_i, from
  expm1. The new deviations are sum_h (P_h - 1 p_h^T) R W_h;
- layer norm: 1/s_i - 1/s = (s^2 - s_i^2) / (s s_i (s + s_i)) with s_i^2 - s^2 =
  mean(2 c r_i + r_i^2), c and r_i with their means removed;
- MLP: with an activation z -> z g(z), the change from a to a + e is e g(a + e) + a (g(a+e) - g(a)).

These are the layers of BERT (Devlin et al. 2019) and ALBERT (Lan et al. 2020), and with relative
positions those of XLNet (Yang et al. 2019, section 2.4; Dai et al. 2019, section 3.3).

Arrays are float32 or float64 tensors; bad tokens raise InputError.

>>> import torch
>>> import attnverify as av
>>> X = torch.tensor([[1.0, 2.0], [3.0, 2.0]], dtype=torch.float64)
>>> tokens = av.deviations.Tokens.of(X)
>>> tokens.center, tokens.deviations
(tensor([2., 2.], dtype=torch.float64), tensor([[-1.,  0.],
        [ 1.,  0.]], dtype=torch.float64))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnverify.arithmetic import ops
from attnverify.mathematics import norms, weights
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.errors import InputError, require, require_tokens


@dataclass(frozen=True)
class Tokens:
    """Tokens 1 center^T + deviations; ``of`` and the layers keep the deviations' mean at 0."""

    center: Float[Tensor, " width"]
    deviations: Float[Tensor, "tokens width"]

    @classmethod
    def of(cls, X: Float[Tensor, "tokens width"]) -> Tokens:
        """Split tokens into their mean and the rest; raises InputError for a bad X."""
        require_tokens("X", X)
        require(X.ndim == 2, "X", f"shape {tuple(X.shape)}", "shape (tokens, width)")
        return cls(torch.zeros_like(X[0]), X).recentered()

    def recentered(self) -> Tokens:
        """Equal tokens, with the mean of the deviations moved to the center."""
        rest = norms.mean_centered(self.deviations)
        return Tokens(self.center + (self.deviations - rest)[0], rest)

    @property
    def values(self) -> Float[Tensor, "tokens width"]:
        """The tokens themselves."""
        return self.center + self.deviations

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.center + other.center, self.deviations + other.deviations)


@dataclass(frozen=True)
class Relative:
    """XLNet's attention by position: logits gain (x_i W_Q + bias) (R_{i-j} W_R)^T / sqrt(d_qk)."""

    W_R: Float[Tensor, "heads width key_width"]
    bias: Float[Tensor, "heads key_width"]


@dataclass(frozen=True)
class Layer:
    """Weights of one encoder layer: those of :mod:`attnverify.mathematics.weights` without depth.

    There is no key bias: x_i W_Q b_K^T is the same for all keys j, and softmax ignores it.
    scale, shift (2, width): layer norm after attention and after the MLP. relative: positions in
    the attention, b_Q is then XLNet's content bias (r_w_bias), which the positions do not see.
    """

    W_Q: Float[Tensor, "heads width key_width"]
    b_Q: Float[Tensor, "heads key_width"]
    W_K: Float[Tensor, "heads width key_width"]
    W_V: Float[Tensor, "heads width value_width"]
    b_V: Float[Tensor, "heads value_width"]
    W_O: Float[Tensor, "heads value_width width"]
    b_O: Float[Tensor, " width"]
    W_1: Float[Tensor, "width hidden"]
    b_1: Float[Tensor, " hidden"]
    W_2: Float[Tensor, "hidden width"]
    b_2: Float[Tensor, " width"]
    scale: Float[Tensor, "2 width"]
    shift: Float[Tensor, "2 width"]
    activation: str = "gelu"
    epsilon: float = 1e-12
    relative: Relative | None = None

    @classmethod
    def of(cls, net: SelfAttentionNetwork, layer: int) -> Layer:
        """One layer of a network that has an MLP and layer norms, sharing its weights."""
        expected = "one with MLP and layer norms"
        if net.mlp is None or net.norm is None:
            raise InputError(f"net: got a network without them, expected {expected}")
        parts = (net.weights.at(layer), net.mlp.at(layer), net.norm.at(layer))
        own = {name: value for part in parts for name, value in vars(part).items()}
        del own["b_K"]
        return cls(**own)

    def to(self, where: torch.dtype | torch.device | str) -> Layer:
        """Copy of the layer in another floating dtype or on another device."""
        own: dict[str, Any] = {
            k: v.to(where) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        if self.relative is not None:
            own["relative"] = Relative(self.relative.W_R.to(where), self.relative.bias.to(where))
        return replace(self, **own)


@dataclass(frozen=True)
class Parts:
    """Which parts of a layer are switched on beside its attention."""

    skip: bool = False
    mlp: bool = False
    norm: bool = False


LARGE = 30.0  # of a logit's own part
RESOLVED = 1e12  # logits beyond carry rounding errors of 1e-4 in float64


class Unresolved(ArithmeticError):
    """Raised where logits are so large that rounding errors decide what is attended to."""


FULL = Parts(skip=True, mlp=True, norm=True)


def apply(layer: Layer, X: Tokens, parts: Parts = FULL) -> Tokens:
    """One encoder layer: attention, then MLP, each with skip connection and layer norm if on.

    Raises Unresolved where the attention does.
    """
    X = _sublayer_end(layer, 0, X, attention(layer, X), parts)
    return _sublayer_end(layer, 1, X, mlp(layer, X), parts) if parts.mlp else X


def _sublayer_end(layer: Layer, sublayer: int, before: Tokens, after: Tokens, on: Parts) -> Tokens:
    X = (before + after if on.skip else after).recentered()
    return norm(layer, sublayer, X).recentered() if on.norm else X


def attention(layer: Layer, X: Tokens) -> Tokens:
    """sum_h P_h X W_h and its biases; the new center is what a token equal to c would get.

    Raises Unresolved if a logit exceeds RESOLVED in absolute value, or is no number.
    """
    logits = _logits(layer, X)
    largest = float(torch.stack([part.abs().max() for part in logits]).max())  # keeps NaN
    if not largest <= RESOLVED:
        raise Unresolved(f"a logit of {largest:.1e}, beyond {RESOLVED:.0e}")
    p, difference = _probabilities(*logits)
    values = X.deviations @ layer.W_V
    shared = p @ values + X.center[None] @ layer.W_V + layer.b_V[:, None]
    rows = layer.W_O.flatten(0, 1)  # the heads' output maps below each other
    center = ops.join_heads(shared) @ rows + layer.b_O
    return Tokens(center[0], ops.join_heads(difference @ values) @ rows)


def _probabilities(common: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Common row p = softmax(common), (heads, 1, tokens), and softmax(common + own) - 1 p^T."""
    p = torch.softmax(common, -1)[:, None]
    # Shifted so that sum_j p_j own_ij = 0: then Z_i >= 1 (Jensen), and nothing cancels below.
    own = own - (p * own).sum(-1, keepdim=True)
    # Where a logit is so large that e^own could overflow, P and p are far apart: their
    # difference loses nothing.
    large = own.amax(-1, keepdim=True) > LARGE
    change = torch.expm1(torch.where(large, 0, own))
    mean = (p * change).sum(-1, keepdim=True)  # Z_i - 1
    apart = torch.softmax(common[:, None] + own, -1) - p
    return p, torch.where(large, apart, p * (change - mean) / (1 + mean))


def _logits(layer: Layer, X: Tokens) -> tuple[Tensor, Tensor]:
    """Logits in two parts: common to all queries (heads, tokens), own (heads, tokens, tokens).

    Terms that are the same for all keys are left out.
    """
    root = math.sqrt(layer.W_Q.shape[-1])
    center, rest = (
        X.center[None] @ layer.W_Q,
        X.deviations @ layer.W_Q,
    )  # (heads, 1, k), (heads, n, k)
    keys = (X.deviations @ layer.W_K).mT
    common, own = (center + layer.b_Q[:, None]) @ keys / root, rest @ keys / root
    if layer.relative is not None:
        queries = center + rest + layer.relative.bias[:, None]
        own = own + _by_position(queries, layer.relative.W_R) / root
    return common[:, 0], own


def _by_position(queries: Tensor, W_R: Tensor) -> Tensor:
    """queries_i (R_{i-j} W_R)^T, (heads, tokens, tokens); offsets run from n - 1 to 1 - n."""
    n, width = queries.shape[-2], W_R.shape[-2]
    by_offset = queries @ (offsets(n, width).to(W_R) @ W_R).mT  # (heads, n, 2n - 1)
    i = torch.arange(n, device=W_R.device)
    index = (n - 1) - (i[:, None] - i[None, :])
    return by_offset.gather(-1, index.expand(len(W_R), n, n))


def offsets(tokens: int, width: int) -> Float[Tensor, "2*{tokens}-1 width"]:
    """Sinusoids [sin(s f) | cos(s f)] of the offsets s = tokens - 1, ..., 1 - tokens; float64.

    Frequencies f_m = 10000^(-2m/width) (Vaswani et al. 2017, section 3.5).
    """
    s = torch.arange(tokens - 1, -tokens, -1, dtype=torch.float64)
    f = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat([torch.sin(s[:, None] * f), torch.cos(s[:, None] * f)], -1)


def norm(layer: Layer, sublayer: int, X: Tokens) -> Tokens:
    """Layer norm of every token; the new center is that of a token equal to c."""
    scale, shift = layer.scale[sublayer], layer.shift[sublayer]
    c = X.center - X.center.mean()
    r = X.deviations - X.deviations.mean(-1, keepdim=True)
    s, s_i = ((v.square().mean(-1, keepdim=True) + layer.epsilon).sqrt() for v in (c, c + r))
    growth = (r * (2 * c + r)).mean(-1, keepdim=True)  # s_i^2 - s^2
    deviations = r / s_i - c * growth / (s * s_i * (s + s_i))
    return Tokens(c / s * scale + shift, deviations * scale)


def mlp(layer: Layer, X: Tokens) -> Tokens:
    """activation(x W_1 + b_1) W_2 + b_2 of every token."""
    activation, change = ACTIVATIONS[layer.activation]
    a, e = X.center @ layer.W_1 + layer.b_1, X.deviations @ layer.W_1
    return Tokens(activation(a) @ layer.W_2 + layer.b_2, change(a, e) @ layer.W_2)


# ---------------------------------------------------------------- how much activations change


def _gelu_change(a: Tensor, e: Tensor) -> Tensor:
    """e Phi(a + e) + a (Phi(a + e) - Phi(a)), for small e with the midpoint rule e phi(a + e/2).

    The rule is off by e^3 |phi''|/24 <= e^3/60, below 2e-12 of e for |e| <= 1e-5; above that a
    difference of two values in [0, 1] loses at most 2 * 2^-53 / 1e-5 < 3e-11 of e.
    """
    Phi = torch.special.ndtr
    middle = e * torch.exp(-(a + e / 2).square() / 2) / math.sqrt(2 * math.pi)
    difference = torch.where(e.abs() <= 1e-5, middle, Phi(a + e) - Phi(a))
    return e * Phi(a + e) + a * difference


def _tanh_change(a: Tensor, e: Tensor) -> Tensor:
    """tanh(a + e) - tanh(a) = tanh(e) (1 - tanh(a + e) tanh(a))."""
    return torch.tanh(e) * (1 - torch.tanh(a + e) * torch.tanh(a))


def _gelu_tanh_change(a: Tensor, e: Tensor) -> Tensor:
    """As for GELU, with (1 + tanh u(z))/2, u(z) = sqrt(2/pi) (z + q z^3), in place of Phi(z)."""
    root, q = math.sqrt(2 / math.pi), 0.044715
    u = root * (a + q * a**3)
    moved = root * e * (1 + q * (3 * a * a + 3 * a * e + e * e))  # u(a + e) - u(a)
    return (e * (1 + torch.tanh(u + moved)) + a * _tanh_change(u, moved)) / 2


def _relu_change(a: Tensor, e: Tensor) -> Tensor:
    """e where both signs are plus; a + e or -a where the sign changes."""
    after, before = a + e > 0, a > 0
    both = torch.where(after & before, e, 0)
    return both + torch.where(after & ~before, a + e, 0) - torch.where(~after & before, a, 0)


_tanh_form = partial(nn.functional.gelu, approximate="tanh")  # Hendrycks and Gimpel (2016)
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "gelu": (weights.ACTIVATIONS["gelu"], _gelu_change),
    "relu": (weights.ACTIVATIONS["relu"], _relu_change),
    "tanh": (weights.ACTIVATIONS["tanh"], _tanh_change),
    "gelu_new": (_tanh_form, _gelu_tanh_change),
}
