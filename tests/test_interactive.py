"""The figure with sliders: what it draws is the package's formula, on its own and in the book."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page

import attnverify as av
from attnverify import ops
from attnverify.book import interactive
from pagechecks import remote_resources, soup, undescribed_images
from visits import FAINT, PHONE, SMALLEST_CONTRAST, STICKING_OUT, chromium, serve, visiting

# The test of the built book may have to build it.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

#: Positions are written with two decimals, values with four; 1e-9 covers the few roundings of
#: numbers of size up to 400 on both sides and NORMAL_ERROR times the height of the plot.
PIXEL, DIGIT = 0.005 + 1e-9, 0.00005 + 1e-9
SETTINGS = [
    {"xi": 1.5, "eta": 0.25, "gamma": 1.0},
    {"xi": -8.0, "eta": 0.0, "gamma": -1.0},
    {"xi": 8.0, "eta": 1.5, "gamma": 0.0},
    {"xi": 0.0, "eta": 0.7, "gamma": -0.35},
]
SMALL_PHONE = (360, 740)
THEMED = """<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>figure</title>
<link rel="icon" href="data:,"><style>
html[data-theme="light"] {{ --pst-color-text-base: #222832; --pst-color-background: #ffffff; }}
html[data-theme="dark"] {{ --pst-color-text-base: #ced6dd; --pst-color-background: #14181e; }}
body {{ background: var(--pst-color-background); margin: 1rem; }}</style></head>
<body><article>{figure}</article></body></html>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium for all tests of this file."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    """A page in each theme that holds nothing but the figure."""
    folder = tmp_path_factory.mktemp("figure")
    for theme in ("light", "dark"):
        page = THEMED.format(theme=theme, figure=av.interactive.limit_figure()._repr_html_())
        (folder / f"{theme}.html").write_text(page, encoding="utf-8")
        assert remote_resources(soup(folder / f"{theme}.html")) == []
        assert undescribed_images(soup(folder / f"{theme}.html")) == []
    with serve(folder) as address:
        yield address


def set_sliders(page: Page, setting: dict[str, float]) -> None:
    """Move the sliders as a hand does: each value raises an input event."""
    for name, value in setting.items():
        page.locator(f"#attnverify-limit input[name={name}]").fill(str(value))


def drawn(page: Page) -> tuple[torch.Tensor, torch.Tensor, float]:
    """(t, rho) of the curve's points and rho of the dot, from their places in the drawing."""
    f = interactive.FRAME
    part = "#attnverify-limit [data-part={}]".format
    points = page.locator(part("curve")).get_attribute("points")
    x, y = torch.tensor([[float(v) for v in p.split(",")] for p in points.split()]).double().T
    dot = float(page.locator(part("middle")).get_attribute("cy"))
    height = f["bottom"] - f["top"]
    t = (x - f["left"]) / (f["right"] - f["left"])
    return t, (f["bottom"] - y) / height, (f["bottom"] - dot) / height


def written(page: Page) -> dict[str, float]:
    """The numbers of the text below the drawing."""
    text = page.locator("#attnverify-limit [role=status]").inner_text()
    found = re.findall(r"(ρ\([\d.]+\)|ρ\(1\) − ρ\(0\)) = (-?[\d.]+\d)", text)
    return {name: float(value) for name, value in found}


def check_drawn(page: Page, setting: dict[str, float]) -> None:
    """The curve, the dot and the text are those of av.localization.limit."""
    arguments = (setting["xi"], setting["eta"], setting["gamma"])
    t = torch.arange(interactive.FRAME["segments"] + 1).double() / interactive.FRAME["segments"]
    expected = av.localization.limit(t, *arguments)
    places, values, dot = drawn(page)
    height = interactive.FRAME["bottom"] - interactive.FRAME["top"]
    width = interactive.FRAME["right"] - interactive.FRAME["left"]
    assert len(places) == len(t) and float((places - t).abs().max()) <= PIXEL / width
    assert float((values - expected).abs().max()) <= PIXEL / height
    assert abs(dot - float(expected[50])) <= PIXEL / height
    ends = {
        "ρ(0)": expected[0],
        "ρ(0.5)": expected[50],
        "ρ(1)": expected[-1],
        "ρ(1) − ρ(0)": expected[-1] - expected[0],
    }
    shown = written(page)
    assert shown.keys() == ends.keys()
    for name, value in ends.items():
        assert abs(shown[name] - float(value)) <= DIGIT, name


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_sliders_redraw_the_formula(browser, site, setting):
    """After each move the drawing is the package's formula; the network was asked for nothing."""
    with visiting(browser, site) as visit:
        page = visit.open("light.html").page
        assert page.get_by_text("The sliders need JavaScript").is_hidden()
        set_sliders(page, setting)
        check_drawn(page, setting)
        for name, value in setting.items():
            label = page.locator(f"#attnverify-limit [data-part={name}]").inner_text()
            assert float(label) == value
        assert visit.foreign == [] and visit.errors == []
        assert {r.url for r in visit.responses} == {f"{site}/light.html"}


def test_a_wrong_formula_would_be_seen(browser, site):
    """The comparison rejects the drawing of neighboring parameters."""
    with visiting(browser, site) as visit:
        page = visit.open("light.html").page
        set_sliders(page, SETTINGS[0])
        for name, change in {"xi": 0.1, "eta": 0.01, "gamma": -0.05}.items():
            with pytest.raises(AssertionError):
                check_drawn(page, {**SETTINGS[0], name: SETTINGS[0][name] + change})


def test_keyboard_moves_every_slider(browser, site):
    """Tab reaches each slider, whose name is said; an arrow key moves it by one step."""
    with visiting(browser, site) as visit:
        page = visit.open("light.html").page
        setting = dict(SETTINGS[0])
        for name, (letter, what, _, _, step) in interactive.SLIDERS.items():
            page.keyboard.press("Tab")
            focused = page.evaluate("document.activeElement.name")
            assert focused == name
            assert page.get_by_role("slider", name=f"{letter}, {what}").count() == 1
            page.keyboard.press("ArrowLeft")
            setting[name] = round(setting[name] - step, 2)
        check_drawn(page, setting)


def test_first_drawing_needs_no_script(browser, site):
    """Without JavaScript: the curve of the starting values, a sentence, and no dead slider."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/light.html")
    check_drawn(page, SETTINGS[0])
    assert page.get_by_text("The sliders need JavaScript").is_visible()
    assert page.locator("#attnverify-limit input").first.is_hidden()
    context.close()


SVG_TEXT = """() => { const style = getComputedStyle(document.querySelector("svg text"));
  return [style.fill, getComputedStyle(document.body).color, parseFloat(style.fontSize)
    * document.querySelector("svg").getScreenCTM().a]; }"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figure_is_legible_on_a_small_phone(browser, site, theme):
    """Nothing sticks out at 360 pixels, text is at least 11 pixels high and takes the theme."""
    with visiting(browser, site, SMALL_PHONE, theme) as visit:
        page = visit.open(f"{theme}.html").page
        assert page.evaluate(STICKING_OUT) == []
        assert page.evaluate(FAINT, SMALLEST_CONTRAST) == []
        fill, _, size = page.evaluate(SVG_TEXT)
        assert fill == {"light": "rgb(34, 40, 50)", "dark": "rgb(206, 214, 221)"}[theme]
        assert size >= 11


def test_normal_routine_is_as_exact_as_stated(browser, site):
    """The script's Phi beside balls: off by no more than NORMAL_ERROR."""
    x = torch.cat([torch.linspace(-9, 9, 3001), torch.tensor([0, 1e-300, -8, 8, 40, -40])]).double()
    with visiting(browser, site) as visit:
        page = visit.open("light.html").page
        values = page.evaluate(
            "(xs) => xs.map(document.getElementById('attnverify-limit').normal)", x.tolist()
        )
    with ops.precision(128):
        exact = ops.normal_cdf(ops.balls(x))
        off = max(
            float(abs(e - v)) for e, v in zip(exact, ops.balls(np.array(values)), strict=True)
        )
    print(f"largest error of Phi: {off:.2g}, bound {interactive.NORMAL_ERROR:.2g}")
    assert off <= interactive.NORMAL_ERROR
    assert interactive.NORMAL_ERROR < 1e-9 / 400  # what PIXEL and DIGIT allow for


def test_script_formula_is_generated():
    """The expression in the script is sympy's print of the package's formula, without Python."""
    expression = interactive.argument()
    assert expression in av.interactive.limit_figure()._repr_html_()
    assert "**" not in expression and "sqrt" in expression


@pytest.mark.parametrize("name", ["xi", "eta", "gamma"])
def test_bad_start_is_refused(name):
    """A value that its slider cannot show names the argument."""
    with pytest.raises(av.InputError, match=f"{name}: got 9"):
        av.interactive.limit_figure(**{name: 9.0})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figure_works_in_the_book(browser, built_book, theme):
    """In the built page, without the network: sliders move the curve, and the values are right."""
    with serve(built_book) as address, visiting(browser, address, PHONE, theme) as visit:
        page = visit.open("notebooks/localization-limit.html").page
        for setting in SETTINGS:
            set_sliders(page, setting)
            check_drawn(page, setting)
        text = page.locator("#attnverify-limit svg text").first
        same = "(e) => getComputedStyle(e).fill === getComputedStyle(document.body).color"
        assert text.evaluate(same)
        assert visit.foreign == [] and visit.errors == []
