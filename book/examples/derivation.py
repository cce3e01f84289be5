r"""```{claim} mine.tokens
:title: Tokens
:kind: lemma

$4 \langle x, y \rangle \le \|x + y\|_2^2$.
```"""

import sympy as sp

import attnverify as av


@av.inequality("mine.tokens", "x[n] y[n]", 2, 5)
def bound(x, y):
    return 4 * av.ops.sum(x * y, -1), av.ops.sum(av.ops.square(x + y), -1)


bound.equal(x=[1, 2], y=[1, 2])


def derive():
    x, y = sp.symbols("x y", real=True)
    av.ledger.derived(
        "mine.tokens",
        {"gap": ((x + y) ** 2 - 4 * x * y, (x - y) ** 2)},
        given={"notation": "x and y are entries at one place; the statement sums over places"},
    )
    av.ledger.rejected("mine.tokens", {"five": ((x + y) ** 2 - 5 * x * y, (x - y) ** 2)})
