"""Which functions of the package a formula runs, found by reading its code objects.

From a function follow the global names it loads (``norms.composite``, ``softmax_error``), what its
closure, defaults and annotations hold, and its nested functions. A method called on a value cannot
be told from the code alone: of every class that was met, the methods whose names are called
anywhere in what was met are taken. So the answer may hold a function too many, never one that the
formula's code does not name.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import attnverify

PACKAGE = attnverify.__name__
LOADS = {"LOAD_GLOBAL", "LOAD_NAME"}
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
Code = FunctionType | type
DEEPEST = 4  # containers inside containers that are looked into


def reached(root: Any, follow: Callable[[Code], bool] = lambda item: True) -> set[Code]:
    """Functions and classes of the package that a root (check, function, ...) can run.

    follow: whether what an item refers to counts too; the item itself always does.
    """
    found: set[Code] = set()
    names: set[str] = set()
    pending = set(functions_in(root))
    while pending:
        found |= pending
        followed = [item for item in pending if follow(item)]
        names |= {name for item in followed for name in _attribute_names(item)}
        pending = {other for item in followed for other in _references(item)}
        pending |= {m for c in found if isinstance(c, type) for m in _methods(c, names)}
        pending -= found
    return found


def functions_in(value: Any, depth: int = 0) -> Iterator[Code]:
    """Functions and classes of the package held by a value: itself, its parts, its fields."""
    if isinstance(value, MethodType):
        value = value.__func__
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from functions_in(part, depth)
    elif isinstance(value, FunctionType | type):
        if _ours(value):
            yield value
    elif depth < DEEPEST:
        parts: Iterable[Any] = ()
        if is_dataclass(value):
            parts = (getattr(value, field.name) for field in fields(value))
        elif isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, list | tuple):
            parts = value
        for part in parts:
            yield from functions_in(part, depth + 1)


def _ours(item: Code) -> bool:
    module = item.__module__ or ""
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def _references(item: Code) -> Iterator[Code]:
    if isinstance(item, type):
        yield from (base for base in item.__mro__[1:] if _ours(base))
        for name in ("__init__", "__post_init__", "__call__"):
            if isinstance(item.__dict__.get(name), FunctionType):
                yield item.__dict__[name]
        return
    for cell in item.__closure__ or ():
        try:
            yield from functions_in(cell.cell_contents)
        except ValueError:  # a name that is not bound yet
            continue
    for value in (*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()):
        yield from functions_in(value)
    for annotation in item.__annotations__.values():
        named = item.__globals__.get(annotation) if isinstance(annotation, str) else annotation
        if isinstance(named, type):
            yield from functions_in(named)
    for code in _codes(item.__code__):
        yield from _loaded(code, item.__globals__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _loaded(code: CodeType, namespace: dict[str, Any]) -> Iterator[Code]:
    """What the global names stand for, through modules: ``norms.composite`` is the function."""
    value: Any = None
    for step in dis.get_instructions(code):
        if step.opname in LOADS:
            value = namespace.get(step.argval)
        elif step.opname in ATTRIBUTES and isinstance(value, ModuleType | type):
            value = getattr(value, step.argval, None)
        elif step.opname != "PUSH_NULL":
            value = None
        if callable(value) or isinstance(value, dict | list | tuple):
            yield from functions_in(value, DEEPEST - 1)  # a table of functions, nothing deeper


def _attribute_names(item: Code) -> set[str]:
    if isinstance(item, type):
        return set()
    steps = (s for code in _codes(item.__code__) for s in dis.get_instructions(code))
    return {s.argval for s in steps if s.opname in ATTRIBUTES}


def _methods(cls: type, names: set[str]) -> Iterator[FunctionType]:
    for name in names & set(cls.__dict__):
        member = cls.__dict__[name]
        if isinstance(member, property):
            member = member.fget
        member = getattr(member, "__func__", member)  # of a class method
        if isinstance(member, FunctionType):
            yield inspect.unwrap(member)


def dotted(item: Code) -> str:
    """The name by which the API pages list it."""
    return f"{item.__module__}.{item.__qualname__}"


def source_file(module: str) -> str:
    """A module's file below ``src``."""
    package = Path(attnverify.__file__).parent
    path = Path(inspect.getsourcefile(__import__(module, fromlist=["_"])) or "")
    return path.relative_to(package.parent).as_posix()


def source_files() -> list[str]:
    """Every source file of the package below ``src``."""
    package = Path(attnverify.__file__).parent
    return sorted(p.relative_to(package.parent).as_posix() for p in package.rglob("*.py"))
