"""How an entry of the ledger is shown: text in a terminal, a box with formulas in a notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from attnverify.derivation import assumptions as givens
from attnverify.derivation.myst import escape

if TYPE_CHECKING:
    from attnverify.derivation.ledger import Entry, Step

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


def as_text(entry: Entry) -> str:
    """Text of an entry for a terminal, one line a step."""
    mark = WORDS[entry.role]
    lines = [f"{entry.role}: {entry.claim}"]
    for step in entry.steps:
        sides = f"{step.left} = {step.right}" if step.how.split()[0] != "relation" else step.source
        lines.append(f"  [{mark}] {step.name}" + (f": {sides}" if len(sides) <= 100 else ""))
    words = givens.in_words(entry.given)
    return "\n".join([*lines, *([f"  given: {words}"] if words else [])])


def as_markdown(entry: Entry) -> str:
    """Markdown list of the steps, each with its name, formula and how it was decided."""
    items = [item(s, entry.role, tex) for s, tex in zip(entry.steps, entry.shown, strict=True)]
    return _box(entry.role, TITLES[entry.role], entry.claim, *items, givens.as_html(entry.given))


def item(step: Step, role: str, formula: str) -> str:
    """An entry of the list: a step that was decided as its role says."""
    return _item(step.name, HOW[role][step.how.split()[0]], formula)


def refusal(claim: str, before: list[str], name: str, verdict: str, formula: str) -> str:
    """Markdown box of the steps ``before`` and, last, the step that was not decided as expected."""
    title, how = REFUSED[verdict]
    return _box("refused", title, claim, *before, _item(name, how, formula))


def _item(name: str, how: str, formula: str) -> str:
    text = f"{escape(name)} <small>{how}</small>\n\n{formula}"
    return "- " + text.replace("\n", "\n  ")


def _box(kind: str, title: str, claim: str, *parts: str) -> str:
    head = f'<div class="ledger ledger-{kind}">'
    return "\n\n".join([head, f"**{title}** `{claim}`", *parts, "</div>"])


def current_cell() -> int:
    """The number of the cell that a notebook runs, 0 outside of one."""
    shell = _shell()
    return shell.execution_count if shell is not None else 0


def show(entry: Entry) -> None:
    """Show an entry in the notebook, or print it outside of one."""
    if _shell() is None:
        print(entry)
        return
    from IPython.display import display

    display({"text/markdown": as_markdown(entry), "text/plain": as_text(entry)}, raw=True)


def _shell():
    """The shell of a notebook or of IPython, None outside of one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
