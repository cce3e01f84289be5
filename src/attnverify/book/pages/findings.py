"""The figures of the landing page: tokens to move, and four findings from formulas or a table."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from attnverify import experiments
from attnverify.book.figures import COLORS, STYLE
from attnverify.book.interactive import tokens_figure
from attnverify.experiments.trained_models import looked
from attnverify.mathematics import collapse, heads, paths

LAYERS = 8
GAIN = 2.0  # v: the largest singular value of the value map; the scores are scaled so that c = 1
STARTS = (0.9, 0.99, 1.0, 1.01)  # over the threshold
SEEN = 1e-12  # the smallest distance that is drawn
PRINTED = 4.0  # the constant that the printed theorem for many heads allows
WIDTHS = range(16, 113)  # 8 log2
DEPTH = HEADS = 12  # of BERT
FINDINGS = (
    (
        "Close tokens become alike. Others need not.",
        "One head, attention alone, no mask: tokens {claim}`closer than a threshold "
        "<collapse.threshold>` collapse, in the end {claim}`doubly exponentially "
        "<collapse.sharp-depth>`. The curves are two tokens that start at 0.9 to 1.01 times the "
        "threshold. They attain {claim}`the best bound <collapse.sharp-layer>`.",
    ),
    (
        "A published bound for many heads is false for wide layers.",
        "Theorem 2.3 of {cite}`dong2021`, as read here, {claim}`fails "
        "<collapse.multi-head-as-printed>` for some layers of two heads: as it stands now, in "
        "arXiv version 2, from width {claim}`179 <collapse.multi-head-gamma>` on, and in version "
        "1, without a factor γ, from width {claim}`14,330 <collapse.multi-head-small-width>` on. "
        "The curve is the residual of such layers, for small scores, over the bound of version 2. "
        "{doc}`What is true instead </notebooks/collapse-width>`.",
    ),
    (
        "All 13¹² paths of a network of BERT's size are summed.",
        "With attention held fixed, a network is {claim}`a sum over paths "
        "<paths.skip-decomposition>`: one of 12 heads, or none, in each of 12 layers. {claim}`A "
        "recursion <paths.length-recursion>` sums them by length, exactly up to rounding, at the "
        "cost of about seven forward passes.",
    ),
    (
        "In three trained models, long paths add up to little.",
        "Most paths take a head in more than half of the layers (squares). Added up with their "
        "signs, they make less than 13 percent of the differences of output tokens (dots, one a "
        "text). Attention is held fixed. The models are {claim}`a sentence encoder, "
        "an ALBERT and a small decoder <experiment.three-models>`.",
    ),
)


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    """A small figure in the book's style."""
    settings: dict[Any, Any] = {**STYLE, "font.size": 9}
    plt.rcParams.update(settings)
    figure, axes = plt.subplots(figsize=(3.0, 2.4))
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def _note(axes, text: str, place: tuple[Any, Any], offset: tuple[int, int]) -> None:
    axes.annotate(text, place, xytext=offset, textcoords="offset points")


def below_a_threshold() -> Figure:
    """Distance of two tokens over eight layers, from four starts around the threshold."""
    figure, axes = _axes("layer", "distance over threshold")
    star = collapse.threshold(4.0, GAIN, 1)  # ||W_QK||_2 = 4 and d_qk = 1 make c = 1
    one = torch.ones(1, dtype=torch.float64)
    for start in STARTS:
        size = [start * star * one]
        while len(size) <= LAYERS:
            size.append(collapse.two_token_step(size[-1], one, GAIN * one))
        shares = [float(s / star) for s in size]
        color = COLORS["reference" if start == 1 else "measured"]
        axes.semilogy(shares, color=color, marker="o", markersize=3)
        last = max(layer for layer, share in enumerate(shares) if share > SEEN)
        _note(axes, f"{start:g}", (last, shares[last]), (5, -3))
    axes.set(ylim=(SEEN, 1e3), xlim=(-0.5, LAYERS + 1.2))
    return figure


def above_a_width() -> Figure:
    """Residual of two heads after one layer over the printed bound, by width, for small scores."""
    figure, axes = _axes("width d", "residual over printed bound")
    d = 2.0 ** (torch.tensor(list(WIDTHS), dtype=torch.float64) / 8)
    quotient = heads.gamma_factor(d * d / 2) / PRINTED  # of as many tokens as features
    axes.loglog(d, quotient, color=COLORS["published"])
    axes.axhline(1, color=COLORS["reference"], linewidth=1)
    broken = (quotient > 1).tolist()
    axes.fill_between(d, 1, quotient, where=broken, alpha=0.25, color=COLORS["published"])
    axes.set_yticks([0.25, 0.5, 1, 2, 4, 8], ["0.25", "0.5", "1", "2", "4", "8"])
    axes.minorticks_off()
    _note(axes, "false", (2.0**11, 1.0), (0, 5))
    return figure


def by_length() -> Figure:
    """Number of paths by length for 12 layers of 12 heads, largest at lengths 11 and 12."""
    figure, axes = _axes("length of a path", "number of paths")
    lengths = range(DEPTH + 1)
    counts = [paths.count(DEPTH, HEADS, length) for length in lengths]
    axes.bar(lengths, counts, color=COLORS["measured"], log=True)
    axes.set_xticks([0, 4, 8, 12])
    return figure


def of_long_paths() -> Figure:
    """Share of long paths in number, above 0.8, and net share in the output, near 0, by text."""
    figure, axes = _axes("", "share of the long paths")
    rows = experiments.committed("three-models").rows
    for place, subject in enumerate(looked.SUBJECTS):
        for row in looked.select(rows, "text", subject.name):
            output, number = looked.long_paths(row)
            axes.plot(place, number, "s", color=COLORS["reference"], markersize=4)
            axes.plot(place, output, "o", color=COLORS["measured"], markersize=4)
    names = [subject.name for subject in looked.SUBJECTS]
    axes.set(ylim=(-0.4, 1.1), xlim=(-0.5, len(names) - 0.5))
    axes.set_xticks(range(len(names)), names)
    _note(axes, "of all paths", (0, 1), (-12, -14))
    _note(axes, "of the output", (0, 0), (-12, 7))
    return figure


FIGURES = (below_a_threshold, above_a_width, by_length, of_long_paths)


def text() -> str:
    """Four cards, two side by side, one below the other on a phone, as MyST."""
    lines = ["::::{grid} 1 1 2 2", ":gutter: 3", ""]
    for (title, words), draw in zip(FINDINGS, FIGURES, strict=True):
        what = " ".join((draw.__doc__ or "").split())
        lines += [":::{grid-item-card}", f"**{title}**", "", inline_svg(draw(), what), "", words]
        lines += [":::", ""]
    return "\n".join([*lines, "::::"])


def moving_tokens() -> str:
    """The figure of :func:`attnverify.book.interactive.tokens_figure` as MyST."""
    html = tokens_figure(layer=1.0)._repr_html_()
    return f"```{{raw}} html\n{html}\n```\n"


def inline_svg(figure: Figure, title: str) -> str:
    """The figure as an element of a page, as wide as its place, black as the page's text is."""
    stream = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # Words stay words, in the page's font; ids differ between figures, not between builds.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(stream, format="svg", transparent=True, metadata=metadata)
    plt.close(figure)
    svg = stream.getvalue().partition("<svg ")[2]
    for pattern in (r"<metadata>.*?</metadata>", r'(?<=<g) id="[^"]*"', r"<!--.*?-->"):
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"#000000|\bblack\b", "currentColor", svg)
    return " ".join(f'<svg role="img" aria-label="{title}" fill="currentColor" {svg}'.split())
