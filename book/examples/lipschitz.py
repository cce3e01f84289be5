import attnverify as av
from attnverify.arithmetic import ops


def length(x):
    return ops.sqrt(ops.sum(ops.square(x), -1))


def moved(u, e):
    return length(ops.softmax(u + e) - ops.softmax(u))


CLAIM = av.Claim(
    id="mine.lipschitz",
    title="Softmax is 1/2-Lipschitz",
    kind="lemma",
    statement=r"$\|\mathrm{softmax}(u + e) - \mathrm{softmax}(u)\|_2 \le \|e\|_2 / 2$.",
)
HALF = av.Inequality(
    moved, lambda u, e: length(e) / 2, sizes=({"u": (2,), "e": (2,)}, {"u": (5,), "e": (5,)})
)
CLAIMS = [CLAIM]
CHECKS = {CLAIM.id: {"lipschitz": HALF.times(0.99)}}
