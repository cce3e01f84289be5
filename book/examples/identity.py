r"""```{claim} mine.spread
:title: Spread
:kind: lemma

$\sum (x_i - m)^2 = \sum x_i^2 - (\sum x_i)^2/n$.
```"""

import attnverify as av


@av.identity("mine.spread", "x[n]", 3, 6)
def spread(x, centered=True):
    n, total = x.shape[-1], av.ops.sum(x, -1)
    deviations = x - centered * total / n
    return av.ops.sum(deviations**2, -1), av.ops.sum(x * x, -1) - total * total / n


spread.false("the mean is left out", centered=False)
