"""Accuracy of a trained network restricted to its paths of one length.

The network is S_0 + ... + S_L with S_l the sum over all paths of length l (paths.by_length); it has
no biases, so nothing else is left. Restricted to one length it is S_l, read out like the whole.
S_l comes from the recursion; beside it stand paths drawn at random, as in the code of
Dong, Cordonnier, Loukas (2021, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from attnverify.experiments.engine.model import Row
from attnverify.mathematics import paths
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.errors import require


def accuracy(logits: Float[Tensor, "*batch labels"], labels: Int64[Tensor, "*batch"]) -> float:
    """Share of the tokens whose largest logit is that of their label."""
    return float((logits.argmax(-1) == labels).double().mean())


Count = Callable[[Tensor, Tensor], float]  # logits, labels -> share of right labels


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


def all_scores(
    fixed: paths.FixedAttention,
    X: Float[Tensor, "sequences tokens width"],
    readout: Float[Tensor, "width labels"],
    labels: Int64[Tensor, "sequences tokens"],
) -> list[Float[Tensor, "_"]]:
    """The scores of all paths one by one, in one tensor for every length 0..depth.

    The score of a term is <G, P X W> = <P^T G W^T, X> with G the gradient of the score, which is
    linear. So half of the layers act on X, the transposes of the others on G, and the scores of
    all (1 + heads)^depth paths are inner products of (1 + heads)^(depth / 2) tensors with as many.
    """
    gradient = torch.func.grad(lambda Y: score(Y @ readout, labels))(X)
    transposed = replace(
        fixed, P=fixed.P.mT.flip(0), W_V=fixed.W_O.mT.flip(0), W_O=fixed.W_V.mT.flip(0)
    )
    first, short = _through(fixed, X, fixed.depth // 2)
    last, rest = _through(transposed, gradient, fixed.depth - fixed.depth // 2)
    scores = first.flatten(1) @ last.flatten(1).mT
    lengths = short[:, None] + rest
    return [scores[lengths == length] for length in range(fixed.depth + 1)]


def _through(fixed, X, layers: int) -> tuple[Tensor, Tensor]:
    """X sent along every path through the first layers, and the lengths of these paths."""
    terms, lengths = X[None], torch.zeros(1, dtype=torch.long)
    for layer in range(layers):
        steps = [(0,) * layer + (index,) for index in fixed.indices()]  # the layers before: skipped
        terms = torch.cat([fixed.term(terms, step) for step in steps])
        lengths = torch.cat([lengths + (step[-1] > 0) for step in steps])
    return terms, lengths


def bernstein(spread: float, farthest: float, draws: int, probability: float) -> float:
    """How far the mean of draws may be from its expectation, but for this probability.

    spread: standard deviation of one draw; farthest: largest distance from the expectation. The
    distance t at which Bernstein's inequality, P(|mean - expectation| >= t) <=
    2 exp(-draws t^2 / (2 spread^2 + 2 farthest t / 3)), gives the probability (Boucheron, Lugosi,
    Massart 2013, corollary 2.11).
    """
    log = math.log(2 / probability)
    linear = farthest * log / 3
    return (linear + math.sqrt(linear**2 + 2 * draws * spread**2 * log)) / draws


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
    count: Count = accuracy,
) -> tuple[Row, list[Row]]:
    """(the whole network, one row for every length), for a network with skip and without biases.

    sampled: how many paths of a length to draw, with replacement; one where there is only one.
    Rows have the accuracy and the score of S_l, the accuracy of S_0 + ... + S_l ("up_to"), and of
    the drawn paths the accuracy of their sum, the mean accuracy of one of them alone, and the
    estimate of the score of S_l with the standard error that the draws themselves suggest. From
    all paths of the length: the standard deviation of one draw's estimate ("spread"), and the
    largest distance from the score that one draw can give ("farthest"). count: how right labels
    are counted.
    """
    fixed = paths.FixedAttention.of(net, X)
    require(
        net.skip and not fixed.b.any(),
        "net",
        "a network without skip or with biases",
        "skip connections and no biases",
    )
    output, sums = net(X), fixed.by_length(X)
    bound = fixed.rounding_bound(X, net.depth + 1)
    whole: Row = {
        "accuracy": count(output @ readout, labels),
        "chance": float(labels.flatten().bincount().max() / labels.numel()),
        "sum_error": float((sums.sum(0) - output).abs().max()),
        "sum_share": float(((sums.sum(0) - output).abs() / bound).max()),
    }
    rows, scores = [], all_scores(fixed, X, readout, labels)
    for length, logits in enumerate(sums @ readout):
        drawn = _drawn(net, fixed, X, readout, labels, length, sampled, random, count)
        one = len(scores[length]) * scores[length]
        row = {
            "length": length,
            "paths": paths.count(net.depth, net.heads, length),
            "accuracy": count(logits, labels),
            "up_to": count(sums[: length + 1].sum(0) @ readout, labels),
            "score": float(score(logits, labels)),
            "spread": float(one.std(correction=0)),
            "farthest": float((one - one.mean()).abs().max()),
            **drawn,
        }
        rows.append(row)
    return whole, rows


def _drawn(
    net: SelfAttentionNetwork,
    fixed: paths.FixedAttention,
    X: Tensor,
    readout: Tensor,
    labels: Tensor,
    length: int,
    sampled: int,
    random: Generator,
    count: Count,
) -> Row:
    """What paths drawn at random say about one length."""
    number = paths.count(net.depth, net.heads, length)
    sampled = 1 if number == 1 else sampled
    total, scores, alone = X.new_zeros(()), [], []
    for _ in range(sampled):
        logits = fixed.term(X, draw_path(net, length, random)) @ readout
        total = total + logits
        scores.append(float(score(logits, labels)))
        alone.append(count(logits, labels))
    scores = number * torch.tensor(scores, dtype=torch.float64)
    spread = float(scores.std()) if sampled > 1 else 0.0
    return {
        "sampled": sampled,
        "sampled_accuracy": count(total, labels),
        "alone": sum(alone) / sampled,
        "sampled_score": float(scores.mean()),
        "sampled_error": spread / sampled**0.5,
    }
