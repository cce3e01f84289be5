"""The report over many texts as one page: how the main figures spread, and a table of the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from attninspect import columns, drawings, page
from attninspect.columns import Column
from attnverify.support.vocabulary import counted

_NONE = "", ""
#: Figures of a text whose spread is told.
FIGURES = {
    "top_share": Column("largest share", "share of the length that carries most", *_NONE),
    "biases_share": Column("share of biases", "the same of all biases", *_NONE),
    "least_residual": Column("least residual", "smallest relative residual of a layer", *_NONE),
    "rollout_rank_correlation": Column(
        "rollout", "rank correlation of rollout with the true parts of tokens", *_NONE
    ),
    "number": Column("number", "the value of the number that was chosen", *_NONE),
}
TEXTS = {
    "text": Column("text", "name of the text, which leads to its report in JSON", *_NONE),
    "tokens": Column("tokens", "of the text", *_NONE),
    "top_length": Column("length", "path length of the largest share", *_NONE),
    **FIGURES,
    "position": Column("at token", "which the number is read at, from 1", *_NONE),
    "least_residual_layer": Column("layer of least residual", "where it is", *_NONE),
    "largest_error_over_bound": Column(
        "error over bound", "largest error of the reconstruction over its bound", *_NONE
    ),
}
SPREAD = {
    "mean": Column("mean", "over the texts", *_NONE),
    "deviation": Column("standard deviation", "over the texts, by n - 1", *_NONE),
    "smallest": Column("smallest", "over the texts", *_NONE),
    "largest": Column("largest", "over the texts", *_NONE),
    "texts": Column("texts", "where it is defined", *_NONE),
}
FIGURE = {"figure": Column("figure", "of each text", *_NONE)}
HEAD = {"layer": columns.HEADS["layer"], "head": columns.HEADS["head"]}
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
    rows = [dict(row) for row in report["figures"]]
    heads = [row for row in rows if row["figure"] == "direct"]
    own = [
        row | {"figure": FIGURES[row["figure"]].title} for row in rows if row["table"] == "texts"
    ]
    parts = [
        page.paragraph(first, "proof"),
        page.bullets(rest),
        page.paragraph(
            "A stroke goes from the smallest to the largest value over the texts, with a dot at "
            "the median. The fields of heads have medians. figures.csv has all figures, by length, "
            "layer and head."
        ),
        page.drawn(_strips(rows)),
        *_table("Over the texts", own, FIGURE | SPREAD, book),
        *(_table("The number by head", heads, HEAD | SPREAD, book) if heads else []),
        *_table("Text by text", links, TEXTS, book),
    ]
    told = counted(report["proof"]["texts"], "text")
    title = f"{report['model']['class']}, {told}: inspection of texts"
    return page.whole(title, Markup().join(parts))


def _table(
    title: str, rows: list[dict[str, Any]], of: dict[str, Column], book: str
) -> list[Markup]:
    return [Markup("<h2>{}</h2>").format(title), *page.explained(title, rows, of, book)]


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
    if found := [dict(row) for row in rows if row["figure"] == "direct"]:
        made.append(drawings.grid("What each head writes, directly, mean", found, "mean"))
    return made
