"""The figures that a reader moves: they draw the package's values, on their own and in the book."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page

import attnverify as av
from attnverify.arithmetic import ops
from attnverify.arithmetic.tracing import UntraceableError
from attnverify.book import interactive
from attnverify.book.interactive import javascript, limit
from attnverify.book.interactive.drawing import SIGNIFICANT, Plot, significant
from attnverify.book.interactive.figure import Figure, Slider, Values
from pagechecks import remote_resources, soup, undescribed_images
from tiers import in_tiers
from visits import FAINT, PHONE, SMALLEST_CONTRAST, STICKING_OUT, serve, visiting

# The test of the built book may have to build it.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

#: Positions are written with two decimals. Beside that the page and the package are two evaluations
#: in float64. A step of the orbit of two tokens adds at most 8 roundings to the relative error and
#: multiplies what was there by the slope of the map between logarithms, 1 + 4y/sinh(2y) <= 3 (less
#: where the tokens turn, as y grows more slowly with their distance there); the
#: same for two heads, where it is a mean of such terms. After 12 steps that is below
#: 12 * 8 * 3^12 * 2^-53 < 6e-9, of a size that counts up to 3, in a plot of 101 units for each 1:
#: 2e-6. The other figures: NORMAL_ERROR times 200; a factor 3 for each of 5 layers in a logarithm,
#: some hundred roundings, 3 units for each 1; some hundred roundings of shares and factors; tokens
#: under masks, whose distances gain less than 100 times a relative error of the input in 20 layers
#: (measured), and without one end in rounding, 1e-15, and are drawn down to 1e-8.
SLACK = 2e-5
PIXEL = 0.005 + SLACK
#: A number in the text has half a unit of its last digit and the same errors, none of an orbit.
TEXT = 1e-8
#: With three significant digits, half a unit of the third is at most 0.005 of it; orbits of up to
#: 20 steps add 20 * 8 * 3^20 * 2^-53 < 7e-5.
RELATIVE = 0.005 + 7e-5
LARGEST_BYTES = 15_000
NAMES = tuple(interactive.PUBLIC)
#: The first one that a reader meets, and one with buttons and dots.
FIRST = ("tokens_figure", "variation_figure")
CHAPTERS = {
    "covariance_figure": "query-key-gradient",
    "depth_figure": "collapse-sharp",
    "heads_figure": "heads-depth",
    "lengths_figure": "path-lengths",
    "limit_figure": "localization-limit",
    "map_figure": "collapse-sharp",
    "masks_figure": "decoder-masks",
    "models_figure": "trained-models",
    "rotary_figure": "decoder-positions",
    "tokens_figure": "start",
    "variation_figure": "softmax",
}
SMALL_PHONE = (360, 740)
#: Dark drawings take the text color of the page, which one theme shows; both in the full tier.
THEMES = pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.full)])
THEMED = """<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>figure</title>
<link rel="icon" href="data:,"><style>
html[data-theme="light"] {{ --pst-color-text-base: #222832; --pst-color-background: #ffffff; }}
html[data-theme="dark"] {{ --pst-color-text-base: #ced6dd; --pst-color-background: #14181e; }}
body {{ background: var(--pst-color-background); margin: 1rem; }}</style></head>
<body><article>{figure}</article></body></html>"""


def figure_of(name: str) -> Figure:
    return getattr(interactive, name)()


def settings(figure: Figure, number: int = 8) -> list[dict[str, float]]:
    """The start, both ends of all controls, and positions drawn among their steps."""
    draw = np.random.default_rng(len(figure.name))
    found = [dict(figure.values)]
    found += [{c.name: getattr(c, end) for c in figure.controls} for end in ("least", "largest")]
    while len(found) < number + 3:
        found.append({c.name: drawn_value(c, draw) for c in figure.controls})
    return found + [{**figure.values, **values} for values in figure.presets.values()]


def drawn_value(control, draw) -> float:
    step = getattr(control, "step", 1)
    steps = round((control.largest - control.least) / step)
    return round(control.least + step * int(draw.integers(steps + 1)), 6)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    """A page in each theme for each figure that holds nothing else."""
    folder = tmp_path_factory.mktemp("figures")
    for name in NAMES:
        for theme in ("light", "dark"):
            page = THEMED.format(theme=theme, figure=figure_of(name)._repr_html_())
            path = folder / f"{name}-{theme}.html"
            path.write_text(page, encoding="utf-8")
            assert remote_resources(soup(path)) == []
            assert undescribed_images(soup(path)) == []
    with serve(folder) as address:
        yield address


MOVE = """([id, values]) => { const root = document.getElementById(id);
  for (const [name, value] of Object.entries(values)) {
    const input = root.querySelector(`input[name=${name}]`);
    if (input.type === "checkbox") input.checked = Boolean(value); else input.value = value;
    input.dispatchEvent(new Event("input", {bubbles: true})); } }"""


def move(page: Page, figure: Figure, values: Values) -> None:
    """Move the controls as a hand does: each value raises an input event."""
    page.evaluate(MOVE, [figure.id, dict(values)])


SEEN = """(id) => {
  const parts = [...document.getElementById(id).querySelectorAll("[data-part]")];
  return Object.fromEntries(parts.map((e) => [e.dataset.part, {text: e.textContent,
    points: e.getAttribute("points"), d: e.getAttribute("d"),
    dot: [Number(e.getAttribute("cx")), Number(e.getAttribute("cy"))]}])); }"""


def points_of(seen: dict) -> list[tuple[float, float]]:
    """Points of a line, or the ends of bars."""
    if seen["points"] is not None:
        pairs = (p.split(",") for p in seen["points"].split())
    else:
        pairs = (p.split(",") for p in seen["d"].split("M")[1:])
        pairs = ((x, end.split("V")[1]) for x, end in pairs)
    return [(float(x), float(y)) for x, y in pairs]


def check_places(seen: list, expected: list, plot: Plot, what: str) -> None:
    assert len(seen) == len(expected), what
    for place, point in zip(seen, expected, strict=True):
        assert all(abs(a - b) <= PIXEL for a, b in zip(place, plot.place(point), strict=True)), (
            what,
            place,
            plot.place(point),
        )


def check_text(seen: str, expected, what: str) -> None:
    if isinstance(expected, str):
        assert seen == expected, what
        return
    value, digits = expected
    seen = seen.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")).replace("·10", "e")
    if seen.startswith("<"):
        assert value < 1e-300, (what, value)
        return
    bound = 0.5 * 10.0**-digits + TEXT if digits != SIGNIFICANT else RELATIVE * abs(value)
    assert abs(float(seen) - value) <= bound, (what, seen, value)


def check_drawn(page: Page, figure: Figure, values: Values) -> None:
    """Every line, area, bar, dot and text is the package's at these values."""
    seen, expected = page.evaluate(SEEN, figure.id), figure.draw(values)
    for name, points in expected.lines.items():
        plot = figure.plots[figure.marks[name].plot]
        check_places(points_of(seen[name]), list(points), plot, name)
    for name, point in expected.dots.items():
        plot = figure.plots[figure.marks[name].plot]
        check_places([seen[name]["dot"]], [point], plot, name)
    for name, text in expected.texts.items():
        check_text(seen[name]["text"], text, name)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_draws_what_the_package_computes(browser, site, name):
    """At every position of a grid; nothing but the page itself was asked for."""
    figure = figure_of(name)
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}-light.html").page
        assert page.get_by_text("The controls need JavaScript").is_hidden()
        for setting in settings(figure):
            move(page, figure, setting)
            check_drawn(page, figure, setting)
            for c in figure.controls:
                if isinstance(c, Slider):
                    label = page.locator(f"output[data-of={c.name}]").text_content()
                    assert float(label or "") == round(setting[c.name], c.decimals)
        assert visit.foreign == [] and visit.errors == []
        assert {r.url for r in visit.responses} == {f"{site}/{name}-light.html"}


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_value_would_be_seen(browser, site, name):
    """The comparison rejects what the package draws one step of any control further."""
    figure = figure_of(name)
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}-light.html").page
        for c in figure.controls:
            step = getattr(c, "step", 1)
            other = figure.values[c.name] + (step if figure.values[c.name] < c.largest else -step)
            with pytest.raises(AssertionError):
                check_drawn(page, figure, {**figure.values, c.name: other})


def handles(page: Page, figure: Figure) -> list[tuple[Locator, tuple[str, str]]]:
    """The dots that can be dragged, with the controls that they move."""
    drags = {name: mark.drag for name, mark in figure.marks.items() if any(mark.drag)}
    return [(page.locator(f"#{figure.id} [data-part={n}]"), drag) for n, drag in drags.items()]


def value_of(page: Page, figure: Figure, name: str) -> float:
    return float(page.locator(f"#{figure.id} input[name={name}]").input_value())


@pytest.mark.parametrize("name", in_tiers(NAMES, FIRST))
def test_keyboard_moves_every_control(browser, site, name):
    """Tab reaches each, in order; its name is said; a key moves it by one step."""
    figure, values = figure_of(name), dict(figure_of(name).values)
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}-light.html").page
        for _ in handles(page, figure):
            page.keyboard.press("Tab")
        shown = [c for c in figure.controls if not c.folded]
        for c in sorted(shown, key=lambda c: isinstance(c, Slider)):
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.name") == c.name
            role = "slider" if isinstance(c, Slider) else "checkbox"
            assert page.get_by_role(role, name=c.label, exact=True).count() == 1
            back, step = values[c.name] > c.least, getattr(c, "step", 1)
            arrow = "ArrowLeft" if back else "ArrowRight"
            page.keyboard.press(arrow if isinstance(c, Slider) else "Space")
            values[c.name] = round(values[c.name] + (-step if back else step), 6)
        check_drawn(page, figure, values)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if any(any(m.drag) for m in figure_of(n).marks.values())]
)
def test_dots_are_moved_by_keys_and_by_hand(browser, site, name):
    """Tab, arrow keys, then a pull by 20 units; role, name and value are there to be said."""
    figure, values = figure_of(name), dict(figure_of(name).values)
    steps = {c.name: c.step for c in figure.controls if isinstance(c, Slider)}
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}-light.html").page
        for dot, drag in handles(page, figure):
            page.keyboard.press("Tab")
            assert dot.evaluate("(e) => e === document.activeElement")
            for control, key in zip(drag, ("ArrowRight", "ArrowUp"), strict=True):
                if control:
                    page.keyboard.press(key)
                    values[control] = round(values[control] + steps[control], 6)
            assert dot.get_attribute("role") == "slider" and dot.get_attribute("aria-label")
            said = ", ".join(f"{values[c]:g}" for c in drag if c)
            assert dot.get_attribute("aria-valuetext") == said
        check_drawn(page, figure, values)
        for dot, drag in handles(page, figure):
            box = dot.bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x - 20, y + 20, steps=3)
            page.mouse.up()
            for control in filter(None, drag):
                assert value_of(page, figure, control) < values[control]
                values[control] = value_of(page, figure, control)
        check_drawn(page, figure, values)
        assert visit.errors == []


@pytest.mark.parametrize("name", [n for n in NAMES if figure_of(n).presets])
def test_buttons_set_what_they_say(browser, site, name):
    figure = figure_of(name)
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}-light.html").page
        for text, values in figure.presets.items():
            page.get_by_role("button", name=text).click()
            check_drawn(page, figure, {**figure.values, **values})


@pytest.mark.parametrize("name", NAMES)
def test_first_drawing_needs_no_script(browser, site, name):
    """Without JavaScript: the drawing of the starting values, a sentence, and no dead control."""
    figure = figure_of(name)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/{name}-light.html")
    check_drawn(page, figure, figure.values)
    assert page.get_by_text("The controls need JavaScript").is_visible()
    assert page.locator(f"#{figure.id} input").first.is_hidden()
    assert page.locator(f"#{figure.id} [role=slider]").count() == 0
    context.close()


SVG_TEXT = """() => { const style = getComputedStyle(document.querySelector("svg text"));
  return [style.fill, getComputedStyle(document.body).color, parseFloat(style.fontSize)
    * document.querySelector("svg").getScreenCTM().a]; }"""


@THEMES
@pytest.mark.parametrize("name", in_tiers(NAMES, FIRST))
def test_figure_is_legible_on_a_small_phone(browser, site, name, theme):
    """At 360 pixels nothing sticks out, text is at least 11 pixels high and takes the theme, and
    what a finger drags is 24 pixels wide."""
    with visiting(browser, site, SMALL_PHONE, theme) as visit:
        page = visit.open(f"{name}-{theme}.html").page
        assert page.evaluate(STICKING_OUT) == []
        assert page.evaluate(FAINT, SMALLEST_CONTRAST) == []
        fill, _, size = page.evaluate(SVG_TEXT)
        assert fill == {"light": "rgb(34, 40, 50)", "dark": "rgb(206, 214, 221)"}[theme]
        assert size >= 11
        for dot, _ in handles(page, figure_of(name)):
            box = dot.bounding_box()
            assert box is not None and min(box["width"], box["height"]) >= 24


@pytest.mark.parametrize("name", NAMES)
def test_figure_is_small_and_says_what_it_does_not_show(name):
    html = figure_of(name)._repr_html_()
    assert len(html.encode()) < LARGEST_BYTES
    for words in ("Try:", "It shows", "It does not"):
        assert words in figure_of(name).caption


def test_normal_routine_is_as_exact_as_stated(browser, site):
    """The script's Phi beside balls: off by no more than NORMAL_ERROR."""
    x = torch.cat([torch.linspace(-9, 9, 3001), torch.tensor([0, 1e-300, -8, 8, 40, -40])]).double()
    with visiting(browser, site) as visit:
        page = visit.open("limit_figure-light.html").page
        values = page.evaluate(
            "(xs) => xs.map(document.getElementById('attnverify-limit').normal)", x.tolist()
        )
    with ops.precision(128):
        exact = ops.normal_cdf(ops.balls(x))
        off = max(
            float(abs(e - v)) for e, v in zip(exact, ops.balls(np.array(values)), strict=True)
        )
    print(f"largest error of Phi: {off:.2g}, bound {limit.NORMAL_ERROR:.2g}")
    assert off <= limit.NORMAL_ERROR
    assert limit.NORMAL_ERROR < SLACK / 200  # what PIXEL allows for


def test_formulas_are_written_from_the_package():
    """The functions of a script are those that the package's formulas leave when traced."""
    assert limit.formulas() in interactive.limit_figure()._repr_html_()
    assert "Math.sqrt" in limit.formulas() and "torch" not in limit.formulas()
    twice = javascript.function("f", lambda x, y: (x[0] + y) * (x[0] + y) / 3, {"x": 2, "y": 0})
    assert twice == "const f = (x, y) => { const t3 = (x[0]+y); return ((t3*t3)/3); };\n"


def test_a_formula_without_javascript_is_refused():
    with pytest.raises(UntraceableError, match="erf has no JavaScript"):
        javascript.function("f", lambda x: x.erf(), {"x": 0})
    with pytest.raises(UntraceableError, match="branches"):
        javascript.function("f", lambda x: x if x > 0 else -x, {"x": 0})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "< 10⁻³⁰⁰"), (math.inf, "∞"), (0.123, "0.123"), (1234.5, "1230"), (2e-9, "2.00·10⁻⁹")],
)
def test_three_significant_digits(value, text):
    assert significant(value) == text


@pytest.mark.parametrize("name", NAMES)
def test_bad_start_is_refused(name):
    """A value that its control cannot show names the argument."""
    for c in figure_of(name).controls:
        with pytest.raises(av.InputError, match=f"{c.name}: got 9"):
            getattr(interactive, name)(**{c.name: 99.0})


@THEMES
@pytest.mark.parametrize("name", in_tiers(NAMES, FIRST))
def test_figure_works_in_the_book(browser, built_book, name, theme):
    """In the built page, without the network: controls move the drawing, the values are right."""
    figure = figure_of(name)
    with serve(built_book) as address, visiting(browser, address, PHONE, theme) as visit:
        page = visit.open(f"notebooks/{CHAPTERS[name]}.html").page
        for setting in settings(figure, 2):
            move(page, figure, setting)
            check_drawn(page, figure, setting)
        text = page.locator(f"#{figure.id} svg text").first
        same = "(e) => getComputedStyle(e).fill === getComputedStyle(document.body).color"
        assert text.evaluate(same)
        assert visit.foreign == [] and visit.errors == []
