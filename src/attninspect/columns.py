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


def visible(word: str) -> str:
    """A token in which every blank and control letter is seen, by a sign of its own."""
    signs = {" ": "␣", "\n": "⏎", "\t": "⇥"}
    return "".join(signs.get(c, c if c.isprintable() else ascii(c)[1:-1]) for c in word)


LOST = "lost"  # the column that is there only where heads were removed
_HELD = "what the model would do with other matrices: these are held at their values in this pass"
_WITHOUT = "what the model would do without these paths; it may be negative or above 1"
_WORST = "what happens at these tokens: it is the worst case for this diameter and these norms"
_ROTARY = "scores at a distance, which with rotary positions follow another matrix, W_Q R W_K^T"
_RANDOM = f"that its theory applies, which is about random tokens and symmetric W; {_ROTARY}"

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
        _WITHOUT,
    ),
    "share_whole": Column(
        "share, mean kept",
        "the same with the mean over tokens kept",
        "paths.skip-decomposition",
        _WITHOUT,
    ),
    "norm": Column(
        "norm",
        "Frobenius norm of the sum of all paths of the length",
        "paths.length-recursion",
        "shares: norms of parts do not add up",
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
        "the diameter, which may be large where the residual is small, and the other way round",
    ),
    "residual_of_rest": Column(
        "without token 1",
        "the relative residual of all tokens but the first, which may be very long",
        "",
        "anything if there are two tokens or one",
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
        "the most this factor can be, from the norms of the heads and the diameter; with "
        "positions, masks or norms in the scores their sum, whatever the diameter; none with sinks "
        "or gates",
        "modern.positions-layer",
        _WORST,
    ),
    "threshold": Column(
        "threshold",
        "the diameter below which attention alone must collapse",
        "collapse.threshold-heads",
        f"{_WORST}; the skip connection and the MLP, which are not in it",
    ),
    "over_threshold": Column(
        "diameter over threshold",
        "above 1 the theorem promises no collapse",
        "collapse.threshold-heads",
        "that nothing collapses: tokens above the threshold may do so",
    ),
    "why_no_threshold": Column(
        "no threshold because", "the hypotheses of the sharp theorem that fail here", "", ""
    ),
    "nearest": Column(
        "nearest tokens", "the two tokens of the stream nearest to each other, from 1", "", ""
    ),
    "nearest_distance": Column(
        "their distance",
        "over the diameter of the stream: 0 is collapse of the two",
        "norms.diameter",
        "collapse by itself: equal words at different places may be near",
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
        "what the head does on other texts",
    ),
    "sink": Column(
        "weight on first",
        "mean attention to the first token, from the others that see it: none where a mask or a "
        "window hides it from all",
        "",
        "how much it carries: values at the first token may be small",
    ),
    "itself": Column(
        "weight on itself",
        "mean attention to itself of a token that sees others too: under a causal mask all but the "
        "first",
        "",
        "",
    ),
    "gate": Column(
        "mean gate",
        "of the factors from 0 to 1 that multiply what the head gives in front of the output map, "
        "mean over tokens and entries",
        "",
        "how much the head writes, which its values decide as well",
    ),
    "entropy": Column(
        "entropy, share of log keys",
        "of the rows with two keys or more, over the logarithm of the number of keys, mean: 1 is "
        "uniform; with a sink of rows over their sum",
        "entropy.spread",
        "how much a row carries: a uniform one may carry much through its values",
    ),
    "entropy_floor": Column(
        "its floor, share of log keys",
        "the least entropy of rows whose logits spread as much as these, on the same scale",
        "entropy.spread",
        "how low the matrices of the head could bring it at other tokens",
    ),
    "xi": Column(
        "xi",
        "tr W / sqrt(tr W^2), W = W_Q W_K^T; none where tr W^2 <= 0",
        "localization.exact",
        _RANDOM,
    ),
    "xi_frobenius": Column(
        "xi, Frobenius",
        "tr W / ||W||_F; none for W = 0 alone",
        "localization.asymmetric",
        _RANDOM,
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

_LOST = Column(
    "lost without it",
    "the number minus the number without it, as the model gives it when it runs again. Its output "
    "in front of the output projection, biases of values included, is replaced by 0, by its mean "
    "over tokens, or by what it is with the tokens in another order",
    "",
    "a part of the number: what is left moves too, and these have no sum",
)
_OVERLAP = "a share of the number: a path through two heads counts in both, so these have no sum"
_SUM = "paths.skip-decomposition"
_ONE = Column("value", "part of the number; all rows add up to it", _SUM, _HELD)

SCALAR_LENGTHS = {
    "length": LENGTHS["length"],
    "value": _ONE,
    "paths": LENGTHS["paths"],
}

SCALAR_LAYERS = {
    "layer": Column(
        "layer",
        "counted from 1; input: what enters the first; end: what follows the last; rounding: what "
        "the model's own rounding has left",
        "",
        "",
    ),
    "direct": Column(
        "direct",
        "what the layer's heads write in sum, carried to the number by skip connections, MLPs and "
        "norms; of the input what passes no head. With the biases beside it all rows add "
        "up to the number",
        _SUM,
        _HELD,
    ),
    "biases": Column(
        "biases, direct",
        "what the layer's biases give through no later head",
        _SUM,
        _HELD,
    ),
    "biases_all": Column(
        "biases, all paths",
        "what the layer's biases give through all that follows; their sum is the row of biases by "
        "path length. Biases of values count here, and in what a head writes",
        _SUM,
        _HELD,
    ),
    "stream": Column(
        "stream",
        "what attention, the MLP and the biases of norms write into the stream, carried to the "
        "number by skip connections and norms alone; all rows add up to the number",
        _SUM,
        "what later heads and MLPs read of it",
    ),
    "attention": Column("by attention", "the part of it that attention writes", "", ""),
    "mlp": Column("by the MLP", "the part of it that the MLP writes", "", ""),
    LOST: _LOST,
}

SCALAR_HEADS = {
    "layer": HEADS["layer"],
    "head": HEADS["head"],
    "direct": Column(
        "direct",
        "what the head writes, carried to the number by skip connections, MLPs and norms, through "
        "no later head; with the input, the biases and the rounding of the table of layers all add "
        "up to the number",
        _SUM,
        "what the model would do without the head",
    ),
    "through": Column(
        "through",
        "what the head writes, carried to the number by all that follows, later heads too",
        _SUM,
        _OVERLAP,
    ),
    LOST: _LOST,
}

SCALAR_TOKENS = {
    "token": Column(
        "token", "place in the text, from 1; biases and rounding: as by path length", "", ""
    ),
    "word": Column("word", "the token there, if a text was given", "", ""),
    "value": Column(
        "value",
        "what the vector that enters the first layer there gives by all paths; all rows add up to "
        "the number",
        _SUM,
        "what another token there would do: matrices, gates and norms would change with it",
    ),
}

SCALAR_PATHS = {
    "rank": Column(
        "rank",
        "by size, from 1; others: all paths that are not listed, together; biases and rounding: as "
        "by path length",
        "",
        "",
    ),
    "path": Column(
        "path",
        "the heads that it goes through, layer.head; MLPs, norms and gates stand on every path",
        "paths.decomposition",
        _HELD,
    ),
    "heads": Column("by layer", "the head in each layer, 0 where it passes attention by", "", ""),
    "value": _ONE,
    "share": Column("share of the number", "the value over the number", "", _WITHOUT),
    "most": Column(
        "at most",
        "the most that the path may contribute, up or down, with the search's own rounding; in the "
        "row of the others the most that any one of them may",
        "paths.energy",
        "how many others come near it",
    ),
    "certified": Column(
        "certified",
        "whether no path that is not listed is larger, up to a rounding of at most 1 percent",
        "paths.energy",
        "that the list explains the number: paths cancel",
    ),
    "token": Column("most from token", "the input token that gives the most of it", "", ""),
    "word": SCALAR_TOKENS["word"],
    "token_value": Column("what that gives", "part of the value", "", ""),
}

TABLES = {
    "lengths": LENGTHS,
    "layers": LAYERS,
    "heads": HEADS,
    "scalar_lengths": SCALAR_LENGTHS,
    "scalar_layers": SCALAR_LAYERS,
    "scalar_heads": SCALAR_HEADS,
    "scalar_tokens": SCALAR_TOKENS,
    "scalar_paths": SCALAR_PATHS,
}
