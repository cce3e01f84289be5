"""Legends of a narrow drawing: one that covers what is drawn moves below its panel.

In a wide figure matplotlib finds a place where nothing is drawn; on a phone there may be none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.legend import Legend
from matplotlib.path import Path
from matplotlib.transforms import ScaledTranslation

GAP = 0.04  # inches between the labels of a panel and its legend
MANY = 3  # entries, from which on two columns are tried


def covers(legend: Legend, part: Axes) -> bool:
    """Whether the legend, where it was last drawn, lies on something of its panel."""
    box = legend.get_window_extent()
    return (
        bool(part.images)
        or any(box.count_contains(np.asarray(dots)) for dots in _dots(part))
        or any(p.cleaned(remove_nans=True).intersects_bbox(box) for p in _outlines(part))
        or any(box.overlaps(text.get_window_extent()) for text in part.texts)
    )


def _dots(part: Axes) -> Iterator[Any]:
    """Where markers are, in pixels."""
    for line in part.lines:
        yield line.get_transform().transform_path(line.get_path()).vertices
    for collection in filter(_scattered, part.collections):
        yield collection.get_offset_transform().transform(collection.get_offsets())


def _outlines(part: Axes) -> Iterator[Path]:
    """Of lines, bars and areas, in pixels."""
    for line in part.lines:
        if line.get_linestyle() not in ("None", "none", " ", ""):
            yield _open(line.get_transform().transform_path(line.get_path()))
    for patch in part.patches:
        yield patch.get_transform().transform_path(patch.get_path())
    for collection in part.collections:
        if not _scattered(collection):
            yield from map(collection.get_transform().transform_path, collection.get_paths())


def _scattered(collection: Collection) -> bool:
    """One shape at many places, and not shapes where they are."""
    return bool(np.asarray(collection.get_offsets()).any())


def _open(path: Path) -> Path:
    """A line encloses nothing: it comes back on itself."""
    points = np.asarray(path.vertices)
    return Path(np.concatenate([points, points[::-1]]))


def below(part: Axes) -> float:
    """Put a panel's legend below the labels of its horizontal axis; its height in inches.

    The panel was drawn with that legend out of the layout. It is no longer in the drawing, until it
    is put back as ``part.legend_``.
    """
    figure, old, own = part.get_figure(root=True), part.get_legend(), part.get_tightbbox()
    assert figure is not None and old is not None and own is not None
    axes, dpi = part.get_window_extent(), figure.dpi
    new = _again(part, old, 2 if len(old.get_texts()) >= MANY else 1)
    if new.get_window_extent().width > own.width:
        new = _again(part, old, 1)
    wide = new.get_window_extent().width > axes.width  # then it also takes the room of the labels
    drop = ScaledTranslation(0, (own.y0 - axes.y0) / dpi - GAP, figure.dpi_scale_trans)
    new.set_loc("upper right" if wide else "upper center")
    new.set_bbox_to_anchor((1.0 if wide else 0.5, 0.0), transform=part.transAxes + drop)
    return new.get_window_extent().height / dpi + GAP


def _again(part: Axes, old: Legend, columns: int) -> Legend:
    """The same legend in so many columns."""
    texts = [text.get_text() for text in old.get_texts()]
    handles, labels = part.get_legend_handles_labels()
    if labels != texts:
        handles = [handle for handle in old.legend_handles if handle is not None]
    size, title = old.get_texts()[0].get_fontsize(), old.get_title().get_text()
    place: dict[str, Any] = {"borderaxespad": 0, "frameon": False, "columnspacing": 1}
    return part.legend(
        handles, texts, loc="center", ncols=columns, fontsize=size, title=title or None, **place
    )
