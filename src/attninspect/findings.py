"""What an inspection found, as data: the sentences, figures and pages of a report read it."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from attninspect.columns import LOST, TABLES
from attninspect.patterns import Patterns
from attnverify.support import environment
from attnverify.support.errors import nearest, require, shown

FORMAT = "attnverify inspect 1"
SCALAR_LOST = [name for name, columns in TABLES.items() if LOST in columns]


@dataclass(frozen=True)
class Findings:
    """Everything that was found; tables are lists of rows, whose columns TABLES explains.

    model: family, sizes, dtype; inputs: number of texts and tokens, and the tokens if known;
    proof: how many steps were compared with the model, how many of them decide nothing since the
    model's own values vanish there, the largest error over its bound, the rest that rounding left
    of the output, and the most it may be of a share; rollout: None for batches and long texts.
    scalar: the number that was chosen, its value, its position and the largest logits beside it;
    None, and its tables empty, where none was chosen. patterns: for the page alone; None if brief.
    """

    model: dict[str, Any]
    inputs: dict[str, Any]
    proof: dict[str, Any]
    lengths: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    heads: list[dict[str, Any]]
    rollout: dict[str, Any] | None
    notes: tuple[str, ...]
    scalar: dict[str, Any] | None = None
    scalar_lengths: list[dict[str, Any]] = field(default_factory=list)
    scalar_layers: list[dict[str, Any]] = field(default_factory=list)
    scalar_heads: list[dict[str, Any]] = field(default_factory=list)
    scalar_tokens: list[dict[str, Any]] = field(default_factory=list)
    scalar_paths: list[dict[str, Any]] = field(default_factory=list)
    patterns: Patterns | None = field(default=None, repr=False, compare=False)

    def frame(self, name: str) -> Any:
        """A table as a DataFrame where pandas is installed, else as a list of dicts.

        name: lengths, layers, heads, or ``scalar_`` before lengths, layers, heads, tokens or paths.
        Both have a row for each row of the table and the columns that ``columns`` of the JSON
        explains, in the same order; what is not defined is None in the list and missing in the
        frame; an empty table has columns and no row as a frame. Raises InputError for another name.

        >>> import torch
        >>> import attnverify as av
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        >>> report = av.inspect(layer, torch.randn(5, 8))
        >>> len(report.frame("heads"))
        2
        """
        expected = f"one of {', '.join(TABLES)}"
        given = f"{shown(name)}{nearest(str(name), TABLES)}"
        require(isinstance(name, str) and name in TABLES, "name", given, expected)
        rows = [{column: row.get(column) for column in TABLES[name]} for row in getattr(self, name)]
        if importlib.util.find_spec("pandas") is None:
            return rows
        pandas: Any = importlib.import_module("pandas")
        return pandas.DataFrame(rows, columns=list(TABLES[name]))

    def as_json(self) -> dict[str, Any]:
        """The report as JSON: the fields above, ``format``, ``environment`` and ``columns``.

        Without a chosen number there is nothing about one, nor about paths that nobody asked for.
        """
        columns = {
            table: {name: asdict(column) for name, column in each.items()}
            for table, each in TABLES.items()
        }
        found = {**asdict(replace(self, patterns=None)), "columns": columns}
        del found["patterns"]
        absent = "scalar" if self.scalar is None else "scalar_paths"
        if not self.scalar_paths:
            for part in (found, columns):
                for name in [name for name in part if name.startswith(absent)]:
                    del part[name]
        if self.scalar is not None and "ablation" not in self.scalar:
            for name in SCALAR_LOST:
                del columns[name][LOST]
        made = {"attnverify": environment.versions()["attnverify"], **environment.versions()}
        return {"format": FORMAT, "environment": made, **found}


def dumps(report: Findings) -> str:
    """The report as a JSON text; numbers that are none are null."""
    return json.dumps(report.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
