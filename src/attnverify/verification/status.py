"""Status of a claim: derived from its evidence and from the claims it rests on, never written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnverify.checking.records import Record, TwinRecord
from attnverify.support.vocabulary import UNCHECKED, Status
from attnverify.verification import formal
from attnverify.verification.claim import Claim, Registry
from attnverify.verification.claim_files import file_of


@dataclass(frozen=True)
class Standing:
    """A status and, unless it is plain, the reasons."""

    status: Status
    reasons: tuple[str, ...] = ()


def required(registry: Registry, claim: Claim) -> set[tuple[str, str]]:
    """The (kind, check) pairs that apply to a claim: its checks', the derivation, the theorems.

    The outcome of an experiment is measured and not derived.
    """
    checks = registry.described(claim.id)
    pairs = {(kind, name) for name, check in checks.items() for kind in check.kinds}
    pairs |= {("formal", theorem.name) for theorem in formal.theorems_of(claim.id)}
    return pairs | {("derived", claim.notebook)} if claim.derived else pairs


def own(
    registry: Registry, claim: Claim, records: Iterable[Record], twins: Iterable[TwinRecord]
) -> Standing:
    """Status from a claim's own evidence alone."""
    records, twins = list(records), list(twins)
    failed = [f"{r.kind} ({r.check}): {r.outcome}" for r in records if r.outcome == "fail"]
    failed += [_not_rejected(t, records) for t in twins if not t.rejected]
    if failed:
        return Standing("failed", tuple(failed))
    if not twins and all(r.outcome == "unknown" for r in records):
        return Standing(UNCHECKED, tuple(f"{r.kind} ({r.check}): {r.detail}" for r in records))
    passed = {(r.kind, r.check) for r in records if r.outcome == "pass"}
    missing = sorted(required(registry, claim) - passed)
    tested = {twin.check for twin in twins}
    untested = [
        name
        for name, check in registry.described(claim.id).items()
        if check.twins and name not in tested
    ]
    reasons = [f"no passing {kind} evidence ({check})" for kind, check in missing]
    reasons += [f"twins not run ({name})" for name in untested]
    handed_in = file_of(registry, claim.id) and ("derived", claim.notebook) in passed
    if handed_in and claim.notebook not in tested:  # a test looks at the book's own
        words = f'av.ledger.rejected("{claim.id}", ...) with a false neighbor of a step'
        reasons.append(f"derived ({claim.notebook}): got no false neighbor, expected {words}")
    reasons += filter(None, [registry.origin_of(claim.id).changed(claim)])
    if reasons:
        return Standing("partial", tuple(reasons))
    holds = claim.asserts == "holds"
    if claim.derived:
        return Standing("verified" if holds else "refuted")
    return Standing("criterion met" if holds else "criterion not met")


def _not_rejected(twin: TwinRecord, records: Iterable[Record]) -> str:
    """What to do about a twin that holds; most often the claim's constant is loose."""
    found = [r for r in records if r.check == twin.check]
    words = f"twin not rejected ({twin.check}): {twin.twin}"
    sure = max((r.refuted_at or 0 for r in found), default=0)
    if any(r.outcome != "pass" for r in found):
        return words
    if twin.factor is None or not sure:
        seen = at = ""
        if twin.ratio is not None:
            seen = f" (its largest ratio: {twin.ratio:.6g})"
            at = ", or an .equal instance at which it fails"
        words += f". No instance tried tells it from the claim{seen}"
        return f"{words}; expected a neighbor that is false{at}"
    largest = max(r.ratio or 0 for r in found if r.refuted_at)
    return (
        f"{words}. The claim itself held, but its constant is loose: no instance has left/right "
        f"above {largest:.4f}. Lower the constant to about {largest:.4f} times the right side; if "
        f"the looseness is meant, say tight={sure:g}"
    )


def derived(
    registry: Registry,
    records: Mapping[str, Iterable[Record]],
    twins: Mapping[str, Iterable[TwinRecord]],
) -> dict[str, Standing]:
    """The statuses that follow from the evidence of some claims, by id."""
    alone = {id: own(registry, registry[id], records[id], twins[id]) for id in records}
    return standings(registry, alone)


def standings(registry: Registry, alone: Mapping[str, Standing]) -> dict[str, Standing]:
    """Statuses with ancestors taken into account; one that is not in ``alone`` is not checked.

    What rests on a refuted claim uses its counterexample, which is established by its evidence.
    """
    out = {}
    for id, standing in alone.items():
        weak = []
        for ancestor in registry.ancestors(id):
            status = alone[ancestor].status if ancestor in alone else UNCHECKED
            if status not in ("verified", "refuted"):
                weak.append(f"rests on {ancestor}: {status}")
        if standing.status in ("verified", "criterion met") and weak:
            standing = Standing("partial", tuple(weak))
        out[id] = standing
    for id, standing in out.items():
        correction = registry[id].corrected_by
        if standing.status == "refuted" and correction in out:
            if out[correction].status == "verified":
                out[id] = Standing("corrected", (f"by {correction}",))
    return out
