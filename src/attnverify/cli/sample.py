"""``attnverify sample``: random instances of one claim, for hours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnverify.cli.options import Claims, Id, Jobs, Json, Samples, Scheduler, Seed
from attnverify.cli.progress import console, pieces_bar
from attnverify.cli.selection import select_one
from attnverify.support import files
from attnverify.verification import printing


def sample(
    id: Id,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the pieces and the report.")],
    samples: Samples = 10**9,
    piece: Annotated[int, typer.Option(help="Random instances of a piece.", min=1)] = 10**6,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    as_json: Json = False,
    claims: Claims = None,
) -> None:
    """Sample a claim for hours, in pieces; the same command goes on where a run was ended.

    Piece k, counted from 1, finds what this does: verify CLAIM --evidence sampled --samples PIECE
    --seed SEED+k-1.
    """
    select_one(id, claims)
    from attnverify.topics import registry
    from attnverify.verification import long_sampling as run

    plan = run.Plan(registry.origin_of(id), id, samples, piece, seed)
    files.require_writable("out", folder / run.REPORT)
    with pieces_bar(plan.pieces) as advance:

        def finished(name: str, result: Any) -> None:
            advance(name, result)
            for line in run.violations(result):
                printing.errors.print(f"fail: {name}, {line}", markup=False, style="red")

        report = run.sample(plan, folder, scheduler=scheduler, jobs=jobs, finished=finished)
    printing.print_samples(report, console(as_json))
    if as_json:
        print(printing.as_json(report))
    raise typer.Exit(0 if report["outcome"] == "pass" else 1)
