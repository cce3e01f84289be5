"""``attnverify show``: one claim, its formal proofs and its checks."""

from __future__ import annotations

from typing import Annotated

import typer

from attnverify.cli.options import Claims, Id
from attnverify.cli.selection import select_one
from attnverify.verification import printing
from attnverify.verification.claim import Claim
from attnverify.verification.printing import out


def show(
    id: Id,
    checks: Annotated[
        bool,
        typer.Option("--checks", help="Also show its checks and false twins, which takes longer."),
    ] = False,
    claims: Claims = None,
) -> None:
    """Show one claim: its statement, its source, what it rests on, its notebook."""
    from attnverify.chapters import registry

    claim = registry[select_one(id, claims)]
    out.print(f"[bold]{claim.id}[/bold]  ({claim.kind})\n{claim.title}\n")
    out.print(claim.statement.strip(), markup=False)
    out.print(f"\nsource     {claim.source}", markup=False)
    out.print(
        f"book says  the statement {claim.asserts}"
        + (f"; corrected by {claim.corrected_by}" if claim.corrected_by else ""),
        soft_wrap=True,
    )
    out.print(f"rests on   {', '.join(claim.uses) or 'nothing'}")
    out.print(
        f"stated in  {claim.notebook}"
        if claim.id.split(".")[0] not in registry.prefixes
        else f"notebook   notebooks/{claim.notebook}.md"
    )
    _show_proofs(claim)
    if checks:
        _show_checks(claim.id, derived=claim.derived)
    else:
        out.print(f"checks     attnverify show {claim.id} --checks", highlight=False)


def _show_proofs(claim: Claim) -> None:
    """Print the formal theorems of a claim with their statements, if it has some."""
    from attnverify.verification import formal

    for record in formal.evidence_of(claim.id, statement=claim.digest)[0]:
        passed = record.outcome == "pass"
        words = f"machine-checked, {formal.prover()}" if passed else f"not checked: {record.detail}"
        out.print(f"formal     {record.check}: {words}", markup=False)
        out.print(f"           {record.limits}", markup=False, highlight=False, soft_wrap=True)
        for line in formal.statement(record.check).splitlines():
            out.print(f"           {line}", markup=False, highlight=False, soft_wrap=True)


def _show_checks(id: str, derived: bool) -> None:
    """Print the checks of a claim, which imports what they compute with."""
    from attnverify.chapters import registry

    table = printing.table("check", "form", "evidence", "false twins that it must reject")
    for name, check in registry.described(id).items():
        twins = "; ".join(check.twins) or "(run with the claim's other checks)"
        table.add_row(name, check.form.lower(), ", ".join(check.kinds), twins)
    out.print(table)
    if derived:
        out.print("The derivation in the notebook has false twins of its own.", markup=False)
