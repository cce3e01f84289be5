import attnverify as av
from attnverify.arithmetic import ops


def mean(x):
    return ops.sum(x, -1) / x.shape[-1]


def harmonic(x):
    return x.shape[-1] / ops.sum(1 / x, -1)


MEANS = av.Inequality(
    harmonic,
    mean,
    sizes=({"x": (2,)}, {"x": (5,)}),
    build=lambda x: {"x": ops.exp(x)},  # of free numbers positive ones
    hypotheses=lambda x: [(0 * x, x)],  # pairs, smaller and larger: here 0 <= x
).times(0.99)

CLAIMS = [
    av.Claim("mine.means", "Means", "lemma", r"$n / \sum x_i^{-1} \le \frac1n \sum x_i$, $x > 0$.")
]
CHECKS = {"mine.means": {"means": MEANS}}
