r"""```{claim} mine.means
:title: Means
:kind: lemma

$n / \sum x_i^{-1} \le \frac1n \sum x_i$, $x > 0$.
```"""

import attnverify as av


def positive(x):  # of free numbers
    return {"x": av.ops.exp(x)}


def is_positive(x):  # pairs, smaller and larger
    return [(0 * x, x)]


@av.inequality("mine.means", "x[n]", 2, 5, draw=positive, where=is_positive)
def means(x):
    return x.shape[-1] / av.ops.sum(1 / x, -1), av.ops.sum(x, -1) / x.shape[-1]


means.equal(x=[2, 2])
