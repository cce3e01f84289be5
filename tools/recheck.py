"""Recheck exported certificates: python tools/recheck.py FOLDER_OR_FILE...

A second checker, for the files of ``attnverify certificates --out FOLDER``. It needs Python
and mpmath, imports nothing of the package, and evaluates each file's program in mpmath's interval
arithmetic. What the engine encloses by algorithms of its own (the largest singular value, Lambert's
W) is enclosed here by others.

Verdicts: pass (every left <= right, for certain), fail (some left > right), attained (neither, and
the largest ratio is within 2^-40 of 1), unknown. All but the last need the hypotheses to hold for
certain. Exit code 0: every file comes out as expected; 1: some do not; 2: there is no file.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import mpmath
from mpmath.libmp import mpf_gt

iv: Any = mpmath.iv  # its operators are made at run time, unseen by a type checker
FORMAT = "attnverify program 1"
PRECISIONS = (200, 1200)
NEAR = iv.mpf(2) ** -40
LOWEST = -1000  # Lambert's W is sought above


class RefusedError(Exception):
    """The file is no program of this format."""


class OpenError(Exception):
    """An operation is not certainly defined on its interval, so nothing is shown."""


def require(defined: Any, words: str) -> None:
    if not defined:
        raise OpenError(words)


def interval(low: Any, high: Any) -> Any:
    return iv.make_mpf((low._mpi_[0], high._mpi_[1]))


def larger(x: Any, y: Any) -> Any:
    (a, b), (c, d) = x._mpi_, y._mpi_
    return iv.make_mpf((c if mpf_gt(c, a) else a, d if mpf_gt(d, b) else b))


def hull(x: Any, y: Any) -> Any:
    return interval(-larger(-x, -y), larger(x, y))


def square_root(x: Any) -> Any:
    """Of a number >= 0: what of its interval lies below zero is cut off."""
    require(x.b >= 0, "the root of a negative number")
    return iv.sqrt(larger(x, iv.mpf(0)))


def logarithm(x: Any) -> Any:
    require(x.a > 0, "the logarithm of a number that may not be positive")
    return iv.log(x)


def quotient(x: Any, y: Any) -> Any:
    require(y.a > 0 or y.b < 0, "division by a number that may be zero")
    return x / y


def tanh(x: Any) -> Any:
    return 1 - 2 / (iv.exp(2 * x) + 1)


def lambert(y: Any) -> Any:
    """The w <= -1 with w e^w = y: w e^w falls from 0 to -1/e on (-oo, -1], by bisection."""
    low, high = iv.mpf(LOWEST), iv.mpf(-1)
    inside = (low * iv.exp(low)).a >= y.b and (high * iv.exp(high)).b <= y.a
    require(inside, "Lambert's W near the ends of its range")
    for _ in range(iv.prec + 10):
        middle = ((low + high) / 2).mid
        value = middle * iv.exp(middle)
        if value.a >= y.b:
            low = middle
        elif value.b <= y.a:
            high = middle
        else:
            break
    return interval(low, high)


def error_function(x: Any) -> Any:
    """Rising and odd: its values at the two ends."""
    low, high = (-_erf(-end) if end < 0 else _erf(end) for end in (x.a, x.b))
    return interval(low, high)


def _erf(x: Any) -> Any:
    """At x >= 0: 2/sqrt(pi) e^(-x^2) times the sum of x (2x^2)^n / (1 * 3 * ... * (2n + 1)).

    All terms are positive. Once the next term is at most half of the last one, so is every later
    one, and what is left out is between 0 and the last term. Beyond x = 30, 1 - erf x <= e^(-x^2).
    """
    if x.b > 30:
        return interval(1 - iv.exp(-x * x), iv.mpf(1))
    term, added, n = x, x, 0
    while not (2 * x * x / (2 * n + 3)).b <= 0.5 or (term.b > added.b * iv.mpf(2) ** -iv.prec):
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
        added = added + term
    return 2 / iv.sqrt(iv.pi) * iv.exp(-x * x) * interval(added, added + term)


def power(x: Any, n: int) -> Any:
    """x^n: the two ends for odd n and for x of one sign, and zero between for even n."""
    first, second = (math.prod([end] * n, start=iv.mpf(1)) for end in (x.a, x.b))
    between = hull(first, second)
    return hull(iv.mpf(0), between) if n % 2 == 0 and x.a < 0 < x.b else between


def total(terms: Any) -> Any:
    return sum(terms, iv.mpf(0))


def spectral_norm(rows: int, columns: int, entries: list[Any]) -> Any:
    """Below: |A v|/|v| for any v. Above: c, if c^2 I - A'A is positive definite."""
    if all(x.a == 0 and x.b == 0 for x in entries):
        return iv.mpf(0)
    A = [entries[i * columns : (i + 1) * columns] for i in range(rows)]
    gram = [[total(row[i] * row[j] for row in A) for j in range(columns)] for i in range(columns)]
    v = _top_vector(gram)
    image = [total(x * y for x, y in zip(row, v, strict=True)) for row in A]
    low = square_root(quotient(total(x * x for x in image), total(x * x for x in v)))
    for bits in (iv.prec - 40, iv.prec // 2, 40, 10, 2, 0):
        high = iv.mpf(low.b) * (1 + iv.mpf(2) ** -bits)
        if _definite(high * high, gram):
            return interval(low, high)
    return interval(low, square_root(total(x * x for x in entries)))


def _top_vector(gram: list[list[Any]]) -> list[Any]:
    with mpmath.workprec(iv.prec):
        middle = mpmath.matrix([[mpmath.mpf(x.mid) for x in row] for row in gram])
        _, vectors = mpmath.eigsy(middle)
        return [iv.mpf(vectors[i, len(gram) - 1]) for i in range(len(gram))]


def _definite(shift: Any, gram: list[list[Any]]) -> bool:
    """Whether elimination of shift I - gram meets only certainly positive pivots."""
    n = len(gram)
    S = [[(shift if i == j else 0) - gram[i][j] for j in range(n)] for i in range(n)]
    for k in range(n):
        if not S[k][k].a > 0:
            return False
        for i in range(k + 1, n):
            factor = S[i][k] / S[k][k]
            for j in range(k + 1, n):
                S[i][j] = S[i][j] - factor * S[k][j]
    return True


UNARY = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": iv.exp,
    "expm1": lambda x: iv.exp(x) - 1,
    "log": logarithm,
    "log1p": lambda x: logarithm(1 + x),
    "tanh": tanh,
    "sin": iv.sin,
    "cos": iv.cos,
    "sqrt": square_root,
    "lambertw-1": lambert,
    "erf": error_function,
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": quotient,
    "max": larger,
}


def inputs_of(body: dict[str, Any]) -> dict[tuple[str, int], float]:
    out = {}
    for name, array in body["inputs"].items():
        values = [float.fromhex(v) for v in array["values"]]
        if len(values) != math.prod(array["shape"]) or not all(map(math.isfinite, values)):
            raise RefusedError(f"input {name}: not the finite numbers that its shape asks for")
        out |= {(name, k): value for k, value in enumerate(values)}
    return out


def evaluate(body: dict[str, Any]) -> list[Any]:
    """An interval for every line; raises RefusedError for a line that is none."""
    inputs, values = inputs_of(body), []
    for number, (op, *rest) in enumerate(body["program"]):
        operands = {"pow": rest[:1], "spectral": rest[2:], "input": [], "const": []}.get(op, rest)
        if not all(type(k) is int and 0 <= k < number for k in operands):
            raise RefusedError(f"line {number}: {op} of a line that does not come before")
        values.append(_line(op, rest, [values[k] for k in operands], inputs))
    return values


def _line(op: str, rest: list[Any], x: list[Any], inputs: dict[tuple[str, int], float]) -> Any:
    if op in BINARY and len(x) == 2:
        return BINARY[op](*x)
    if op in UNARY and len(x) == 1:
        return UNARY[op](*x)
    if op == "input" and tuple(rest) in inputs:
        return iv.mpf(inputs[tuple(rest)])
    if op == "const" and len(rest) == 1:
        above, _, below = str(rest[0]).partition("/")
        return iv.mpf(int(above)) / iv.mpf(int(below or 1))
    if op == "pow" and len(rest) == 2 and type(rest[1]) is int and rest[1] > 0:
        return power(x[0], rest[1])
    if op == "spectral" and len(x) == rest[0] * rest[1] > 0:
        return spectral_norm(rest[0], rest[1], x)
    if op == "pi" and not rest:
        return iv.mpf(0) + iv.pi
    raise RefusedError(f"operation {op!r} with {len(rest)} operands is not known")


def below(x: Any, y: Any) -> bool | None:
    """x <= y: certain, certainly not, or unknown."""
    return True if x.b <= y.a else False if x.a > y.b else None


def verdict(body: dict[str, Any], bits: int) -> tuple[str, Any]:
    """The verdict at one precision, and an enclosure of the largest ratio (None: there is none)."""
    iv.prec = bits
    try:
        values = evaluate(body)
    except OpenError:
        return "unknown", None
    ids = [body["left"], body["right"], *map(list, zip(*body["hypotheses"], strict=True))]
    if not body["left"] or not all(0 <= k < len(values) for part in ids for k in part):
        raise RefusedError("left, right or hypotheses name no line")
    sides = [(values[a], values[b]) for a, b in zip(body["left"], body["right"], strict=True)]
    ratio = largest_ratio(sides)
    if not all(below(values[a], values[b]) for a, b in body["hypotheses"]):
        return "unknown", ratio
    answers = [below(a, b) for a, b in sides]
    if False in answers:
        return "fail", ratio
    if None not in answers:
        return "pass", ratio
    return ("attained" if is_near(ratio) else "unknown"), ratio


def largest_ratio(sides: list[tuple[Any, Any]]) -> Any:
    out = iv.mpf(0)
    for a, b in sides:
        if b.a > 0:
            out = larger(out, a / b)
        elif not below(a, b):
            return None
    return out


def is_near(ratio: Any) -> bool:
    return ratio is not None and abs(ratio - 1).b < NEAR.a


def agrees(expected: str, found: str, ratio: Any) -> bool:
    """A ratio near 1 that the engine left open may be settled here, but not as a violation."""
    if expected == "attained":
        return found in ("pass", "attained") and is_near(ratio)
    return expected in ("pass", "fail") and found == expected


def recheck(path: Path) -> tuple[bool, str]:
    """Whether a file comes out as expected, and one line on it."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["format"] != FORMAT:
            raise RefusedError(f"format {body['format']!r}")
        found, ratio = "unknown", None
        for bits in PRECISIONS:
            found, ratio = verdict(body, bits)
            if found != "unknown":
                break
        good = agrees(body["expected"], found, ratio)
    except (RefusedError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        return False, f"REFUSED {path.name}: {type(error).__name__}: {error}"
    digits = "none" if ratio is None else f"[{mpmath.nstr(ratio.a.mid, 12)}, "
    digits += "" if ratio is None else f"{mpmath.nstr(ratio.b.mid, 12)}]"
    words = f"{found}, largest ratio {digits}, {path.name}"
    return good, words if good else f"DISAGREES, expected {body['expected']}: {words}"


def main(arguments: list[str]) -> int:
    paths = [
        q for p in map(Path, arguments) for q in (sorted(p.glob("*.json")) if p.is_dir() else [p])
    ]
    results = [recheck(path) for path in paths if path.name != "index.json"]
    for good, words in results:
        print(words, file=sys.stdout if good else sys.stderr)
    bad = sum(not good for good, _ in results)
    print(f"{len(results)} certificates rechecked, {bad} do not come out as expected")
    return 2 if not results else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
