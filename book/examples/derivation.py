import sympy as sp

import attnverify as av
from attnverify.arithmetic import ops

BOUND = av.Inequality(
    lambda x, y: 4 * ops.sum(x * y, -1),
    lambda x, y: ops.sum(ops.square(x + y), -1),
    sizes=({"x": (2,), "y": (2,)}, {"x": (5,), "y": (5,)}),
).times(0.99)
CLAIMS = [
    av.Claim("mine.tokens", "Tokens", "lemma", r"$4 \langle x, y \rangle \le \|x + y\|_2^2$.")
]
CHECKS = {"mine.tokens": {"bound": BOUND}}


def derive():
    x, y = sp.symbols("x y", real=True)
    av.ledger.derived(
        "mine.tokens",
        {"gap": ((x + y) ** 2 - 4 * x * y, (x - y) ** 2), "sign": (x - y) ** 2 >= 0},
        given={"notation": "x and y are entries at one place; the statement sums over places"},
    )
    av.ledger.rejected("mine.tokens", {"five": ((x + y) ** 2 - 5 * x * y, (x - y) ** 2)})
