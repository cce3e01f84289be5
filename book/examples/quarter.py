from attnverify.arithmetic import ops


def left(u, e):  # total variation of two softmax rows
    return ops.sum(abs(ops.softmax(u + e) - ops.softmax(u)), -1) / 2


def right(u, e):  # oscillation of the perturbation
    return ops.amax(e, -1) + ops.amax(-e, -1)


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
