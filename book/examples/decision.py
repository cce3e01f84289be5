r"""```{claim} mine.floor
:title: Floor
:kind: lemma

$H(\mathrm{softmax}(0, t)) > 0.58$, $t \in [0, 1]$.
```"""

import flint

import attnverify as av
from attnverify.arithmetic.interval_cover import positive


def entropy(t):  # of a softmax row with two scores that lie t apart, in nats
    p = 1 / (1 + t.exp())
    return -p * p.log() - (1 - p) * (1 - p).log()


@av.decision("mine.floor", limits="no t above 1")
def floor(percent=58):
    found = positive(lambda t: 100 * entropy(t) - percent, flint.arb(0), flint.arb(1))
    return av.Verdict(found.holds, "balls that cover all t from 0 to 1", cases=found.cases)


floor.false("0.59", percent=59)
