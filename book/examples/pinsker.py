from attnverify.arithmetic import ops


def left(u, e):  # squared total variation of two softmax rows
    return ops.square(ops.sum(abs(ops.softmax(u + e) - ops.softmax(u)), -1) / 2)


def right(u, e):  # relative entropy of the second to the first
    p, top = ops.softmax(u), ops.amax(e, -1, keepdims=True)
    return ops.log(ops.sum(p * ops.exp(e - top), -1)) - ops.sum(p * (e - top), -1)


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
