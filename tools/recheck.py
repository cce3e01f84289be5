"""Recheck exported certificates: python tools/recheck.py FOLDER_OR_FILE...

A second checker, for the files of ``attnverify certificates --out FOLDER``. It needs Python
and mpmath, imports nothing of the package, and evaluates each file's program in mpmath's interval
arithmetic. What the engine encloses by algorithms of its own (the largest singular value, Lambert's
W) is enclosed here by others.

Verdicts: pass (every left <= right, for certain), fail (some left > right), attained (neither, and
the largest ratio is within 2^-40 of 1), unknown. All but the last need the hypotheses to hold for
certain. A certificate of a claim must pass or be attained; one of a false twin must fail.

A folder is taken whole: its index.json names every file with its SHA-256, and the number of
instances of every inequality and false twin. Every instance must have a file, or an entry that
says why not and what the engine found; of every claim with files, one must pass.

Exit code 0: all comes out as expected; 1: something does not, and a line says what; 2: a file is
missing, not listed, altered, no certificate, or beyond the limits below, and one line says which.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
from mpmath.libmp import mpf_gt

iv: Any = mpmath.iv  # its operators are made at run time, unseen by a type checker
FORMAT, INDEX_FORMAT = "attnverify program 1", "attnverify index 2"
INDEX = "index.json"
PRECISIONS = (200, 1200)
NEAR = iv.mpf(2) ** -40
LOWEST = -1000  # Lambert's W is sought above

# Limits before work. The largest file of the book has 4.7 MB, 168,845 lines and 66,049 numbers.
LARGEST = 16 << 20  # bytes of a file
MOST_FILES = 20_000
MOST_LINES = 200_000  # of a program, and entries of every other list
MOST_NUMBERS = 1 << 17
MOST_AXES = 8
MOST_DIGITS = 1000  # of a constant
MOST_POWER = 64
MOST_SIDE = 32  # of a matrix
MOST_WORK = 4_000_000  # steps of a file: an addition is one, 3 microseconds at 1200 bits
MOST_OVERALL = 400_000_000  # steps of a run, twenty minutes; the book's files take 33,000,000
# Limits on numbers met on the way: beyond them nothing is shown.
ARGUMENT = 1 << 30  # of exp, sin and cos, which otherwise take time without end
EXPONENT = 1 << 40  # of a value, in binary

TEXT = re.compile(r"[^\x00-\x1f]{1,500}")
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}\.json", re.ASCII)
CONSTANT = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}")
KEYS = {"false twin"}.union(
    "format claim check statement instance expected meaning".split(),
    "inputs program left right hypotheses".split(),
)
VERDICTS = ("pass", "fail", "attained")


class RefusedError(Exception):
    """The file is no certificate or index, or not the listed one, or beyond a limit."""


class OpenError(Exception):
    """An operation is not certainly defined on its interval, so nothing is shown."""


def require(defined: Any, words: str) -> None:
    if not defined:
        raise OpenError(words)


def demand(fits: Any, words: str) -> None:
    if not fits:
        raise RefusedError(words)


def interval(low: Any, high: Any) -> Any:
    return iv.make_mpf((low._mpi_[0], high._mpi_[1]))


def larger(x: Any, y: Any) -> Any:
    (a, b), (c, d) = x._mpi_, y._mpi_
    return iv.make_mpf((c if mpf_gt(c, a) else a, d if mpf_gt(d, b) else b))


def hull(x: Any, y: Any) -> Any:
    return interval(-larger(-x, -y), larger(x, y))


def square_root(x: Any) -> Any:
    """The root of a number >= 0; what lies below zero of its interval is cut off."""
    require(x.b >= 0, "the root of a negative number")
    return iv.sqrt(larger(x, iv.mpf(0)))


def exponential(x: Any) -> Any:
    """The exponential; below the range of arguments it is between 0 and its value at the end."""
    require(x.b <= ARGUMENT, "the exponential of a number above 2^30")
    low = iv.exp(x.a) if x.a >= -ARGUMENT else iv.mpf(0)
    return interval(low, iv.exp(larger(x.b, iv.mpf(-ARGUMENT))))


def sine(x: Any) -> Any:
    require(abs(x).b <= ARGUMENT, "the sine of a number above 2^30")
    return iv.sin(x)


def cosine(x: Any) -> Any:
    require(abs(x).b <= ARGUMENT, "the cosine of a number above 2^30")
    return iv.cos(x)


def logarithm(x: Any) -> Any:
    require(x.a > 0, "the logarithm of a number that may not be positive")
    return iv.log(x)


def quotient(x: Any, y: Any) -> Any:
    require(y.a > 0 or y.b < 0, "division by a number that may be zero")
    return x / y


def tanh(x: Any) -> Any:
    return 1 - 2 / (exponential(2 * x) + 1)


def lambert(y: Any) -> Any:
    """The w <= -1 with w e^w = y by bisection, as w e^w falls from 0 to -1/e on (-oo, -1]."""
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
    """The error function, from its values at the two ends, as it is odd and increasing."""
    low, high = (-_erf(-end) if end < 0 else _erf(end) for end in (x.a, x.b))
    return interval(low, high)


def _erf(x: Any) -> Any:
    """erf x at x >= 0: 2/sqrt(pi) e^(-x^2) times the sum of x (2x^2)^n / (1 * 3 * ... * (2n + 1)).

    All terms are positive. Once the next term is at most half of the last one, so is every later
    one, and what is left out is between 0 and the last term. The sum ends 20 bits above the
    precision, so that the remainder is far larger than the rounding that surrounds it, and a test
    sees it dropped. Beyond x = 30, 1 - erf x <= e^(-900).
    """
    if x.b > 30:
        return interval(1 - iv.exp(iv.mpf(-900)), iv.mpf(1))
    term, added, n = x, x, 0
    while not (2 * x * x / (2 * n + 3)).b <= 0.5 or term.b > added.b * iv.mpf(2) ** (20 - iv.prec):
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
        added = added + term
    return 2 / iv.sqrt(iv.pi) * iv.exp(-x * x) * interval(added, added + term)


def power(x: Any, n: int) -> Any:
    """x^n, from its values at the two ends of x, and 0 for even n if x may have either sign."""
    first, second = (math.prod([end] * n, start=iv.mpf(1)) for end in (x.a, x.b))
    between = hull(first, second)
    return hull(iv.mpf(0), between) if n % 2 == 0 and x.a < 0 < x.b else between


def total(terms: Any) -> Any:
    return sum(terms, iv.mpf(0))


def spectral_norm(rows: int, columns: int, entries: list[Any]) -> Any:
    """The norm of A: >= |A v|/|v| for any v, <= c if c^2 I - A'A is positive definite."""
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
        try:
            _, vectors = mpmath.eigsy(middle)
        except (RuntimeError, ArithmeticError) as error:  # no convergence
            raise OpenError("eigenvectors that mpmath does not find") from error
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
    "exp": exponential,
    "expm1": lambda x: exponential(x) - 1,
    "log": logarithm,
    "log1p": lambda x: logarithm(1 + x),
    "tanh": tanh,
    "sin": sine,
    "cos": cosine,
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


#: Steps of an operation that takes more than one: about as many additions as fit into its time
#: at 1200 bits, where it takes longest.
COST = dict.fromkeys(("exp", "expm1", "log", "log1p", "tanh", "sin", "cos"), 100)
COST |= {"sqrt": 15, "lambertw-1": 60_000, "erf": 110_000}


def whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def text(value: Any) -> bool:
    return type(value) is str and TEXT.fullmatch(value) is not None


def listed(value: Any, most: int, words: str) -> list[Any]:
    demand(type(value) is list and len(value) <= most, f"{words}: no list of at most {most}")
    return value


def inputs_of(arrays: Any) -> dict[tuple[str, int], float]:
    """The numbers of all inputs by name and place."""
    demand(type(arrays) is dict, "inputs: no object")
    out: dict[tuple[str, int], float] = {}
    for name, array in arrays.items():
        demand(type(array) is dict and array.keys() == {"shape", "values"}, "inputs: no array")
        shape = listed(array["shape"], MOST_AXES, "shape")
        words = listed(array["values"], MOST_NUMBERS - len(out), "values")
        demand(all(whole(n, 1, MOST_NUMBERS) for n in shape), "shape: no lengths")
        demand(len(words) == math.prod(shape), "values: not as many as the shape asks for")
        demand(all(type(word) is str and len(word) <= 40 for word in words), "values: no numbers")
        try:
            values = list(map(float.fromhex, words))
        except (ValueError, OverflowError) as error:
            raise RefusedError("values: no hexadecimal floats") from error
        demand(all(map(math.isfinite, values)), "values: not finite")
        out |= {(name, k): value for k, value in enumerate(values)}
    return out


def cost(op: Any, rest: list[Any], inputs: dict[tuple[str, int], float]) -> tuple[int, list[Any]]:
    """Steps and operands of a line; raises RefusedError for one that is none."""
    if op in BINARY and len(rest) == 2:
        return 1, rest
    if op in UNARY and len(rest) == 1:
        return COST.get(op, 1), rest
    if op == "input" and len(rest) == 2 and type(rest[0]) is str and type(rest[1]) is int:
        demand(tuple(rest) in inputs, "a number that the inputs do not have")
        return 1, []
    if op == "const" and len(rest) == 1 and type(rest[0]) is str:
        fits = len(rest[0]) <= MOST_DIGITS and CONSTANT.fullmatch(rest[0])
        demand(fits, f"a constant that is no fraction of at most {MOST_DIGITS} digits")
        return 1, []
    if op == "pow" and len(rest) == 2:
        demand(whole(rest[1], 1, MOST_POWER), f"a power that is not among 1 to {MOST_POWER}")
        return 7 * rest[1], rest[:1]
    if op == "spectral" and len(rest) > 2:
        rows, columns, *entries = rest
        demand(whole(rows, 1, MOST_SIDE) and whole(columns, 1, MOST_SIDE), "a matrix too large")
        demand(len(entries) == rows * columns, "a matrix with entries missing")
        return 60 * columns**3 + 2 * rows * columns**2, entries
    demand(op == "pi" and not rest, f"operation {str(op)[:40]!r} with {len(rest)} operands")
    return 1, []


def require_form(body: Any) -> int:
    """Check a certificate without evaluating it; returns the steps that evaluating it takes."""
    demand(type(body) is dict and body.get("format") == FORMAT, f"its format is not {FORMAT!r}")
    differing = sorted(body.keys() ^ KEYS)
    demand(not differing, f"field {differing[:1]} is missing or not known")
    demand(text(body["claim"]) and text(body["check"]), "claim or check: no text")
    demand(body["false twin"] is None or text(body["false twin"]), "false twin: no text")
    demand(body["expected"] in VERDICTS, f"expected: none of {', '.join(VERDICTS)}")
    inputs, work = inputs_of(body["inputs"]), 0
    program = listed(body["program"], MOST_LINES, "program")
    for number, line in enumerate(program):
        demand(type(line) is list and line and type(line[0]) is str, f"line {number}: no operation")
        try:
            steps, operands = cost(line[0], line[1:], inputs)
        except RefusedError as error:
            raise RefusedError(f"line {number}: {error}") from error
        before = all(whole(k, 0, number - 1) for k in operands)
        demand(before, f"line {number}: an operand that is no line before it")
        work += steps
    demand(work <= MOST_WORK, f"{work} steps, more than {MOST_WORK}")
    _require_sides(body, len(program))
    return work


def _require_sides(body: dict[str, Any], lines: int) -> None:
    left, right = (listed(body[side], MOST_LINES, side) for side in ("left", "right"))
    demand(0 < len(left) == len(right), "left and right: not as many, or none")
    pairs = listed(body["hypotheses"], MOST_LINES, "hypotheses")
    demand(all(type(p) is list and len(p) == 2 for p in pairs), "hypotheses: no pairs")
    ids = [*left, *right, *(k for pair in pairs for k in pair)]
    demand(all(whole(k, 0, lines - 1) for k in ids), "a side or hypothesis that is no line")


def evaluate(body: dict[str, Any]) -> list[Any]:
    """An interval for every line of a program whose form is right."""
    inputs, values = inputs_of(body["inputs"]), []
    for op, *rest in body["program"]:
        values.append(_line(op, rest, values, inputs))
        require(all(map(_in_range, values[-1]._mpi_)), "a number beyond 2^(2^40), or none")
    return values


def _in_range(end: Any) -> bool:
    _, mantissa, exponent, bits = end
    return abs(exponent + bits) <= EXPONENT if mantissa else exponent == 0  # infinities have others


def _line(op: str, rest: list[Any], values: list[Any], inputs: dict[tuple[str, int], float]) -> Any:
    if op in BINARY:
        return BINARY[op](values[rest[0]], values[rest[1]])
    if op in UNARY:
        return UNARY[op](values[rest[0]])
    if op == "input":
        return iv.mpf(inputs[rest[0], rest[1]])
    if op == "const":
        above, _, below = rest[0].partition("/")
        return iv.mpf(int(above)) / iv.mpf(int(below or 1))
    if op == "pow":
        return power(values[rest[0]], rest[1])
    if op == "spectral":
        return spectral_norm(rest[0], rest[1], [values[k] for k in rest[2:]])
    return iv.mpf(0) + iv.pi


def below(x: Any, y: Any) -> bool | None:
    """Whether x <= y: True or False where that is certain, else None."""
    return True if x.b <= y.a else False if x.a > y.b else None


def verdict(body: dict[str, Any], bits: int) -> tuple[str, Any]:
    """The verdict at one precision, and an enclosure of the largest ratio (None: there is none)."""
    iv.prec = bits
    try:
        values = evaluate(body)
    except OpenError:
        return "unknown", None
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
    """Whether a verdict is as expected; a ratio near 1 may be settled here as a pass alone."""
    if expected == "attained":
        return found in ("pass", "attained") and is_near(ratio)
    return expected in ("pass", "fail") and found == expected


@dataclass(frozen=True)
class Result:
    """What a certificate shows; wrong: how that is not what it should show, or nothing."""

    claim: str
    check: str
    twin: str | None
    verdict: str
    ratio: Any
    work: int
    wrong: str

    @property
    def key(self) -> Key:
        return self.claim, self.check, self.twin

    @property
    def words(self) -> str:
        ends = () if self.ratio is None else map(mpmath.mp.make_mpf, self.ratio._mpi_)
        digits = ", ".join(str(mpmath.nstr(end, 12)) for end in ends)
        digits = f"[{digits}]" if digits else "none"
        return f"{self.wrong}{self.verdict}, largest ratio {digits}"


Key = tuple[str, str, str | None]  # claim, check, title of a false twin


def judge(body: Any) -> Result:
    """The verdict on a certificate; raises RefusedError if it is none."""
    work = require_form(body)
    found, ratio = "unknown", None
    for bits in PRECISIONS:
        found, ratio = verdict(body, bits)
        if found != "unknown":
            break
    twin, wrong = body["false twin"], ""
    if twin is None and found == "fail":
        wrong = f"REFUTES {body['claim']} ({body['check']}): "
    elif twin is not None and found != "fail":
        wrong = f"DOES NOT REFUTE the false twin {twin!r} of {body['claim']}: "
    elif not agrees(body["expected"], found, ratio):
        wrong = f"DISAGREES, expected {body['expected']}: "
    return Result(body["claim"], body["check"], twin, found, ratio, work, wrong)


def read(path: Path, digest: str = "") -> Any:
    """What a JSON file holds; digest: the SHA-256 that it must have."""
    try:
        status = path.stat()
        demand(stat.S_ISREG(status.st_mode), "no regular file")
        demand(status.st_size <= LARGEST, f"{status.st_size} bytes, more than {LARGEST}")
        content = path.read_bytes()
        same = not digest or hashlib.sha256(content).hexdigest() == digest
        demand(same, f"its SHA-256 is not the one of {INDEX}")
        return json.loads(content.decode("utf-8"), object_pairs_hook=_fields)
    except OSError as error:
        raise RefusedError(error.strerror or str(error)) from error
    except RecursionError as error:
        raise RefusedError("nested too deep") from error
    except ValueError as error:
        raise RefusedError(f"no JSON in UTF-8 ({error})") from error


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    demand(len(dict(pairs)) == len(pairs), "a field that occurs twice")
    return dict(pairs)


def recheck(path: Path, digest: str = "") -> Result:
    """The verdict on one file; raises RefusedError that names it."""
    try:
        return judge(read(path, digest))
    except RefusedError as error:
        raise RefusedError(f"REFUSED {path.name}: {error}") from error


@dataclass(frozen=True)
class Index:
    """What a folder must hold.

    files: SHA-256 by name; instances: their number by key; found: what the engine found,
    of each instance without a file."""

    files: dict[str, str]
    instances: dict[Key, int]
    found: list[tuple[Key, str]]


def index_of(folder: Path) -> Index:
    """The index of a folder that holds what it lists and nothing else; raises RefusedError."""
    try:
        index = _index(read(folder / INDEX))
        there = set(os.listdir(folder))
    except (RefusedError, OSError) as error:
        raise RefusedError(f"REFUSED {folder.name}/{INDEX}: {error}") from error
    wanted = {INDEX, *index.files}
    for name in sorted(there ^ wanted)[:1]:
        words = f"lists {name}, which is not there" if name in wanted else f"does not list {name}"
        raise RefusedError(f"REFUSED {folder.name}: {INDEX} {words}")
    return index


def _index(body: Any) -> Index:
    fields = {"format", "files", "inequalities", "not exported"}
    demand(type(body) is dict and body.keys() == fields, f"no fields {', '.join(sorted(fields))}")
    demand(body["format"] == INDEX_FORMAT, f"its format is not {INDEX_FORMAT!r}")
    files: Any = body["files"]
    instances: dict[Key, int] = {}
    found: list[tuple[Key, str]] = []
    demand(type(files) is dict and 0 < len(files) <= MOST_FILES, "files: none, or too many")
    for name, digest in files.items():
        fits = NAME.fullmatch(str(name)) and name != INDEX
        fits = fits and type(digest) is str and DIGEST.fullmatch(digest)
        demand(fits, "files: no plain name of a file with its SHA-256")
    for entry in listed(body["inequalities"], MOST_FILES, "inequalities"):
        key = _key(entry, {"instances"})
        demand(whole(entry["instances"], 0, MOST_FILES), "instances: no number")
        demand(key not in instances, "inequalities: one that occurs twice")
        instances[key] = entry["instances"]
    for entry in listed(body["not exported"], MOST_FILES, "not exported"):
        key = _key(entry, {"reason", "engine"})
        demand(text(entry["reason"]), "reason: no text")
        demand(entry["engine"] in (None, "unknown", *VERDICTS), "engine: no verdict")
        if entry["engine"] is not None:
            found.append((key, entry["engine"]))
    return Index(files, instances, found)


def _key(entry: Any, others: set[str]) -> Key:
    fields = {"claim", "check", "false twin", *others}
    demand(isinstance(entry, dict) and set(entry) == fields, f"no entry of {sorted(fields)}")
    claim, check, twin = entry["claim"], entry["check"], entry["false twin"]
    demand(text(claim) and text(check) and (twin is None or text(twin)), "an entry without names")
    return claim, check, twin


def missing(index: Index, results: list[Result]) -> Iterator[str]:
    """What the index promises and the files do not show, in words."""
    files = Counter(result.key for result in results)
    claims = {result.claim for result in results if result.twin is None}
    passing = {result.claim for result in results if result.verdict == "pass"}
    without = Counter(key for key, _ in index.found)
    for key in dict.fromkeys([*index.instances, *files, *without]):
        claim, check, twin = key
        name = f"{claim} ({check}{'' if twin is None else f', false twin {twin!r}'})"
        told, wanted = files[key] + without[key], index.instances.get(key)
        if told != wanted:
            yield f"MISSING {name}: {wanted} instances, of which {told} have a file or a reason"
    for claim in sorted(claims - passing):
        yield f"OPEN {claim}: no certificate passes for certain"
    for (claim, check, twin), found in index.found:
        if twin is None and found in ("fail", "unknown"):
            yield f"OPEN {claim} ({check}): the engine says {found}, without a certificate"


def say(words: str, wrong: bool = False) -> None:
    """Print words on one line, with control characters and other alphabets replaced."""
    plain = words.encode("ascii", "backslashreplace").decode()
    print(re.sub(r"[\x00-\x1f\x7f]", "?", plain), file=sys.stderr if wrong else sys.stdout)


def run(arguments: list[str]) -> tuple[int, int]:
    """Recheck files and folders; returns the numbers of certificates and of lines with a fault."""
    count = bad = work = 0
    for place in map(Path, arguments):
        index = index_of(place) if place.is_dir() else None
        files = [(place / n, d) for n, d in index.files.items()] if index else [(place, "")]
        results = []
        for path, digest in files:
            results.append(recheck(path, digest))
            work += results[-1].work
            demand(work <= MOST_OVERALL, f"REFUSED {path.name}: more than {MOST_OVERALL} steps")
            say(f"{results[-1].words}, {path.name}", bool(results[-1].wrong))
        wrong = list(missing(index, results)) if index else []
        for words in wrong:
            say(words, wrong=True)
        count += len(results)
        bad += len(wrong) + sum(bool(result.wrong) for result in results)
        if index:
            say(summary(index, results))
    return count, bad


def summary(index: Index, results: list[Result]) -> str:
    """How much of what is listed has a certificate."""
    shown = {result.key for result in results if not result.wrong}
    true = [key for key in index.instances if key[2] is None]
    twins = [key for key in index.instances if key[2] is not None]
    return (
        f"{sum(key in shown for key in true)} of {len(true)} inequalities and "
        f"{sum(key in shown for key in twins)} of {len(twins)} false twins have certificates"
    )


def main(arguments: list[str]) -> int:
    try:
        demand(arguments, "expected a folder of `attnverify certificates` or a file of it")
        count, bad = run(arguments)
    except RefusedError as error:
        say(f"recheck: {error}", wrong=True)
        return 2
    say(f"{count} certificates rechecked, {bad} do not come out as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
