"""The energy of all paths to a covector: the sum of the squares of their contributions.

Hold a network fixed, so that it is a sum over paths (:mod:`attnverify.mathematics.paths`). Let C be
a covector, (tokens, width), at the output of the first l layers, and <C, p X> the contribution of a
path p through them. With vec X as a column, the sum over all paths of <C, p X>^2 is the quadratic
form <C, G_l C> with

    G_0 = vec X vec X^T,   G_{l+1} = sum over the indices h of Lambda_h G_l Lambda_h^T,

Lambda_h the linear map of index h. So no path contributes more than sqrt(<C, G_l C>), which
:func:`form` computes for attention alone, in any arithmetic. G has (tokens width)^2 entries.

**Envelopes.** For large networks :class:`Envelope` holds a bound in less room: columns F, each an
array (tokens, width), and a matrix S_i (width, width) a token, positive semidefinite, with

    | sqrt(<C, G_l C>) - |F^T C| | <= sum_i sqrt(C_i S_i C_i^T)  for every C,                  (1)

C_i the row of C at token i. At the input F = X and S = 0. One layer further:

- *Heads.* sqrt(<C, G' C>) is the length of the vector over h of sqrt(<C_h, G C_h>), C_h =
  Lambda_h^T C, off that of |F^T C_h| by at most that of sum_i sqrt(C_hi S_i C_hi^T), by Minkowski.
  The first is |F'^T C| with F' all columns Lambda_h F. For the second let head h send token j to
  token i with weight P_ij and map the width by W_j. (W_j may differ between senders j, by norms
  before the attention. Norms and gates behind it make it W_ij, with the receiver i, too; the bound
  is the same.) Then C_hj = sum_i P_ij C_i W_j^T, at most sum_i a_hi with a_hi = sum_j P_ij
  sqrt(C_i W_j^T S_j W_j C_i^T). By Minkowski over h again, and by Cauchy's a_hi^2 <= q_i sum_j
  P_ij (C_i W_j^T S_j W_j C_i^T), q_i = sum_j P_ij, (1) holds with

      S'_i = sum_h q_hi sum_j P_hij W_hj^T S_j W_hj,

  where a skip connection is a head with P = I. The width is carried exactly; tokens are not.
- *Rows.* A map J_i of each token takes F to F J and S_i to J_i^T S_i J_i.
- *Fewer columns.* For any Q with columns q (tokens width, r) and Z = Q^T F', |F'^T C| is off
  |Z^T Q^T C| by at most |(F' - Q Z)^T C|. Let Z^T = U R with U orthonormal; then |Z^T Q^T C| =
  |(Q R^T)^T C|: r columns Q R^T are left. What it is off by is at most sum_i sqrt(C_i T_i C_i^T),
  T_i the block of token i of (F' - Q Z) (F' - Q Z)^T, and (sqrt a + sqrt b)^2 <= (1 + t) a +
  (1 + 1/t) b adds it to S for any t > 0; t = sqrt(tr T / tr S) keeps the trace least.

**Rounding.** Everything that floats get wrong is put into S or returned beside a bound. Here u =
2^-53, gamma_m = m u / (1 - m u), and f (tokens, width) is the root of the sum of squares of the
columns of F, entry by entry.

- An evaluation of a layer with m roundings is off by at most gamma_m times the layer in absolute
  values, |Lambda_h| |F|, entry by entry (Higham 2002, section 3.1). By Minkowski the root of the
  sum of squares over the columns is at most e = gamma_m times the root of the sum over h of
  (|Lambda_h| f)^2. Columns off by that add at most sum_i |C_i| |e_i| to |F^T C|: T_i = |e_i|^2 I.
- U is orthonormal up to rounding. With s >= |U^T U - I|_F, computed, ||U y|^2 - |y|^2| <= s |y|^2,
  so that |U y| is off |y| by at most s |y|. The rest Z^T - U R is computed as well. Together they
  add |Q| (|Z^T - U R|_F + s |R|_F) |C|, that is T_i = its square times I; |Q|^2 <= 1 + s for Q's s.
- A product J^T S J is off in norm by at most gamma_m |J^|_F^2 |S|_F, J^ the map in absolute values,
  and so are sums of such products; |J^|_F is at most the length of J^ applied to ones, as the sum
  of squares of numbers >= 0 is at most the square of their sum. That times I is added.
- The form C_i S_i C_i^T is off by gamma_{2 width} |C_i|^2 |S_i|_F, which is added before the root,
  and |F^T C| by gamma_m <|C|, f>, m one more than the length of the sums.

Bounds are themselves computed in floats, from numbers >= 0, so each is taken twice.

**Underflow.** X is scaled so that its largest entry is in [1, 2), and no entry of a map exceeds
2^24 (:mod:`attnverify.mathematics.largest_paths` sees to both). Let widths be at most 2^14. Then a
matrix raises a size by at most 2^38, a norm by 2^48, a gate by 2^24. So gated heads
between two norms raise it by 2^196, as an MLP does. A product that underflows is off by at most
2^-1074, and the root of a sum of up to 2^60 squares that do by 2^-537 2^30 = 2^-507. One such step
makes it at most 2^-507 2^196 = 2^-311: so much may e and the columns lack. Products J^T S J lose
less than 2^-1074 2^28 2^196 = 2^-850. So every S is raised by 2^-600 I, whose root is 2^-300, and
bounds at one C by 2^-500.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.mathematics import maps
from attnverify.mathematics.held import FixedAttention, HeldLayer
from attnverify.mathematics.maps import Branches, Dense, Gate, Map, Norm, Row

FLOOR = 2.0**-600  # what every S is raised by: underflow
LEAST = 2.0**-500  # what every bound at a covector is raised by
CHUNK = 64  # rows of the identity, or columns, taken through a map at once


def operator(P: Any, W: Any) -> Any:
    """Matrix of Y -> P Y W on Y as one column, row after row: P (..., n, n), W (..., d, d).

    Any arithmetic; the result is (..., n d, n d).

    >>> import torch
    >>> P, W, Y = torch.rand(3, 2, 2, dtype=torch.float64)
    >>> torch.allclose(operator(P, W) @ Y.reshape(-1), (P @ Y @ W).reshape(-1))
    True
    """
    W = ops.transpose(W)
    product = P[..., :, None, :, None] * W[..., None, :, None, :]
    return product.reshape(*product.shape[:-4], P.shape[-1] * W.shape[-1], -1)


def form(fixed: FixedAttention, X: Any) -> Any:
    """The matrix G of all layers at X (..., tokens, width), (..., tokens width, tokens width).

    Any arithmetic. G has the square of as many entries as X.
    """
    column = X.reshape(*X.shape[:-2], -1, 1)
    G = column * ops.transpose(column)
    for layer in fixed.layers:
        after = G if fixed.skip else 0 * G
        for P, W_V, W_O in zip(layer.P, layer.W_V, layer.W_O, strict=True):
            A = operator(P, W_V @ W_O)
            after = after + A @ G @ ops.transpose(A)
        G = after
    return G


def energy(fixed: FixedAttention, X: Any, C: Any) -> Any:
    """<C, G C>, the sum over all paths of <C, term>^2: (..., 1), X and C (..., tokens, width)."""
    column = C.reshape(*C.shape[:-2], -1, 1)
    return (ops.transpose(column) @ form(fixed, X) @ column)[..., 0]


@dataclass(frozen=True)
class Envelope:
    """The two parts of (1): columns F (columns, tokens, width) and S (tokens, width, width).

    exact: whether every column is the output of one path, in the order of the indices, the first
    layer's index slowest.
    """

    F: Tensor
    S: Tensor
    exact: bool = True

    @classmethod
    def at(cls, X: Tensor) -> Envelope:
        """The envelope at the input X (tokens, width): one path."""
        return cls(X[None], X.new_zeros(X.shape[0], X.shape[1], X.shape[1]))

    @property
    def lengths(self) -> Tensor:
        """Root of the sum of squares of the columns, entry by entry, f (tokens, width)."""
        return self.F.square().sum(0).sqrt()

    @property
    def entries(self) -> Tensor:
        """Bound of the root of the sum of squares of all paths' outputs, entry by entry."""
        return self.lengths + self.S.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()

    def bound(self, C: Tensor) -> tuple[Tensor, Tensor]:
        """For covectors C (k, tokens, width): |F^T C|, and the most that the truth is off, (k,)."""
        return self.near(C).norm(dim=1), self.rest(C)

    def near(self, C: Tensor) -> Tensor:
        """F^T C, (k, columns)."""
        return C.flatten(1) @ self.F.flatten(1).mT

    def rest(self, C: Tensor) -> Tensor:
        """sum_i sqrt(C_i S_i C_i^T) and the roundings of :meth:`bound`, (k,)."""
        d = C.shape[-1]
        tokens = C.movedim(1, 0)  # (tokens, k, width)
        square = ((tokens @ self.S) * tokens).sum(-1).clamp(min=0)
        sizes = self.S.flatten(1).norm(dim=1)[:, None]
        square += 2 * gamma(2 * d, C) * tokens.square().sum(-1) * sizes
        m = self.F[0].numel() + len(self.F) + 4
        rounding = 2 * gamma(m, C) * (C.abs() * self.lengths).sum((1, 2))
        return square.sqrt().sum(0) * (1 + gamma(4 * d + len(tokens), C)) + rounding + LEAST

    def after(self, layer: HeldLayer, columns: int, seed: int = 0) -> Envelope:
        """The envelope behind a layer, with at most so many columns."""
        f, number = self.lengths, len(layer.indices)
        e = torch.stack([layer.head_absolute(h, f[None])[0] for h in layer.indices]).norm(dim=0)
        e = 2 * gamma(layer.roundings, f) * e
        S = _and(_sent(layer, self.S), e.norm(dim=1))
        if number * len(self.F) <= columns:
            F = torch.cat([layer.head(h, self.F)[:, None] for h in layer.indices], 1).flatten(0, 1)
            made = Envelope(F, S, self.exact)
        else:
            F, T = _fewer(lambda h: layer.head(h, self.F), layer.indices, columns, seed)
            made = Envelope(F, _with(S, T), False)
        for map in layer.rows:
            made = made.through(map)
        return made

    def through(self, map: Map | Branches) -> Envelope:
        """The envelope behind a map of each token."""
        f = self.lengths
        e = 2 * gamma(maps.count([map]), f) * map.absolute(f[None])[0]
        F = torch.cat([map.linear(part) for part in self.F.split(CHUNK)])
        return Envelope(F, _and(_along(map, self.S), e.norm(dim=1)), self.exact)


def _with(S: Tensor, T: Tensor) -> Tensor:
    """(1 + t) S + (1 + 1/t) T, token by token, with the t of the least trace; roundings added."""
    s, t = (part.diagonal(dim1=-2, dim2=-1).sum(-1) for part in (S, T))
    first, second = _factors(s, t)
    total = torch.addcmul(first[:, None, None] * S, second[:, None, None], T)
    return _raised(total, 2 * gamma(8, S) * total.flatten(1).norm(dim=1))


def _and(S: Tensor, lengths: Tensor) -> Tensor:
    """The same with T_i = lengths_i^2 I, lengths (tokens,), without making T."""
    square = lengths.square() * (1 + 2 * gamma(4, S))
    first, second = _factors(S.diagonal(dim1=-2, dim2=-1).sum(-1), S.shape[-1] * square)
    total = first[:, None, None] * S
    rounding = 2 * gamma(8, S) * (total.flatten(1).norm(dim=1) + S.shape[-1] * second * square)
    return _raised(total, second * square + rounding)


def _factors(s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """1 + share and 1 + 1/share for the share sqrt(t / s); 1 and 1 where one of them is 0."""
    both = (s > 0) & (t > 0)
    share = torch.where(both, t / s, 1.0).sqrt().clamp(1e-30, 1e30)
    one = both.to(s)
    return 1 + one * share, 1 + one / share


def _raised(S: Tensor, by: Tensor) -> Tensor:
    """S + (by_i + FLOOR) I in place."""
    S.diagonal(dim1=-2, dim2=-1).add_(by[:, None] + FLOOR)
    return S


def _matrices(row: Row, S: Tensor) -> Tensor:
    """The matrix of maps of every token one after the other, (tokens, width in, width out).

    That of branches is the sum of theirs, and that of a :class:`.maps.Dense` is its weight: rows
    of it, in place of rows of the identity, start on their way through what follows it.
    """
    n, d, _ = S.shape
    if len(row) == 1 and isinstance(row[0], Branches):
        total = sum((_matrices(branch, S) for branch in row[0].branches), S.new_zeros(n, d, d))
        total.diagonal(dim1=-2, dim2=-1).add_(float(row[0].skip))
        return total
    eye = torch.eye(d, dtype=S.dtype, device=S.device)
    start, row = (row[0].weight, row[1:]) if row and isinstance(row[0], Dense) else (eye, row)
    parts = [maps.linear(row, part[:, None].expand(-1, n, -1)) for part in start.split(CHUNK)]
    return torch.cat(parts).movedim(1, 0).contiguous()


def _size(row: Row, y: Tensor) -> Tensor:
    """Bound of the norm of maps of every token in absolute values at y (1, tokens, width)."""
    return maps.absolute(row, y)[0].norm(dim=-1)


def _along(map: Map | Branches, S: Tensor) -> Tensor:
    """J_i^T S_i J_i for every token, raised by its roundings."""
    if isinstance(map, Branches) and map.skip and not map.branches:
        return S
    n, d, _ = S.shape
    size = _size([map], S.new_ones(1, n, d))
    m = 2 * (maps.count([map]) + d)
    off = 2 * gamma(m, S) * size.square() * S.flatten(1).norm(dim=1)
    if isinstance(map, Norm | Gate):  # entry by entry, from either side
        found = map.linear(map.linear(S.movedim(0, 1)).transpose(0, 2)).movedim(1, 0)
        return _raised(found, off)
    J = _matrices([map], S)
    return _raised(J.mT @ S @ J, off)


def _sent(layer: HeldLayer, S: Tensor) -> Tensor:
    """sum_h q_hi sum_j P_hij W_hj^T S_j W_hj, raised by its roundings."""
    n, d, _ = S.shape
    kept = torch.zeros_like(S) if layer.bypass is None else _along(layer.bypass, S)
    if not bool(S.any()):
        return kept.clone()
    P, (heads, _, v) = layer.P, layer.W_V.shape
    ones = S.new_ones(1, n, d)
    gates = S.new_ones(heads, 1, v) if layer.gates is None else layer.gates
    # Heads side by side: values' matrices (tokens or 1, width, heads value_width), and outputs'.
    V = layer.W_V.movedim(0, 1).flatten(1)[None]
    O = (gates.movedim(0, 1)[..., None] * layer.W_O).flatten(1, 2)  # noqa: E741
    V = _matrices(layer.before, S) @ V if layer.before else V
    O = O @ _matrices(layer.tail, S) if layer.tail else O  # noqa: E741
    apart = (S @ V).unflatten(-1, (heads, v)).movedim(2, 0)  # (heads, tokens, width, value_width)
    inner = V.unflatten(-1, (heads, v)).movedim(2, 0).mT @ apart
    q = P.sum(-1, keepdim=True)
    mixed = (q * (P @ inner.flatten(2))).unflatten(2, (v, v)).movedim(0, 1)
    total = kept + O.mT @ (mixed @ O.unflatten(1, (heads, v))).flatten(1, 2)
    sizes = (maps.absolute(layer.before, ones) @ layer.W_V.abs()).norm(dim=-1).square()
    most = gates.abs().expand(-1, n, -1) @ layer.W_O.abs()
    most = maps.absolute(layer.tail, most).norm(dim=-1).square()
    around = q[..., 0] * (P @ (sizes * S.flatten(1).norm(dim=1))[..., None])[..., 0]
    m = 2 * layer.roundings + 2 * (d + v + n) + 8 + heads * v
    off = (around * most).sum(0) + total.flatten(1).norm(dim=1)
    return _raised(total, 2 * gamma(m, S) * off)


def _fewer(
    sent: Callable[[int], Tensor], indices: Sequence[int], columns: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Columns Q R^T for all columns that the indices send, and T of what they leave."""
    first = sent(indices[0])
    r, n, d = first.shape
    columns = min(columns, n * d)
    Q = _range(sent, indices, first, columns, seed)
    Z = torch.cat([sent(h).flatten(1) @ Q for h in indices])  # (indices r, columns): Z^T
    U, R = torch.linalg.qr(Z)
    left = float((Z - U @ R).norm()) + 2 * gamma(len(R) + 1, Z) * float(U.norm() * R.norm())
    left += _skew(U) * float(R.norm())  # F has R for U R
    F = R @ Q.mT
    off = 2 * gamma(columns + 4, Z) * (R.norm(dim=0) @ Q.abs().mT).reshape(n, d)
    T, rounding = F.new_zeros(n, d, d), F.new_zeros(n, d)
    for h, z in zip(indices, Z.split(r), strict=True):
        B = sent(h)
        rest = B - (z @ Q.mT).reshape(B.shape)
        T.baddbmm_(rest.permute(1, 2, 0), rest.permute(1, 0, 2))
        rounding += (B.norm(dim=0) + (z.norm(dim=0) @ Q.abs().mT).reshape(n, d)).square()
    rounding = 2 * gamma(columns + 2, Z) * rounding.sqrt()
    T = _raised(T, 2 * gamma(len(Z) + 4, Z) * T.diagonal(dim1=-2, dim2=-1).sum(-1))
    spread = 2 * math.sqrt(1 + _skew(Q)) * left
    T = _and(T, rounding.norm(dim=1) + off.norm(dim=1) + spread)
    return F.reshape(-1, n, d), T


def _skew(U: Tensor) -> float:
    """Bound of |U^T U - I|_F for a matrix with nearly orthonormal columns."""
    off = U.mT @ U - torch.eye(U.shape[1], dtype=U.dtype, device=U.device)
    return 2 * (float(off.norm()) + gamma(len(U) + 2, U) * float(U.square().sum()))


def _range(
    sent: Callable[[int], Tensor], indices: Sequence[int], first: Tensor, columns: int, seed: int
) -> Tensor:
    """Orthonormal columns near the range of all that is sent, (tokens width, columns).

    Random combinations of the columns (Halko, Martinsson and Tropp 2011): any choice gives a
    bound, so nothing rests on chance but how good it is.
    """
    r, n, d = first.shape
    if columns >= n * d:
        return torch.eye(n * d, dtype=first.dtype, device=first.device)
    random = torch.Generator().manual_seed(seed)
    total = first.new_zeros(columns, n * d)
    for h in indices:
        drawn = torch.randn(columns, r, generator=random, dtype=first.dtype)
        total += drawn.to(first.device) @ sent(h).flatten(1)
    return torch.linalg.qr(total.mT)[0]
