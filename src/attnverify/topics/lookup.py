"""The checks of every claim, by claim id and check name.

Each topic collects its checks in a table: those of ``softmax.*`` are
``attnverify.topics.softmax.checks.CHECKS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from attnverify.checking.check import Check
from attnverify.support.errors import require
from attnverify.topics import PREFIXES, registry

FILES = tuple(import_module(f"attnverify.topics.{prefix}.checks") for prefix in PREFIXES)
CHECKS: dict[str, Mapping[str, Check]] = {
    id: checks for file in FILES for id, checks in file.CHECKS.items()
}


def checks_of(claim: str) -> Mapping[str, Check]:
    """The checks of a claim; raises InputError for an unknown id."""
    id = registry[claim].id
    where = f"src/attnverify/topics/{id.split('.')[0]}"
    require(id in CHECKS, "id", f"{id!r}, which has no checks", f"its entry in CHECKS of {where}")
    return CHECKS[id]
