"""Figures for a phone: panels under each other, letters of 9 pixels; formulas keep their marks."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from docutils import nodes
from matplotlib.figure import Figure

from attnverify.book import figures
from attnverify.book.figures import narrow
from attnverify.book.html import narrow_figures
from attnverify.book.sphinx import holding
from places import ROOT
from visits import DESK, PHONE, visiting

#: The smallest letters of the book's figures, in points, and what they must have on a phone.
POINTS, PIXELS = 7, 9
PIXELS_PER_POINT = 4 / 3


def three():
    made, panels = figures.axes("Three", "x", "y", columns=3, figsize=(7.6, 3.0), sharey=True)
    for panel in panels:
        panel.plot([0, 1], [1, 2], label="a line")
        panel.legend()
    panels[1].set_ylabel("")
    return made


@pytest.fixture
def figure():
    made = three()
    yield made
    plt.close(made)


def test_the_narrow_drawing_leaves_the_wide_one_as_it_is(figure):
    other, size = three(), tuple(figure.get_size_inches())
    places = [panel.get_subplotspec() for panel in figure.axes]
    assert narrow_figures.HIDDEN.sub("", narrow.both(figure)) == narrow.as_svg(other)
    assert tuple(figure.get_size_inches()) == size and figure.get_suptitle() == "Three"
    assert [panel.get_subplotspec() for panel in figure.axes] == places
    assert not any(panel.get_legend().get_frame_on() for panel in figure.axes)
    plt.close(other)


def test_panels_stand_under_each_other_each_with_its_numbers(figure):
    with narrow.stacked(figure):
        figure.draw_without_rendering()
        boxes = [panel.get_position() for panel in figure.axes]
        assert all(a.y0 > b.y1 and a.x0 == b.x0 for a, b in zip(boxes, boxes[1:], strict=False))
        assert [panel.get_ylabel() for panel in figure.axes] == ["y"] * 3
        assert all(panel.yaxis.get_tick_params()["labelleft"] for panel in figure.axes)
    assert [panel.get_ylabel() for panel in figure.axes] == ["y", "", "y"]
    assert not figure.axes[1].yaxis.get_tick_params()["labelleft"]


def drawn(how: str) -> Figure:
    """A figure with something everywhere, or with an empty corner."""
    made, panel = figures.axes("Drawn", "x", "y")
    x = np.linspace(0, 1, 200)
    if how == "line":
        panel.plot(x, 0.5 + 0.5 * np.sin(90 * x), label="a line")
    elif how == "dots":
        panel.plot(np.tile(x, 9), np.repeat(np.linspace(0, 1, 9), 200), ".", label="dots")
    elif how == "scattered":
        panel.scatter(np.tile(x, 9), np.repeat(np.linspace(0, 1, 9), 200), label="dots")
    elif how == "bars":
        panel.bar(x, 1, width=0.01, label="bars")
    elif how == "image":
        panel.imshow([[0.0, 1.0]], aspect="auto", extent=(0, 1, 0, 1))
        panel.plot([], [], label="nothing")
    else:
        panel.plot([0, 1], [0, 1], label="a line")
    panel.legend(loc="upper left")
    return made


@pytest.mark.parametrize("how", ["line", "dots", "scattered", "bars", "image"])
def test_a_legend_that_covers_something_moves_below_the_panel(how):
    """Below its labels, inside the figure, which grows; the wide drawing keeps its own."""
    made = drawn(how)
    (panel,), before = made.axes, made.axes[0].get_legend()
    low = narrow.WIDTH * 3.6 / 6.4
    with narrow.stacked(made):
        made.draw_without_rendering()
        legend = panel.get_legend()
        box, labels = legend.get_window_extent(), panel.xaxis.label.get_window_extent()
        assert legend is not before and box.y1 < labels.y0 and box.y0 >= 0
        assert box.x0 >= 0 and box.x1 <= made.get_window_extent().x1
        assert made.get_size_inches()[1] > max(low, narrow.LOW)
        texts = [text.get_text() for text in legend.get_texts()]
    assert panel.get_legend() is before and not before.get_frame_on()
    assert texts == [text.get_text() for text in before.get_texts()]
    plt.close(made)


def test_a_legend_of_the_whole_figure_takes_no_height_from_its_panel():
    made, panel = figures.axes("Drawn", "x", "y")
    for k in range(6):
        panel.plot([0, 1], [0, k], label=f"line {k}")
    with narrow.stacked(made):
        made.draw_without_rendering()
        alone = panel.get_window_extent().height
    made.legend(loc="outside lower center", ncols=2)
    with narrow.stacked(made):
        made.draw_without_rendering()
        assert panel.get_window_extent().height > 0.9 * alone
    plt.close(made)


def test_a_legend_where_nothing_is_drawn_stays():
    made = drawn("a corner is empty")
    before = made.axes[0].get_legend()
    with narrow.stacked(made):
        assert made.axes[0].get_legend() is before
        assert made.get_size_inches()[1] == narrow.LOW
    plt.close(made)


def test_a_wide_legend_leaves_its_panel_the_width():
    """In two columns where these fit, or else in one; the panel is as wide as without it."""
    for words, columns in (("short", 2), ("a label that says at length what it is", 1)):
        made = drawn("line")
        panel = made.axes[0]
        for k in range(4):
            panel.plot([0, 1], [0, k], label=f"{words} {k}")
        panel.legend(ncols=2)
        with narrow.stacked(made):
            made.draw_without_rendering()
            assert panel.get_window_extent().width > 0.75 * made.get_window_extent().width
            left = {round(text.get_window_extent().x0) for text in panel.get_legend().get_texts()}
            assert len(left) == columns
        plt.close(made)


def test_a_page_gets_both_drawings(tmp_path, figure):
    (tmp_path / "a.svg").write_text(narrow.both(figure), encoding="utf-8")
    (tmp_path / "b.svg").write_text(narrow.as_svg(figure), encoding="utf-8")
    narrow_figures.split(tmp_path)
    assert narrow.START not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    page = '<img alt="x" src="../p/a.svg"/><img src="../p/b.svg"/><img src="https://a.org/a.svg"/>'
    folder = tmp_path / "pages"
    (tmp_path / "p").symlink_to(tmp_path)
    shown = narrow_figures.with_narrow(page, folder)
    assert shown.count("<picture>") == 1 and 'srcset="../p/a-narrow.svg"' in shown
    assert re.search(r'<source [^>]*width="\d+" height="\d+"><img alt="x"', shown)


def test_no_figure_has_smaller_letters():
    for chapter in (ROOT / "notebooks").glob("*.md"):
        asked = re.findall(r"(?:font|label)size=([\d.]+)", chapter.read_text(encoding="utf-8"))
        assert all(float(points) >= POINTS for points in asked), chapter.name


#: How wide each picture of a chapter is shown, and how wide it was drawn.
WIDTHS = """() => [...document.querySelectorAll("article img")].map((image) =>
  [image.currentSrc, image.getBoundingClientRect().width, image.naturalWidth])"""


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.timeout(3000)
def test_letters_of_figures_are_legible_on_a_phone(browser, site, built_book):
    """Every chapter is opened, as any may have a figure that does not fit: a minute for all."""
    seen = 0
    with visiting(browser, site, PHONE) as visit:
        for path in sorted((built_book / "notebooks").glob("*.html")):
            page = visit.open(f"notebooks/{path.name}").page
            page.evaluate(
                "document.querySelectorAll('img').forEach((i) => { i.loading = 'eager'; })"
            )
            page.wait_for_function("[...document.images].every((i) => i.complete)")
            for source, shown, drawn in page.evaluate(WIDTHS):
                assert source.endswith("-narrow.svg"), source
                least = smallest(built_book / "_images" / source.rsplit("/", 1)[1])
                pixels = shown / drawn * least * PIXELS_PER_POINT
                assert pixels >= PIXELS, (path.stem, source, pixels)
                seen += 1
    assert seen > 80


def smallest(file: Path) -> float:
    """The size in points of the smallest letters of a drawing."""
    text = file.read_text(encoding="utf-8")
    scales = re.findall(r'<g transform="[^"]*scale\(([\d.]+) -[\d.]+\)', text)
    return 100 * min(map(float, scales))


# ---------------------------------------------------------------- formulas and their marks


def held(*parts: nodes.Node) -> list[str]:
    """A paragraph after holding: its children as text, those held together in braces."""
    paragraph = nodes.paragraph("", "", *parts)
    for formula in list(paragraph.findall(nodes.math)):
        holding.tie(paragraph, paragraph.index(formula))
    return [
        f"{{{child.astext()}}}" if isinstance(child, holding.Held) else child.astext()
        for child in paragraph
        if child.astext()
    ]


def test_a_formula_holds_the_marks_that_touch_it():
    text, x = nodes.Text, lambda: nodes.math("x", "x")
    assert held(text("of ("), x(), text("), and")) == ["of ", "{(x),}", " and"]
    assert held(x(), text("'s value")) == ["{x's}", " value"]
    assert held(x(), text("-token rows")) == ["{x-}", "token rows"]
    assert held(text("a "), x(), text(" b (c)")) == ["a ", "x", " b (c)"]
    assert held(x(), text("; "), x(), text(".")) == ["{x;}", " ", "{x.}"]
    assert held(x(), text("(")) == ["x", "("]


#: Marks after a formula of one piece that stand on a line below it.
LOOSE = """() => [...document.querySelectorAll("article .math")].filter((math) => {
  const text = math.nextSibling, box = math.querySelector(".katex-html");
  if (text?.nodeType !== Node.TEXT_NODE || !/^[,.;:!?)]/.test(text.data) || !box) return false;
  if (box.querySelectorAll(".base").length > 1) return false;
  const range = document.createRange();
  range.setStart(text, 0); range.setEnd(text, 1);
  const mark = range.getBoundingClientRect();
  return mark.height && mark.top > Math.max(...[...box.getClientRects()].map((r) => r.bottom)) - 2;
}).map((math) => math.textContent.slice(0, 40))"""


WIDE = """() => [...document.querySelectorAll("article p:has(> .attnverify-held)")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).length"""


@pytest.mark.browser
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_no_line_begins_with_a_mark(browser, site, size):
    """And no paragraph has become too wide for its screen by that."""
    with visiting(browser, site, size) as visit:
        page = visit.open("notebooks/decoder-positions.html").page
        assert not page.evaluate(LOOSE)
        assert page.evaluate(WIDE) == 0
        page.add_style_tag(content=f".{holding.HELD} {{ white-space: normal !important; }}")
        assert page.evaluate(LOOSE)  # as it would be without
