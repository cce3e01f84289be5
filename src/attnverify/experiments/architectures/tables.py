"""Views of the table of ``experiment.architectures`` that the chapter prints and draws."""

from __future__ import annotations

from collections.abc import Iterator

from attnverify.experiments.architectures import ALL_PARTS
from attnverify.experiments.engine.model import Row


def of(rows: list[Row], model: str, variant: str) -> list[Row]:
    """The rows of one model and variant, input first."""
    return [row for row in rows if row["model"] == model and row["variant"] == variant]


def models(rows: list[Row]) -> list[str]:
    """The models in the order of the table."""
    return list(dict.fromkeys(row["model"] for row in rows))


def curve(
    rows: list[Row], model: str, variant: str, key: str = "mean"
) -> tuple[list[int], list[float], list[float]]:
    """(layers, smallest, largest value over the seeds), layers where a value is missing left out.

    So are values of 0, below the smallest float, which a logarithmic axis cannot show.
    """
    found = [(row["layer"], row[key]) for row in of(rows, model, variant) if key in row]
    kept = [(layer, values) for layer, values in found if all(values)]
    return [k[0] for k in kept], [min(k[1]) for k in kept], [max(k[1]) for k in kept]


TINY = 1e-308  # below it floats lose digits, and then vanish


def spread(values: list[float | None]) -> str:
    """Smallest and largest of the seeds' values, such as "0.38 .. 0.42"."""
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return "unresolved"
    low, high = min(known), max(known)
    return _number(low) if low == high else f"{_number(low)} .. {_number(high)}"


def _number(value: float) -> str:
    if value < TINY:
        return f"< {TINY}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}"


def last_layers(rows: list[Row], key: str = "mean") -> Iterator[str]:
    """One line a variant: relative residual after the last layer of every model."""
    names = models(rows)
    heads = [name.replace(", deviation", " σ =") for name in names]
    yield " | ".join([f"{'variant':30}", *(f"{head[:18]:18}" for head in heads)])
    for variant in ALL_PARTS:
        cells = [
            spread(found[-1][key]) if (found := of(rows, name, variant)) else "" for name in names
        ]
        if any(cells):
            yield " | ".join([f"{variant:30}", *(f"{cell:18}" for cell in cells)])
