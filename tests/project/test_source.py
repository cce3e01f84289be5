"""The package's source: a formula is written once, below all that use it."""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import pytest

import attnverify

SOURCE = Path(attnverify.__file__).parent
SMALL = 18  # nodes of a body: a call or two, which may well be equal in two places


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """The parsed source of every module."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def functions():
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}: {node.name}", body(node)


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


USERS = {"book", "cli", "experiments", "chapters", "verification"}
ABOVE = {
    "arithmetic": {"checking", "derivation", "inspection", *USERS},
    "mathematics": {"checking", "derivation", "inspection", *USERS},
    "support": {"arithmetic", "mathematics", "checking", "derivation", "inspection", *USERS},
    "inspection": USERS,
}


@pytest.mark.parametrize("folder", ABOVE)
def test_what_all_may_use_imports_nothing_that_uses_it(folder):
    """At the top of a module; a text that comes with an experiment may be read when it is asked."""
    found = []
    for path, tree in trees().items():
        if path.is_relative_to(SOURCE / folder):
            for node in tree.body:
                taken = {name.split(".")[1] for name in imported(node) if "." in name}
                found += [(path.name, name) for name in taken & ABOVE[folder]]
    assert found == []


def imported(node: ast.stmt) -> set[str]:
    """Dotted names of the package that a statement brings in."""
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = {f"{node.module}.{alias.name}" for alias in node.names}
    else:
        names = set()
    return {name for name in names if name.startswith("attnverify.")}
