"""What an inspection found, as data: the sentences, figures and pages of a report read it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from attnverify.inspection.columns import TABLES
from attnverify.support import environment

FORMAT = "attnverify inspect 1"


@dataclass(frozen=True)
class Findings:
    """Everything that was found; tables are lists of rows, whose columns TABLES explains.

    model: family, sizes, dtype; inputs: number of texts and tokens, and the tokens if known;
    proof: how many steps were compared with the model, how many of them decide nothing since the
    model's own values vanish there, the largest error over its bound, the rest that rounding left
    of the output, and the most it may be of a share; rollout: None for batches and long texts.
    """

    model: dict[str, Any]
    inputs: dict[str, Any]
    proof: dict[str, Any]
    lengths: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    heads: list[dict[str, Any]]
    rollout: dict[str, Any] | None
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The report as JSON: the fields above, ``format``, ``environment`` and ``columns``."""
        columns = {
            table: {name: asdict(column) for name, column in each.items()}
            for table, each in TABLES.items()
        }
        made = {"attnverify": environment.versions()["attnverify"], **environment.versions()}
        return {"format": FORMAT, "environment": made, **asdict(self), "columns": columns}


def dumps(report: Findings) -> str:
    """The report as a JSON text; numbers that are none are null."""
    return json.dumps(report.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
