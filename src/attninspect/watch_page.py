"""The log of a watch as one page and as lines: how figures went over the steps of a training.

A page needs nothing else: light and dark, tables that sort, no other host. It may be written while
the training goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attninspect import drawings, page
from attninspect.columns import Column
from attninspect.watch_log import Layer, Log, Measured
from attnverify.support import files
from attnverify.support.vocabulary import counted

KIND = ": watch"  # how the title ends
MOST = 60  # steps that a figure shows
LEAST = 1e-12  # what a figure shows of smaller values, and of 0

#: Name to title and how a layer is told by one number: the worst of its heads.
FIGURES: dict[str, tuple[str, Callable[[Layer], float]]] = {
    "residual": ("Relative residual of the tokens", lambda layer: layer.residual),
    "entropy": (
        "Least mean entropy of a head, in nats",
        lambda layer: min(h.entropy for h in layer.heads),
    ),
    "gauge": ("Least gauge of a head", lambda layer: min(h.gauge for h in layer.heads)),
}
COLUMNS = {
    "layer": Column("layer", "counted from 1", "", ""),
    "residual": Column(
        "relative residual",
        "of the tokens as they enter attention: norm without their mean, over the norm",
        "collapse.absolute-not-relative",
        "the diameter, which may be large where the residual is small",
    ),
    "entropy": Column(
        "least entropy (nats)", "mean over the rows of the head where it is least", "", ""
    ),
    "gauge": Column(
        "least gauge",
        "mean of P (1 - P) diam^2 over the rows of the head where it is least",
        "training.covariance",
        "the gradient of the query-key matrix, which it only bounds, with two lengths beside",
    ),
    "of_first": Column(
        "of its first value", "least gauge of a head over what it was at the first step", "", ""
    ),
}


def thinned(records: Sequence[Measured]) -> list[Measured]:
    """At most MOST records at equal distances, the first and the last among them."""
    if len(records) <= MOST:
        return list(records)
    places = {round(i * (len(records) - 1) / (MOST - 1)) for i in range(MOST)}
    return [records[i] for i in sorted(places)]


def rows(records: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row for each layer of the last record; numbers that are not defined are NaN."""
    quotients = (records[-1].gauges() / records[0].gauges()).amin(-1).tolist()
    return [
        {"layer": number, "of_first": quotient}
        | {name: told(layer) for name, (_, told) in FIGURES.items()}
        for number, (layer, quotient) in enumerate(
            zip(records[-1].layers, quotients, strict=True), 1
        )
    ]


def figures(records: Sequence[Measured]) -> list[Markup]:
    """For each figure the worst layer over the steps as a line, and all layers as a field."""
    shown, found = thinned(records), []
    labels = [str(record.step) for record in shown]
    for title, told in FIGURES.values():
        values = [[told(layer) for layer in record.layers] for record in shown]
        worst = [math.log10(max(LEAST, min(each))) for each in values]
        found.append(drawings.line(f"{title}, worst layer, log10", labels, worst, "step"))
        cells = [
            {"layer": layer, "head": place, "value": value if math.isfinite(value) else None}
            for place, each in enumerate(values, 1)
            for layer, value in enumerate(each, 1)
        ]
        across = f"steps {labels[0]} to {labels[-1]}"
        found.append(drawings.grid(f"{title}, by layer", cells, "value", across, "place"))
    return found


def summary(log: Log) -> list[str]:
    """Lines for a terminal: what was measured, and the worst layer now."""
    records, words = log.records, log.words
    lines = [f"{words['class']}, {counted(words['layers'], 'layer')}"]
    lines[0] += f"; {counted(len(records), 'measurement')}"
    if not records:
        return [*lines, "nothing is measured yet"]
    lines[0] += f", steps {records[0].step} to {records[-1].step}"
    for title, told in FIGURES.values():
        first, last = ([told(layer) for layer in records[k].layers] for k in (0, -1))
        worst = last.index(min(last))
        lines.append(
            f"{title.lower()}: {last[worst]:.3g} in layer {worst + 1} ({first[worst]:.3g} at first)"
        )
    lines.append("No value is an alarm that a theorem proves; compare with the first step.")
    return lines


def html(log: Log) -> Markup:
    """The whole page."""
    parts = [page.bullets(summary(log))]
    if log.records:
        title = f"Layer by layer, step {log.records[-1].step}"
        parts += [page.drawn(figures(log.records)), Markup("<h2>{}</h2>").format(title)]
        parts += [page.table(title, rows(log.records), COLUMNS), page.legend(COLUMNS)]
    title = f"{log.words['class']}, {counted(log.words['layers'], 'layer')}{KIND}"
    return page.whole(title, Markup().join(parts))


def is_ours(path: Path) -> bool:
    """Whether a file is such a page."""
    return page.begins(files.start(path), KIND)
