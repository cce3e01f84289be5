"""What a run of verification found: evidence and statuses of claims, as a table and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from attnverify.checking.records import Record, Settings, TwinRecord
from attnverify.derivation.notebook_sources import Source
from attnverify.support.environment import machine, versions
from attnverify.support.tables import Table
from attnverify.support.vocabulary import REPORT_VERSION, counted, tally
from attnverify.verification.claim import Claim, Registry
from attnverify.verification.claim_files import file_of
from attnverify.verification.margins import best_ratio, false_at
from attnverify.verification.status import Standing


@dataclass
class Report:
    """Evidence and status of the selected claims and of those they rest on, in registry order."""

    registry: Registry
    claims: list[Claim]
    records: dict[str, list[Record]]
    twins: dict[str, list[TwinRecord]]
    settings: Settings
    standing: dict[str, Standing] = field(default_factory=dict)
    derivations: list[Source] = field(default_factory=list)
    interrupted: bool = False
    reused: int = 0  # pieces taken from a store

    @property
    def as_claimed(self) -> bool:
        """The run is whole, its evidence passed, and every twin that ran was rejected.

        A run that gathered nothing shows nothing, nor is a statement checked that nobody has read.
        """
        outcomes = {r.outcome for records in self.records.values() for r in records}
        rejected = all(t.rejected for twins in self.twins.values() for t in twins)
        read = not any(self.registry.origin_of(c.id).changed(c) for c in self.claims)
        return outcomes == {"pass"} and rejected and read and not self.interrupted

    def __str__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """A line a claim, as the command prints them, under the verdict."""
        rows = [self.row(claim.id) for claim in self.claims]
        return Table(self.verdict(), tuple(rows[0]), [tuple(row.values()) for row in rows])

    def row(self, id: str) -> dict[str, str]:
        """What is said about one claim, by the header of each column."""
        records, twins = self.records[id], self.twins[id]
        as_stored = [record.as_json() for record in records]
        ratio = best_ratio(self.registry, id, as_stored)
        return {
            "claim": id,
            "status": self.standing[id].status,
            "evidence": _kinds(records),
            "best ratio": "-" if ratio is None else _ratio(ratio),
            "false at": " ".join(false_at(as_stored)) or "-",
            "twins": f"{sum(t.rejected for t in twins)}/{len(twins)}",
        }

    def verdict(self) -> str:
        """One line: how many claims have which status, and how many twins were rejected."""
        statuses = [self.standing[c.id].status for c in self.claims]
        twins = [t for twins in self.twins.values() for t in twins]
        rejected = f"{sum(t.rejected for t in twins)} of {len(twins)} twins rejected"
        return f"{counted(len(statuses), 'claim')}: {tally(statuses)}; {rejected}"

    def as_json(self) -> dict[str, Any]:
        return {
            "version": REPORT_VERSION,
            "environment": environment(),
            "settings": asdict(self.settings),
            "derivations": {
                s.notebook: {"origin": s.origin, "sha256": s.sha256} for s in self.derivations
            },
            "interrupted": self.interrupted,
            "reused": self.reused,
            "claims": [self._claim_json(claim) for claim in self.claims],
        }

    def _claim_json(self, claim: Claim) -> dict[str, Any]:
        standing = self.standing[claim.id]
        file = file_of(self.registry, claim.id)
        return {
            "id": claim.id,
            **({"file": {"name": file.name, "sha256": file.sha256}} if file else {}),
            "kind": claim.kind,
            "title": claim.title,
            "source": claim.source,
            "status": standing.status,
            "reasons": list(standing.reasons),
            "uses": list(claim.uses),
            "evidence": [r.as_json() for r in self.records[claim.id]],
            "twins": [t.as_json() for t in self.twins[claim.id]],
        }


class Interrupted(KeyboardInterrupt):
    """A run was interrupted; ``report`` has what was gathered until then."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


def environment() -> dict[str, str]:
    """Versions and machine kind that produced a report."""
    kind = machine()
    return {"machine": f"{kind['system']} {kind['architecture']}", **versions()}


def _ratio(ratio: float) -> str:
    """Six digits behind the point, of a small ratio; a float holds none that is too large."""
    large = f"{ratio:.3e}" if ratio < inf else f"> {sys.float_info.max:.3e}"
    return f"{ratio:.6f}" if ratio < 1e6 else large


def _kinds(records: Sequence[Record]) -> str:
    """Three letters a kind of evidence, with "!" behind a kind that did not pass everywhere."""
    failed = {r.kind for r in records if r.outcome != "pass"}
    return " ".join(k[:3] + "!" * (k in failed) for k in dict.fromkeys(r.kind for r in records))
