"""What the theme and docutils get wrong, mostly for readers who hear the page or use a keyboard.

Each mend is a text of the pages and what takes its place. axe-core looks at every page afterwards
(tests/book/test_accessibility.py), so a mend that no longer fits its theme is noticed.
"""

from __future__ import annotations

import re

MENDS = (
    # The name hid the text of the button, which also names the keys.
    (re.compile(r'(<button class="btn search-button-field[^>]*?) aria-label="Search"'), r"\1"),
    # Its logo and its search field were in no landmark.
    (
        '<div id="pst-primary-sidebar" ',
        '<div id="pst-primary-sidebar" role="region" aria-label="Side bar" ',
    ),
    # The name hid what is folded, "The computation".
    ('<summary aria-label="Toggle hidden content">', "<summary>"),
    # Until the theme's script ran there was no theme: no borders, then all moved by their width.
    (
        'document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";',
        '{ const { dataset } = document.documentElement, dark = "(prefers-color-scheme: dark)";'
        " dataset.theme ="
        ' dataset.mode !== "auto" ? dataset.mode : matchMedia(dark).matches ? "dark" : "light"; }',
    ),
    # A deprecated role, which a list cannot hold.
    (' role="doc-biblioentry"', ' role="listitem"'),
)


def mend(page: str) -> str:
    """The page with every mend."""
    for wrong, right in MENDS:
        if isinstance(wrong, str):
            page = page.replace(wrong, right)
        else:
            page = wrong.sub(right, page)
    return page
