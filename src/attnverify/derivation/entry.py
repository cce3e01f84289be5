"""An entry of the ledger and its steps, which shows itself in a terminal and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnverify.derivation import assumptions as givens
from attnverify.derivation import step_box


@dataclass(frozen=True)
class Step:
    """A step that was decided: its name, how, its two sides as sympy holds them, its source.

    sides: digest of both sides in full; code: digest of the source that the step and all its names
    come from, "" where that is not known.
    """

    name: str
    how: str
    left: str
    right: str
    sides: str
    source: str
    code: str = ""


@dataclass(frozen=True)
class Entry:
    """A completed derivation or rejected twin, shown as a box in the notebook.

    place: file and line of the call, ("", 0) if its source is not at hand; shown: Markdown of each
    step, empty while ``ledger.recording`` runs; cell: the number of the notebook's cell, or 0.
    """

    claim: str
    role: str
    steps: tuple[Step, ...]
    given: givens.Given
    place: tuple[str, int] = ("", 0)
    shown: tuple[str, ...] = field(default=(), compare=False)
    cell: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        """A line a step, for a terminal."""
        word = step_box.WORDS[self.role]
        lines = [f"{self.role}: {self.claim}"]
        for step in self.steps:
            related = step.how.split()[0] == "relation"
            sides = step.source if related else f"{step.left} = {step.right}"
            lines.append(f"  [{word}] {step.name}" + (f": {sides}" if len(sides) <= 100 else ""))
        words = givens.in_words(self.given)
        return "\n".join([*lines, *([f"  given: {words}"] if words else [])])

    def as_markdown(self) -> str:
        """A list of the steps, each with its name, its formula and how it was decided."""
        items = [
            step_box.item(step.name, step_box.decided(self.role, step.how), tex)
            for step, tex in zip(self.steps, self.shown, strict=True)
        ]
        title, given = step_box.TITLES[self.role], givens.as_html(self.given)
        return step_box.box(self.role, title, self.claim, *items, given)

    def show(self) -> None:
        """Show the entry in the notebook, or print it outside of one."""
        if step_box.shell() is None:
            print(self)
            return
        from IPython.display import display

        display({"text/markdown": self.as_markdown(), "text/plain": repr(self)}, raw=True)

    def _ipython_display_(self) -> None:
        """At the end of a cell: nothing, if the call in the same cell has shown the entry."""
        if step_box.current_cell() != self.cell:
            self.show()
