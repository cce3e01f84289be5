"""A derivation cell edited to be false: its first step gets another right side."""

from __future__ import annotations

import ast

from attnverify.derivation.step_source import one_line


def falsified(cell: str) -> str | None:
    """The cell with a false first step; None if no call of the ledger writes its steps in place.

    A right side becomes another one, a relation its negation; a false neighbor becomes a step.
    """
    for call in (n for n in ast.walk(ast.parse(cell)) if isinstance(n, ast.Call)):
        role = getattr(call.func, "attr", "")
        if role == "rejected":
            return _edited(cell, call.func, _source(cell, call.func).replace(role, "derived"))
        if role == "derived" and isinstance(call.args[1], ast.Dict):
            step = next(v for k, v in zip(call.args[1].keys, call.args[1].values, strict=True) if k)
            if isinstance(step, ast.Tuple):
                right = _source(cell, step.elts[1])
                other = (
                    f"(lambda s: s + (sp.ones(*s.shape) if hasattr(s, 'shape') else 1))({right})"
                )
                return _edited(cell, step.elts[1], other)
            return _edited(cell, step, f"sp.Not({_source(cell, step)})")
    return None


def _source(cell: str, node: ast.AST) -> str:
    return one_line(cell, node)


def _edited(cell: str, node: ast.expr, text: str) -> str:
    """The cell with the source of one node replaced; columns count bytes."""
    lines = cell.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 1) - 1])) + (node.end_col_offset or 0)
    whole = cell.encode()
    return (whole[:start] + text.encode() + whole[end:]).decode()
