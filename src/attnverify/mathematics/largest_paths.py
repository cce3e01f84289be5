"""The paths with the largest contributions to a number of the output, by best-first search.

The search goes from the output back. A node is a choice of indices for the last layers; its
covector C makes <C, Y> of what the first l layers give, so that its completions have the
contributions <C, p X>, p the paths through these layers. None is larger than the bound of
:mod:`attnverify.mathematics.energy`. The node with the largest bound is opened: each index of layer
l gives a child. Behind the first m layers all outputs of paths are held, and one product with
them gives the contributions of all completions of a child. When no open bound exceeds the k-th
largest contribution found, no unlisted path is larger, up to the roundings.

Roundings. The covectors are computed, C_child = Lambda^T C + delta with |delta| <= gamma_m times
the layer's transpose in absolute values. So a completion's contribution, and by Minkowski the root
of the energy of all, is off by at most <|delta|, t> <= gamma_m <|C|, |Lambda| t> more than the
child's own, where t bounds the root of the sum of squares of the outputs of all paths, entry by
entry (``Envelope.entries``). These margins add up from the output to a node, and every bound and
every contribution gets the node's. Underflow in C_child is at most 2^-1074 times what heads, an MLP
and a norm raise it by, 2^416 as in ``energy``, and adds 2^-600 times the sum of t. Covector and X
are scaled by powers of two so that their largest entries are in [1, 2), and results are scaled
back: paths are linear in both.
"""

from __future__ import annotations

import contextlib
import copy
import heapq
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from attnverify.arithmetic.arrays import as_array
from attnverify.arithmetic.rounding import gamma
from attnverify.mathematics import maps
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.energy import Envelope
from attnverify.mathematics.held import Held, Path
from attnverify.support.errors import require, require_finite
from attnverify.support.tables import Table

MEMORY = 2**31  # bytes for the columns of all envelopes together
COLUMNS = 256  # the most that an envelope has; more shrink what is left to S, and cost their square
PRECISE = 0.01  # certified: the rounding error is at most so much of the smallest listed (a choice)
SMALLEST = 2.0**-1022  # the least number with all its digits in float64
STEP = 2.0**-600  # see above: what a step back may lose by underflow
LIMIT = 2.0**24  # the most that an entry of a map may be, for the underflow bounds of .energy


@dataclass(frozen=True)
class LargestPaths:
    """The largest contributions to a scalar of the output, and how large any other may be.

    paths: an index a layer, first layer first, 0 for what passes the attention by (the skip
    connection, and the MLP in parallel blocks); contributions: theirs, largest first by size;
    error: a bound of the rounding error of each; unseen: no path that is not listed contributes
    more than this, up or down; nodes: how many were opened; energy: the least and the most that the
    sum of the squares of all contributions can be; total: the scalar at the model's own output;
    biases: total less the sum of all paths, so biases and the model's own rounding; number: of all
    paths; frontier: by the indices of their last layers, nodes of which every path ends in one, and
    a bound of the root of their energy. certified: all paths are listed, or k are, ``unseen`` is at
    most the smallest listed size plus twice the error, and the error is at most 1 percent of that
    size (a choice).
    """

    paths: list[Path]
    contributions: list[float]
    error: float
    unseen: float
    certified: bool
    nodes: int
    energy: tuple[float, float]
    total: float
    biases: float
    number: int
    frontier: dict[Path, float] = field(default_factory=dict)

    @property
    def share(self) -> tuple[float, float]:
        """Least and most of the share of the listed paths in the energy of all.

        The errors of the contributions are in it, not the roundings of this last division.
        """
        (least, most), (low, high) = self._powers(2), self._energies
        share = least / max(high, least) if high else 1.0
        return share, most / max(low, most) if most and low else 1.0

    @property
    def _unit(self) -> float:
        """What powers are taken in, so that they stay in range: the root of the largest energy."""
        return math.sqrt(self.energy[1]) or 1.0

    @property
    def _energies(self) -> tuple[float, float]:
        low, high = self.energy
        return low / self._unit / self._unit, high / self._unit / self._unit

    def _powers(self, power: int) -> tuple[float, float]:
        """Least and most of the sum of powers of the listed sizes."""
        sizes, off = [abs(c) / self._unit for c in self.contributions], self.error / self._unit
        least = math.fsum(max(size - off, 0.0) ** power for size in sizes)
        return least, math.fsum((size + off) ** power for size in sizes)

    @property
    def effective(self) -> tuple[float, float]:
        """Least and most of the effective number of paths, (sum of c^2)^2 / sum of c^4.

        It is n for n equal contributions and zeros. With u = ``unseen``, f the fourth powers of the
        listed and own their squares, the others' fourth powers sum to at most (E - own) u^2 where
        the energy is E. So the least is that of E^2 / (f + (E - own) u^2) over all E that the
        energy can be. Its derivative changes sign once, from below, at E = 2 (own - f / u^2).
        """
        if not self.energy[1]:
            return 0.0, float(self.number)
        (own, _), (least, fourth) = self._powers(2), self._powers(4)
        low, high = (max(own, each) for each in self._energies)
        square = min((self.unseen / self._unit) ** 2, high)  # no path exceeds the energy
        at = min(max(2 * (own - fourth / square), low), high) if square else low
        lowest = at * at / max(fourth + (at - own) * square, SMALLEST)
        most = high * high / least if least else math.inf
        return max(1.0, lowest), min(most, float(self.number))

    @property
    def words(self) -> str:
        """What is proved, in a sentence."""
        low, high = self.share
        said = f"no other exceeds {self.unseen:.3g}"
        said += "" if self.certified else f", {self._reason}: not certified"
        listed = math.fsum(self.contributions)
        return (
            f"{len(self.paths)} of {self.number:,} paths, {self.nodes:,} nodes opened; {said}. "
            f"Each is off by at most {self.error:.2g} (rounding). "
            f"They sum to {listed:.4g} of {self.total:.4g}; biases and the model's own rounding "
            f"are {self.biases:.4g}. They have {low:.3g} to {high:.3g} of the energy of all paths."
        )

    @property
    def _reason(self) -> str:
        """Why the list is not certified."""
        smallest = abs(self.contributions[-1])
        if self.unseen > smallest + 2 * self.error:
            return "which is more than the smallest listed"
        if self.error > PRECISE * smallest:
            return f"but rounding may exceed {PRECISE:.0%} of the smallest listed"
        return "but fewer are listed than were asked for"

    @property
    def table(self) -> Table:
        """The paths and their contributions; the caption says what is proved."""
        rows = [
            [" ".join(map(str, path)), f"{c:.6g}"]
            for path, c in zip(self.paths, self.contributions, strict=True)
        ]
        return Table(self.words, ["indices, first layer first", "contribution"], rows)

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


@runtime_checkable
class Traced(Protocol):
    """A forward pass of a model that says what it is with its attention held (``av.trace``)."""

    def held(self) -> Held: ...


def held_at(subject: SelfAttentionNetwork | Traced, X: Any = None) -> Held:
    """A network at its input X, in float64, or a trace of ``av.trace``, of one text.

    Raises InputError for anything else, and for a trace of several texts.
    """
    if isinstance(subject, SelfAttentionNetwork):
        require(X is not None, "X", None, "the network's input, (tokens, width)")
        if subject.weights["b_O"].dtype != torch.float64:
            subject = copy.deepcopy(subject).double()
        held = Held.of(subject, X)
        given = f"shape {tuple(held.X.shape)}"
        require(held.X.ndim == 2, "X", given, "one text, (tokens, width)")
        return held
    known = isinstance(subject, Traced)
    require(known, "subject", type(subject).__name__, "a network or a trace of av.trace")
    require(X is None, "X", type(X).__name__, "None: a trace has its input")
    return subject.held()


@torch.no_grad()
def largest(
    subject: SelfAttentionNetwork | Traced,
    scalar: Any,
    k: int = 20,
    *,
    X: Any = None,
    nodes: int = 2000,
    columns: int | None = None,
) -> LargestPaths:
    """The k paths that contribute most to a scalar of the output, and a bound on all others.

    subject: a network, with its input ``X`` (tokens, width), or a trace of ``av.trace`` of one
    text; all its attention matrices, gates and norms are held. scalar: a covector (tokens, width)
    at the output, or a pair (token, coordinate) or (token, weights of its coordinates). The search
    opens at most so many ``nodes``; its bounds (:mod:`attnverify.mathematics.energy`) hold at most
    so many ``columns`` a layer. They take 8 tokens width (columns + width) bytes a layer, the
    second term for the matrices S. The default is the number of columns that fit 2 GiB without S,
    but at least 64 and at most 256.

    Result: a :class:`.largest_paths.LargestPaths`. It says how large any other path can be, up to
    the stated rounding error, whether the list is certified or not. Raises InputError, also where
    squares of contributions leave the range of float64, or a weight, a gate or a factor of a norm
    is above 2^24.

    >>> import torch
    >>> import attnverify as av
    >>> net = av.SelfAttentionNetwork.random(12, 12, 24, skip=True, scale=0.3, seed=0)
    >>> X = torch.randn(4, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> found = av.paths.largest(net, (0, 5), 3, X=X)
    >>> found.paths[0], found.certified, f"{found.number:,}"
    ((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), True, '23,298,085,122,481')
    """
    for name, value in (("k", k), ("nodes", nodes), ("columns", 1 if columns is None else columns)):
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        require(whole, name, value, "a positive whole number")
    held = held_at(subject, X)
    depth = len(held.layers)
    require(nodes >= depth, "nodes", nodes, f"at least the depth, {depth}")
    covector = covector_of(scalar, held.output)
    require_finite("subject" if X is None else "X", held.X)
    entry = float(torch.stack([array.abs().max() for array in held.entries]).max())
    require(entry <= LIMIT, "subject", f"a factor of {entry:.3g}", f"at most {LIMIT:.0f}")
    return _of(held, covector, k, columns, nodes)


def _of(held: Held, covector: Tensor, k: int, columns: int | None, nodes: int) -> LargestPaths:
    """The search at scaled covector and input, and its result scaled back."""
    total = float((covector * held.output).sum())
    require(math.isfinite(total), "scalar", f"{total} at the output", "a finite number")
    (X, first), (C, second) = _scaled(held.X), _scaled(covector)
    found = _Search(replace(held, X=X), C, k, columns).run(nodes)
    if bool(X.any()) and bool(C.any()):
        return _back(found, total, first + second)
    listed = len(found.paths) == min(k, found.number)
    return _back(replace(found, certified=listed), total, None)


def _root(square: float) -> float:
    """A bound of the root of a number."""
    return math.sqrt(square) * (1 + 2.0**-50)


def _scaled(array: Tensor) -> tuple[Tensor, int]:
    """An array over the power of two that makes its largest entry at least 1 and below 2."""
    exponent = math.frexp(float(array.abs().max()))[1] - 1
    half = -exponent // 2  # in two steps, as 2 to the whole may be out of range
    return array * 2.0**half * 2.0 ** (-exponent - half), exponent


def _back(found: LargestPaths, total: float, exponent: int | None) -> LargestPaths:
    """A result at scaled covector and input made one at the given; None: every path gives 0."""

    def scaled(value: float, times: int = 1, exact: bool = True) -> float:
        if exponent is None:
            return 0.0
        result = math.inf
        with contextlib.suppress(OverflowError):
            result = math.ldexp(value, times * exponent)
        fits = abs(result) < math.inf and (abs(result) >= SMALLEST or not value or not exact)
        kind = "a bound" if times == 1 else "squares of contributions"
        given = f"{kind} near {result:.3g}"
        require(fits, "scalar", given, "float64's range (scale it or X)")
        return result

    low = scaled(found.energy[0], 2, exact=False)
    of_paths = scaled(found.biases, exact=False)
    return replace(
        found,
        contributions=[scaled(c, exact=False) for c in found.contributions],
        error=scaled(found.error),
        unseen=scaled(found.unseen),
        energy=(low if low >= SMALLEST else 0.0, scaled(found.energy[1], 2)),
        total=total,
        biases=total - of_paths,
        frontier={suffix: scaled(bound) for suffix, bound in found.frontier.items()},
    )


def covector_of(scalar: Any, output: Tensor) -> Tensor:
    """The covector (tokens, width) of a scalar: itself, or (token, coordinate or its weights).

    output (tokens, width), float64. Raises InputError.

    >>> import torch
    >>> covector_of((0, 2), torch.ones(2, 3)).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if isinstance(scalar, tuple) and len(scalar) == 2 and isinstance(scalar[0], int):
        token, which = scalar
        tokens, width = output.shape
        inside = -tokens <= token < tokens
        require(inside, "scalar", f"token {token}", f"one of {tokens} tokens")
        if isinstance(which, int):
            inside = -width <= which < width
            require(inside, "scalar", f"coordinate {which}", f"one of {width} coordinates")
            which = torch.eye(width, dtype=output.dtype)[which]
        row = as_array("scalar", which).to(output)
        require(row.shape == (width,), "scalar", f"shape {tuple(row.shape)}", f"({width},)")
        scalar = torch.zeros_like(output)
        scalar[token] = row
    found = as_array("scalar", scalar)
    require(isinstance(found, Tensor), "scalar", "an array of objects", "numbers")
    found = found.to(output)
    shape = tuple(output.shape)
    require(found.shape == shape, "scalar", f"shape {tuple(found.shape)}", f"shape {shape}")
    require_finite("scalar", found)
    return found


@dataclass(order=True)
class _Open:
    """A node not opened yet; parent: the covector behind the heads of its last chosen layer."""

    order: float
    tie: int
    level: int = field(compare=False)
    suffix: Path = field(compare=False)
    parent: Tensor = field(compare=False)
    margin: float = field(compare=False)


class _Search:
    """The envelopes of all levels, the open nodes and the largest contributions so far."""

    def __init__(self, held: Held, covector: Tensor, k: int, columns: int | None) -> None:
        self.held, self.covector, self.k = held, covector, k
        self.number = math.prod(len(layer.indices) for layer in held.layers)
        self.envelopes, self.exact = [Envelope.at(held.X)], 0
        self.lost: list[float] = []  # a layer, what a step back to its input loses by underflow
        self.off, self.outputs = self._envelopes(columns)
        self.heap: list[_Open] = []
        self.best: list[tuple[float, float, float, Path]] = []  # size, value, error, path
        self.dropped, self.opened, self.ties = 0.0, 0, itertools.count()
        self.energies: dict[Path, tuple[float, float]] = {}  # least and most, of nodes not opened

    def _envelopes(self, columns: int | None) -> tuple[list[Tensor], Tensor]:
        """Make the envelopes of levels 1 to L - 1; weights of roundings a layer, and outputs.

        The weights, (indices, tokens, width), times |C| bound what a step back is off by; the
        outputs, (tokens, width), bound the root of the sum of squares of all paths' outputs.
        """
        layers, X = self.held.layers, self.held.X
        if columns is None:
            columns = max(64, min(COLUMNS, MEMORY // (8 * len(layers) * X.numel())))
        off, t = [], X.abs()
        for level, layer in enumerate(layers, 1):
            t = self.envelopes[-1].entries[None]
            self.lost.append(STEP * float(t.sum()))
            weights = torch.cat([layer.head_absolute(h, t) for h in layer.indices])
            weights = maps.absolute(layer.rows, weights)
            t = weights.norm(dim=0)
            m = layer.roundings + maps.count(layer.rows)
            off.append(2 * gamma(m, t) * weights)
            if level < len(layers):
                self.envelopes.append(self.envelopes[-1].after(layer, columns, seed=level))
                self.exact = level if self.envelopes[-1].exact else self.exact
        return off, t

    @property
    def threshold(self) -> float:
        """The k-th largest size so far; -1 while there are fewer, so that zeros are listed, too."""
        return self.best[-1][0] if len(self.best) == self.k else -1.0

    def run(self, nodes: int) -> LargestPaths:
        held, L = self.held, len(self.held.layers)
        C = maps.transposed(held.final, self.covector[None])
        sizes = maps.absolute(held.final, self.outputs[None])[0]
        off = 2 * gamma(maps.count(held.final), C) * sizes
        lost = STEP * float(self.outputs.sum())
        self._open(C, L, (), float((self.covector.abs() * off).sum()) + lost)
        for level in range(L - 1, self.exact, -1):  # straight down, so that there is a list
            self._next(min(node for node in self.heap if node.level == level))
        while self.heap and -self.heap[0].order > self.threshold and self.opened < nodes:
            self._next(self.heap[0])
        return self._result()

    def _next(self, node: _Open) -> None:
        """Open an open node."""
        self.heap.remove(node)
        heapq.heapify(self.heap)
        layer = self.held.layers[node.level]
        C = layer.head_transposed([node.suffix[0]], node.parent)
        self._open(C, node.level, node.suffix, node.margin)

    def _open(self, C: Tensor, level: int, suffix: Path, margin: float) -> None:
        """Open a node with covector C (1, tokens, width); its energy is that of its children."""
        self.opened += 1
        self.energies.pop(suffix, None)
        layer, envelope = self.held.layers[level - 1], self.envelopes[level - 1]
        margins = margin + self.lost[level - 1] + (C.abs() * self.off[level - 1]).sum((1, 2))
        C = maps.transposed(layer.rows, C)
        children = layer.head_transposed(layer.indices, C)
        near, rest = envelope.near(children), envelope.rest(children) + margins
        size = near.norm(dim=1)
        most = float((size + rest).square().sum())
        require(math.isfinite(most), "subject", f"an energy of {most}", "one that float64 can hold")
        if level - 1 <= self.exact:
            self._leaves(near, rest, level - 1, suffix)
        else:
            for h, bound, own in zip(
                layer.indices, (size + rest).tolist(), margins.tolist(), strict=True
            ):
                self._push(_Open(-bound, next(self.ties), level - 1, (h, *suffix), C, own))
        wide = 2 * gamma(8, rest)  # of the sums, squares and roots here
        low = (size - rest).clamp(min=0).square() * (1 - wide)
        high = (size + rest).square() * (1 + wide)
        for h, *both in zip(layer.indices, low.tolist(), high.tolist(), strict=True):
            self.energies[(h, *suffix)] = (both[0], both[1])

    def _push(self, node: _Open) -> None:
        """Keep a node, unless no completion can be among the largest."""
        if -node.order > self.threshold:
            heapq.heappush(self.heap, node)
        else:
            self.dropped = max(self.dropped, -node.order)

    def _leaves(self, values: Tensor, errors: Tensor, level: int, suffix: Path) -> None:
        """Take the contributions of all completions, (children, paths of ``level`` layers)."""
        flat = values.flatten()
        size, where = flat.abs().topk(min(self.k + 1, len(flat)))
        for each, place in zip(size.tolist(), where.tolist(), strict=True):
            child, prefix = divmod(place, values.shape[1])
            error = float(errors[child])
            if each <= self.threshold:
                self.dropped = max(self.dropped, each + float(errors.max()))
                break
            head = self.held.layers[level].indices[child]
            path = (*self._prefix(prefix, level), head, *suffix)
            self.best.append((each, float(flat[place]), error, path))
            self.best.sort(key=lambda one: -one[0])
            for out in self.best[self.k :]:
                self.dropped = max(self.dropped, out[0] + out[2])
            del self.best[self.k :]

    def _prefix(self, number: int, level: int) -> Path:
        """The indices of the first layers in the order of an exact envelope's columns."""
        found: list[int] = []
        for layer in reversed(self.held.layers[:level]):
            number, digit = divmod(number, len(layer.indices))
            found.insert(0, layer.indices[digit])
        return tuple(found)

    def _result(self) -> LargestPaths:
        """The result at the scaled covector and input; ``biases`` is the sum of all paths."""
        waiting = -self.heap[0].order if self.heap else 0.0
        unseen, error = max(waiting, self.dropped), max(one[2] for one in self.best)
        best, smallest = self.best, self.best[-1][0]
        full, listed = len(best) == self.number, len(best) == self.k
        precise = error <= PRECISE * smallest
        low, high = zip(*self.energies.values(), strict=True)
        return LargestPaths(
            paths=[one[3] for one in best],
            contributions=[one[1] for one in best],
            error=error,
            unseen=unseen,
            certified=listed and precise and unseen <= smallest + 2 * error or full,
            nodes=self.opened,
            energy=(math.fsum(low), math.fsum(high)),
            total=0.0,
            biases=float((self.covector * self.held.linear(self.held.X[None])[0]).sum()),
            number=self.number,
            frontier={suffix: _root(most) for suffix, (_, most) in self.energies.items()},
        )
