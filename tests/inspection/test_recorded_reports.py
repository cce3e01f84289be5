"""Reports of small models are what they were when they were recorded.

A record proves nothing about the numbers; the other tests of this folder do. It shows a change that
nobody meant: a scale, a note, a bound of rounding errors that grew by a hundredth and still holds.
After a change that was meant, run ``python tests/inspection/test_recorded_reports.py``: it writes
the record again, and its diff is what a reviewer reads.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import attnverify as av
import modelzoo
from attnverify.inspection import reconstruction

RECORD = Path(__file__).with_name("recorded_reports.json")
#: One text of a model without rotation, with rotation and norms of heads, with parallel branches,
#: of pictures, with shared layers; and two texts.
CASES = {
    "bert": {},
    "gpt2": {},
    "qwen3": {},
    "gpt_neox": {},
    "vit": {},
    "albert": {},
    "phi, norms of heads": {"batch": 2},
}
#: What is itself a rounding error, or made of some; it differs between machines.
ROUNDINGS = {"largest_error_over_bound", "at", "rounding_of_output", "rounding_of_shares"}
#: Machines differ by rounding: models with norms in float32 by some hundred times 2^-24, that is
#: 10^-5, the others by far less. A changed formula is off by much more.
SAME = 1e-4


def fingerprint(case: str) -> dict[str, Any]:
    """Of a report in float64: sums of each column over its rows, and of the bounds of each step."""
    bounds: dict[str, float] = defaultdict(float)
    compared = reconstruction.compared

    def recording(place, error, bound, seen):
        kind = place.partition(", ")[2] or place  # steps of one name in all layers together
        bounds[f"bound of {kind}"] += float(bound.abs().expand(error.shape).sum())
        return compared(place, error, bound, seen)

    with patch.object(reconstruction, "compared", recording):
        report = av.inspect(
            modelzoo.model(case), modelzoo.inputs(case, **{"batch": 1} | CASES[case])
        )
    body = report.as_json()
    found: dict[str, Any] = {name: body[name] for name in ("model", "inputs", "notes")}
    found["proof"] = {k: v for k, v in body["proof"].items() if k not in ROUNDINGS}
    found["rollout"] = body["rollout"]
    for table in ("lengths", "layers", "heads"):
        rows = [row for row in body[table] if row.get("length") != "rounding"]
        found[table] = {name: _total([row[name] for row in rows]) for name in rows[0]}
    return _rounded({**found, "bounds": dict(bounds)})


def _total(values: list[Any]) -> Any:
    """Sum of absolute values; words as they are; None counts nothing, lists their entries."""
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    words = sorted({v for v in flat if isinstance(v, str)})
    numbers = [abs(v) for v in flat if isinstance(v, int | float)]
    return [*words, len(flat), len(numbers), math.fsum(numbers)]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
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


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_as_recorded(case):
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert not differences(fingerprint(case), recorded[case])


def test_a_bound_that_grew_by_a_hundredth_is_seen():
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["bert"]
    name = next(iter(recorded["bounds"]))
    other = {**recorded, "bounds": {**recorded["bounds"], name: 1.01 * recorded["bounds"][name]}}
    assert len(differences(other, recorded)) == 1


def main() -> None:
    body = {case: fingerprint(case) for case in CASES}
    RECORD.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
