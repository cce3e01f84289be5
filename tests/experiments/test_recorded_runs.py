"""Experiments that train nothing give what they gave when they were recorded (tests/records.py).

At the quick setting, or on a small BERT with random weights. What is trained differs between
machines after some steps, and has no record.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import attnverify as av
import modelzoo
import records
from attnverify.experiments import find
from attnverify.experiments.engine.model import Settings

RECORD = Path(__file__).with_name("recorded_runs.json")
QUICK = ("path-counts", "both-collapses", "real-spectra", "real-margins", "silent-heads")
QUICK += ("random-gap", "rollout-lengths")
OF_A_BERT = ("architectures", "real-spectra", "real-margins", "silent-heads")


def quick(name: str) -> dict[str, Any]:
    return _by_kind(av.experiments.run(name).rows)


def of_a_bert(name: str, folder: Path) -> dict[str, Any]:
    modelzoo.saved_bert(folder, max_position_embeddings=128)
    return _by_kind(find(name).run(Settings(model=folder)))


def _by_kind(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the rows, those of each kind and variant for themselves."""
    kind = lambda row: str(row.get("kind") or row.get("variant") or "rows")  # noqa: E731
    rows = [{k: v for k, v in row.items() if k != "model"} for row in rows]
    groups = groupby(sorted(rows, key=kind), kind)
    return records.rounded({name: records.columns(list(each)) for name, each in groups})


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_run_is_as_recorded(name):
    """Lengths of rollout take ten seconds: an encoder's figures, which no formula fixes."""
    assert not records.differences(quick(name), records.read(RECORD)["quick"][name])


@pytest.mark.parametrize("name", OF_A_BERT)
def test_a_run_on_a_model_is_as_recorded(name, tmp_path):
    found = of_a_bert(name, tmp_path)
    assert not records.differences(found, records.read(RECORD)["of a BERT"][name])


def main() -> None:
    body = {"quick": {name: quick(name) for name in QUICK}, "of a BERT": {}}
    for name in OF_A_BERT:
        with tempfile.TemporaryDirectory() as folder:
            body["of a BERT"][name] = of_a_bert(name, Path(folder))
    records.write(RECORD, body)


if __name__ == "__main__":
    main()
