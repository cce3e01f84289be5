"""``attnverify replay``: a saved instance, evaluated again in ball arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import Claims
from attnverify.cli.selection import select_ids
from attnverify.verification.printing import out


def replay(
    file: Annotated[Path, typer.Argument(help="A file that attack --save wrote.")],
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Also write it as a certificate for tools/recheck.py."),
    ] = None,
    claims: Claims = None,
) -> None:
    """Recheck a saved instance from scratch in ball arithmetic."""
    select_ids(claims or [])
    from attnverify.chapters import registry
    from attnverify.verification import certificate_export as certificates
    from attnverify.verification import replay as instances

    if export is not None:
        certificates.write_saved(registry, file, export)
        out.print(
            f"certificate in {export}; for another arithmetic: tools/recheck.py", markup=False
        )
    claim, name, seen = instances.replay(registry, file)
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
