"""Parameters of tests by tier: what `make test` runs, and what it leaves to the full tier."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest


def in_tiers(names: Iterable[str], first: Container[str]) -> list:
    """Parameters for a test: the names in ``first`` run always, all others in the full tier."""
    return [n if n in first else pytest.param(n, marks=pytest.mark.full) for n in names]
