"""``attnverify attack``: a search for a counterexample to one inequality."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnverify.cli.options import (
    Claims,
    Id,
    OnDevice,
    Restarts,
    Seed,
    Steps,
    require_device,
)
from attnverify.cli.selection import select_one
from attnverify.support import files
from attnverify.support.errors import InputError
from attnverify.verification import printing
from attnverify.verification.printing import out

if TYPE_CHECKING:
    from attnverify.checking.check import Inequality


def attack(
    id: Id,
    check: Annotated[
        str | None, typer.Option(help="Name of an inequality of the claim; its first if omitted.")
    ] = None,
    restarts: Restarts = 64,
    steps: Steps = 500,
    seed: Seed = 0,
    device: OnDevice = "cpu",
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the worst instance to this file. No other file than an instance is replaced."
        ),
    ] = None,
    claims: Claims = None,
) -> None:
    """Search for a counterexample to a claim; the worst instance can be saved and replayed."""
    if save is not None:
        files.require_writable("save", save)
    from attnverify.chapters import registry
    from attnverify.checking.records import Settings
    from attnverify.checking.search import attack as search
    from attnverify.verification import replay as instances

    require_device(device)
    id = select_one(id, claims)
    name, inequality = _inequality(id, check)
    settings = Settings(restarts=restarts, steps=steps, seed=seed, device=device)
    with printing.progress_bar() as bar:
        task = bar.add_task(f"attacking {id}", total=(steps + 1) * len(inequality.sizes))
        found = search(inequality, settings, f"{id}/{name}", lambda n: bar.update(task, advance=n))
    ratio = "none decided" if found.ratio is None else f"{found.ratio:.10f}"
    out.print(
        f"{id} ({name}): {found.outcome}, largest left/right {ratio} "
        f"in {found.decided} decided instances, all sizes together",
        highlight=False,
    )
    if found.detail:
        out.print(found.detail, markup=False)
    if save is not None and found.instance is not None:
        instances.save(registry.origin_of(id), save, id, name, found.instance)
        named = [part for path in claims or [] for part in ("--claims", str(path))]
        command = shlex.join(["attnverify", "replay", str(save), *named])
        words = f"saved to {save}; recheck with: {command}"
        out.print(words, markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.outcome == "pass" else 1)


def _inequality(id: str, name: str | None) -> tuple[str, Inequality]:
    """The inequality of that name among a claim's checks, or its first one; raises InputError."""
    from attnverify.chapters import registry
    from attnverify.checking.check import Inequality

    found = {n: c for n, c in registry.checks_of(id).items() if isinstance(c, Inequality)}
    if not found:
        raise InputError(
            f"id: got {id!r}, which has no inequality to attack, expected one that has"
        )
    if name is not None and name not in found:
        raise InputError(f"check: got {name!r}, expected one of {sorted(found)}")
    name = name or next(iter(found))
    return name, found[name]
