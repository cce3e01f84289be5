"""One number of a model in exact parts: by path length, by head, by layer, by input token.

With attention, gates and norms held at their values the number is a functional of the stream at
every place, plus constants. One sweep from the number back to the input carries these functionals:
row j for all paths that pass j more heads, and a last row for the skip connections alone. What the
model computed is kept from its forward pass. At a step x -> M x + s, with y what the model has
behind it and r = y - (M x + s) what its rounding left there, a functional g of y gives

    <y, g> = <x, M^T g> + <s, g> + <r, g>,

so from the number back to the input only constants <s, g> and roundings <r, g> fall away. This is
done three times at once, and each time the parts add up to the number:

- *all*: every path is followed to the input. <X, g_j> is the number's part of length j, and the
  sum over j, token by token, is what each input token gives.
- *direct*: with row 0 alone. It ends at what each head writes, carried on by everything behind it
  that is no head: skip connections, MLPs and norms.
- *skip*: with the last row. It ends at what each attention and each MLP writes, carried on by the
  skip connections and norms alone.

What a head writes against the sum of all rows is its part *through* later heads, too. These overlap
between layers, so they have no sum.

The bound. Floats are off, and nothing is multiplied up over depth: whatever floats x and g are, the
equation above is broken only by the roundings of one step. Let A = |M| |x| + |s|, n be the tokens,
d the largest width in the step, m the roundings of M or of M^T, whichever has more, v = 2^-53. Then
M^T g is off by gamma_m(v) |M|^T |g|, which costs gamma_m <A, |g|>; what a head writes is a value
within the step, off by gamma_m, too; r by gamma_{m+2} (A + |y|). A sum of products over width and
then tokens has d + n roundings, once for parts and once for <r, g>. As gamma_a + gamma_b + gamma_a
gamma_b <= gamma_{a+b}, a step is off by at most

    gamma_K(v) <A + |y|, |g|>,   K = 3 m + 2 (n + d) + 8,

and a block's sum in the same way, with one rounding a branch. The bounds of all steps add up, as
do the parts, in exact sums (math.fsum). All is taken twice, as the bound is computed in floats, and
underflows are counted. What the model's rounding comes to, the sum of <r, g>, is a part of its own,
and must be within <gamma_m(u) A, |g|> of all steps, as in
:mod:`attninspect.reconstruction`: else the maps are not those of the model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

import torch
from torch import Tensor

from attninspect.reconstruction import HERE, Check, compared, underflow
from attninspect.trace import Block, Branch, Layer, Step, gamma
from attnverify.mathematics import paths
from attnverify.mathematics.maps import Chosen, Dense, Map, Mix, Norm

Row = dict[str, Any]
END = "end"  # the final norm and the head, in the place of a layer


@dataclass(frozen=True)
class Number:
    """The number: ``weights`` times what the steps make of the last hidden state at one token.

    hidden (1, tokens, width): the model's own; token: from 0; steps: of the head, at (1, 1, width),
    none where the number is a coordinate; weights (entries,) of the last step's output.
    """

    hidden: Tensor
    token: int
    steps: Sequence[Step]
    weights: Tensor

    @property
    def entries(self) -> Tensor:
        """What the weights multiply, as the model computed it, (entries,)."""
        seen = self.steps[-1].seen if self.steps else self.at(self.hidden)
        return seen[0, 0]

    @property
    def value(self) -> float:
        """The number itself."""
        return fsum((self.entries * self.weights).tolist())

    def at(self, x: Tensor) -> Tensor:
        return x[:, self.token : self.token + 1]


@dataclass
class Tally:
    """What one of the decompositions has met: parts by name, and bounds."""

    biases: dict[int | str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sources: list[float] = field(default_factory=list)
    rounding: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def bias(self, place: int | str) -> float:
        return fsum(self.biases[place]) if place in self.biases else 0.0

    @property
    def all_biases(self) -> float:
        return fsum(each for found in self.biases.values() for each in found)

    @property
    def left(self) -> float:
        """What the model's rounding comes to."""
        return fsum(self.rounding)

    @property
    def bound(self) -> float:
        """The most that the parts may be off the number.

        Of exact sums five are rounded: the number, the biases, the roundings, all, the difference.
        """
        terms = [*self.sources, *self.rounding, *(x for each in self.biases.values() for x in each)]
        return 2 * fsum(self.ours) + 5 * HERE * fsum(map(abs, terms))

    def checks(self, name: str, value: float) -> list[Check]:
        """The parts against the number, and the model's rounding against its bound."""
        off = value - fsum([*self.sources, self.all_biases, self.left])
        most = self.bound + 2 * fsum(self.theirs)
        numbers = (off, self.bound, self.left, most, value)
        error, ours, rest, theirs, seen = torch.tensor(numbers, dtype=torch.float64)[:, None]
        return [
            compared(f"number, {name}", error, ours, seen),
            compared(f"number, {name}, rounding", rest, theirs, seen),
        ]


KINDS = ("all", "direct", "skip")


def inner(x: Tensor, g: Tensor) -> Tensor:
    """<x, g> for every functional: x (tokens or 1, width), g (rows, 1, tokens, width)."""
    return (g * x).sum(-1).sum(-1)[:, 0]


def by_key(
    mix: Mix, x: Tensor, g: Tensor, direct: Tensor, place: int | str
) -> tuple[Tensor, Check]:
    """What each key token gives of what heads write, (heads, tokens), and that it adds up to it.

    x (1, tokens, key_heads * width): values, biases included; g (1, tokens, heads * width);
    direct (heads,): <P v, g>, of which key token j gives sum_i P_ij <v_j, g_i>. Both are sums of
    products over n tokens, n tokens again and width d: each is off by at most
    gamma_{2n+d+2} sum P |v| |g|, their difference by one rounding more, and all is taken twice, as
    the bound is computed in floats.
    """
    heads, shared = mix.P.shape[1], mix.P.shape[1] // mix.key_heads
    values = x[0].unflatten(-1, (mix.key_heads, -1)).repeat_interleave(shared, 1)
    aims = g[0].unflatten(-1, (heads, -1))
    found, sizes = (
        (torch.einsum("hij,ihw->jhw", mix.P[0], aim) * value).sum(-1).mT
        for aim, value in ((aims, values), (aims.abs(), values.abs()))
    )
    lost = underflow(HERE) * (1 + values.abs().sum() + aims.abs().sum())
    K = 2.0 * values.shape[0] + values.shape[-1] + 3
    bound = 4 * gamma(K, HERE) * sizes.sum(-1) + lost
    error = found.sum(-1) - direct
    return found, compared(f"layer {place}, number by key token", error, bound, direct)


@dataclass
class Sweep:
    """Functionals at one place on their way to the input, g (lengths + 1, 1, tokens, width)."""

    g: Tensor
    place: int | str = END
    tallies: dict[str, Tally] = field(default_factory=lambda: {name: Tally() for name in KINDS})
    heads: list[Row] = field(default_factory=list)
    keys: dict[int | str, Tensor] = field(default_factory=dict)
    written: dict[tuple[int | str, str], float] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def _add(self, what: str, found: Tensor, kinds: Sequence[str]) -> None:
        """Add a value for each row to a list of the tallies; without "skip" g has no last row."""
        values = found.tolist()
        lengths = values[:-1] if "skip" in kinds else values
        for kind in kinds:
            own = {"all": lengths, "direct": values[:1], "skip": values[-1:]}[kind]
            if what == "biases":
                self.tallies[kind].biases[self.place] += own
            else:
                getattr(self.tallies[kind], what).extend(own)

    def _bound(self, ours: Tensor, theirs: Tensor, g: Tensor, kinds: Sequence[str]) -> None:
        size = g.abs()
        self._add("ours", inner(ours, size), kinds)
        self._add("theirs", inner(theirs, size), kinds)

    def steps(self, steps: Sequence[Step], x: Tensor) -> None:
        """Through steps that every path passes; x (1, tokens, width) before the first."""
        for step, before in _backward(steps, x):
            self.g = self._step(step, before, self.g, KINDS)

    def _step(self, step: Step, x: Tensor, g: Tensor, kinds: Sequence[str]) -> Tensor:
        values = [x]
        for each in step.maps:
            values.append(each.linear(values[-1]) + each.shift)
        size, seen = step.size(x.abs()), step.seen
        widest = max(value.shape[-1] for value in values)
        K = 3 * sum(map(_roundings, step.maps, values)) + 2 * (x.shape[-2] + widest) + 8
        ours = gamma(K, HERE) * (size + seen.abs()) + underflow(HERE)
        theirs = gamma(step.roundings, step.inner) * size + step.stored(x.abs())
        theirs = theirs + underflow(step.unit)
        self._bound(ours, theirs, g, kinds)
        lost = underflow(HERE) * x.abs().sum()  # where products in M^T g underflow
        self._add("ours", lost.expand(len(g)), kinds)
        rest = seen - values[-1]
        if self.place == END:  # the layers' steps are compared with the model on the way there
            self.checks.append(compared(f"number, {step.name}", rest, 2 * (theirs + ours), seen))
        self._add("rounding", inner(rest, g), kinds)
        ends = zip(values, values[1:], strict=False)
        for each, (before, out) in zip(reversed(step.maps), reversed([*ends]), strict=True):
            if isinstance(each.shift, Tensor):
                self._add("biases", inner(each.shift, g), kinds)
            if isinstance(each, Mix):
                self._heads(each, before, out, g)
                kinds = ("all",)
            g = each.transposed(g)
        return g

    def _heads(self, mix: Mix, x: Tensor, out: Tensor, g: Tensor) -> None:
        """What each head writes, out (1, tokens, heads * width), against rows 0 and all rows."""
        parts = torch.stack([out * g[0], out * g.sum(0)])[:, 0]
        each = parts.unflatten(-1, (mix.P.shape[1], -1)).sum(-1).sum(-2).tolist()
        self.tallies["direct"].sources += each[0]
        self.heads = [
            {"layer": self.place, "head": head + 1, "direct": direct, "through": through}
            for head, (direct, through) in enumerate(zip(*each, strict=True))
        ] + self.heads
        direct = g.new_tensor(each[0])
        self.keys[self.place], check = by_key(mix, x, g[0], direct, self.place)
        self.checks.append(check)

    def layer(self, layer: Layer, x: Tensor) -> None:
        """Through a layer whose input is x."""
        self.place = layer.number
        inputs = [x, *(block.output for block in layer.blocks[:-1])]
        for block, before in zip(reversed(layer.blocks), reversed(inputs), strict=True):
            self.steps(block.after, block.seen)
            self._block(block, before)

    def _block(self, block: Block, x: Tensor) -> None:
        longer = any(branch.attention for branch in block.branches)
        total = self.g if not longer else _longer(self.g)
        total, size = total.clone(), total.abs()
        for branch in block.branches:
            found, first = self._branch(branch, x), int(branch.attention)
            total[first : first + len(found)] += found
            size[first : first + len(found)] += found.abs()
        ends = [branch.steps[-1].seen for branch in block.branches]
        rest = block.seen - sum(ends, x)
        around = sum((end.abs() for end in ends), x.abs())
        terms = len(ends) + 2.0
        ours = gamma(2 * sum(x.shape[-2:]) + terms + 8, HERE) * (around + block.seen.abs())
        theirs = gamma(terms, block.unit) * around + underflow(block.unit)
        self._bound(ours, theirs, self.g, KINDS)
        self._add("ours", gamma(terms, HERE) * inner(x.abs(), size), KINDS)
        self._add("rounding", inner(rest, self.g), KINDS)
        self.g = total

    def _branch(self, branch: Branch, x: Tensor) -> Tensor:
        """The functionals of lengths at the branch's input; the last row ends at its output."""
        end, name = branch.steps[-1].seen, "attention" if branch.attention else "mlp"
        (value,) = inner(end, self.g[-1:]).tolist()
        self.written[self.place, name] = value
        self.tallies["skip"].sources.append(value)
        g, kinds = self.g[:-1], ("all", "direct")
        for step, before in _backward(branch.steps, x):
            g = self._step(step, before, g, kinds)
            if any(isinstance(map, Mix) for map in step.maps):
                kinds = ("all",)
        return g


def _longer(g: Tensor) -> Tensor:
    """Room for one more length, before the last row."""
    return torch.cat([g[:-1], torch.zeros_like(g[:1]), g[-1:]])


def _backward(steps: Sequence[Step], x: Tensor) -> list[tuple[Step, Tensor]]:
    """The steps from the last to the first, each with the model's values before it."""
    before = [x, *(step.seen for step in steps)][: len(steps)]
    return [*zip(steps, before, strict=True)][::-1]


def _roundings(of: Map, x: Tensor) -> float:
    """Of the map at x or of its transpose, whichever has more, s of a norm taken as it is."""
    if isinstance(of, Dense):
        return max(of.weight.shape) + 1.0
    if isinstance(of, Chosen):
        return of.turned
    if isinstance(of, Mix):
        return float(of.P.shape[-1] * of.P.shape[1] // of.key_heads)
    if isinstance(of, Norm):
        return x.shape[-1] + 8.0
    return of.roundings


@dataclass(frozen=True)
class Parts:
    """The tables of a report on one number, and the checks that their sums met.

    bound: the most that any of the sums may be off by; keys: layer to :func:`by_key`.
    """

    bound: float
    lengths: list[Row]
    layers: list[Row]
    heads: list[Row]
    tokens: list[Row]
    keys: dict[Any, Tensor]
    checks: list[Check]


def decompose(layers: Sequence[Layer], final: Sequence[Step], number: Number) -> Parts:
    """The number in parts; raises ReconstructionError where parts do not add up to it."""
    sweep = Sweep(number.weights.expand(2, 1, 1, -1))
    sweep.steps(number.steps, number.at(number.hidden))
    at_token = sweep.g
    sweep.g = at_token.new_zeros(2, *number.hidden.shape)
    sweep.g[:, :, number.token] = at_token[:, :, 0]
    inputs = [layers[0].input, *(layer.output for layer in layers)]
    sweep.steps(final, inputs[-1])
    for layer, x in zip(reversed(layers), reversed(inputs[:-1]), strict=True):
        sweep.layer(layer, x)
    return _tables(sweep, inputs[0], number)


def _tables(sweep: Sweep, X: Tensor, number: Number) -> Parts:
    g, value = sweep.g, number.value
    each = inner(X, g).tolist()
    by_length, stream = each[:-1], each[-1]
    by_token = (X * g[:-1].sum(0)).sum(-1)[0].tolist()
    every, direct, skip = (sweep.tallies[name] for name in KINDS)
    products = gamma(2.0 * sum(X.shape[-2:]) + len(g), HERE) * inner(X.abs(), g.abs())
    every.ours += products[:-1].tolist()
    direct.ours.append(float(products[0]))
    skip.ours.append(float(products[-1]))
    direct.sources.append(by_length[0])
    skip.sources.append(stream)
    every.sources = by_length
    checks = [*sweep.checks, *every.checks("by length", value)]
    bound = every.bound
    every.sources = by_token
    checks += every.checks("by token", value)[:1]
    checks += direct.checks("by head", value)
    checks += skip.checks("by layer", value)
    named = {"biases": every.all_biases, "rounding": every.left}
    heads = len(sweep.heads) // (len(g) - 2)
    lengths: list[Row] = [
        {"length": length, "value": part, "paths": paths.count(len(g) - 2, heads, length)}
        for length, part in enumerate(by_length)
    ]
    lengths += [{"length": name, "value": part, "paths": None} for name, part in named.items()]
    tokens: list[Row] = [{"token": j + 1, "value": part} for j, part in enumerate(by_token)]
    tokens += [{"token": name, "value": part} for name, part in named.items()]
    bound = max(bound, every.bound, direct.bound, skip.bound)
    layers = _layers(sweep, by_length[0], stream)
    return Parts(bound, lengths, layers, sweep.heads, tokens, sweep.keys, checks)


def _layers(sweep: Sweep, direct: float, stream: float) -> list[Row]:
    """A row for the input, one a layer, one for what follows them, one for the rounding."""
    every, own, skip = (sweep.tallies[name] for name in KINDS)
    empty = dict.fromkeys(("direct", "biases", "stream", "attention", "mlp", "biases_all"))
    rows: list[Row] = [{"layer": "input", **empty, "direct": direct, "stream": stream}]
    for place in [*dict.fromkeys(row["layer"] for row in sweep.heads), END]:
        heads = [row["direct"] for row in sweep.heads if row["layer"] == place]
        written = {name: sweep.written.get((place, name)) for name in ("attention", "mlp")}
        row: Row = {"layer": place, "direct": fsum(heads) if heads else None}
        row |= {"biases": own.bias(place), **written, "biases_all": every.bias(place)}
        row["stream"] = fsum([skip.bias(place), *(v for v in written.values() if v is not None)])
        rows.append(row)
    return [*rows, {"layer": "rounding", **empty, "direct": own.left, "stream": skip.left}]
