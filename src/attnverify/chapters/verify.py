"""Verification of the book's claims, and of files whose claims rest on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

from attnverify.chapters import registry
from attnverify.checking.records import Settings
from attnverify.support.vocabulary import KINDS
from attnverify.verification import verify as engine
from attnverify.verification.report import Report


@wraps(engine.verify, assigned=("__doc__",))
def verify(
    patterns: str | Sequence[str],
    settings: Settings | None = None,
    kinds: Sequence[str] = KINDS,
    **options: Any,
) -> Report:
    return engine.verify(registry, patterns, settings, kinds, **options)
