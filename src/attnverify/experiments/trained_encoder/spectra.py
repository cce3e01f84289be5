"""Query-key matrices of a trained encoder's heads against heads at their random initialization.

For every head W = W_Q W_K^T: xi = tr W / sqrt(tr W^2), which is undefined for tr W^2 <= 0; the same
with the Frobenius norm, tr W / ||W||_F, which is defined for all W but 0 and is xi for symmetric W;
and the norm of the skew part over that of W. Traces of W and W^2 are those of the small W_K^T W_Q.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.experiments.engine.answers import all_of
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.experiments.engine.rounding import significant
from attnverify.experiments.trained_encoder.soundness import require_sound
from attnverify.formulas import querykey
from attnverify.network.encoder import Encoder
from attnverify.verdict import Verdict

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


def encoder_of(settings: Settings) -> Encoder:
    """The user's encoder if the settings name one, else the one of the book; on their device.

    Raises InputError for a degenerate one.
    """
    encoder = Encoder.from_directory(settings.model) if settings.model else Encoder.bundled()
    require_sound(encoder)
    encoder.network.to(settings.device)
    return encoder


def by_layer(encoder: Encoder) -> list[dict[str, Tensor]]:
    """The measures of every layer's heads."""
    w = encoder.network.weights
    return [measures(Q, K) for Q, K in zip(w["W_Q"], w["W_K"], strict=True)]


@torch.no_grad()
def run(settings: Settings) -> list[Row]:
    """A row for every head, and one for the central 95 percent of as many random heads or more."""
    encoder = encoder_of(settings)
    rows = [
        {
            "kind": "trained",
            "layer": layer,
            "head": head,
            **{name: significant(float(values[name][head - 1]), 8) for name in MEASURES},
        }
        for layer, values in enumerate(by_layer(encoder), 1)
        for head in range(1, encoder.network.heads + 1)
    ]
    return [*rows, _random(encoder.network.weights["W_Q"].shape, settings)]


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


def outside(rows: list[Row], name: str) -> tuple[int, int]:
    """(trained heads outside the central 95 percent of random ones, all trained heads).

    A head whose xi is undefined does not count as outside.
    """
    low, high = next(row[name] for row in rows if row["kind"] == "random")
    values = [row[name] for row in rows if row["kind"] == "trained"]
    return sum(v is not None and not low <= v <= high for v in values), len(values)


def _most(rows: list[Row], *names: str, share: float = 0.5) -> Verdict:
    """More than this share of the trained heads are outside, in each measure."""
    if {row["kind"] for row in rows} != {"trained", "random"}:
        return Verdict(None, "no trained heads beside random ones", cases=0)
    found = {name: outside(rows, name) for name in names}
    text = ", ".join(f"{n} of {of} in {name}" for name, (n, of) in found.items())
    holds = all_of(n > share * of for n, of in found.values())
    worst = min(found.values())
    ratio = worst[1] / (2 * worst[0]) if worst[0] else None
    return Verdict(holds, f"outside 95 percent of random heads: {text}", ratio=ratio)


def judge(rows: list[Row]) -> Verdict:
    """More than half of the heads lie outside that range of random heads, in both measures."""
    return _most(rows, "xi_frobenius", "skew_share")


def _nearly_all(rows: list[Row]) -> Verdict:
    return _most(rows, "xi_frobenius", "skew_share", share=0.98)


def _in_xi(rows: list[Row]) -> Verdict:
    return _most(rows, "xi")


def _symmetric(rows: list[Row]) -> Verdict:
    values = [row["skew_share"] for row in rows if row["kind"] == "trained"]
    near = sum(v is not None and v <= 0.1 for v in values)
    holds = 2 * near > len(values) if values else None
    return Verdict(holds, f"skew part at most a tenth: {near} of {len(values)}")


def sample(rows: list[Row]) -> list[Rerun]:
    """All heads of the first layer again.

    Stored to 8 digits, so up to 5e-8 relative. Each measure is a quotient of sums of at most
    32^2 products of two sums of 384; with rounding errors of random sign they are off by
    sqrt(32^2 + 2 * 384) 2^-53 = 5e-15 of the sum of the absolute products, which may exceed the
    sum itself: 1e-9 covers a factor 2 * 10^5.
    """
    stored = {r["head"]: r for r in rows if r["kind"] == "trained" and r["layer"] == 1}
    w, reruns = Encoder.bundled().network.weights, []
    again = measures(w["W_Q"][0], w["W_K"][0])
    for head, row in stored.items():
        for name in MEASURES:
            if row[name] is not None:
                tolerance = abs(row[name]) * 5e-8 + 1e-9
                value = float(again[name][head - 1])
                reruns.append(Rerun(f"head {head}, {name}", row[name], value, tolerance))
    return reruns


EXPERIMENT = Experiment(
    name="real-spectra",
    run=run,
    judge=judge,
    twins=(
        ("49 of 50 heads lie outside, in both measures", _nearly_all),
        ("most heads stand out in tr W / sqrt(tr W^2) as well", _in_xi),
        ("most heads are nearly symmetric: skew part at most a tenth", _symmetric),
    ),
    sample=sample,
    takes_model=True,
    limits=(
        "One encoder of 72 heads, fine-tuned for sentence embeddings. Random heads are normal and "
        "independent, as at initialization; nothing is said about the course of training. The "
        "tokens' covariance is taken as the identity."
    ),
)
