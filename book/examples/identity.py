import attnverify as av
from attnverify.arithmetic import ops


def squares(x):
    return ops.sum(x * x, -1)


def spread(x):
    return squares(x - ops.sum(x, -1, keepdims=True) / x.shape[-1])


SPREAD = av.Identity(
    spread,
    lambda x: squares(x) - ops.square(ops.sum(x, -1)) / x.shape[-1],
    bound=None,
    sizes=({"x": (3,)}, {"x": (6,)}),
).but("the mean is left out", right=squares)

CLAIMS = [
    av.Claim("mine.spread", "Spread", "lemma", r"$\sum (x_i - m)^2 = \sum x_i^2 - (\sum x_i)^2/n$.")
]
CHECKS = {"mine.spread": {"spread": SPREAD}}
