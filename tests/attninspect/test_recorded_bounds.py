"""The bounds of each kind of step are what they were when they were recorded (tests/records.py)."""

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
from attninspect import reconstruction
from attninspect import scalar as scalars

RECORD = Path(__file__).with_name("recorded_bounds.json")
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


def fingerprint(case: str) -> dict[str, Any]:
    """How many steps a report in float64 compares, and the sum of the bounds of each kind."""
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
    return records.rounded({"steps": report.proof["steps"], **bounds})


@pytest.mark.parametrize("case", CASES)
def test_bounds_are_as_recorded(case):
    assert not records.differences(fingerprint(case), records.read(RECORD)[case])


def test_a_bound_that_grew_by_a_hundredth_is_seen():
    recorded = records.read(RECORD)["bert"]
    other = {**recorded, "scores": 1.01 * recorded["scores"]}
    assert len(records.differences(other, recorded)) == 1


if __name__ == "__main__":
    records.write(RECORD, {case: fingerprint(case) for case in CASES})
