"""Steps that decide nothing: what sympy makes equal or true as it builds, and empty neighbors.

A step whose sides arrive as one expression, or that arrives as true, shows something only if its
source does: a call that computes (``COMPUTES``), a product of matrices, or two numbers of which one
is transcendental or comes from a formula. A false neighbor has to alter a formula: neither do two
numbers that no formula gives, nor a side beside itself times a number.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import sympy as sp

from attnverify.derivation import step_source
from attnverify.derivation import typeset_steps as shown
from attnverify.derivation.step_source import Call, names

#: Functions and methods of sympy whose calls compute, as a change of form does not.
COMPUTES = {"limit", "diff", "integrate", "summation", "product", "doit", "series", "det"}
COMPUTES |= {"eigenvals", "inv", "charpoly", "solve", "trace", "Trace"}


def derived(name: str, step: Any, call: Call | None) -> str:
    """Reason why a step that arrives decided shows no computation, "" if its source shows one."""
    node = call.node(name) if call else None
    if call is None or node is None:
        return "their source is not at hand"
    texts = [step_source.one_line(call.text, side) for side in _sides(node)]
    if isinstance(step, tuple) and len(texts) == 2 and texts[0] == texts[1]:
        return "both are written alike"
    relation = not isinstance(step, tuple) and _from_formula(_numbers(step, node, call), node, call)
    shows = relation or _computes(node, call) or _multiplies_matrices(step, node)
    return "" if shows else "arithmetic alone makes them so"


def rejected(name: str, step: Any, call: Call | None) -> str:
    """Reason why a false neighbor alters no formula, "" if it may alter one."""
    node = call.node(name) if call else None
    if call is None or node is None:
        return ""
    if _computes(node, call) or _multiplies_matrices(step, node):
        return ""
    numbers = _numbers(step, node, call)
    if numbers and not _from_formula(numbers, node, call):
        return "compares numbers that no formula gives"
    bare = [ast.dump(_without_numbers(side)) for side in _sides(node)]
    alike = len(bare) == 2 and bare[0] == bare[1]
    return "compares a side with itself times a number" if alike else ""


def _sides(node: ast.expr) -> list[ast.expr]:
    """Source of the sides of a pair or relation; none if it is written in another way."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return node.elts if isinstance(node, ast.Tuple) else getattr(node, "args", [])


def _numbers(step: Any, node: ast.expr, call: Call) -> list[Any]:
    """Both sides of a step if they are numbers, else an empty list."""
    found = list(step) if isinstance(step, tuple) else shown.values(_sides(node), call)
    sides = [sp.sympify(side) for side in found]
    plain = all(isinstance(side, sp.Expr) and not side.free_symbols for side in sides)
    return sides if plain and len(sides) == 2 else []


def _from_formula(numbers: list[Any], node: ast.expr, call: Call) -> bool:
    """Whether there are numbers, one of them transcendental or the value of a formula."""
    transcendental = any(side.has(sp.Function, sp.NumberSymbol) for side in numbers)
    formula = numbers and any(map(_is_formula, _values(node, call)))
    return transcendental or bool(formula)


def _is_formula(value: Any) -> bool:
    holds = isinstance(value, sp.Basic | sp.MatrixBase) and bool(value.free_symbols)
    return holds or isinstance(value, FunctionType | sp.Lambda)


def _multiplies_matrices(step: Any, node: ast.expr) -> bool:
    product = any(isinstance(n, ast.Mult | ast.Pow | ast.MatMult) for n in ast.walk(node))
    return product and isinstance(step, tuple) and isinstance(step[0], sp.MatrixBase)


def _without_numbers(node: ast.expr) -> ast.expr:
    """A product or quotient without its factors that are plain numbers."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        if not names(node.right) - set(step_source.LITERAL):
            node = node.left
        elif isinstance(node.op, ast.Mult) and not names(node.left) - set(step_source.LITERAL):
            node = node.right
        else:
            break
    return node


def _computes(node: ast.expr, call: Call) -> bool:
    return any(names(part) & COMPUTES for part in _reached(node, call))


def _values(node: ast.expr, call: Call) -> Iterator[Any]:
    """Values of all names that a step comes from."""
    for part in _reached(node, call):
        yield from (call.known.get(name) for name in _loaded(part))


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _reached(node: ast.expr, call: Call) -> Iterator[ast.AST]:
    """The source of a step and of what its names are bound to before, as far as it is at hand."""
    seen: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        part = todo.pop()
        yield part
        for name in _loaded(part) - seen:
            seen.add(name)
            bound = [b for b in _bound(name, call.text) if b.lineno < call.line]
            code = getattr(call.known.get(name), "__code__", None)
            if not bound and code is not None:  # a function of another cell
                lines = linecache.getlines(code.co_filename, call.frame.f_globals)
                bound = list(_bound(name, "".join(lines)))
            todo += bound


def _bound(name: str, text: str) -> Iterator[ast.stmt | ast.expr]:
    """What a text binds a name to: functions and the values of assignments."""
    for node in ast.walk(step_source.parsed(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield node
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(name in _loaded(target) for target in targets):
                yield node.value
