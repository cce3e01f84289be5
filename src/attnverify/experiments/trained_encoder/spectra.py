"""Query-key matrices of a trained encoder's heads against heads at their random initialization.

For every head W = W_Q W_K^T: xi = tr W / sqrt(tr W^2), which is undefined for tr W^2 <= 0; the same
with the Frobenius norm, tr W / ||W||_F, which is defined for all W but 0 and is xi for symmetric W;
and the norm of the skew part over that of W. Traces of W and W^2 are those of the small W_K^T W_Q.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.experiments.engine import results, weights
from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings, all_of
from attnverify.experiments.trained_encoder.soundness import encoder_of
from attnverify.experiments.trained_models import decoder, training
from attnverify.mathematics import querykey
from attnverify.mathematics.encoder import Encoder
from attnverify.support.verdict import Verdict

MEASURES = ("xi", "xi_frobenius", "skew_share")
INSIDE = (0.025, 0.975)  # the central 95 percent of random heads
QUICK_STACKS, FULL_STACKS = 2, 50  # random stacks of the encoder's shape


def measures(
    query: Float[Tensor, "heads width key"], key: Float[Tensor, "heads width key"]
) -> dict[str, Float[Tensor, " heads"]]:
    """Each measure of W = query key^T for every head; nan where xi is undefined.

    skew_share: ||(W - W^T)/2||_F / ||W||_F, 0 for symmetric and 1 for skew-symmetric W.
    """
    return {
        "xi": querykey.xi(query, key),
        "xi_frobenius": querykey.xi_general(query, key),
        "skew_share": querykey.skew_share(query, key),
    }


Heads = tuple[Tensor, Tensor]  # queries and keys, (layers, heads, width, key) each


def decoder_heads(seed: int, settings: Settings) -> Heads:
    """The heads of a decoder that is trained from this seed, at equal positions of the tokens.

    Heads that share a key have the same one. The heads alone are kept beside the table.
    """
    goals = training.Goals(seed, training.BATCH, decoder.CONTEXT, training.WATCHED)
    found, _ = training.trained(goals, training.PLAN, settings)
    return heads_of(found)


def heads_of(parameters: Mapping[str, Tensor]) -> Heads:
    """Queries and keys of every head of a decoder, from its weights as the library names them."""
    heads = decoder.CONFIG["num_attention_heads"]
    width = decoder.CONFIG["hidden_size"]
    parts = []
    for name in "qk":
        stacked = torch.stack(
            [
                parameters[f"model.layers.{layer}.self_attn.{name}_proj.weight"]
                for layer in range(decoder.CONFIG["num_hidden_layers"])
            ]
        )
        own = stacked.unflatten(1, (-1, width // heads)).mT  # (layers, heads or keys, width, key)
        parts.append(own.repeat_interleave(heads // own.shape[1], 1).double())
    return parts[0], parts[1]


def run(settings: Settings) -> list[Row]:
    """For every model a row a head, and one for the central 95 percent of random heads.

    Judged is the user's encoder if there is one, else a decoder that the full setting trains.
    """
    encoder = encoder_of(settings)
    own = encoder.network.weights["W_Q"].detach(), encoder.network.weights["W_K"].detach()
    rows = _of_model("encoder", own, settings, judged=settings.model is not None)
    if settings.model or settings.quick:
        return rows
    query, key = decoder_heads(settings.seed, settings)
    weights.keep("real-spectra", settings, {"query": query.float(), "key": key.float()})
    return [*rows, *_of_model("decoder", (query, key), settings, judged=True)]


def _of_model(name: str, heads: Heads, settings: Settings, judged: bool) -> list[Row]:
    """A row for every head, and one for as many random ones of their shape or more."""
    about = {"model": name, "judged": judged}
    rows = [
        {
            "kind": "trained",
            **about,
            "layer": layer,
            "head": head,
            **{name: significant(float(values[name][head - 1]), 8) for name in MEASURES},
        }
        for layer, (Q, K) in enumerate(zip(*heads, strict=True), 1)
        for values in [measures(Q, K)]
        for head in range(1, len(Q) + 1)
    ]
    return [*rows, about | _random(heads[0].shape, settings)]


def _random(shape: torch.Size, settings: Settings) -> Row:
    """The spread of random heads; the scale of the weights changes none of the measures."""
    generator = torch.Generator().manual_seed(settings.seed)
    stacks = QUICK_STACKS if settings.quick else FULL_STACKS
    depth, *heads = shape
    parts = []
    for number in range(stacks * depth):  # layer by layer, to save memory
        settings.progress("random heads", number / (stacks * depth))
        Q, K = torch.randn(2, *heads, generator=generator, dtype=torch.float64)
        parts.append(measures(Q.to(settings.device), K.to(settings.device)))
    row: Row = {"kind": "random", "heads": stacks * depth * heads[0]}
    for name in MEASURES:
        values = torch.cat([each[name] for each in parts])
        ends = torch.nanquantile(values, values.new_tensor(INSIDE))
        row[name] = [significant(v, 8) for v in ends.tolist()]
        row[f"{name}_undefined"] = int(values.isnan().sum())
    return row


# ---------------------------------------------------------------- the criterion


def outside(rows: list[Row], name: str, model: str | None = None) -> tuple[int, int]:
    """(heads outside the central 95 percent of random ones, all heads), of a model or the judged.

    A head whose xi is undefined does not count as outside.
    """
    rows = _of(rows, model)
    low, high = next(row[name] for row in rows if row["kind"] == "random")
    values = [row[name] for row in rows if row["kind"] == "trained"]
    return sum(v is not None and not low <= v <= high for v in values), len(values)


def _of(rows: list[Row], model: str | None = None) -> list[Row]:
    return [row for row in rows if (row["judged"] if model is None else row["model"] == model)]


def _most(rows: list[Row], *names: str, share: float = 0.5) -> Verdict:
    """More than this share of the judged model's heads are outside, in each measure."""
    rows = _of(rows)
    if {row["kind"] for row in rows} != {"trained", "random"}:
        return Verdict(None, "no trained heads beside random ones", cases=0)
    found = {name: outside(rows, name) for name in names}
    text = ", ".join(f"{n} of {of} in {name}" for name, (n, of) in found.items())
    holds = all_of(n > share * of for n, of in found.values())
    worst = min(found.values())
    ratio = worst[1] / (2 * worst[0]) if worst[0] else None
    return Verdict(holds, f"outside 95 percent of random heads: {text}", ratio=ratio)


def judge(rows: list[Row], share: float = 0.5) -> Verdict:
    """More than half of the heads lie outside that range of random heads, in both measures."""
    return _most(rows, "xi_frobenius", "skew_share", share=share)


def _symmetric(rows: list[Row]) -> Verdict:
    values = [row["skew_share"] for row in _of(rows) if row["kind"] == "trained"]
    near = sum(v is not None and v <= 0.1 for v in values)
    holds = 2 * near > len(values) if values else None
    return Verdict(holds, f"skew part at most a tenth: {near} of {len(values)}")


def sample(rows: list[Row]) -> list[Rerun]:
    """All heads of the encoder's first layer again, all of the decoder's, and random ranges.

    Stored to 8 digits, so up to 5e-8 relative, and twice that where both are. Each measure is a
    quotient of sums of at most 32^2 products of two sums of 384; with rounding errors of random
    sign they are off by sqrt(32^2 + 2 * 384) 2^-53 = 5e-15 of the sum of the absolute products,
    which may exceed the sum itself: 1e-9 covers a factor 2 * 10^5.
    """
    w = Encoder.bundled().network.weights
    reruns = _again(rows, "encoder", (w["W_Q"][:1], w["W_K"][:1]))
    if any(row["model"] == "decoder" for row in rows):
        kept = weights.committed("real-spectra")
        reruns += _again(rows, "decoder", (kept["query"].double(), kept["key"].double()))
        own = Settings(quick=False, seed=results.seed("real-spectra"))
        for model, shape in (("encoder", w["W_Q"].shape), ("decoder", kept["query"].shape)):
            (old,) = (row for row in _of(rows, model) if row["kind"] == "random")
            new = _random(shape, own)
            for name in MEASURES:
                for a, b in zip(old[name], new[name], strict=True):
                    reruns.append(_rerun(f"{model}, random, {name}", a, b))
    return reruns


def _again(rows: list[Row], model: str, heads: Heads) -> list[Rerun]:
    stored = {(r["layer"], r["head"]): r for r in _of(rows, model) if r["kind"] == "trained"}
    reruns = []
    for layer, (Q, K) in enumerate(zip(*heads, strict=True), 1):
        again = measures(Q, K)
        for head in range(1, len(Q) + 1):
            for name in MEASURES:
                old = stored[layer, head][name]
                if old is not None:
                    what = f"{model}, layer {layer}, head {head}, {name}"
                    reruns.append(_rerun(what, old, float(again[name][head - 1])))
    return reruns


def _rerun(what: str, stored: float, again: float) -> Rerun:
    """One figure of the table, and again; either may have been cut to 8 digits."""
    return Rerun(what, stored, again, abs(stored) * 1e-7 + 1e-9)


EXPERIMENT = Experiment(
    name="real-spectra",
    run=run,
    judge=judge,
    twins=(
        ("49 of 50 heads lie outside, in both measures", partial(judge, share=0.98)),
        ("most heads stand out in tr W / sqrt(tr W^2) as well", lambda rows: _most(rows, "xi")),
        ("most heads are nearly symmetric: skew part at most a tenth", _symmetric),
    ),
    sample=sample,
    takes_model=True,
    quick_decides=False,  # it trains no decoder
    limits=(
        "One small decoder of 16 heads, rotary positions left out; the encoder of 72 heads, "
        "fine-tuned for sentence embeddings, is reported and not judged. Random heads are normal "
        "and independent, as at initialization; nothing is said about the course of training. The "
        "tokens' covariance is taken as the identity."
    ),
)
