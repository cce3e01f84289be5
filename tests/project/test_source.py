"""The package's source: a formula is written once, below all that use it; functions are short."""

import ast
import functools
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

import attnverify

SOURCE = Path(attnverify.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
SMALL = 18  # nodes of a body: a call or two, which may well be equal in two places
LINES = 40  # of code in a body, docstring and comments left out
QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def functions():
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}: {node.name}", path, body(node)


def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Without the docstring."""
    stated = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if stated else function.body


def test_no_two_functions_have_the_same_body():
    found = defaultdict(list)
    for name, _, statements in functions():
        if sum(1 for each in statements for _ in ast.walk(each)) >= SMALL:
            found["\n".join(map(ast.unparse, statements))].append(name)
    assert [names for names in found.values() if len(names) > 1] == []


def test_functions_are_short():
    long = []
    for name, path, statements in functions():
        if statements:
            first, last = statements[0].lineno, statements[-1].end_lineno
            count = sum(first <= line <= last for line in code_lines(path))
            long += [(name, count)] if count > LINES else []
    assert long == []


@functools.cache
def code_lines(path: Path) -> frozenset[int]:
    """The lines that hold more than a comment."""
    with path.open("rb") as file:
        tokens = [each for each in tokenize.tokenize(file.readline) if each.type not in QUIET]
    return frozenset(n for each in tokens for n in range(each.start[0], each.end[0] + 1))


ABOVE = {
    "formulas": {"book", "checks", "claims", "cli", "evidence", "experiments", "models"},
    "network": {"book", "checks", "claims", "cli", "evidence", "experiments", "models"},
    "models": {"book", "checks", "cli", "experiments"},
}


@pytest.mark.parametrize("folder", ABOVE)
def test_what_all_may_use_imports_nothing_that_uses_it(folder):
    """At the top of a module; a text that comes with an experiment may be read when it is asked."""
    found = []
    for path, tree in TREES.items():
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
