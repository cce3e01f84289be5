"""A reader's session with the derivation cells of one notebook, in the browser or anywhere.

The cells before the one that is checked run as they are printed, the last one as the reader has it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from attnverify.book.inpage.absent_libraries import AbsentError
from attnverify.derivation import ledger
from attnverify.derivation.entry import Entry
from attnverify.derivation.ledger import DerivationError

#: CommonMark with formulas between dollar signs, as MyST reads them. They stay TeX, in elements of
#: class "math"; KaTeX sets them in the page.
MARKDOWN = MarkdownIt("commonmark").use(dollarmath_plugin, double_inline=True)
#: What came of a cell.
HOLDS, FALSE, REFUSED, ABSENT, ERROR = "holds", "false", "refused", "absent", "error"


@dataclass
class Shown:
    """What a cell shows: boxes as HTML, printed text, the value of its last line, and how it ended.

    outcome: "holds" (it ran to its end), "false" (a step is decided, and not as it is said to be),
    "refused" (a step that does not count, as one that nobody can decide), "absent" (it needs a
    library that is not there) or "error". A box of a step that is false or not decided comes last.
    """

    outcome: str = HOLDS
    message: str = ""
    boxes: list[str] = field(default_factory=list)
    printed: str = ""
    value: str = ""
    number: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """This result as a mapping of plain values."""
        return asdict(self)


class Session:
    """A sequence of executed cells, with the names that each of them left."""

    def __init__(self, notebook: str) -> None:
        self.notebook = notebook
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._after: list[dict[str, Any]] = [dict(self._names)]
        self._ran: list[str] = []

    def check(self, before: Sequence[str], source: str) -> Shown:
        """Run the cells of ``before`` that have not run yet, then ``source``.

        An error in an earlier cell ends the check; ``number`` says in which cell (1..) it was.
        """
        self._ran = self._ran[: _common(self._ran, before)]
        for number in range(len(self._ran) + 1, len(before) + 1):
            shown = self._run(number, before[number - 1])
            if shown.outcome != HOLDS:
                return shown
            self._after[number:] = [dict(self._names)]
            self._ran.append(before[number - 1])
        return self._run(len(before) + 1, source)

    def _run(self, number: int, source: str) -> Shown:
        """One cell, in the names that the cells before it left.

        The mapping stays the same object: functions of earlier cells look their names up in it.
        """
        self._names.clear()
        self._names.update(self._after[number - 1])
        shown, printed = Shown(number=number), io.StringIO()
        start = time.perf_counter()
        last = ""
        with ledger.recording(formulas=True) as entries, contextlib.redirect_stdout(printed):
            try:
                shown.value = _value(_execute(source, self.file(number), self._names))
            except DerivationError as error:
                shown.outcome, shown.message = FALSE if error.false else REFUSED, str(error)
                last = error.shown
            except AbsentError as error:
                shown.outcome, shown.message = ABSENT, str(error)
            except (Exception, SystemExit) as error:  # whatever a cell raises is what came of it
                shown.outcome, shown.message = ERROR, _ending(error, self.notebook)
        boxes = [entry.as_markdown() for entry in entries] + ([last] if last else [])
        shown.boxes = [MARKDOWN.render(text) for text in boxes]
        shown.printed, shown.seconds = printed.getvalue(), time.perf_counter() - start
        return shown

    def file(self, number: int) -> str:
        """The file name of a cell in tracebacks."""
        return f"{self.notebook}.md, derivation cell {number}"


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """The number of leading entries that two sequences share."""
    same = (x == y for x, y in zip(a, b, strict=False))
    return next((k for k, equal in enumerate(same) if not equal), min(len(a), len(b)))


def _execute(source: str, file: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line if that is an expression, else None."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, file, "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, file, "exec"), names)
    return eval(compile(ast.Expression(last.value), file, "eval"), names)


def _value(value: Any) -> str:
    """What a notebook would print of a value; boxes are shown as such."""
    return "" if value is None or isinstance(value, Entry) else repr(value)


def _ending(error: BaseException, notebook: str) -> str:
    """The error and the lines of the cells that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(f"{notebook}.md, ")]
    words = traceback.format_exception_only(error)
    return "".join([*traceback.format_list(own), *words]).strip()
