"""``attnverify verify``: evidence for claims, and their statuses."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnverify.cli.options import (
    INTERRUPTED,
    Ids,
    Jobs,
    OnDevice,
    Restarts,
    Samples,
    Seed,
    Steps,
    require_device,
)
from attnverify.cli.progress import console
from attnverify.cli.selection import select_ids
from attnverify.support import files
from attnverify.support.vocabulary import KINDS, Kind
from attnverify.verification import printing

if TYPE_CHECKING:
    from attnverify.checking.records import Settings
    from attnverify.verification.report import Report

#: The name of a file that stands for standard output.
STDOUT = Path("-")
Kinds = StrEnum("Kinds", list(KINDS))


def verify(
    ids: Ids = None,
    evidence: Annotated[
        list[Kinds] | None, typer.Option(help="Gather this kind of evidence; may be repeated.")
    ] = None,
    samples: Samples = 400,
    restarts: Restarts = 24,
    steps: Steps = 30,
    seed: Seed = 0,
    device: OnDevice = "cpu",
    jobs: Jobs = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write the report to this file, or to standard output for -. "
            "No other file than a report is replaced.",
        ),
    ] = None,
    notebooks: Annotated[
        Path | None, typer.Option(help="Run the derivations of this folder's notebooks.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Reuse no evidence of earlier runs.")] = (
        False
    ),
    limit: Annotated[
        float, typer.Option(help="Seconds for each piece of a claim from outside.", min=1)
    ] = 600,
) -> None:
    """Gather evidence for claims and all they rest on, run the false twins, derive the statuses.

    Ctrl-C ends the run and reports what was gathered until then.

    Exit status: 0 verified or partial, 1 failed or unknown, 2 not run.
    """
    if json_file is not None and json_file != STDOUT:
        files.require_writable("json", json_file)
    require_device(device)
    from attnverify.chapters import registry
    from attnverify.checking.records import Settings
    from attnverify.runtime.cache import default

    asked = select_ids(ids or [], limit)
    report = _gather(
        asked,
        Settings(samples, restarts, steps, seed, device),
        [kind for kind in KINDS if not evidence or kind in evidence],
        jobs=jobs,
        notebooks_folder=notebooks,
        store=None if fresh else default(),
        limit=limit,
    )
    _hand_over(report, json_file, added=len(report.claims) - len(registry.select(asked)))
    raise typer.Exit(INTERRUPTED if report.interrupted else 0 if report.as_claimed else 1)


def _gather(asked: list[str], settings: Settings, kinds: list[Kind], **options: Any) -> Report:
    """The report of a run under a progress bar; an interrupted run reports what it has."""
    from attnverify.chapters import registry
    from attnverify.verification.report import Interrupted
    from attnverify.verification.verify import tasks_in
    from attnverify.verification.verify import verify as run

    with printing.progress_bar() as bar:
        task = bar.add_task("checking", total=tasks_in(registry, asked, kinds, options["limit"]))

        def advance(name: str) -> None:
            bar.update(task, advance=1, description=name)

        try:
            return run(registry, asked, settings, kinds, progress=advance, **options)
        except Interrupted as stopped:
            return stopped.report


def _hand_over(report: Report, json_file: Path | None, added: int) -> None:
    """Write the report to its file and print it.

    added: number of claims that were not asked for. If the file cannot be written, standard output
    gets what it was to hold.
    """
    failure = None
    if json_file is not None and json_file != STDOUT:
        text = json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n"
        try:
            files.write_text(json_file, text)
        except OSError as error:
            failure = error
    on_stdout = json_file == STDOUT or failure is not None
    if on_stdout:
        print(printing.as_json(report.as_json()))
    to = console(on_stdout)
    printing.print_report(report, to)
    if added:
        to.print(f"{added} of them were not asked for: the others rest on them", markup=False)
    if failure is not None:
        raise failure
