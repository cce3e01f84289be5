r"""```{claim} mine.lin
:title: Lin
:kind: lemma

$\mathrm{JS}(p, q) \le \log 2 \cdot \mathrm{TV}(p, q)$.
```"""

import attnverify as av
from attnverify import ops


@av.inequality("mine.lin", "u[n] e[n]", 2, 5, tight=0.99)
def lin(u, e):
    p, q = ops.softmax(u), ops.softmax(u + e)
    middle, moved = (p + q) / 2, ops.sum(abs(p - q), -1) / 2
    divergence = ops.sum(p * ops.log(p / middle) + q * ops.log(q / middle), -1) / 2
    return divergence, av.number("log(2)", moved) * moved
