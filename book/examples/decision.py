import flint

import attnverify as av
from attnverify.arithmetic.interval_cover import positive


def entropy(t):  # of a softmax row with two scores that lie t apart, in nats
    p = 1 / (1 + t.exp())
    return -p * p.log() - (1 - p) * (1 - p).log()


def floor(percent=58):
    ends = flint.arb(0), flint.arb(1)
    found = positive(lambda t: 100 * entropy(t) - percent, *ends)
    return av.Verdict(found.holds, "balls that cover all t from 0 to 1", cases=found.cases)


FLOOR = av.Decision(floor, limits="no t above 1").but("0.59", run=lambda: floor(59))
CLAIMS = [
    av.Claim("mine.floor", "Floor", "lemma", r"$H(\mathrm{softmax}(0, t)) > 0.58$, $t \in [0, 1]$.")
]
CHECKS = {"mine.floor": {"floor": FLOOR}}
