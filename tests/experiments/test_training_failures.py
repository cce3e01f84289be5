"""The decoders that fail in training: what is measured, how scores are clipped, the criterion."""

import pytest
import torch

from attnverify.experiments import training_failures as tf
from attnverify.experiments.training_failures import Kind
from attnverify.mathematics.gauges import distances_of


def words(seed: int = 0, windows: int = 2, length: int = 9) -> torch.Tensor:
    return torch.randint(256, (windows, length), generator=torch.Generator().manual_seed(seed))


def parameters(scale: float = 1.0) -> dict[str, torch.Tensor]:
    found = {name: value.double() for name, value in tf.start(0).items()}
    for k in range(tf.LAYERS):
        found[f"query{k}"] *= scale
    return found


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients_of_query_key_matrices_are_within_the_theorem(norm_first):
    """The gradient of each head's W_QK, from autograd with W_QK itself a parameter, and its bound.

    claim ``training.loss-gradient``: the nuclear norm is at most the mean of P (1 - P) in the
    weights of the row. Both are sums of some 10^4 products in float64, so 1e-9 leaves room for
    every rounding.
    """
    p, kind, given = parameters(3.0), Kind(norm_first), words()
    row = tf.measure(p, given, kind)
    W = {
        (k, h): _joined(p, k, h).requires_grad_() for k in range(tf.LAYERS) for h in range(tf.HEADS)
    }
    seen: list[tf.Seen] = []
    value = _loss_by_products(p, W, given, kind, seen)
    assert abs(float(value.detach()) - row["loss"]) <= 1e-12
    gradients = torch.autograd.grad(value, list(W.values()))
    pairs = iter(row["pairs"])
    for gradient, (share, size) in zip(gradients, pairs, strict=True):
        assert 0 < size <= share <= 0.25
        assert torch.linalg.matrix_norm(gradient, "nuc") > 0
    ratios = [
        float(torch.linalg.matrix_norm(g, "nuc")) / size
        for g, (_, size) in zip(gradients, row["pairs"], strict=True)
    ]
    sums = _sums_of_weights(p, given, kind)
    assert ratios == pytest.approx([s / tf.KEYS**0.5 for s in sums], rel=1e-9)


def _joined(p, k: int, h: int) -> torch.Tensor:
    part = slice(h * tf.KEYS, (h + 1) * tf.KEYS)
    return (p[f"query{k}"][:, part] @ p[f"key{k}"][:, part].mT).detach()


def _loss_by_products(p, W, given, kind, seen):
    """The loss with scores x W_QK x' / sqrt(d_qk), written without the module's own attention."""
    x = p["words"][given[:, :-1]] + p["places"][: given.shape[-1] - 1]
    n = x.shape[-2]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    for k in range(tf.LAYERS):

        def attention(x, k=k):
            heads = []
            for h in range(tf.HEADS):
                part = slice(h * tf.KEYS, (h + 1) * tf.KEYS)
                S = (x @ W[k, h] @ x.mT / tf.KEYS**0.5).masked_fill(later, -torch.inf)
                heads.append(S.softmax(-1) @ (x @ p[f"value{k}"][:, part]))
            return torch.cat(heads, -1) @ p[f"output{k}"]

        for branch, gain in ((attention, "first"), (lambda x, k=k: tf._mlp(p, k, x), "second")):
            g = p[f"{gain}{k}"]
            x = x + branch(_normal(x) * g) if kind.norm_first else _normal(x + branch(x)) * g
    x = _normal(x) * p["last"] if kind.norm_first else x
    logits = x @ p["words"].mT
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), given[:, 1:].flatten())


def _normal(x):
    centered = x - x.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def _sums_of_weights(p, given, kind) -> list[float]:
    """Sum over rows of |x_i| |g_i W'| diam(X_i)^2, with g_i from autograd at the head's output."""
    kept: list[tf.Seen] = []
    leaves = {name: value.detach().requires_grad_() for name, value in p.items()}
    value = tf.loss(leaves, given, kind, kept)
    found = []
    for k, seen in enumerate(kept):
        (g,) = torch.autograd.grad(value, seen.Y, retain_graph=True)
        for h in range(tf.HEADS):
            part = slice(h * tf.KEYS, (h + 1) * tf.KEYS)
            below = (g[:, h] @ p[f"value{k}"][:, part].mT).norm(dim=-1)
            total = 0.0
            for x, size in zip(seen.X.detach(), below, strict=True):
                for i in range(len(x)):
                    diameter = distances_of(x[: i + 1]).max()
                    total += float(x[i].norm() * size[i] * diameter**2)
            found.append(total)
    return found


def test_clipped_scores_are_within_the_limit():
    """Cauchy-Schwarz, layer after layer; 1e-12 is far above the rounding of 16 products."""
    p, kind, given = parameters(50.0), Kind(True, clip=True), words()
    kept: list[tf.Seen] = []
    tf.logits(p, given[:, :-1], kind, kept)
    assert max(float(seen.S.abs().max()) for seen in kept) > tf.CLIP
    tf.clip(p, given, kind)
    kept.clear()
    tf.logits(p, given[:, :-1], kind, kept)
    assert max(float(seen.S.abs().max()) for seen in kept) <= tf.CLIP * (1 + 1e-12)


def series(**changes) -> dict:
    """A run of 61 measurements that is healthy unless told otherwise."""
    count = tf.STEPS // tf.EVERY + 1
    row = {
        "kind": "run",
        "norm_first": True,
        "attention": True,
        "clip": False,
        "rate": 0,
        "seed": 0,
    }
    row |= {"loss": [2.0] * count, "residual": [0.5] * count, "entropy": [2.0] * count}
    return row | changes


def test_an_alarm_needs_three_in_a_row():
    low = [2.0] * 61
    low[4] = low[5] = low[8] = low[9] = low[10] = 0.1
    assert tf.alarm(series(entropy=low)) == 8 * tf.EVERY
    assert tf.alarm(series(residual=low)) is None, "0.1 is low for an entropy, not for a residual"
    assert tf.alarm(series()) is None


def test_the_loss_tells_from_its_last_rise_on():
    loss = [2.0] * 61
    loss[3] = 3.0  # it comes back
    loss[20:] = [2.2] * 41
    assert tf.told_by_loss(series(loss=loss), series()) == 20 * tf.EVERY
    assert tf.told_by_loss(series(), series()) is None


def made(change=lambda kind, rate, seed: {}) -> list[dict]:
    """A table in which every part of the criterion is met, but for what is changed."""
    rows = []
    for kind, rate, seed in tf.plans(range(tf.SEEDS)):
        failing = rate in tf.FAILING[kind.norm_first]
        changes: dict = {"norm_first": kind.norm_first, "clip": kind.clip, "rate": rate}
        changes |= {"attention": kind.attention, "seed": seed}
        if failing and kind.attention:
            helped = kind.clip and kind.norm_first
            changes["loss"] = [2.0] * 20 + [2.2 if helped else 2.4] * 41
            name, value = ("entropy", 0.1) if kind.norm_first else ("residual", 0.01)
            changes[name] = [2.0] * 5 + [value] * 56
        rows.append(series(**changes) | change(kind, rate, seed))
    return rows


def test_the_criterion_is_met_by_a_table_that_meets_it():
    verdict = tf.judge(made())
    assert verdict.holds and verdict.cases == 115
    for title, judge in tf.EXPERIMENT.twins[:2]:
        assert judge(made()).holds is False, title
    assert tf.judge(made()[:10]).holds is None
    quiet = tf.judge(made(lambda *_: {"entropy": [2.0] * 61, "residual": [0.5] * 61}))
    assert quiet.holds is False


FALSE = {
    "a healthy run with an alarm": lambda k, r, s: (
        {"entropy": [0.1] * 61} if (k, r, s) == (Kind(True), tf.HEALTHY[True], 0) else {}
    ),
    "a failing run that does not fail": lambda k, r, s: (
        {"loss": [2.0] * 61} if (k, r, s) == (Kind(False), tf.FAILING[False][0], 1) else {}
    ),
    "no alarm in a failing run": lambda k, r, s: (
        {"entropy": [2.0] * 60 + [0.1]} if (k, r, s) == (Kind(True), tf.FAILING[True][1], 2) else {}
    ),
    "pre-norm with a small residual": lambda k, r, s: (
        {"residual": [0.5] * 60 + [0.01]}
        if (k, r, s) == (Kind(True), tf.FAILING[True][1], 2)
        else {}
    ),
    "alarms behind the loss": lambda k, r, s: (
        {"entropy": [2.0] * 30 + [0.1] * 31, "residual": [0.5] * 61}
        if k == Kind(True) and r in tf.FAILING[True]
        else {}
    ),
    "clipping helps nothing": lambda k, r, s: (
        {"loss": [2.0] * 20 + [2.4] * 41} if k.clip and k.norm_first and r != 0.003 else {}
    ),
    "clipping helps post-norm": lambda k, r, s: (
        {"loss": [2.0] * 20 + [2.2] * 41} if k.clip and not k.norm_first and r != 0.001 else {}
    ),
}


@pytest.mark.parametrize("case", FALSE)
def test_the_criterion_is_missed_if_any_part_is(case):
    assert tf.judge(made(FALSE[case])).holds is False
