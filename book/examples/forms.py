"""One claim for every form of a check: a bound with hypotheses, an equation, a decision."""

import sympy as sp

import attnverify as av
from attnverify.arithmetic import ops


def mean(x):
    return ops.sum(x, -1) / x.shape[-1]


def harmonic(x):
    return x.shape[-1] / ops.sum(1 / x, -1)


MEANS = av.Inequality(
    harmonic,
    mean,
    sizes=({"x": (2,)}, {"x": (5,)}),
    build=lambda x: {"x": ops.exp(x)},  # of free numbers positive ones
    hypotheses=lambda x: [(0 * x, x)],  # pairs: smaller, larger
).times(0.99)


def spread(x):
    return ops.sum(ops.square(x - ops.sum(x, -1, keepdims=True) / x.shape[-1]), -1)


# Each side is off by at most (n + 4) units of 2^-53 for every number that it sums, which is at most
# (|x| + |mean|)^2; their sum is at most 4 sum x^2, and there are two sides.
SPREAD = av.Identity(
    spread,
    lambda x: ops.sum(x * x, -1) - x.shape[-1] * ops.square(mean(x)),
    bound=lambda x: 8 * 2.0**-53 * (x.shape[-1] + 4) * ops.sum(x * x, -1),
    sizes=({"x": (3,)}, {"x": (6,)}),
).but("n - 1", right=lambda x: ops.sum(x * x, -1) - (x.shape[-1] - 1) * ops.square(mean(x)))


def odd(step=2):
    right = all(sum(range(1, 1 + step * n, step)) == n * n for n in range(1, 101))
    return av.Verdict(right, "n from 1 to 100, in whole numbers", cases=100)


ODD = av.Decision(odd, limits="no n above 100", kind="certified")

CLAIMS = [
    av.Claim("mine.means", "Harmonic below arithmetic", "lemma", "$n/\\sum x_i^{-1} \\le m(x)$."),
    av.Claim("mine.spread", "Squares", "lemma", "$\\sum (x_i - m)^2 = \\sum x_i^2 - n m^2$."),
    av.Claim("mine.odd", "Odd numbers", "lemma", "The first $n$ odd numbers sum up to $n^2$."),
]
CHECKS = {
    "mine.means": {"means": MEANS},
    "mine.spread": {"squares": SPREAD},
    "mine.odd": {"sums": ODD.but("steps of 3", run=lambda: odd(3))},
}


def derive():
    x, m, n, s = sp.symbols("x m n s", real=True)
    av.ledger.derived(
        "mine.spread",
        {
            "one square": ((x - m) ** 2, x**2 - 2 * m * x + m**2),
            "summed": (s - 2 * m * (n * m) + n * m**2, s - n * m**2),
        },
        given={"notation": "s is the sum of the squares x^2, n m the sum of the x"},
    )
    av.ledger.rejected("mine.spread", {"added": ((x - m) ** 2, x**2 - 2 * m * x - m**2)})
