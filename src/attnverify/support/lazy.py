"""Public names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from attnverify.support.extras import INSPECT, NO_INSPECT


def attributes(
    package: str, public: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Functions ``__getattr__`` and ``__dir__`` of a package with lazy public names.

    public: each name and what it stands for, a module or "module:name". ``dir`` lists these, and
    the names that Python gives every module.
    """
    names = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, member = public[name].partition(":")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != INSPECT:
                raise
            raise ImportError(f"{package}.{name}: {NO_INSPECT}") from None
        names[name] = value = getattr(found, member) if member else found
        return value

    return get, lambda: sorted({*public, *(name for name in names if name.startswith("__"))})
