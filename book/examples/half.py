from attnverify.arithmetic import ops


def length(x):
    return ops.sqrt(ops.sum(ops.square(x), -1))


def left(u, e):  # how far softmax moves
    return length(ops.softmax(u + e) - ops.softmax(u))


def right(u, e):  # how far its logits move
    return length(e)


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
