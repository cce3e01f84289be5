"""The console command ``attnverify``: list, show, verify, attack, replay, experiment.

Exit code 0: no check failed or stayed unknown; 1: some did; 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from attnverify import __version__
from attnverify.claims import registry
from attnverify.errors import InputError

app = typer.Typer(
    name="attnverify",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Piped output is as wide as the widest table needs.
out = Console(width=None if sys.stdout.isatty() else 110)
progress_out = Console(stderr=True)

Kinds = StrEnum("Kinds", ["sampled", "attacked", "certified", "decided", "derived", "measured"])
Device = StrEnum("Device", ["cpu", "cuda"])

Ids = Annotated[list[str] | None, typer.Argument(help="Claim ids or globs; all claims if omitted.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal evidence.", min=0)]


def main() -> None:
    """Run the command; bad input is told in one line on stderr, exit code 2."""
    try:
        app()
    except InputError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"attnverify: {error}", style="red", markup=False
        )
        sys.exit(2)


def _version(asked: bool | None) -> None:
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Check the claims of the book Attention, Verified."""


@app.command("list")
def list_claims(ids: Ids = None, as_json: Json = False) -> None:
    """List the claims: id, kind, title, source."""
    claims = registry.select(ids or [])
    if as_json:
        rows = [{"id": c.id, "kind": c.kind, "title": c.title, "source": c.source} for c in claims]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = _table("id", "kind", "title", "source")
    for c in claims:
        table.add_row(c.id, c.kind, c.title, c.source)
    out.print(table)


@app.command()
def show(id: Annotated[str, typer.Argument(help="Claim id.")]) -> None:
    """Show one claim: statement, source, what it rests on, its checks and false twins."""
    from attnverify.checks import checks_of

    claim = registry[id]
    out.print(f"[bold]{claim.id}[/bold]  ({claim.kind})\n{claim.title}\n")
    out.print(claim.statement.strip(), markup=False)
    out.print(f"\nsource     {claim.source}", markup=False)
    out.print(
        f"book says  the statement {claim.asserts}"
        + (f"; corrected by {claim.corrected_by}" if claim.corrected_by else "")
    )
    out.print(f"rests on   {', '.join(claim.uses) or 'nothing'}")
    out.print(f"notebook   notebooks/{claim.notebook}.md")
    table = Table("check", "form", "evidence", "false twins that it must reject")
    for name, check in checks_of(id).items():
        twins = "; ".join(t.title for t in check.twins) or "(run with the claim's other checks)"
        table.add_row(name, type(check).__name__.lower(), ", ".join(check.kinds), twins)
    out.print(table)
    if claim.derived:
        out.print("The derivation in the notebook has false twins of its own.", markup=False)


@app.command()
def verify(
    ids: Ids = None,
    evidence: Annotated[
        list[Kinds] | None, typer.Option(help="Only this kind of evidence; may be repeated.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Random instances a check.", min=1)] = 2000,
    restarts: Annotated[int, typer.Option(help="Starts of every attack.", min=1)] = 24,
    steps: Annotated[int, typer.Option(help="Gradient steps of every attack.", min=1)] = 300,
    seed: Seed = 0,
    device: Annotated[Device, typer.Option(help="Where to search.")] = Device.cpu,
    scheduler: Annotated[str | None, typer.Option(help="Address of a dask scheduler.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Local processes (default: cores).", min=1)
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report here.")] = None,
    notebooks: Annotated[
        Path | None, typer.Option(help="Run the derivations of this folder's notebooks.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Gather again what was gathered before.")
    ] = False,
) -> None:
    """Gather evidence for the claims and all they rest on, run the twins, derive the statuses."""
    from attnverify.evidence.records import KINDS
    from attnverify.evidence.replay import write_text
    from attnverify.evidence.search import Settings
    from attnverify.evidence.store import default
    from attnverify.evidence.verify import tasks_in
    from attnverify.evidence.verify import verify as run

    _require_device(device)
    kinds = [k.value for k in evidence] if evidence else list(KINDS)
    settings = Settings(samples, restarts, steps, seed, device.value)
    with _progress() as bar:
        task = bar.add_task("checking", total=tasks_in(ids or [], kinds))

        def advance(name: str) -> None:
            bar.update(task, advance=1, description=name)

        report = run(
            ids or [],
            settings,
            kinds,
            scheduler=scheduler,
            jobs=jobs,
            progress=advance,
            notebooks_folder=notebooks,
            store=None if fresh else default(),
        )
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        write_text(json_file, json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    _print_report(report)
    if report.reused:
        pieces = tasks_in(ids or [], kinds)
        out.print(f"{report.reused} of {pieces} pieces were found before (--fresh: find again)")
    added = len(report.claims) - len(registry.select(ids or []))
    if added:
        out.print(f"{added} of them were not asked for: the others rest on them", markup=False)
    raise typer.Exit(0 if report.as_claimed else 1)


@app.command()
def attack(
    id: Annotated[str, typer.Argument(help="Claim id.")],
    check: Annotated[str | None, typer.Option(help="Name of one inequality of the claim.")] = None,
    restarts: Annotated[int, typer.Option(min=1)] = 64,
    steps: Annotated[int, typer.Option(min=1)] = 500,
    seed: Seed = 0,
    device: Annotated[Device, typer.Option()] = Device.cpu,
    save: Annotated[Path | None, typer.Option(help="Save the worst instance here.")] = None,
) -> None:
    """Search for a counterexample to a claim; the worst instance can be saved and replayed."""
    from attnverify.evidence import replay as files
    from attnverify.evidence.search import Settings
    from attnverify.evidence.search import attack as search

    _require_device(device)
    name, inequality = _inequality(id, check)
    settings = Settings(restarts=restarts, steps=steps, seed=seed, device=device.value)
    with _progress() as bar:
        task = bar.add_task(f"attacking {id}", total=(steps + 1) * len(inequality.sizes))
        found = search(inequality, settings, f"{id}/{name}", lambda n: bar.update(task, advance=n))
    out.print(
        f"{id} ({name}): {found.outcome}, largest left/right {found.ratio:.10f} "
        f"in {found.instances} restarts, all sizes together",
        highlight=False,
    )
    if found.detail:
        out.print(found.detail, markup=False)
    if save is not None:
        files.save(save, id, name, found.instance)
        out.print(f"saved to {save}; recheck with: attnverify replay {save}", markup=False)
    raise typer.Exit(0 if found.outcome == "pass" else 1)


@app.command()
def replay(file: Annotated[Path, typer.Argument(help="A file that attack --save wrote.")]) -> None:
    """Recheck a saved instance from scratch in ball arithmetic."""
    from attnverify.evidence import replay as files

    claim, name, seen = files.replay(file)
    words = {
        "pass": "left <= right",
        "fail": "left > right: a counterexample",
        "unknown": "unknown",
    }
    equal = seen.outcome == "unknown" and seen.attained
    verdict = "equality to within 2^-40" if equal else words[seen.outcome]
    out.print(f"{claim} ({name}): {verdict}; hypotheses: {seen.hypotheses}", highlight=False)
    out.print(
        f"left/right = {seen.ratio.str(20)}, 1 - left/right = {(1 - seen.ratio).str(3)} "
        f"at {seen.bits} bits",
        markup=False,
        highlight=False,
    )
    raise typer.Exit(0 if seen.outcome == "pass" or seen.attained else 1)


@app.command()
def experiment(
    name: Annotated[str | None, typer.Argument(help="Experiment; lists them if omitted.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The setting of the chapters.")] = False,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.cpu,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal tables.", min=0)] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to (default attnverify-NAME).")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder with a model of yours, where one is taken.")
    ] = None,
    text: Annotated[Path | None, typer.Option(help="Text file of yours, likewise.")] = None,
) -> None:
    """Measure again what the book reports; a run that was interrupted goes on where it was."""
    from attnverify.experiments import Settings
    from attnverify.experiments.engine import command

    if name is None:
        command.show_all(out)
        return
    _require_device(device)
    settings = Settings(quick=quick, seed=seed, device=device.value, model=model, text=text)
    agrees = command.run(name, settings, folder, out, progress_out)
    raise typer.Exit(0 if agrees else 1)


def _table(first: str, *columns: str) -> Table:
    """A table whose first column, the id, is never cut."""
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _inequality(id: str, name: str | None):
    from attnverify.checks import checks_of
    from attnverify.evidence.forms import Inequality

    found = {n: c for n, c in checks_of(id).items() if isinstance(c, Inequality)}
    if not found:
        raise InputError(
            f"id: got {id!r}, which has no inequality to attack, expected one that has"
        )
    if name is not None and name not in found:
        raise InputError(f"check: got {name!r}, expected one of {sorted(found)}")
    name = name or next(iter(found))
    return name, found[name]


def _require_device(device: Device) -> None:
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise InputError("device: got 'cuda', expected a machine with a CUDA device (or 'cpu')")


def _progress() -> Progress:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=progress_out, transient=True)


def _print_report(report) -> None:
    from attnverify.book.figures import COLORS

    table = _table("claim", "status", "evidence", "margin", "twins")
    for claim in report.claims:
        records, twins = report.records[claim.id], report.twins[claim.id]
        status = report.standing[claim.id].status
        rejected = f"{sum(t.rejected for t in twins)}/{len(twins)}"
        table.add_row(
            claim.id, f"[{COLORS[status]}]{status}[/]", _kinds(records), _margin(records), rejected
        )
    out.print(table)
    for claim in report.claims:
        for record in report.records[claim.id]:
            if record.outcome != "pass":
                where = f"{claim.id}, {record.kind} ({record.check})"
                out.print(f"{record.outcome}: {where}: {record.detail}", markup=False, style="red")
        for reason in report.standing[claim.id].reasons:
            out.print(f"{claim.id}: {reason}", markup=False)
    for line in _origins(report.derivations):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    out.print(verdict(report), markup=False)


def _origins(sources) -> list[str]:
    """Where the derivations came from; the digests of many are left to the JSON report."""
    found = [s for s in sources if s.found]
    if len(found) > 3:
        return [
            f"derivations: {[s.origin for s in found].count(origin)} notebooks, {origin} (--json "
            "writes the SHA-256 of each)"
            for origin in dict.fromkeys(s.origin for s in found)
        ]
    return [f"derivations: {s.notebook}.md, {s.origin}, SHA-256 {s.sha256}" for s in found]


def _kinds(records) -> str:
    """Three letters a kind of evidence, with "!" behind a kind that did not pass everywhere."""
    failed = {r.kind for r in records if r.outcome != "pass"}
    return " ".join(k[:3] + "!" * (k in failed) for k in dict.fromkeys(r.kind for r in records))


def _margin(records) -> str:
    """Best ratio of the inequalities, by attack or certificate; 1 means it cannot be improved."""
    kinds = {"attacked", "certified"}
    attacked = {r.check for r in records if r.kind == "attacked"}
    ratios = [
        r.ratio for r in records if r.kind in kinds and r.check in attacked and r.ratio is not None
    ]
    return f"{max(ratios):.6f}" if ratios else "-"


def verdict(report) -> str:
    """One line: how many claims have which status, and how many twins were rejected."""
    statuses = [report.standing[c.id].status for c in report.claims]
    counts = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
    twins = [t for twins in report.twins.values() for t in twins]
    rejected = f"{sum(t.rejected for t in twins)} of {len(twins)} twins rejected"
    return f"{len(statuses)} claims: {counts}; {rejected}"


if __name__ == "__main__":
    main()
