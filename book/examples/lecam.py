from attnverify.arithmetic import ops


def left(u, e):  # total variation of two softmax rows
    return ops.sum(abs(ops.softmax(u + e) - ops.softmax(u)), -1) / 2


def right(u, e):  # their Hellinger distance, at most 1
    roots = ops.sqrt(ops.softmax(u + e)) - ops.sqrt(ops.softmax(u))
    return ops.sqrt(ops.sum(ops.square(roots), -1) / 2)


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
