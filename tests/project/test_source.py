"""The source of both packages: a formula is written once, below all that use it."""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import attninspect
import attnverify

PACKAGES = Path(attnverify.__file__).parent, Path(attninspect.__file__).parent
SMALL = 18  # nodes of a body: a call or two, which may well be equal in two places


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """The parsed source of every module."""
    found = [path for folder in PACKAGES for path in folder.rglob("*.py")]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in found}


def functions():
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}: {node.name}", body(node)


def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Without the docstring."""
    stated = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if stated else function.body


def test_no_two_functions_have_the_same_body():
    found = defaultdict(list)
    for name, statements in functions():
        if sum(1 for each in statements for _ in ast.walk(each)) >= SMALL:
            found["\n".join(map(ast.unparse, statements))].append(name)
    assert [names for names in found.values() if len(names) > 1] == []
