r"""```{claim} mine.lipschitz
:title: Softmax is 1/2-Lipschitz
:kind: lemma

$\|\mathrm{softmax}(u + e) - \mathrm{softmax}(u)\|_2 \le \|e\|_2 / 2$.
```"""

import attnverify as av


def length(x):
    return av.ops.sqrt(av.ops.sum(av.ops.square(x), -1))


@av.inequality("mine.lipschitz", "u[n] e[n]", 2, 5, tight=0.99)
def lipschitz(u, e):
    return length(av.ops.softmax(u + e) - av.ops.softmax(u)), length(e) / 2
