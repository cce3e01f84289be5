"""Fingerprints of tables of numbers, kept beside the tests and compared by them.

A record proves nothing about the numbers; other tests do. It shows a change that nobody meant: a
scale, a note, a bound of rounding errors that grew by a hundredth and still holds. After a change
that was meant, run the file of the test as a program: it writes the record again, and its diff is
what a reviewer reads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Machines differ by rounding: what is computed in float32 by some hundred times 2^-24, that is
#: 10^-5, the rest by far less. A changed formula is off by much more.
SAME = 1e-4


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each column: its words, how many entries and numbers, and the sum of absolute values."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _total([row[name] for row in rows if name in row]) for name in names}


def _total(values: list[Any]) -> list[Any]:
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    words = sorted({v for v in flat if isinstance(v, str)})
    numbers = [abs(v) for v in flat if isinstance(v, int | float)]
    return [*words, len(flat), len(numbers), math.fsum(numbers)]


def rounded(value: Any) -> Any:
    """The same with seven digits, and lists for tuples."""
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def differences(found: Any, recorded: Any, at: str = "") -> list[str]:
    """Places where two fingerprints differ by more than rounding does."""
    if isinstance(found, dict) and isinstance(recorded, dict):
        return [
            line
            for key in found | recorded
            for line in differences(found.get(key), recorded.get(key), f"{at} / {key}")
        ]
    if isinstance(found, list) and isinstance(recorded, list) and len(found) == len(recorded):
        pairs = enumerate(zip(found, recorded, strict=True))
        return [line for k, (a, b) in pairs for line in differences(a, b, f"{at} / {k}")]
    number = isinstance(found, int | float) and isinstance(recorded, int | float)
    same = math.isclose(found, recorded, rel_tol=SAME) if number else found == recorded
    return [] if same else [f"{at}: {found}, recorded {recorded}"]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, body: Mapping[str, Any]) -> None:
    """One line a column."""
    text = json.dumps(body, indent=1, ensure_ascii=False)
    lists = re.compile(r"\[[^\[\]]*\]")
    text = lists.sub(lambda m: json.dumps(json.loads(m[0]), ensure_ascii=False), text)
    path.write_text(text + "\n", encoding="utf-8")
