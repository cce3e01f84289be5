"""axe-core on a page: every rule, both themes, desktop and phone, in seconds.

What costs time is the contrast of each of some thousand pieces of text. Text of equal color, size,
weight and background has equal contrast, so three pieces of each kind are looked at. KaTeX makes a
hundred elements of a formula; the rules see it as one piece of text, in its color.
"""

from __future__ import annotations

from playwright.sync_api import Page

from attnverify.book.build import npm
from visits import DESK, PHONE

AXE = "axe-core@4.14.1"
SCREENS = {"desktop": DESK, "phone": PHONE}
THEMES = ("light", "dark")
#: Milliseconds after which the theme has looked again at what scrolls: it waits 300 after a resize.
SETTLED = 500

FLAT_MATH = """() => document.querySelectorAll(".katex").forEach((e) => {
  e.textContent = e.textContent; })"""
#: Afterwards there is no token of code left to look at: for the rules that see no color.
FLAT_CODE = """() => document.querySelectorAll(".highlight pre, dt.sig .sig-param").forEach((e) => {
  if (!e.querySelector("a, button")) e.textContent = e.textContent; })"""

#: Elements whose text is looked at: three of each kind, and three links of each kind.
KINDS = """() => {
  const seen = new Map(), kept = [];
  const behind = (e) => { for (; e; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.backgroundColor !== "rgba(0, 0, 0, 0)") return s.backgroundColor; } return ""; };
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const s = getComputedStyle(e), a = e.closest("a");
    const around = a ? getComputedStyle(a.parentElement).color + s.textDecorationLine : "";
    const kind = [s.color, s.opacity, s.fontSize, s.fontWeight, behind(e), around].join("|");
    seen.set(kind, (seen.get(kind) || 0) + 1);
    if (seen.get(kind) <= 3) kept.push(a || e);
  }
  return kept;
}"""
#: The violations of a run, with the first place of each.
RUN = """async ([what, options]) => {
  const context = what ? { include: [...new Set((0, eval)(what)())] } : document;
  const found = await axe.run(context, { resultTypes: ["violations"], ...options });
  return found.violations.map((v) => `${v.id} (${v.impact}) ${v.nodes.length}: ` +
    v.nodes[0].target.join(" ") + " " + v.nodes[0].html.slice(0, 120)); }"""
COLOR = {"runOnly": ["color-contrast", "link-in-text-block"]}
#: All others of axe's rules, those of best practice and the experimental ones among them. Switched
#: off by axe itself are AAA rules (contrast 7:1 and the like) and rules that are deprecated.
REST = {"rules": {name: {"enabled": False} for name in COLOR["runOnly"]}}


def script() -> str:
    """axe-core's source."""
    return (npm.fetch(AXE) / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds on an open page, told with screen and theme."""
    page.evaluate(axe)
    page.evaluate(FLAT_MATH)
    # A color on its way from one theme to the other is none of the page's.
    page.add_style_tag(content="*, *::before, *::after { transition: none !important }")
    found = []
    for screen, (width, height) in SCREENS.items():
        page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(f"document.documentElement.dataset.theme !== '{_other(theme)}'")
            bad = page.evaluate(RUN, [KINDS, COLOR])
            found += [f"{screen}, {theme}: {text}" for text in bad]
    page.evaluate(FLAT_CODE)
    for screen, (width, height) in SCREENS.items():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(SETTLED)
        found += [f"{screen}: {text}" for text in page.evaluate(RUN, [None, REST])]
    return found


def _other(theme: str) -> str:
    return THEMES[1 - THEMES.index(theme)]
