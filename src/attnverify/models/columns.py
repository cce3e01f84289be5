"""What every column of a report means, the claim it rests on, and what it does not show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """title: head of the column; claim: id in the book's registry, "" for a mere measurement."""

    title: str
    meaning: str
    claim: str
    limit: str


_HELD = "the matrices held at their values in this forward pass: no derivative, no intervention"
_WORST = "a worst case over all inputs of this diameter and all weights of these norms"
_ROTARY = "with rotary positions scores at a distance follow another matrix, W_Q R W_K^T"
_RANDOM = "what the theory of localization says of random tokens and a symmetric matrix"

LENGTHS = {
    "length": Column(
        "path length",
        "how many times a path passes through attention; biases: what all biases carry; "
        "rounding: what the model's own rounding has left",
        "paths.length-recursion",
        _HELD,
    ),
    "share": Column(
        "share",
        "projection of the part on the output, the mean over tokens removed, over the output's "
        "square; all shares add up to 1",
        "paths.skip-decomposition",
        "a share may be negative or above 1; what the model would do without these paths",
    ),
    "share_whole": Column(
        "share, mean kept",
        "the same with the mean over tokens kept",
        "paths.skip-decomposition",
        "a share may be negative or above 1; what the model would do without these paths",
    ),
    "norm": Column(
        "norm",
        "Frobenius norm of the sum of all paths of the length",
        "paths.length-recursion",
        "norms of parts do not add up",
    ),
    "paths": Column(
        "paths",
        "number of paths of the length, one head or the skip connection a layer",
        "paths.count",
        "how large their terms are",
    ),
}

LAYERS = {
    "text": Column("text", "which text of the batch", "", ""),
    "layer": Column("layer", "counted from 1", "", ""),
    "residual": Column(
        "relative residual",
        "of the stream that enters: norm without the mean over tokens, over the norm",
        "collapse.absolute-not-relative",
        "a small residual is no small diameter, and the other way round",
    ),
    "stream_diameter": Column(
        "diameter of stream",
        "largest distance of two tokens of the stream that enters",
        "norms.diameter",
        "",
    ),
    "diameter": Column(
        "diameter at attention",
        "the same where queries, keys and values are made from: behind the norm, if one is before",
        "norms.diameter",
        "",
    ),
    "attention_diameter": Column(
        "diameter of its output",
        "of what attention adds, before the skip connection",
        "norms.diameter",
        "",
    ),
    "factor": Column(
        "factor", "diameter of attention's output over that of its input", "", "other inputs"
    ),
    "bound": Column(
        "sharp bound",
        "the most this factor can be, from the norms of the heads and the diameter",
        "collapse.sharp-layer",
        f"{_WORST}; no bound where positions, masks or norms of queries enter the scores",
    ),
    "threshold": Column(
        "threshold",
        "the diameter below which attention alone must collapse",
        "collapse.threshold-heads",
        f"{_WORST}; the skip connection and the MLP are not in it",
    ),
    "over_threshold": Column(
        "diameter over threshold",
        "above 1 the theorem promises no collapse",
        "collapse.threshold-heads",
        "tokens above the threshold may collapse all the same",
    ),
    "why_no_bound": Column(
        "no bound because", "the hypothesis of the sharp theorem that fails here", "", ""
    ),
    "nearest": Column(
        "nearest tokens", "the two tokens of the stream nearest to each other, from 1", "", ""
    ),
    "nearest_distance": Column(
        "their distance",
        "over the diameter of the stream: 0 is collapse of the two",
        "norms.diameter",
        "equal words at different places may be near without collapse",
    ),
}

HEADS = {
    "layer": Column("layer", "counted from 1", "", ""),
    "head": Column("head", "counted from 1", "", ""),
    "part": Column(
        "part of output",
        "projection of the head's output on that of the layer's attention, means removed; all "
        "heads add up to 1",
        "paths.decomposition",
        "what later layers make of it",
    ),
    "moves": Column(
        "size",
        "norm of the head's output over that of the layer's attention, means removed; near 0 the "
        "head is silent here",
        "",
        "a head silent on this text may speak on another",
    ),
    "sink": Column(
        "weight on first",
        "mean attention to the first token, from the others",
        "",
        "values at the first token may be small, and the weight then idle",
    ),
    "itself": Column("weight on itself", "mean attention of a token to itself", "", ""),
    "entropy": Column(
        "entropy",
        "of the rows, over the logarithm of the number of keys, mean: 1 is uniform",
        "entropy.spread",
        "a uniform row may still carry much through its values",
    ),
    "entropy_floor": Column(
        "its floor",
        "the least entropy of rows whose logits spread as much as these, on the same scale",
        "entropy.spread",
        "how near to the floor the matrices force a row",
    ),
    "xi": Column(
        "xi",
        "tr W / sqrt(tr W^2), W = W_Q W_K^T; none where tr W^2 <= 0",
        "localization.exact",
        f"{_RANDOM}; {_ROTARY}",
    ),
    "xi_frobenius": Column(
        "xi, Frobenius",
        "tr W / ||W||_F, always defined",
        "localization.asymmetric",
        f"{_RANDOM}; {_ROTARY}",
    ),
    "symmetry": Column(
        "tr W^2 / ||W||_F^2",
        "1 for symmetric W, -1 for skew-symmetric W, near 0 for random W",
        "localization.asymmetric",
        _ROTARY,
    ),
    "asymmetry": Column(
        "asymmetry",
        "norm of the skew part over that of W: 0 symmetric, 1 skew, 0.707 random",
        "localization.asymmetric",
        _ROTARY,
    ),
    "rank": Column("rank of W", "singular values above rounding", "", "how unequal they are"),
    "query_key_norm": Column(
        "norm of W", "largest singular value of W_Q W_K^T", "collapse.sharp-layer", _ROTARY
    ),
    "value_norm": Column(
        "norm of values", "largest singular value of W_V W_O", "collapse.sharp-layer", ""
    ),
}

TABLES = {"lengths": LENGTHS, "layers": LAYERS, "heads": HEADS}
