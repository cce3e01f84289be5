"""The report over many texts as one page: how the main figures spread, and a table of the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from attnverify.inspection import drawings, page
from attnverify.inspection.columns import Column

KIND = ": inspection of texts"  # how the title ends
BINS = 12
_NONE = "", ""
#: Figures of a text that get a histogram.
FIGURES = {
    "top_share": Column("largest share", "share of the length that carries most", *_NONE),
    "biases_share": Column("share of biases", "the same of all biases", *_NONE),
    "least_residual": Column("least residual", "smallest relative residual of a layer", *_NONE),
    "rollout_rank_correlation": Column(
        "rollout", "rank correlation of rollout with the true parts of tokens", *_NONE
    ),
}
TEXTS = {
    "text": Column("text", "name of the text, which leads to its report in JSON", *_NONE),
    "tokens": Column("tokens", "of the text", *_NONE),
    "top_length": Column("length", "path length of the largest share", *_NONE),
    **FIGURES,
    "least_residual_layer": Column("layer of least residual", "where it is", *_NONE),
    "largest_error_over_bound": Column(
        "error over bound", "largest error of the reconstruction over its bound", *_NONE
    ),
}
ENDS = {
    "figure": Column("figure", "of each text", *_NONE),
    "smallest": Column("smallest", "over the texts", *_NONE),
    "least_text": Column("in", "the text where it is smallest", *_NONE),
    "largest": Column("largest", "over the texts", *_NONE),
    "most_text": Column("in", "the text where it is largest", *_NONE),
}
#: Table and column to the place that goes across its figure, and the figure's title.
STRIPS = {
    ("lengths", "share"): ("length", "Share of the output by path length"),
    **{("layers", name): ("layer", title) for name, title in drawings.LINES.items()},
    ("layers", "nearest_distance"): ("layer", "Distance of the nearest tokens over the diameter"),
}


def html(report: Mapping[str, Any], said: Sequence[str], pieces: str, book: str = "") -> Markup:
    """The whole page; said: lines of the report; pieces: folder of the reports, beside the page."""
    first, *rest = said
    links = [
        row | {"text": page.Link(row["text"], f"{pieces}/{index:06d}.json")}
        for index, row in enumerate(report["texts"])
    ]
    drawn = [*_strips(report["figures"]), *_histograms(report["texts"])]
    parts = [
        Markup('<p class="proof">{}</p>').format(first),
        page.bullets(rest),
        page.paragraph(
            "A stroke goes from the smallest to the largest value over the texts, with a dot at "
            "the median. Histograms count texts. The fields of heads have medians. figures.csv has "
            "all figures, by length, layer and head."
        ),
        page.drawn(drawn),
        Markup("<h2>Smallest and largest</h2>"),
        *page.explained("Smallest and largest", _ends(links), ENDS, book),
        Markup("<h2>Text by text</h2>"),
        *page.explained("Text by text", links, TEXTS, book),
    ]
    title = f"{report['model']['class']}, {report['proof']['texts']} texts{KIND}"
    return page.whole(title, Markup().join(parts))


def is_ours(start: str) -> bool:
    """Whether a file that starts so is such a page."""
    return page.begins(start, KIND)


def _strips(rows: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """The figures over lengths and layers, then those of heads."""
    made = []
    for (table, name), (place, title) in STRIPS.items():
        found = [row for row in rows if (row["table"], row["figure"]) == (table, name)]
        found = [row for row in found if row[place] != "rounding"]
        if found:
            ends = [(row["smallest"], row["median"], row["largest"]) for row in found]
            made.append(drawings.ranges(title, [str(row[place]) for row in found], ends))
    for name, title in drawings.GRIDS.items():
        found = [dict(row) for row in rows if (row["table"], row["figure"]) == ("heads", name)]
        if found:
            made.append(drawings.grid(f"{title}, median", found, "median"))
    return made


def _histograms(texts: Sequence[Mapping[str, Any]]) -> list[Markup]:
    made = []
    for name, column in FIGURES.items():
        values = [row[name] for row in texts if row[name] is not None]
        low, high = min(values, default=0.0), max(values, default=0.0)
        if low == high:
            continue
        bins = [0.0] * BINS
        for value in values:
            bins[min(BINS - 1, int(BINS * (value - low) / (high - low)))] += 1
        step = (high - low) / BINS
        middles = [f"{low + step * (i + 0.5):.2g}" for i in range(BINS)]
        labels = [each if i % 3 == 1 else "" for i, each in enumerate(middles)]
        title = f"{column.title.capitalize()}, number of texts"
        made.append(drawings.bars(title, labels, bins, middles))
    return made


def _ends(texts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each figure the texts where it is smallest and largest."""
    rows = []
    for name, column in FIGURES.items():
        known = [row for row in texts if row[name] is not None]
        if known:
            low, high = (end(known, key=lambda row, n=name: row[n]) for end in (min, max))
            row = {"figure": column.title, "smallest": low[name], "largest": high[name]}
            rows.append(row | {"least_text": low["text"], "most_text": high["text"]})
    return rows
