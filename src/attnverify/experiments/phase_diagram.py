"""Phase diagram of one attention layer over the mean and spread of its query-key eigenspectrum.

Tokens are random walks (Bao et al. 2024), attention uses the true softmax for every query. A cell
of the diagram has symmetric W with eigenvalues of mean m and standard deviation s; logits are
x_i'W x_j / (T sqrt(d)). By rotation invariance of the tokens W can be diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.mathematics import entropy, norms, walk
from attnverify.mathematics.softmax_row import contrast
from attnverify.support.verdict import Verdict

TOKENS, WIDTH = 32, 16
LARGEST = 8.0  # m in [-8, 8], s in [0, 8]
DIGITS = 6
FIGURES = ("entropy", "residual", "contrast", "strength")

HEALTHY = 0.25  # of log T, and of the input's relative residual
CONCENTRATED = 4.0  # |m| at least so many times s, or s so many times |m| for a spread spectrum
RADII = (1.0, 8.0)  # compared in the second and third part
WIDE = 3.0  # smallest deviation of the spread spectra in the third part
APART = 4.0  # standard errors


def spectrum_shape(width: int) -> Tensor:
    """Standard normal quantiles with mean 0 and standard deviation 1; (width,) float64."""
    q = torch.special.ndtri((torch.arange(width, dtype=torch.float64) + 0.5) / width)
    return (q - q.mean()) / q.std(correction=0)


def relative_residual(X: Tensor) -> Tensor:
    """Composite value of X minus its mean token over that of X; (..., T, d) -> (...)."""
    return norms.composite(norms.mean_centered(X)) / norms.composite(X)


def scaled_logits(X: Tensor, eigenvalues: Tensor) -> Tensor:
    """X W X^T / (T sqrt(d)), W diagonal with these eigenvalues: (N, T, T)."""
    tokens, width = X.shape[-2:]
    return (X * eigenvalues) @ X.mT / (tokens * math.sqrt(width))


def measure(X: Tensor, eigenvalues: Tensor) -> dict[str, Tensor]:
    """Figures of one layer for each sequence of X (N, T, d); eigenvalues (d,); each (N,).

    entropy: mean over queries, in units of log T; residual: of the output over that of the input;
    contrast: what the last query gives to the last quarter of tokens less the first quarter;
    strength: its absolute value.
    """
    tokens, logits = X.shape[-2], scaled_logits(X, eigenvalues)
    weights, quarter = torch.softmax(logits, -1), tokens // 4
    signed = contrast(weights[:, -1], quarter)
    return {
        "entropy": entropy.entropy(logits).mean(-1) / math.log(tokens),
        "residual": relative_residual(weights @ X) / relative_residual(X),
        "contrast": signed,
        "strength": signed.abs(),
    }


def walks(sequences: int, seed: int) -> Tensor:
    """(sequences, TOKENS, WIDTH) random walks with unit steps."""
    random = torch.Generator().manual_seed(seed)
    return walk.sample(torch.eye(WIDTH, dtype=torch.float64), TOKENS, sequences, random)


def cell(X: Tensor, mean: float, deviation: float) -> Row:
    """One row: the mean of every figure over the sequences, and its standard error."""
    found = measure(X, mean + deviation * spectrum_shape(X.shape[-1]))
    row: Row = {"mean": mean, "deviation": deviation, "sequences": len(X)}
    for name, values in found.items():
        row[name] = round(float(values.mean()), DIGITS)
        row[f"{name}_error"] = round(float(values.std() / math.sqrt(len(X))), DIGITS)
    return row


def run(settings: Settings) -> list[Row]:
    """The grid: 41 x 41 cells of 200 sequences, or 9 x 9 cells of 50 in the quick setting."""
    points, sequences = (9, 50) if settings.quick else (41, 200)
    X = walks(sequences, settings.seed)
    rows = []
    for i in range(points):
        mean = LARGEST * (2 * i / (points - 1) - 1)
        for j in range(points):
            rows.append(cell(X, round(mean, 10), round(LARGEST * j / (points - 1), 10)))
        settings.progress(f"mean {mean:+.1f}", (i + 1) / points)
    return rows


def concentrated(row: Row) -> bool:
    """Eigenvalues of one sign, or nearly: |m| >= 4 s and not both zero."""
    return abs(row["mean"]) >= CONCENTRATED * row["deviation"] and row["mean"] != 0


def spread(row: Row) -> bool:
    """Eigenvalues around zero: s >= 4 |m| and not both zero."""
    return row["deviation"] >= CONCENTRATED * abs(row["mean"]) and row["deviation"] != 0


def radius(row: Row) -> float:
    """sqrt(m^2 + s^2) = sqrt(tr(W^2)/d)."""
    return math.hypot(row["mean"], row["deviation"])


def near(row: Row, other: Row) -> bool:
    """Radii at most 0.2 apart, in integers of 0.001: many pairs are exactly 0.2 apart."""
    n, k = (round(1000 * r["mean"]) ** 2 + round(1000 * r["deviation"]) ** 2 for r in (row, other))
    rest = n + k - 200**2
    return rest <= 0 or rest**2 <= 4 * n * k  # |sqrt n - sqrt k| <= 200


def healthy(rows: list[Row]) -> bool:
    """Neither collapse: entropy and residual at least HEALTHY by APART standard errors."""
    return bool(rows) and all(
        row[name] - APART * row[f"{name}_error"] >= HEALTHY
        for row in rows
        for name in ("entropy", "residual")
    )


def larger(rows: list[Row], others: list[Row], value: Callable[[Row], float], name: str) -> bool:
    """Every row exceeds every other row of nearly its radius by APART standard errors."""
    pairs = [(a, b) for a in rows for b in others if near(a, b)]
    error = lambda a, b: math.hypot(a[f"{name}_error"], b[f"{name}_error"])  # noqa: E731
    return bool(pairs) and all(value(a) - value(b) > APART * error(a, b) for a, b in pairs)


def judge(
    rows: list[Row],
    weakest: float = 1.0,
    localizing: Callable[[Row], bool] = concentrated,
    compared: tuple[str, ...] = ("entropy",),
) -> Verdict:
    """The three parts of the criterion; the options make its neighbors.

    1. cells with a concentrated spectrum and 1 <= |m| <= 4 show neither collapse;
    2. at equal radius in [1, 8] their mean contrast is larger in absolute value than that of
       spread spectra;
    3. spread spectra with s >= 3 show neither collapse either, and at equal radius in [1, 8]
       spread spectra have the larger entropy.
    """
    tight = [r for r in rows if concentrated(r) and weakest <= abs(r["mean"]) <= 4]
    wide = [r for r in rows if spread(r) and r["deviation"] >= WIDE]
    outer = [r for r in rows if RADII[0] <= radius(r) <= RADII[1]]
    groups = [[r for r in outer if kind(r)] for kind in (concentrated, spread)]
    one, other = groups if localizing is concentrated else groups[::-1]
    if not rows:
        return Verdict(None, "no cells", cases=0)
    parts = {
        "concentrated: neither collapse": healthy(tight),
        "contrast": larger(one, other, lambda r: abs(r["contrast"]), "contrast"),
        "spread: neither collapse": healthy(wide),
        "spread: larger " + " and ".join(compared): all(
            larger(groups[1], groups[0], lambda r, n=n: r[n], n) for n in compared
        ),
    }
    argument = "; ".join(f"{name}: {'yes' if found else 'no'}" for name, found in parts.items())
    return Verdict(all(parts.values()), argument, len(rows))


def again(rows: list[Row]) -> list[Rerun]:
    """Four cells of the full grid's 1,681, one third of the rows apart, measured again.

    They are equal up to the rounding of the stored digits: the same seed gives the same walks, and
    float64 sums in another order differ by far less than half a unit of the last stored digit.
    """
    X = walks(rows[0]["sequences"], results.seed(EXPERIMENT.name))
    tolerance = 0.6 * 10.0**-DIGITS
    out = []
    for row in rows[:: len(rows) // 3]:
        fresh = cell(X, row["mean"], row["deviation"])
        label = f"m = {row['mean']}, s = {row['deviation']}"
        names = [f"{n}{end}" for n in FIGURES for end in ("", "_error")]
        out += [Rerun(f"{n} at {label}", row[n], fresh[n], 2 * tolerance) for n in names]
    return out


EXPERIMENT = Experiment(
    name="both-collapses",
    claim_id="localization.both-collapses",
    run=run,
    judge=judge,
    limits="one layer, random-walk tokens, T = 32, d = 16, normal quantiles as spectrum",
    sample=again,
    twins=(
        ("neither collapse from |m| = 0.2 on", lambda rows: judge(rows, weakest=0.2)),
        ("the contrast of spread spectra is larger", lambda rows: judge(rows, localizing=spread)),
        (
            "the residual of spread spectra is larger too",
            lambda rows: judge(rows, compared=("entropy", "residual")),
        ),
    ),
)
