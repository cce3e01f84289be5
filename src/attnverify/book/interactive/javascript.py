"""The formulas as JavaScript, written down by :mod:`attnverify.arithmetic.tracing`.

A formula of :mod:`attnverify.arithmetic.ops` evaluated on nodes leaves a straight-line program; its
lines become one function, in which a number that is used once stands where it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from attnverify.arithmetic.tracing import Node, Program, UntraceableError

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
LEAVES = ("const", "input", "pi")
CALLS = {name: f"Math.{name}" for name in "exp log tanh sin cos sqrt abs max expm1 log1p".split()}


def function(name: str, formula: Callable[..., Any], lengths: Mapping[str, int]) -> str:
    """``const NAME = (a, b) => ...;`` for a formula with one value.

    lengths: its arguments in order, 0 for a number and n for an array of n numbers. Raises
    UntraceableError for a formula that branches on a value or that has an operation without
    JavaScript here.
    """
    program = Program()
    value = formula(*(_argument(program, key, length) for key, length in lengths.items()))
    result = value if isinstance(value, Node) else np.asarray(value, dtype=object).item()
    kept, last = _statements(program.lines, result.id)
    constants = f"const {', '.join(kept)}; " if kept else ""
    return f"const {name} = ({', '.join(lengths)}) => {{ {constants}return {last}; }};\n"


def _statements(lines: list[tuple[Any, ...]], result: int) -> tuple[list[str], str]:
    """What is used more than once, as ``t3 = ...``, and the expression of the result."""
    used, written, kept = _uses(lines, result), {}, []
    for number, line in enumerate(lines):
        if not used[number]:
            continue
        written[number] = _expression(line, written)
        if used[number] > 1 and line[0] not in LEAVES:
            kept.append(f"t{number} = {written[number]}")
            written[number] = f"t{number}"
    return kept, written[result]


def _argument(program: Program, name: str, length: int) -> Any:
    if not length:
        return program.node("input", name)
    return np.array([program.node("input", name, k) for k in range(length)], dtype=object)


def _operands(line: tuple[Any, ...]) -> tuple[int, ...]:
    if line[0] in LEAVES:
        return ()
    return line[1:2] if line[0] == "pow" else line[1:]


def _uses(lines: list[tuple[Any, ...]], result: int) -> Counter[int]:
    """How often each line is used by lines that the result needs."""
    used = Counter({result: 1})
    for number in range(len(lines) - 1, -1, -1):
        if used[number]:
            used.update(_operands(lines[number]))
    return used


def _expression(line: tuple[Any, ...], written: Mapping[int, str]) -> str:
    name, *rest = line
    if name == "const":
        value = Fraction(rest[0])
        return str(value) if value.denominator == 1 and value >= 0 else f"({value})"
    if name == "input":
        return rest[0] if len(rest) == 1 else f"{rest[0]}[{rest[1]}]"
    if name == "pi":
        return "Math.PI"
    if name == "pow":
        return f"({written[rest[0]]})**{rest[1]}"
    if name not in INFIX and name not in CALLS and name != "neg":
        raise UntraceableError(f"{name} has no JavaScript here")
    operands = [written[k] for k in rest]
    if name in INFIX:
        return f"({INFIX[name].join(operands)})"
    return f"(-{operands[0]})" if name == "neg" else f"{CALLS[name]}({','.join(operands)})"
