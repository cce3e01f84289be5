"""Stand-ins for libraries that Python in a browser lacks, such as torch.

The formulas import torch, numpy and flint where they are evaluated; a derivation puts sympy symbols
into the same formulas and needs none of them. Within :func:`standing_in`, an import of an absent
library *by this package* gives names that annotations and ``isinstance`` can hold; calling one
raises :class:`AbsentError`. Any other import fails as ever: sympy looks whether numpy is there.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

PACKAGE = "attnverify"
LIBRARIES = frozenset({"flint", "jaxtyping", "matplotlib", "numpy", "scipy", "torch"})


class AbsentError(ImportError):
    """An absent library was used; the message names it."""


class _Absent(type):
    """A class without instances, whose attributes are such classes, too."""

    def __getattr__(cls, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{cls.__name__}.{name}", (), {})

    def __call__(cls, *arguments: Any, **named: Any) -> NoReturn:
        library = cls.__name__.partition(".")[0]
        raise AbsentError(
            f"{cls.__name__}: got a call without {library}, which does not run here, expected "
            "sympy alone; run the notebook in JupyterLab (make lab)"
        )


@contextlib.contextmanager
def standing_in(libraries: frozenset[str] = LIBRARIES) -> Iterator[None]:
    """Within: failing imports of ``libraries`` by this package give stand-ins."""
    usual = builtins.__import__

    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        try:
            return usual(name, globals, locals, fromlist, level)
        except ModuleNotFoundError:
            root, importer = name.partition(".")[0], str((globals or {}).get("__name__", ""))
            if root not in libraries or importer.partition(".")[0] != PACKAGE:
                raise
        whole = name if fromlist else root
        return _Absent(whole, (), {})

    builtins.__import__ = importing
    try:
        yield
    finally:
        builtins.__import__ = usual
