"""Accuracy of a trained network restricted to its paths of one length.

The network is S_0 + ... + S_L with S_l the sum over all paths of length l (paths.by_length); it has
no biases, so nothing else is left. Restricted to one length it is S_l, read out like the whole.
S_l comes from the recursion; beside it stand paths drawn at random, one reading of what
Dong, Cordonnier, Loukas (2021, section 4) did.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from attnverify import paths
from attnverify.attention import SelfAttentionNetwork
from attnverify.errors import require
from attnverify.experiments.model import Row


def accuracy(logits: Float[Tensor, "*batch labels"], labels: Int64[Tensor, "*batch"]) -> float:
    """Share of the tokens whose largest logit is that of their label."""
    return float((logits.argmax(-1) == labels).double().mean())


def score(
    logits: Float[Tensor, "*some sequences tokens labels"],
    labels: Int64[Tensor, "sequences tokens"],
) -> Float[Tensor, "*some"]:
    """Mean over tokens of (logit of the right label - mean logit).

    Linear in the logits, unlike accuracy, so that a mean over random paths estimates the score of
    their sum without bias.
    """
    right = logits.gather(-1, labels.expand(logits.shape[:-1])[..., None])[..., 0]
    return (right - logits.mean(-1)).mean((-2, -1))


def draw_path(net: SelfAttentionNetwork, length: int, random: Generator) -> paths.Path:
    """A path of this length, all of them equally likely: which layers, then which head in each."""
    path = torch.zeros(net.depth, dtype=torch.long)
    layers = torch.randperm(net.depth, generator=random)[:length]
    path[layers] = torch.randint(1, net.heads + 1, (length,), generator=random)
    return tuple(path.tolist())


@torch.no_grad()
def measure(
    net: SelfAttentionNetwork,
    X: Float[Tensor, "sequences tokens width"],
    readout: Float[Tensor, "width labels"],
    labels: Int64[Tensor, "sequences tokens"],
    sampled: int,
    random: Generator,
) -> tuple[Row, list[Row]]:
    """(the whole network, one row for every length), for a network with skip and without biases.

    sampled: how many paths of a length to draw, with replacement; one where there is only one.
    Rows have the accuracy and the score of S_l, the accuracy of S_0 + ... + S_l ("up_to"), and of
    the drawn paths the accuracy of their sum, the mean accuracy of one of them alone, and the
    estimate of the score of S_l with its standard error.
    """
    fixed = paths.FixedAttention.of(net, X)
    require(net.skip and not fixed.b.any(), "net", "a network without skip or with biases",
            "skip connections and no biases")  # fmt: skip
    output, sums = net(X), fixed.by_length(X)
    bound = fixed.rounding_bound(X, net.depth + 1)
    whole: Row = {
        "accuracy": accuracy(output @ readout, labels),
        "chance": float(labels.flatten().bincount().max() / labels.numel()),
        "sum_error": float((sums.sum(0) - output).abs().max()),
        "sum_share": float(((sums.sum(0) - output).abs() / bound).max()),
    }
    rows = []
    for length, logits in enumerate(sums @ readout):
        drawn = _drawn(net, fixed, X, readout, labels, length, sampled, random)
        row = {"length": length, "paths": paths.count(net.depth, net.heads, length),
               "accuracy": accuracy(logits, labels),
               "up_to": accuracy(sums[: length + 1].sum(0) @ readout, labels),
               "score": float(score(logits, labels)), **drawn}  # fmt: skip
        rows.append(row)
    return whole, rows


def _drawn(net, fixed, X, readout, labels, length: int, sampled: int, random: Generator) -> Row:
    """What paths drawn at random say about one length."""
    number = paths.count(net.depth, net.heads, length)
    sampled = 1 if number == 1 else sampled
    total, scores, alone = 0, [], []
    for _ in range(sampled):
        logits = fixed.term(X, draw_path(net, length, random)) @ readout
        total = total + logits
        scores.append(float(score(logits, labels)))
        alone.append(accuracy(logits, labels))
    scores = number * torch.tensor(scores, dtype=torch.float64)
    spread = float(scores.std()) if sampled > 1 else 0.0
    return {
        "sampled": sampled,
        "sampled_accuracy": accuracy(total, labels),
        "alone": sum(alone) / sampled,
        "sampled_score": float(scores.mean()),
        "sampled_error": spread / sampled**0.5,
    }
