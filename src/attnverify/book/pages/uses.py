"""Which functions of the package a check names, read from source like the keys of evidence.

What a piece of source names is :func:`attnverify.runtime.source_dependencies.names`'s business;
here the piece is one function. A method called on a value cannot be told from its source: of every
class that is named, the methods whose names occur are taken, so the answer may hold a method too
many.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

from attnverify.runtime.source_dependencies import PACKAGE, Sources, spelled

SOURCES = Sources()
Code = FunctionType | type
DEEPEST = 4  # containers inside containers that are looked into


def reached(root: Any, follow: Callable[[Code], bool]) -> set[Code]:
    """Functions and classes of the package that a root (a check, a function) names.

    follow: whether what an item names counts too; the root always does.
    """
    found: set[Code] = set()
    attributes: set[str] = set()
    pending = set(held(root))
    while pending:
        found |= pending
        followed = [item for item in pending if isinstance(item, FunctionType) and follow(item)]
        pending = {other for item in followed for other in named(item)}
        attributes |= {n for item in followed for n in _attributes(item)}
        pending |= {m for c in found if isinstance(c, type) for m in _methods(c, attributes)}
        pending -= found
    return found


def held(value: Any, depth: int = 0) -> Iterator[Code]:
    """Functions and classes of the package that a value holds: itself, its parts, its fields."""
    bound: list[Any] = []
    while isinstance(value, functools.partial):
        bound += [*value.args, *value.keywords.values()]
        value = value.func
    value = getattr(value, "__func__", value)  # of a bound method
    value = inspect.unwrap(value) if callable(value) else value
    parts: Iterable[Any] = ()
    if isinstance(value, FunctionType | type):
        if value.__module__.partition(".")[0] == PACKAGE:
            yield value
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    if depth < DEEPEST:
        for part in (*parts, *bound):
            yield from held(part, depth + 1)


@cache
def named(function: FunctionType) -> frozenset[Code]:
    """What a function's source names, and what its closure holds."""
    names = _names(function.__module__)
    found: set[Code] = set()
    for piece in _pieces(function):
        for dotted in {spelled(node, names) for node in ast.walk(piece)} - {""}:
            found |= set(held(_object(dotted), DEEPEST - 1))
    for cell in function.__closure__ or ():
        found |= set(held(cell.cell_contents))
    return frozenset(found)


@cache
def _names(module: str) -> dict[str, str]:
    """What the names of a module stand for: its imports and what it defines itself."""
    return SOURCES.aliases(module)


def _pieces(function: FunctionType) -> list[ast.AST]:
    """The source of a function; of lambdas that start in the same line all of them."""
    return _by_line(function.__module__)[function.__code__.co_firstlineno]


@cache
def _by_line(module: str) -> dict[int, list[ast.AST]]:
    """The functions of a module, by the line that they start in."""
    found: dict[int, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(SOURCES.tree(module)):
        if start := _start(node):
            found[start].append(node)
    return found


def _start(node: ast.AST) -> int:
    if isinstance(node, ast.FunctionDef):
        return min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return node.lineno if isinstance(node, ast.Lambda) else 0


def _object(dotted: str) -> Any:
    """The value of a dotted name; None if it is none."""
    module = dotted
    while module not in SOURCES.files:
        module = module.rpartition(".")[0]
    value: Any = import_module(module)
    for name in filter(None, dotted.removeprefix(module).split(".")):
        value = getattr(value, name, None)
    return value


@cache
def _attributes(function: FunctionType) -> set[str]:
    nodes = (node for piece in _pieces(function) for node in ast.walk(piece))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _methods(cls: type, names: set[str]) -> Iterator[FunctionType]:
    for name in names & set(cls.__dict__):
        member = cls.__dict__[name]
        member = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(member, FunctionType):
            yield inspect.unwrap(member)


def dotted(item: Code) -> str:
    """The name by which the API pages list it."""
    return f"{item.__module__}.{item.__qualname__}"


def source_file(module: str) -> str:
    """A module's file below ``src``."""
    return SOURCES.files[module].relative_to(SOURCES.top.parent).as_posix()


def source_files() -> list[str]:
    """Every source file of the package below ``src``."""
    return sorted(source_file(name) for name, p in SOURCES.files.items() if p.suffix == ".py")
