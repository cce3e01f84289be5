"""One drawing of each figure serves a phone and a wide screen."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import pytest

from attnverify.book import figures
from attnverify.book.html.finish_pages import NO_ICON, drawing_size, finished, with_sizes
from places import ROOT

#: The smallest letters of the book's figures, in points, and what they must have on a phone, whose
#: text is PHONE pixels wide.
POINTS, PIXELS, PHONE = 8, 9, 336
PIXELS_PER_POINT = 4 / 3


@pytest.mark.parametrize(("columns", "down"), [(1, 1), (2, 2), (3, 3), (4, 2)])
def test_panels_stand_under_each_other_in_a_figure_of_one_width(columns, down):
    figure, parts = figures.axes("Panels", "x", "y", columns, figsize=(9.0, 3.0))
    panels = [parts] if columns == 1 else list(parts)
    figure.draw_without_rendering()
    assert figure.get_size_inches()[0] == pytest.approx(figures.WIDTH)
    assert len({round(panel.get_position().y0, 3) for panel in panels}) == down
    assert [panel.get_ylabel() for panel in panels] == ["y"] * columns
    plt.close(figure)


#: Places of panels beside each other; an axis has a left end, and a matrix is a right factor, too.
SIDEWAYS = re.compile(r"(?<!to the )\b(?:left|right)\b(?! (?:of|end|edge|factor)\b)", re.I)
PANELS = re.compile(r"\b(?:left|right) (?:panel|plot|chart|map)s?\b", re.I)


def described_panels(path: Path) -> list[tuple[tuple[int, int], str]]:
    """Rows and columns of the panels of each figure, with its caption and alternative text."""
    found = []
    for cell in jupytext.read(path, fmt="md:myst").cells:
        options = cell.metadata.get("mystnb", {})
        if cell.cell_type != "code" or "figure" not in options:
            continue
        calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
        (call,) = (each for each in calls if ast.unparse(each.func) == "av.figures.axes")
        asked = [*call.args[3:4], *(w.value for w in call.keywords if w.arg == "columns")]
        figure, _ = figures.axes("", "", "", *map(ast.literal_eval, asked))
        grid = figure.axes[0].get_subplotspec().get_gridspec()
        plt.close(figure)
        found.append((grid.get_geometry(), options["figure"]["caption"] + options["image"]["alt"]))
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.md")), ids=lambda p: p.stem)
def test_captions_name_panels_by_where_they_stand(path):
    """Panels under each other are not called left and right, in a description or in the text."""
    described = described_panels(path)
    for (down, across), text in described:
        assert across > 1 or down == 1 or not SIDEWAYS.findall(text), text
    if all(across == 1 for (_, across), _ in described):
        assert PANELS.findall(path.read_text("utf-8")) == []


def test_a_long_title_is_broken():
    figure, _ = figures.axes("Words " * 12, "x", "y")
    assert max(map(len, figure.get_suptitle().split("\n"))) <= figures.LETTERS
    plt.close(figure)


#: Points of curves, and dots, that are in view and below a legend of the drawing.
COVERED = """() => [...document.querySelectorAll('g[id^="legend_"]')].flatMap((legend) => {
  const inside = (box, x, y) => x > box.left && x < box.right && y > box.top && y < box.bottom;
  const points = (mark) => {
    if (mark.tagName === "use") {
      const box = mark.getBoundingClientRect();
      return [{x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2}];
    }
    return [...Array(200).keys()].map((k) =>
      mark.getPointAtLength(mark.getTotalLength() * k / 199).matrixTransform(mark.getScreenCTM()));
  };
  const marks = ["line2d", "PathCollection"].map((kind) =>
    `g[id^="axes_"] > g[id^="${kind}"] :is(use, path:not(defs *))`);
  return [...document.querySelectorAll(marks.join())].flatMap((mark) => {
    const panel = mark.closest('g[id^="axes_"]').querySelector('g[id^="patch_"]');
    return points(mark).filter(({x, y}) => inside(panel.getBoundingClientRect(), x, y)
      && inside(legend.getBoundingClientRect(), x, y));
  });
}).length"""


@pytest.mark.browser
@pytest.mark.timeout(3000)
def test_no_legend_covers_a_curve(browser, built_book, tmp_path):
    figure, part = figures.axes("Covered", "x", "y")
    part.plot([0, 1], [0, 1], label="curve")
    part.legend(loc="center")
    figure.savefig(tmp_path / "inside.svg")
    part.get_legend().remove()
    figures.legend(figure)
    figure.savefig(tmp_path / "below.svg", bbox_inches="tight")
    plt.close(figure)
    page = browser.new_page()
    drawings = [*tmp_path.glob("*.svg"), *(built_book / "_images").glob("*.svg")]
    covered = []
    for path in drawings:
        page.set_content(path.read_text("utf-8"))
        covered += [path.name] * bool(page.evaluate(COVERED))
    page.close()
    assert covered == ["inside.svg"]


def test_letters_are_legible_on_a_phone():
    """The smallest letters that a notebook asks for, at the width of a phone's text."""
    scale = PHONE / (figures.WIDTH * 96)
    assert POINTS * PIXELS_PER_POINT * scale >= PIXELS
    sources = [*(ROOT / "notebooks").glob("*.md"), Path(figures.__file__)]
    sizes = (re.findall(r'font_?size"?[=:] ?(\d+)', path.read_text("utf-8")) for path in sources)
    assert min(int(size) for found in sizes for size in found) >= POINTS


def test_a_drawing_says_how_large_it_is(tmp_path):
    svg = '<?xml version="1.0"?>\n<svg xmlns="x" width="300pt" height="150.3pt" version="1.1">'
    (tmp_path / "a.svg").write_text(svg)
    (tmp_path / "b.svg").write_text("<svg>")
    assert drawing_size(tmp_path / "a.svg") == (400, 200)
    page = '<img alt="A" src="a.svg"/><img src="b.svg"><img width="1" src="a.svg">'
    assert with_sizes(page, tmp_path) == page.replace("<img", '<img width="400" height="200"', 1)


def test_no_page_makes_a_browser_ask_for_an_icon(tmp_path):
    """A redirect, which has no head, and a page without an icon get an empty one."""
    texts = {"redirect": "<meta>\n", "none": "<head></head><p>"}
    texts["own"] = '<head><link rel="icon" href="icon.svg" /></head>'
    for name, text in texts.items():
        (tmp_path / f"{name}.html").write_text(text)
    redirect, none, own = (finished(tmp_path / f"{name}.html") for name in texts)
    assert redirect == NO_ICON + texts["redirect"] and NO_ICON not in own
    assert NO_ICON in none.partition("</head>")[0]
