from attnverify.arithmetic import ops


def left(u, e):  # log of the mean of exp(e) under softmax(u), less the mean of e
    p, top = ops.softmax(u), ops.amax(e, -1, keepdims=True)
    return ops.log(ops.sum(p * ops.exp(e - top), -1)) - ops.sum(p * (e - top), -1)


def right(u, e):  # squared oscillation
    return ops.square(ops.amax(e, -1) + ops.amax(-e, -1))


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
