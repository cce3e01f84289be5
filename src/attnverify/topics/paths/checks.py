"""Checks of the path decomposition, counting paths, sums by length."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance, Twin
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import attention, energy, paths
from attnverify.mathematics.paths import FixedAttention
from attnverify.support.verdict import Verdict
from attnverify.topics.attention import definitions as definitions


def stochastic(Z):
    """Row-stochastic matrix from any array: |Z| + 1/8 with each row divided by its sum."""
    weights = abs(Z) + ops.constant(0.125, Z)
    return weights / ops.sum(weights, -1, keepdims=True)


def _ones(P):
    return ops.full((P.shape[-1], 1), 1, P)


def _product(left: Callable, twins: tuple[Twin, ...] = ()) -> Identity:
    return Identity(
        left=left,
        right=lambda P, Q, b: _ones(P) * b,
        # two products with row sums 1 +- n u and entries rounded: chains of 4 n + 4 roundings
        bound=lambda P, Q, b: gamma(4 * P.shape[-1] + 4, P) * abs(_ones(P) * b),
        sizes=tuple({"P": (n, n), "Q": (n, n), "b": (1, 3)} for n in (2, 4, 7)),
        build=lambda P, Q, b: {"P": stochastic(P), "Q": stochastic(Q), "b": b},
        twins=twins,
    )


STOCHASTIC_PRODUCT = _product(
    lambda P, Q, b: (P @ Q) @ (_ones(P) * b),
    (
        Twin(
            "column sums in place of row sums",
            _product(lambda P, Q, b: ops.transpose(P @ Q) @ (_ones(P) * b)),
        ),
        Twin("the sum in place of the product", _product(lambda P, Q, b: (P + Q) @ (_ones(P) * b))),
    ),
)

STACK_SHAPES = ((1, 1, 2, 2, 1), (2, 2, 3, 2, 1), (3, 2, 3, 4, 2))  # depth, heads, n, d, v


def _fixed_sizes() -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple(
        {"X": (n, d), "Z": (L, H, n, n), "W_V": (L, H, d, v), "W_O": (L, H, v, d), "b": (L, d)}
        for L, H, n, d, v in STACK_SHAPES
    )


def _network_sizes() -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple(
        {
            "X": (n, d),
            "W_Q": (L, H, d, v),
            "b_Q": (L, H, v),
            "W_K": (L, H, d, v),
            "b_K": (L, H, v),
            "W_V": (L, H, d, v),
            "b_V": (L, H, v),
            "W_O": (L, H, v, d),
            "b_O": (L, d),
        }
        for L, H, n, d, v in STACK_SHAPES
    )


def _with_stochastic(Z, **rest) -> Instance:
    P = stochastic(Z)
    return {"P": P[:, :, None] if ops.is_torch(P) and rest["X"].ndim == 3 else P, **rest}


def _with_attention(skip: bool) -> Callable[..., Instance]:
    """Instance builder with the attention matrices of the real forward pass."""

    def build(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O) -> Instance:
        matrices, biases, Y = [], [], X
        for i in range(len(W_Q)):
            P = ops.softmax(attention.logits(Y, W_Q[i], b_Q[i], W_K[i], b_K[i]))
            b = attention.layer_bias(b_V[i], W_O[i], b_O[i])
            step = attention.mix(P, Y, W_V[i], W_O[i]) + b
            Y = Y + step if skip else step
            matrices.append(P)
            biases.append(b)
        return {
            "X": X,
            "P": ops.stack(matrices, 0),
            "W_V": W_V,
            "W_O": W_O,
            "b": ops.stack(biases, 0),
        }

    return build


def _paths_of(fixed: FixedAttention) -> list[paths.Path]:
    return list(itertools.product(fixed.indices(), repeat=fixed.depth))


def _term_sum(fixed: FixedAttention, X):
    total = ops.full(tuple(X.shape), 0, X)
    for path in _paths_of(fixed):
        total = total + fixed.term(X, path)
    return total


def _grouped(fixed: FixedAttention, X):
    """Terms of all paths, summed by path length: (depth + 1, ..., tokens, width)."""
    sums = [ops.full(tuple(X.shape), 0, X) for _ in range(fixed.depth + 1)]
    for path in _paths_of(fixed):
        length = len(path) - path.count(0)
        sums[length] = sums[length] + fixed.term(X, path)
    return ops.stack(sums, 0)


def _network(formula: Callable, skip: bool) -> Callable:
    """Formula of an instance from a formula of (fixed attention, X)."""
    return lambda X, **arrays: formula(FixedAttention(skip=skip, **arrays), X)


def _paths_bound(skip: bool) -> Callable:
    def bound(fixed: FixedAttention, X):
        return fixed.rounding_bound(X, len(_paths_of(fixed)))

    return _network(bound, skip)


def _decomposition(right: Callable, skip: bool, forward: bool = False, twins=()) -> Identity:
    return Identity(
        left=_network(lambda fixed, X: fixed.forward(X), skip),
        right=_network(right, skip),
        bound=_paths_bound(skip),
        sizes=_network_sizes() if forward else _fixed_sizes(),
        build=_with_attention(skip) if forward else _with_stochastic,
        arithmetic="ball" if forward else "rational",
        shared=("Z", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O", "b"),
        twins=twins,
    )


def _path_sum(fixed: FixedAttention, X):
    return _term_sum(fixed, X) + fixed.bias_vector()


def _bias_unmapped(fixed: FixedAttention, X):
    return _term_sum(fixed, X) + ops.sum(fixed.b, 0)


def _bias_without_identity(fixed: FixedAttention, X):
    bare = FixedAttention(fixed.P, fixed.W_V, fixed.W_O, fixed.b, skip=False)
    return _term_sum(fixed, X) + bare.bias_vector()


def _without_index_zero(fixed: FixedAttention, X):
    bare = FixedAttention(fixed.P, fixed.W_V, fixed.W_O, fixed.b, skip=False)
    return _term_sum(bare, X) + fixed.bias_vector()


def _layers_reversed(fixed: FixedAttention, X):
    turned = FixedAttention(
        fixed.P[::-1] if not ops.is_torch(fixed.P) else fixed.P.flip(0),
        fixed.W_V,
        fixed.W_O,
        fixed.b,
        fixed.skip,
    )
    return _term_sum(turned, X) + fixed.bias_vector()


def _decomposition_checks(skip: bool, neighbors: dict[str, Callable]) -> dict[str, Check]:
    twins = tuple(Twin(title, _decomposition(f, skip)) for title, f in neighbors.items())
    wrong = "without skip connections" if skip else "with skip connections"
    return {
        "fixed attention": _decomposition(_path_sum, skip, twins=twins),
        "forward pass": _decomposition(_path_sum, skip, forward=True),
        "token by token": by_definition(partial(definitions.layers, skip), wrong, carried=not skip),
    }


def _recursion(right: Callable, twins: tuple[Twin, ...] = ()) -> Identity:
    def bound(fixed: FixedAttention, X):
        return fixed.rounding_bounds(X, len(_paths_of(fixed)))

    return Identity(
        left=_network(_grouped, True),
        right=_network(right, True),
        bound=_network(bound, True),
        sizes=_fixed_sizes(),
        build=_with_stochastic,
        shared=("Z", "W_V", "W_O", "b"),
        twins=twins,
    )


def _recursion_by_hand(carry: bool, shift: int) -> Callable:
    """Recursion of a twin: without its carried term, or with another length on the right."""

    def sums(fixed: FixedAttention, X):
        S = {0: X}
        zero = ops.full(tuple(X.shape), 0, X)
        for layer in range(fixed.depth):

            def step(length: int, S=S, layer=layer):
                before = S.get(length - shift, zero)
                moved = attention.mix(fixed.P[layer], before, fixed.W_V[layer], fixed.W_O[layer])
                return (S.get(length, zero) if carry else zero) + moved

            S = {length: step(length) for length in range(layer + 2)}
        return ops.stack([S.get(length, zero) for length in range(fixed.depth + 1)], 0)

    return sums


RECURSION = _recursion(
    lambda fixed, X: fixed.by_length(X),
    (
        Twin("the carried sum dropped", _recursion(_recursion_by_hand(carry=False, shift=1))),
        Twin("S_l in place of S_(l-1)", _recursion(_recursion_by_hand(carry=True, shift=0))),
    ),
)


def _count(formula: Callable[[int, int, int], int]) -> Verdict:
    cases, wrong = 0, 0
    for depth, heads in itertools.product(range(1, 6), range(1, 4)):
        lengths = [len(p) - p.count(0) for p in itertools.product(range(heads + 1), repeat=depth)]
        for length in range(depth + 1):
            wrong += lengths.count(length) != formula(depth, heads, length)
            cases += 1
        wrong += len(lengths) != (1 + heads) ** depth
    return Verdict(wrong == 0, f"{cases} counts by enumeration, {wrong} differ", cases)


COUNT = (
    Decision(
        partial(_count, paths.count),
        "depth up to 5 and up to 3 heads; the derivation covers the rest",
        "certified",
        sum(L + 1 for L in range(1, 6)) * 3,  # lengths from 0 to L
    )
    .but("H^L in place of H^l", run=partial(_count, lambda L, H, k: paths.count(L, 1, k) * H**L))
    .but("the heads not counted", run=partial(_count, lambda L, H, k: paths.count(L, 1, k)))
)


def _fixed(P, W_V, W_O) -> FixedAttention:
    """A network with skip connections; its weights may have a batch axis in front."""
    if W_V.ndim == 5:
        P, W_V, W_O = (a.swapaxes(0, 1).swapaxes(1, 2) for a in (P, W_V, W_O))
    elif ops.is_torch(P):
        P = P[:, :, None]
    return FixedAttention(P, W_V, W_O, None, skip=True)


def _contributions(X, C, **maps):
    """<C, term> of every path, (..., paths)."""
    fixed = _fixed(**maps)
    terms = (fixed.term(X, path) for path in _paths_of(fixed))
    return ops.stack([ops.sum(C * term, (-2, -1)) for term in terms], -1)


def _squares(X, C, **maps):
    return ops.sum(ops.square(_contributions(X, C, **maps)), -1, keepdims=True)


def _square_of_the_sum(X, C, **maps):
    return ops.square(ops.sum(_contributions(X, C, **maps), -1, keepdims=True))


def _energy(X, C, **maps):
    return energy.energy(_fixed(**maps), X, C)


def _energy_bound(X, C, P, W_V, W_O):
    """Either side is a sum of products: 2 gamma_m times itself in absolute values, twice for both.

    A contribution passes width, tokens and value_width roundings a layer and one for each entry of
    C; its square twice that, and one for each path. The form passes, a layer, the same of W and
    its product with P, two products of tokens width each and a sum over heads; then two more.
    """
    (L, H, n), (d, v) = P.shape[:-1], W_V.shape[-2:]
    m = 2 * (L * (d + n + v) + n * d) + (1 + H) ** L + L * (2 * (v + 1 + n * d) + H + 1) + 2 * n * d
    absolute = _energy(abs(X), abs(C), P=abs(P), W_V=abs(W_V), W_O=abs(W_O))
    return 2 * gamma(2 * m, X) * absolute


def _energy_sizes() -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple(
        {"X": (n, d), "C": (n, d), "P": (L, H, n, n), "W_V": (L, H, d, v), "W_O": (L, H, v, d)}
        for L, H, n, d, v in (*STACK_SHAPES, (1, 3, 2, 3, 2))
    )


ENERGY = Identity(
    left=_squares,
    right=_energy,
    bound=_energy_bound,
    sizes=_energy_sizes(),
    shared=("P", "W_V", "W_O"),
).but("summed before it is squared", left=_square_of_the_sum)


def _one_path() -> Instance:
    """All heads send 0, so that the skip connections alone contribute."""
    one = {name: torch.ones(*shape).double() for name, shape in _energy_sizes()[1].items()}
    return {**one, "W_V": 0 * one["W_V"]}


LARGEST = Inequality(
    left=lambda X, C, **maps: ops.amax(ops.square(_contributions(X, C, **maps)), -1, keepdims=True),
    right=_energy,
    sizes=_energy_sizes(),
    extremal=(_one_path,),
).times(0.9999)

CHECKS: dict[str, dict[str, Check]] = {
    "paths.stochastic-product": {"product": STOCHASTIC_PRODUCT},
    "paths.decomposition": _decomposition_checks(
        False,
        {
            "biases not mapped by later layers": _bias_unmapped,
            "attention matrices in reversed order": _layers_reversed,
        },
    ),
    "paths.skip-decomposition": _decomposition_checks(
        True,
        {
            "bias products without the identity": _bias_without_identity,
            "paths without the index 0": _without_index_zero,
        },
    ),
    "paths.count": {"enumeration": COUNT},
    "paths.length-recursion": {"recursion": RECURSION},
    "paths.energy": {"sum of squares": ENERGY, "largest": LARGEST},
}
