"""Parts of the box that shows an entry of the ledger in a notebook, as Markdown."""

from __future__ import annotations

import sys

from attnverify.derivation.myst import escape
from attnverify.support.typeset import as_html

WORDS = {"derived": "holds", "rejected": "rejected"}
TITLES = {"derived": "Derived", "rejected": "Rejected"}
#: How a step was decided, by the first word of ``Step.how``: of one that holds, and of one that
#: does not. The page on evidence says what each means.
HOW = {
    "derived": {
        "identity": "✓ identity",
        "entries": "✓ equal entry by entry",
        "words": "✓ equal as words",
        "relation": "✓ decided",
    },
    "rejected": {
        "identity": "✗ no identity",
        "entries": "✗ an entry differs",
        "words": "✗ other words",
        "relation": "✗ decided",
    },
}
#: A step that is not what it is said to be: the heading of its box, and how it was decided.
REFUSED = {
    "true": ("Not rejected", "✓ true"),
    "false": ("Does not hold", "✗ false"),
    "undecided": ("Not decided", "? undecided, which does not count"),
}


def decided(role: str, how: str) -> str:
    """The words for how a step was decided, from its role and ``Step.how``."""
    return HOW[role][how.split()[0]]


def item(name: str, how: str, formula: str) -> str:
    """An entry of the list: the name of a step, how it was decided, its formula."""
    text = f"{as_html(name, escape)} <small>{how}</small>\n\n{formula}"
    return "- " + text.replace("\n", "\n  ")


def refusal(claim: str, before: list[str], name: str, verdict: str, formula: str) -> str:
    """Markdown box of the steps ``before`` and, last, the step that was not decided as expected."""
    title, how = REFUSED[verdict]
    return box("refused", title, claim, *before, item(name, how, formula))


def box(kind: str, title: str, claim: str, *parts: str) -> str:
    """The whole box: its heading, then the parts."""
    head = f'<div class="ledger ledger-{kind}">'
    return "\n\n".join([head, f"**{title}** `{claim}`", *parts, "</div>"])


def current_cell() -> int:
    """The number of the cell that a notebook runs, 0 outside of one."""
    found = shell()
    return found.execution_count if found is not None else 0


def shell():
    """The shell of a notebook or of IPython, None outside of one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
