"""A planted error in place: the text runs in this process, and no file is touched.

Other modules hold the functions of a module by name, in tables and in checks. So functions stay the
objects they are and get new code; values that a module binds are bound anew wherever they are held.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
import types
from typing import Any

import numpy as np
import torch

from mutation.rules import SCALED


def plant(module: str, source: str) -> None:
    """Make a module behave as if its text were ``source``."""
    setattr(builtins, SCALED, _scaled)
    here = importlib.import_module(module)
    fresh = _executed(here, source)
    for name, new in vars(fresh).items():
        old = vars(here).get(name)
        if isinstance(new, type) and isinstance(old, type):
            if new.__module__ == module:
                _swap_class(old, new)
        elif _code_of(new) and _code_of(old):
            _swap(old, new)
        elif not name.startswith("__") and not isinstance(new, types.ModuleType):
            _bind(here, name, old, new)


def _executed(here: types.ModuleType, source: str) -> types.ModuleType:
    """A module of the same name, executed from ``source``; not left in the table of modules."""
    fresh = types.ModuleType(here.__name__)
    fresh.__dict__.update({k: v for k, v in vars(here).items() if k.startswith("__")})
    sys.modules[here.__name__] = fresh
    try:
        exec(compile(source, here.__file__ or here.__name__, "exec"), fresh.__dict__)
    finally:
        sys.modules[here.__name__] = here
    return fresh


def _plain(value: Any) -> Any:
    """The function behind a decorated one, a property or a method."""
    for name in ("fget", "__func__", "func"):
        value = getattr(value, name, None) or value
    try:
        return inspect.unwrap(value)
    except ValueError:
        return value


def _code_of(value: Any) -> types.CodeType | None:
    return getattr(_plain(value), "__code__", None)


def _swap(old: Any, new: Any) -> None:
    """New code for an old function, and for all that it dispatches to by type."""
    if hasattr(old, "registry") and hasattr(new, "registry"):
        made = {kind.__name__: function for kind, function in new.registry.items()}
        for kind, function in old.registry.items():
            _swap_code(function, made[kind.__name__])
    else:
        _swap_code(_plain(old), _plain(new))
    if hasattr(old, "cache_clear"):
        old.cache_clear()


def _swap_code(old: types.FunctionType, new: types.FunctionType) -> None:
    if old.__code__.co_freevars == new.__code__.co_freevars:
        old.__code__ = new.__code__
        old.__defaults__ = new.__defaults__ and tuple(map(_known, new.__defaults__))
        own = new.__kwdefaults__
        old.__kwdefaults__ = own and {name: _known(value) for name, value in own.items()}


def _known(value: Any) -> Any:
    """A function or class of the executed text as the module has it, for who asks ``is``."""
    if not callable(value):
        return value
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return getattr(home, getattr(value, "__name__", ""), value)


def _swap_class(old: type, new: type) -> None:
    for name, value in vars(new).items():
        if _code_of(value) and _code_of(vars(old).get(name)):
            _swap(vars(old)[name], value)


def _bind(here: types.ModuleType, name: str, old: Any, new: Any) -> None:
    """A value bound anew, also in the modules that import it by name, unless it is the same."""
    new = _at_home(new, here)
    if _same(old, new):
        return
    for module in [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]:
        if module is here or (old is not None and vars(module).get(name) is old):
            if module is here or _of_project(module):
                setattr(module, name, new)


def _of_project(module: types.ModuleType) -> bool:
    return module.__name__.startswith(("attnverify", "attninspect", "test_"))


def _at_home(new: Any, here: types.ModuleType) -> Any:
    """What is new, with the functions and classes that others know; also those in tables."""
    if isinstance(new, types.FunctionType) and new.__module__ == here.__name__:
        own = _known(new)
        if own is not new:
            return own
        return types.FunctionType(new.__code__, vars(here), new.__name__, new.__defaults__)
    if isinstance(new, type):
        return _known(new)
    if type(new) is dict:
        return {_at_home(key, here): _at_home(value, here) for key, value in new.items()}
    if isinstance(new, list | tuple | set | frozenset) and type(new).__module__ == "builtins":
        return type(new)(_at_home(value, here) for value in new)
    return new


def _same(old: Any, new: Any) -> bool:
    try:
        return type(old) is type(new) and bool(old == new)
    except (TypeError, ValueError, RuntimeError):  # arrays do not compare to one truth
        return False


#: Whether something was to be scaled that is no number: then a mutant may have changed nothing.
NOTHING: list[object] = []


def _scaled(value: Any) -> Any:
    """1 % more, in any arithmetic; what holds no number stays, and is remembered."""
    import flint
    import sympy

    if isinstance(value, dict):
        numbers = {k: v for k, v in value.items() if isinstance(v, float) or _is_float(v)}
        if not numbers:
            NOTHING.append(value)
        return value | {k: _scaled(v) for k, v in numbers.items()}
    if isinstance(value, int | float) and not isinstance(value, bool) or _is_float(value):
        return value * 1.01
    if isinstance(value, flint.arb | flint.acb | flint.fmpq | flint.fmpz | np.ndarray):
        return value * flint.fmpq(101, 100)
    if isinstance(value, sympy.Expr):
        return value * sympy.Rational(101, 100)
    NOTHING.append(value)
    return value


def _is_float(value: Any) -> bool:
    array = isinstance(value, np.ndarray) and value.dtype != object
    return isinstance(value, torch.Tensor) and value.is_floating_point() or array
