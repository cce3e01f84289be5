import attnverify as av
from attnverify.arithmetic import ops


def divergence(u, e):  # Jensen-Shannon divergence of two softmax rows, in nats
    p, q = ops.softmax(u), ops.softmax(u + e)
    middle = (p + q) / 2
    return ops.sum(p * ops.log(p / middle) + q * ops.log(q / middle), -1) / 2


def bound(u, e):  # log 2 times their total variation
    moved = ops.sum(abs(ops.softmax(u + e) - ops.softmax(u)), -1) / 2
    return av.number("log(2)", moved) * moved


LIN = av.Inequality(divergence, bound, sizes=({"u": (2,), "e": (2,)}, {"u": (5,), "e": (5,)}))
CLAIMS = [
    av.Claim("mine.lin", "Lin", "lemma", r"$\mathrm{JS}(p, q) \le \log 2 \cdot \mathrm{TV}(p, q)$.")
]
CHECKS = {"mine.lin": {"lin": LIN.times(0.99)}}
