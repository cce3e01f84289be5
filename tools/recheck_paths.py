"""Recheck a certificate of the largest paths: python tools/recheck_paths.py FILE.

A second checker, for what ``attnverify.mathematics.path_certificate`` writes. It imports nothing of
the package and computes in whole numbers, without rounding. It takes the file's maps, input and
covector as given. A map is a matrix of columns with tokens times width entries. All of a layer are
over one power of two, so all contributions of paths are, too. Checked are

(a) the frontier: every path ends in exactly one of its nodes;
(b) the bound of each node is at least the root of the energy of its completions;
(c) no path that is not listed exceeds ``unseen``: the bound of its node does not, or all paths of
    the node are computed;
(d) every listed path contributes what is said, up to ``error``, a hundredth of the smallest of
    them at most, and ``unseen`` is at most that smallest plus twice the error;
(e) the energy of all paths lies between its two bounds.

Exit code 0: all holds; 1: something does not, and a line says what. For small networks: it makes
all paths, and matrices of (tokens width)^2 entries.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from itertools import product
from operator import mul
from pathlib import Path


class RejectedError(Exception):
    """Something in the certificate does not hold."""


def require(holds, words):
    if not holds:
        raise RejectedError(words)


def number(text):
    return Fraction(float.fromhex(text))


def whole(rows):
    """A matrix of floats as whole numbers over a power of two, and that power."""
    exact = [[number(entry) for entry in row] for row in rows]
    unit = max(entry.denominator for row in exact for entry in row)
    return [[int(entry * unit) for entry in row] for row in exact], unit


def times(A, B):
    columns = [*zip(*B, strict=True)]
    return [[sum(map(mul, row, column)) for column in columns] for row in A]


def turned(A):
    return [list(column) for column in zip(*A, strict=True)]


def maps_of(layer, tokens, width):
    """From an index to the matrix of its map over a power of two, and that power."""
    made = {0: ([[int(i == j) for j in range(tokens * width)] for i in range(tokens * width)], 1)}
    for index, head in enumerate(layer["heads"], 1):
        (P, p), (V, v), (O, o) = (whole(head[name]) for name in "PVO")  # noqa: E741
        W = times(V, O)
        matrix = [[a * w[c] for a in row for w in W] for row in P for c in range(width)]
        made[index] = matrix, p * v * o
    if not layer["skip"]:
        del made[0]
    unit = max(own for _, own in made.values())
    return {
        h: [[e * (unit // own) for e in row] for row in M] for h, (M, own) in made.items()
    }, unit


def check(body):
    """Raises RejectedError, with words, where the certificate does not hold."""
    (X, unit), (C, own) = whole(body["X"]), whole(body["covector"])
    layers, unit, depth = [], unit * own, len(body["layers"])
    column = [[entry] for row in X for entry in row]
    energies = [times(column, turned(column))]
    for each in body["layers"]:
        maps, own = maps_of(each, len(X), len(X[0]))
        layers, unit = [*layers, maps], unit * own
        parts = [times(times(M, energies[-1]), turned(M)) for M in maps.values()]
        energies.append([[*map(sum, zip(*rows, strict=True))] for rows in zip(*parts, strict=True)])

    def covector(suffix):
        row = [[entry for line in C for entry in line]]
        for level in range(1, len(suffix) + 1):
            row = times(row, layers[depth - level][suffix[-level]])
        return row

    def contribution(path):
        return Fraction(times(covector(path), column)[0][0], unit)

    def energy(suffix):
        row = covector(suffix)
        return Fraction(
            times(times(row, energies[depth - len(suffix)]), turned(row))[0][0], unit**2
        )

    paths, pairs = set(product(*layers)), zip(body["paths"], body["contributions"], strict=True)
    listed = {tuple(path): number(value) for path, value in pairs}
    unseen, error = number(body["unseen"]), number(body["error"])
    require(len(listed) == len(body["paths"]) and listed.keys() <= paths, "paths that are none")
    for path, value in listed.items():
        require(abs(contribution(path) - value) <= error, f"{path} contributes something else")
    smallest = min(map(abs, listed.values()), default=0)
    require(100 * error <= smallest, "the error is above a hundredth of the smallest listed")
    require(unseen <= smallest + 2 * error, "an unlisted path may be larger")
    left = set(paths)
    for suffix, text in body["frontier"]:
        bound, ends = number(text), {p for p in paths if [*p[depth - len(suffix) :]] == suffix}
        require(ends and ends <= left, f"node {suffix} has no paths, or those of another")
        left -= ends
        require(bound >= 0 and energy(suffix) <= bound**2, f"the bound of {suffix} is too small")
        for path in ends - listed.keys() if bound > unseen else ():
            require(abs(contribution(path)) <= unseen, f"{path} is larger than what is unseen")
    require(not left, f"{len(left)} paths end in no node")
    low, high = map(number, body["energy"])
    require(low <= energy([]) <= high, "the energy of all paths is another")


def main(arguments):
    try:
        check(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    except RejectedError as error:
        print(f"rejected: {error}")
        return 1
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        print(f"rejected: no certificate of paths ({type(error).__name__}: {error})")
        return 1
    print("The certificate holds.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
