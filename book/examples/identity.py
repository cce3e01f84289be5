import attnverify as av
from attnverify.arithmetic import ops


def squares(x):
    return ops.sum(x * x, -1)


def spread(x):
    return squares(x - ops.sum(x, -1, keepdims=True) / x.shape[-1])


# To first order, in units of 2^-53 sum x^2: the left side is off by n + 2, as an error of the mean
# cancels in the sum, the right one by 3n + 1, as (sum |x|)^2 <= n sum x^2. Twice 4n + 3 is enough.
SPREAD = av.Identity(
    spread,
    lambda x: squares(x) - ops.square(ops.sum(x, -1)) / x.shape[-1],
    bound=lambda x: 8 * 2.0**-53 * (x.shape[-1] + 1) * squares(x),
    sizes=({"x": (3,)}, {"x": (6,)}),
).but("the mean is left out", right=squares)

CLAIMS = [
    av.Claim("mine.spread", "Spread", "lemma", r"$\sum (x_i - m)^2 = \sum x_i^2 - (\sum x_i)^2/n$.")
]
CHECKS = {"mine.spread": {"spread": SPREAD}}
