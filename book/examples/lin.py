from attnverify.arithmetic import ops


def left(u, e):  # Jensen-Shannon divergence of two softmax rows, in nats
    p, q = ops.softmax(u), ops.softmax(u + e)
    middle = (p + q) / 2
    return ops.sum(p * ops.log(p / middle) + q * ops.log(q / middle), -1) / 2


def right(u, e):  # their total variation
    return ops.sum(abs(ops.softmax(u + e) - ops.softmax(u)), -1) / 2


SIZES = [{"u": (n,), "e": (n,)} for n in (2, 3, 6)]
