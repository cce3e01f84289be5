"""Reports of small models are what they were when they were recorded (tests/records.py)."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import attnverify as av
import modelzoo
import records
from attnverify.inspection import reconstruction
from attnverify.inspection import scalar as scalars

RECORD = Path(__file__).with_name("recorded_reports.json")
#: One text of a model without rotation, with rotation and norms of heads, with parallel branches,
#: of pictures, with shared layers; and two texts.
CASES = {
    "bert": {},
    "gpt2": {},
    "qwen3": {},
    "gpt_neox": {"scalar": {"coordinate": 3, "at": 6}},
    "vit": {},
    "albert": {},
    "phi, norms of heads": {"batch": 2},
}
#: What is itself a rounding error, or made of some; it differs between machines.
ROUNDINGS = {"largest_error_over_bound", "at", "rounding_of_output", "rounding_of_shares"}


def fingerprint(case: str) -> dict[str, Any]:
    """Of a report in float64: sums of each column over its rows, and of the bounds of each step."""
    bounds: dict[str, float] = defaultdict(float)
    compared = reconstruction.compared

    def recording(place, error, bound, seen):
        kind = place.partition(", ")[2] or place  # steps of one name in all layers together
        bounds[kind] += float(bound.abs().expand(error.shape).sum())
        return compared(place, error, bound, seen)

    options = {"batch": 1} | CASES[case]
    scalar = options.pop("scalar", None)
    with (
        patch.object(reconstruction, "compared", recording),
        patch.object(scalars, "compared", recording),
    ):
        report = av.inspect(modelzoo.model(case), modelzoo.inputs(case, **options), scalar=scalar)
    body = report.as_json()
    found: dict[str, Any] = {name: body[name] for name in ("model", "inputs", "notes", "rollout")}
    found["proof"] = {k: v for k, v in body["proof"].items() if k not in ROUNDINGS}
    for table in body["columns"]:
        rows = [row for row in body[table] if "rounding" not in row.values()]
        found[table] = records.columns(rows)
    return records.rounded({**found, "bounds": dict(bounds)})


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_as_recorded(case):
    assert not records.differences(fingerprint(case), records.read(RECORD)[case])


def test_a_bound_that_grew_by_a_hundredth_is_seen():
    recorded = records.read(RECORD)["bert"]
    name = next(iter(recorded["bounds"]))
    other = {**recorded, "bounds": {**recorded["bounds"], name: 1.01 * recorded["bounds"][name]}}
    assert len(records.differences(other, recorded)) == 1


if __name__ == "__main__":
    records.write(RECORD, {case: fingerprint(case) for case in CASES})
