"""Masks: which keys a query may see, from causality, a sliding window and padding.

Every mask here lets a query see its own token, so no row of attention is ever empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.support.errors import require


def without_padding(keep: Any, real: Any) -> Any:
    """Mask ``keep`` without the keys that are padding; every query still sees itself.

    real: (..., tokens), True where a token is no padding; both tensors or both numpy arrays.
    Result (..., tokens, tokens). The diagonal is the window of size 1.
    """
    return keep & (real[..., None, :] | ops.causal(keep.shape[-1], keep, 1))


@dataclass(frozen=True)
class Mask:
    """A mask of :class:`attnverify.mathematics.attention.SelfAttentionNetwork`.

    All given restrictions hold together.

    causal: no key after the query. window: the query and the window - 1 keys before it alone, which
    makes it causal. real: (..., tokens), True where a token is no padding; no query sees padding,
    except a padding token itself.

    Raises InputError, where it is used, for a window below 1 and for ``real`` of other tokens.

    >>> import torch
    >>> import attnverify as av
    >>> X = torch.zeros(3, 4)  # three tokens
    >>> av.Mask(window=2).keep(3, like=X).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    >>> net = av.SelfAttentionNetwork.random(depth=1, heads=1, width=4, mask=av.Mask(causal=True))
    >>> net.attention(X.double())[0, 0, 0]  # the first token sees itself alone
    tensor([1., 0., 0.], dtype=torch.float64)
    """

    causal: bool = False
    window: int | None = None
    real: Bool[Tensor, "*batch tokens"] | None = None

    @property
    def hides_padding_alone(self) -> bool:
        """Whether real tokens see all real tokens."""
        return not self.causal and self.window is None

    def real_alone(self, X: Float[Tensor, "*batch tokens width"]) -> Tensor:
        """X with the first real token in place of padding: its real tokens and no others."""
        if self.real is None:
            return X
        real = self.real.to(X.device).expand(X.shape[:-1])
        first = real.int().argmax(-1)[..., None, None].expand(*X.shape[:-2], 1, X.shape[-1])
        return torch.where(real[..., None], X, X.gather(-2, first))

    def keep(self, tokens: int, like: Tensor) -> Bool[Tensor, "*batch tokens tokens"]:
        """Which keys (columns) each query (row) may see; raises InputError for a bad mask."""
        whole = isinstance(self.window, int) and self.window >= 1
        require(self.window is None or whole, "mask.window", self.window, "a whole number >= 1")
        everything = torch.ones(tokens, tokens, dtype=torch.bool, device=like.device)
        masked = self.causal or self.window is not None
        seen = ops.causal(tokens, like, self.window) if masked else everything
        if self.real is None:
            return seen
        shape = tuple(self.real.shape)
        require(shape[-1:] == (tokens,), "mask.real", f"shape {shape}", f"shape (..., {tokens})")
        return without_padding(seen, self.real.to(like.device))
