"""What ``attnverify experiment`` prints: the list, the table of one run, its verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from attnverify.experiments import EXPERIMENTS, Settings, find
from attnverify.experiments.engine import results, stored
from attnverify.experiments.engine.model import Experiment, Row
from attnverify.support.files import require_writable
from attnverify.verification import printing
from attnverify.verification.claim import Registry

MOST_ROWS = 60  # printed; the file has all


def show_all(out: Console, claims: Registry) -> None:
    """The experiments with the title and the notebook of their claims."""
    table = printing.table("name", "measures", "book says", "notebook")
    for name, experiment in EXPERIMENTS.items():
        claim = claims[experiment.claim]
        says = "the criterion " + ("is met" if claim.asserts == "holds" else "is not met")
        table.add_row(name, claim.title, says, f"notebooks/{claim.notebook}.md")
    out.print(table)


def run(
    name: str,
    settings: Settings,
    folder: Path,
    out: Console,
    claims: Registry,
) -> bool:
    """Run, print, save; whether the criterion came out as the book says, or nothing is judged.

    folder: where the table, checkpoints and metrics go. Raises
    InputError before the run for a folder that cannot be written to, that another run is using, or
    that holds something else under the table's name; and after it, with everything printed, if the
    table cannot be written.
    """
    experiment = find(name)
    results.require_fit(experiment, settings)
    with stored.own(folder):
        path = folder / f"{name}.json"
        require_writable("out", path)
        result = _measure(experiment, replace(settings, folder=folder))
        agrees = _tell(experiment, result, out, claims[experiment.claim].asserts)
        with stored.told(path):
            results.save(path, result)
    out.print(f"wrote {path}", markup=False, highlight=False)
    return agrees


def _measure(experiment: Experiment, settings: Settings) -> results.Result:
    with printing.progress_bar() as bar:
        task = bar.add_task(experiment.name, total=100)

        def advance(what: str, done: float) -> None:
            bar.update(task, completed=round(100 * done), description=what)

        return results.run(experiment, replace(settings, progress=advance))


def _tell(experiment: Experiment, result: results.Result, out: Console, asserts: str) -> bool:
    """Print the table and the verdict; whether it is as the book says.

    A quick run of an experiment whose criterion asks for more is as good as measured.
    """
    out.print(_table(result.rows))
    argument, holds = result.verdict["argument"], result.verdict["holds"]
    agrees = holds is (asserts == "holds")
    words = "criterion " + {True: "met", False: "not met", None: "undecided"}[holds]
    end = f"{'as' if agrees else 'not as'} the book says"
    if result.settings["quick"] and not experiment.quick_decides:
        words = "criterion judged in the full setting only, without --quick; here"
        agrees, end = True, "measured"
    for line in (f"{words}: {argument}", f"{end}; {result.seconds} s"):
        out.print(line, markup=False, highlight=False)
    return agrees


def _table(rows: list[Row]) -> Table:
    """The first rows and the columns with one value each; lists are in the file."""
    lists = {key for row in rows for key, value in row.items() if isinstance(value, list)}
    columns = [k for k in dict.fromkeys(k for row in rows for k in row) if k not in lists]
    shown = f"{min(len(rows), MOST_ROWS)} of {len(rows)} rows"
    caption = shown + (f"; in the file also {', '.join(sorted(lists))}" if lists else "")
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False, caption=caption)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows[:MOST_ROWS]:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return "" if value is None else str(value)
