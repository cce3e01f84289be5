"""The source of the steps of a derivation, which sympy's evaluated expressions no longer show.

sympy evaluates while it builds: ``(sp.diff(x**2, x), 2 * x)`` arrives as ``(2 x, 2 x)``, and
``sp.sqrt(2) <= 4`` as true. So the record of a step holds its source too, and a digest of the
source of all names in it.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from attnverify.support.parsing import parse

HANDING_IN = ("derived", "rejected")
#: Names that only turn a literal into a number or a symbol, which is no computation.
LITERAL = ("sp", "sympy", "Integer", "Rational", "Float", "Symbol", "S", "sympify", "true", "false")

#: Steps as pairs: a pattern of the name (an f-string may stand for several) and the source.
Entries = list[tuple[str, ast.expr]]


@dataclass(frozen=True)
class Call:
    """A call of the ledger in the source ``text``: its steps as written, its place and its frame.

    frame: the Python frame that executes the call, with the values of its names.
    """

    entries: Entries
    text: str
    file: str
    line: int
    frame: FrameType

    def node(self, step: str) -> ast.expr | None:
        """Syntax tree of a step; None if the step is not written in the same text."""
        return next((node for name, node in self.entries if re.fullmatch(name, step)), None)

    @property
    def known(self) -> dict[str, Any]:
        """The names at the call with their values."""
        return {**self.frame.f_globals, **self.frame.f_locals}

    def source(self, step: str) -> str:
        """Source of a step on one line, "" if the step is not written in the same text."""
        node = self.node(step)
        return one_line(self.text, node) if node is not None else ""


def caller() -> Call | None:
    """The call of the ledger that is being executed; None if its source is not available."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found = _call_of(frame)
        if found is not None:
            return found
        frame = frame.f_back
    return None


def _call_of(frame: FrameType) -> Call | None:
    """The call of the ledger that a frame is executing, or None."""
    places = list(frame.f_code.co_positions())
    line, end_line, column, end_column = places[frame.f_lasti // 2]
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    for node in _calls_in(text):
        here = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        if here == (line, end_line, column, end_column):
            entries = _entries(node, parsed(text))
            return Call(entries, text, frame.f_code.co_filename, node.lineno, frame)
    return None


def names(node: ast.AST) -> set[str]:
    """Names and attributes in a syntax tree."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def one_line(text: str, node: ast.AST) -> str:
    """Source of a node with its white space collapsed, the same in every version of Python."""
    return " ".join((ast.get_source_segment(text, node) or "").split())


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module:
    """Syntax tree of a text, empty if it is none."""
    try:
        return parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@lru_cache(maxsize=64)
def _calls_in(text: str) -> list[ast.Call]:
    return list(_calls(parsed(text)))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in HANDING_IN and len(node.args) >= 2:
                yield node


def _entries(call: ast.Call, tree: ast.Module) -> Entries:
    """Steps of a call that are written in the same text, in place or bound to a name before."""
    bound: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign) and node.lineno < call.lineno:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                bound.setdefault(target.id, []).append(node.value)
    return _of_dict(call.args[1], bound)


def _of_dict(node: ast.expr, bound: Mapping[str, list[ast.expr]]) -> Entries:
    if isinstance(node, ast.Name):
        return [entry for value in bound.get(node.id, ()) for entry in _of_dict(value, {})]
    found: Entries = []
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found += _of_dict(value, bound)
            elif (pattern := _pattern(key)) is not None:
                found.append((pattern, value))
    return found


def _pattern(key: ast.expr) -> str | None:
    """Regular expression for the names that a key of a dictionary can have."""
    if isinstance(key, ast.Constant):
        return re.escape(str(key.value))
    if isinstance(key, ast.JoinedStr):
        return "".join(_pattern(part) or ".*" for part in key.values)
    return None


@dataclass(frozen=True)
class Codes:
    """Digests of the source from which the steps of one call are computed."""

    entries: Entries
    cell: str
    statement: ast.stmt
    known: Mapping[str, str]

    def of(self, step: str) -> str:
        """Digest of a step's own source and its names' if written in place, else of the call's."""
        for name, node in self.entries:
            if name == re.escape(step):
                return _digest(self.cell, node, self.known)
        return _digest(self.cell, self.statement, self.known)


def codes(cells: Sequence[str]) -> dict[tuple[int, int], Codes]:
    """Digests for every call of the ledger, by the number of its cell and its line."""
    known: dict[str, str] = {}
    found = {}
    for number, cell in enumerate(cells, start=1):
        tree = parsed(cell)
        for statement in tree.body:
            for call in _calls(statement):
                own = _entries(call, tree)
                found[number, call.lineno] = Codes(own, cell, statement, dict(known))
            _bind(cell, statement, known)
    return found


def _bind(cell: str, statement: ast.stmt, known: dict[str, str]) -> None:
    """Record in ``known`` the source digest of each name that a statement binds or changes."""
    digest = _digest(cell, statement, known)
    inner = {id(n) for c in ast.walk(statement) for n in ast.walk(_own_names(c))}
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            known[node.name] = digest
        elif isinstance(node, ast.alias):
            known[(node.asname or node.name).partition(".")[0]] = digest
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if id(node) not in inner:
                known[node.id] = digest
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            _change(node, known, digest)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _change(node.value.func, known, digest)


def _own_names(node: ast.AST) -> ast.AST:
    """Target of a comprehension, whose names do not outlive it; an empty module otherwise."""
    return node.target if isinstance(node, ast.comprehension) else ast.Module([], [])


def _change(node: ast.expr, known: dict[str, str], digest: str) -> None:
    """Record that a method call or an item assignment may change a name; imports do not change."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
        if isinstance(node, ast.Name) and node.id in known and node.id not in ("av", "sp"):
            known[node.id] = digest


def _digest(cell: str, node: ast.AST, known: Mapping[str, str]) -> str:
    names = sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & set(known))
    total = "\n".join([one_line(cell, node), *(f"{name} {known[name]}" for name in names)])
    return hashlib.sha256(total.encode()).hexdigest()[:12]
