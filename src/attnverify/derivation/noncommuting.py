"""Normal forms of sums of products of noncommuting symbols, with symbolic ranges.

sympy multiplies noncommuting symbols and writes sums over a symbolic range, but does not decide
whether two such expressions are equal. :func:`normal_form` does, for expressions built from
noncommutative symbols and functions such as ``P(h)``, commutative coefficients, ``+``, ``*``,
positive integer powers and ``Sum``: distribute, move every factor under the sums, shift each range
to start at 0, name bound variables by their first place in the product, apply the given rewriting
rules, collect. Two expressions with the same normal form are equal whatever the matrices are and
whatever the symbolic limits; that is how the book's inductions are general in depth, heads, tokens
and width.

>>> import attnverify as av
>>> A, B = av.symbolic.matrices("A B")
>>> av.symbolic.equal((A + B) ** 2, A**2 + A * B + B * A + B**2)
True
>>> av.symbolic.equal(A * B, B * A)
False
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

Limit = tuple[sp.Symbol, sp.Expr, sp.Expr]
Rules = Mapping[tuple[Any, Any], tuple[sp.Expr, ...]]


@dataclass(frozen=True)
class Term:
    """coefficient * word, summed over limits; word is a tuple of noncommutative factors."""

    coefficient: sp.Expr
    word: tuple[sp.Expr, ...]
    limits: tuple[Limit, ...] = ()

    def times(self, other: Term) -> Term:
        return Term(
            self.coefficient * other.coefficient,
            self.word + other.word,
            self.limits + other.limits,
        )

    def replace(self, old: sp.Symbol, new: sp.Expr) -> Term:
        """Term with ``new`` for a bound variable in coefficient, word and the other limits."""
        limits = tuple((v, lo.subs(old, new), hi.subs(old, new)) for v, lo, hi in self.limits)
        word = tuple(factor.subs(old, new) for factor in self.word)
        return Term(self.coefficient.subs(old, new), word, limits)


def matrices(names: str) -> tuple[sp.Symbol, ...] | sp.Symbol:
    """Noncommutative symbols for matrices of any size."""
    return sp.symbols(names, commutative=False)


def families(names: str) -> tuple[Any, ...]:
    """Noncommutative functions for indexed families of matrices: ``P(h)``, ``P(l, h)``."""
    return tuple(sp.Function(name, commutative=False) for name in names.split())


def normal_form(expression: sp.Expr, rules: Rules | None = None) -> sp.Expr:
    """Normal form of an expression; equal normal forms prove that two expressions are equal.

    rules: {(left, right): replacement} for neighboring factors in a product; left and right are
    symbols, or function classes that match any arguments: {(P, one): (one,)} says P(..) one = one.
    """
    collected: dict[tuple, sp.Expr] = {}
    for term in _expand(sp.sympify(expression)):
        term = _canonical(_rewrite(term, rules or {}))
        key = (term.word, term.limits)
        collected[key] = collected.get(key, sp.S.Zero) + term.coefficient
    parts = []
    for (word, limits), coefficient in collected.items():
        coefficient = sp.simplify(coefficient)
        if coefficient != 0:
            product = reduce(lambda a, b: a * b, word, coefficient)
            parts.append(sp.Sum(product, *reversed(limits)) if limits else product)
    return sp.Add(*parts)


def equal(left: sp.Expr, right: sp.Expr, rules: Rules | None = None) -> bool:
    """Whether both sides have the same normal form."""
    return normal_form(left - right, rules) == 0


def _expand(expression: sp.Basic) -> list[Term]:
    if isinstance(expression, sp.Add):
        return [term for part in expression.args for term in _expand(part)]
    if isinstance(expression, sp.Mul):
        products = [Term(sp.S.One, ())]
        for factor in expression.args:
            products = [a.times(b) for a in products for b in map(_fresh, _expand(factor))]
        return products
    if isinstance(expression, sp.Sum):
        limits = tuple((v, lo, hi) for v, lo, hi in reversed(expression.limits))
        inner = _expand(expression.function)
        return [_fresh(Term(t.coefficient, t.word, limits + t.limits)) for t in inner]
    if isinstance(expression, sp.Pow) and _is_product(expression):
        factors = [expression.base] * int(expression.exp)
        return _expand(sp.Mul(*factors, evaluate=False))
    if isinstance(expression, sp.Expr) and expression.is_commutative:
        return [Term(expression, ())]
    if isinstance(expression, sp.Symbol | AppliedUndef):
        return [Term(sp.S.One, (expression,))]
    raise ValueError(f"expression: got {expression}, expected sums and products of symbols")


def _is_product(power: sp.Pow) -> bool:
    """Whether a power must be written out: a positive power of something with terms or words."""
    base = power.base
    written = not power.is_commutative or isinstance(base, sp.Add) or base.has(sp.Sum)
    return isinstance(power.exp, sp.Integer) and bool(power.exp > 0) and written


def _fresh(term: Term) -> Term:
    """New names for the bound variables, so that products of sums do not capture them."""
    for variable, _, _ in term.limits:
        new = sp.Dummy(variable.name, integer=True)
        term = term.replace(variable, new)
        limits = tuple((new if v == variable else v, lo, hi) for v, lo, hi in term.limits)
        term = Term(term.coefficient, term.word, limits)
    return term


def _rewrite(term: Term, rules: Rules) -> Term:
    word, changed = list(term.word), True
    while changed:
        changed = False
        for i in range(len(word) - 1):
            replacement = rules.get((_head(word[i]), _head(word[i + 1])))
            if replacement is not None:
                word[i : i + 2] = replacement
                changed = True
                break
    return Term(term.coefficient, tuple(word), term.limits)


def _head(factor: sp.Expr) -> Any:
    return factor if factor.is_Symbol else factor.func


def _canonical(term: Term) -> Term:
    for position in range(len(term.limits)):  # shift each range to start at 0
        variable, low, high = term.limits[position]  # shifts before this one may have moved it
        term = term.replace(variable, variable + low)
        limits = list(term.limits)
        limits[position] = (variable, sp.S.Zero, sp.expand(high - low))
        term = Term(term.coefficient, term.word, tuple(limits))
    for variable, _, high in term.limits:
        used = sp.Tuple(term.coefficient, *term.word, *[h for _, _, h in term.limits])
        if variable not in used.free_symbols:  # a sum of equal terms
            limits = tuple(limit for limit in term.limits if limit[0] != variable)
            term = Term(term.coefficient * (high + 1), term.word, limits)
    return _name_bound(term)


def _name_bound(term: Term) -> Term:
    """Bound variables named by first appearance in the word, then in the coefficient."""
    bound = {v for v, _, _ in term.limits}
    order: list[sp.Symbol] = []
    for piece in [*term.word, term.coefficient]:
        for node in sp.preorder_traversal(piece):
            if isinstance(node, sp.Symbol) and node in bound and node not in order:
                order.append(node)
    for number, variable in enumerate(order):
        new = sp.Symbol(f"i{number}_", integer=True)
        term = term.replace(variable, new)
        limits = tuple((new if v == variable else v, lo, hi) for v, lo, hi in term.limits)
        term = Term(term.coefficient, term.word, limits)
    limits = tuple(sorted(term.limits, key=lambda limit: limit[0].name))
    word = tuple(w if w.is_Symbol else w.func(*map(sp.expand, w.args)) for w in term.word)
    return Term(sp.expand(term.coefficient), word, limits)
