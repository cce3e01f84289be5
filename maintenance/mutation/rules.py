"""The rules by which errors are planted in formulas: one node of one function a mutant.

Left alone are docstrings, annotations, defaults, what checks an argument (``require...``), what an
error says, and the functions in :data:`NO_FORMULA`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

#: A mutant's right side may call this; :mod:`mutation.plant` makes it a builtin.
SCALED = "__scaled__"
NEIGHBORS = {
    "maximum": "minimum",
    "minimum": "maximum",
    "amax": "amin",
    "amin": "amax",
    "max": "min",
    "min": "max",
    "max_column_sum": "max_row_sum",
    "max_row_sum": "max_column_sum",
    "composite": "composite_squared",
    "expm1": "exp",
    "log1p": "log",
    "tanh": "atan",
    "squared_norm": "square_trace",
    "square_trace": "squared_norm",
}
DROPPED = ("sqrt", "square", "abs", "transpose", "exp", "log")
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARED = {ast.Lt: ">=", ast.Gt: "<=", ast.LtE: ">", ast.GtE: "<"}

#: Functions that state no formula, by the part of a name that tells them, and why.
NO_FORMULA = {
    "require": "checks an argument",
    "check": "checks an argument",
    "round": "bounds rounding errors from above, on purpose with room",
    "_terms": "how many terms are summed, beyond what the accuracy asks",
    "chunk": "how large a temporary array may be",
    "advance": "the order in which an array is overwritten; paths.by_length is its formula",
    "_add_heads": "the order in which an array is overwritten",
    "_tokenizer": "reads a file",
    "_word_piece": "reads a file",
    "read": "reads a file",
    "_positive": "reads a file",
    "bundled": "finds a file",
    "from_directory": "finds a file",
}


#: Parts that tests alone meet: what measures models, what runs experiments.
TESTED = ("attninspect", "experiments")

#: Modules of these that measure nothing, and why.
NO_MEASURE = {
    "drawings": "draws",
    "animation": "draws",
    "page": "writes a page",
    "command": "prints",
}

#: Modules of mathematics/ that state no formula of a claim: networks, and algorithms with a
#: bracketed result.
METHODS = ("attention", "center", "centerbounds", "decoder", "deviations", "encoder", "gauges")
METHODS += ("held", "masks", "paths", "positions", "random_weights", "stacks", "weights")


@dataclass(frozen=True)
class Mutant:
    """One planted error: the module's whole text with it, where it is, and what it is.

    area: "formulas" (what claims are stated in), "methods" (networks, algorithms), "engine",
    "attninspect" or "experiments".
    """

    area: str
    module: str
    name: str
    source: str
    first: int
    last: int


def of_file(path: Path, module: str) -> list[Mutant]:
    """All mutants of one module of formulas, in the order of the source."""
    if _area(module) in TESTED and path.stem in NO_MEASURE:
        return []
    text = path.read_text(encoding="utf-8")
    found, short = [], module.removeprefix("attnverify.")
    for function, node, rule, new in _sites(ast.parse(text)):
        name = f"{short}.{function}: {rule}: {ast.unparse(node)} -> {new}"
        source = _replaced(text, node, new)
        last = node.end_lineno or node.lineno
        found.append(Mutant(_area(module), module, name, source, node.lineno, last))
    return numbered(found)


def numbered(mutants: list[Mutant]) -> list[Mutant]:
    """The same mutants; the second of a name is called "NAME (2)", and so on."""
    seen: Counter[str] = Counter()
    out = []
    for mutant in mutants:
        seen[mutant.name] += 1
        again = f" ({seen[mutant.name]})" if seen[mutant.name] > 1 else ""
        out.append(replace(mutant, name=mutant.name + again))
    return out


def module_of(path: Path, root: Path) -> str:
    """The dotted name of a file below ``root``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _area(module: str) -> str:
    folder, _, name = module.removeprefix("attnverify.").partition(".")
    if folder in TESTED:
        return folder
    return "methods" if name in METHODS else "formulas"


def _replaced(text: str, node: ast.expr, new: str) -> str:
    """The text with one expression replaced; line numbers stay where they are."""
    lines = text.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    whole = text.encode()
    gone = whole[begin:end].count(b"\n")
    return (whole[:begin] + f"({new}".encode() + b"\n" * gone + b")" + whole[end:]).decode()


def _sites(tree: ast.Module) -> Iterator[tuple[str, ast.expr, str, str]]:
    """(function, node, rule, replacement) of every place where a rule applies."""
    for top in tree.body:
        inside = top.body if isinstance(top, ast.ClassDef) else [top]
        for node in inside:
            if isinstance(node, ast.FunctionDef) and not _left_alone(node.name):
                owner = f"{top.name}." if isinstance(top, ast.ClassDef) else ""
                for statement in node.body:
                    yield from ((owner + node.name, *site) for site in _walk(statement))


def _left_alone(name: str) -> bool:
    return any(part in name.lower() for part in NO_FORMULA)


def _walk(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    if isinstance(node, ast.Call) and _left_alone(_called(node)):
        return
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Tuple):
        yield node.value, "1 % more", f"{SCALED}({ast.unparse(node.value)})"
    if isinstance(node, ast.expr):
        yield from ((node, rule, new) for rule, new in _edits(node))
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "args") or isinstance(
            node, ast.Call
        ):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not negative:
                    yield from _walk(child)


def _edits(node: ast.expr) -> Iterator[tuple[str, str]]:
    """(rule, replacement) for one expression."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", repr(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield "constant", f"{node.value * 1.01 or 0.01:.12g}"  # 1 % of 0 would be no error
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _negative(node)
    elif isinstance(node, ast.BinOp):
        yield from _operator(node)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "comparison", f"{left} {COMPARED[type(node.ops[0])]} {right}"
    elif isinstance(node, ast.IfExp):
        yield "condition", ast.unparse(node.body)
        yield "condition", ast.unparse(node.orelse)
    elif isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
        yield "transpose", ast.unparse(node.value)
    elif isinstance(node, ast.Call):
        yield from _call(node)


def _negative(node: ast.UnaryOp) -> Iterator[tuple[str, str]]:
    if isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
        other = {1: -2, 2: -1, 3: -2}.get(node.operand.value, 1 - node.operand.value)
        yield "axis", repr(other)
    else:
        yield "sign", ast.unparse(node.operand)


def _operator(node: ast.BinOp) -> Iterator[tuple[str, str]]:
    left, right = f"({ast.unparse(node.left)})", f"({ast.unparse(node.right)})"
    if isinstance(node.op, ast.Pow):
        yield "exponent", f"{left} ** ({right} + 1)"
    if type(node.op) in OPERATORS:
        yield "operator", f"{left} {OPERATORS[type(node.op)]} {right}"
        yield "dropped term", left
    if isinstance(node.op, ast.Add | ast.Mult):
        yield "dropped term", right


def _call(node: ast.Call) -> Iterator[tuple[str, str]]:
    name = _called(node)
    if name in NEIGHBORS:
        end = ast.unparse(node.func)[: -len(name)] + NEIGHBORS[name]
        yield "neighbor", end + ast.unparse(node)[len(ast.unparse(node.func)) :]
    if name in DROPPED and len(node.args) == 1 and not node.keywords:
        yield "dropped function", ast.unparse(node.args[0])
    if name in DROPPED and not node.args and isinstance(node.func, ast.Attribute):
        yield "dropped function", ast.unparse(node.func.value)


def _called(node: ast.Call) -> str:
    """The last part of the called name."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))
