"""Figures of an experiment as a chapter shows them: a :class:`~attnverify.support.tables.Table`."""

from __future__ import annotations

from attnverify.support.tables import Table as Table


def plus_minus(value: float, error: float) -> str:
    """A value and its standard error, to two digits of the error and at most three decimals."""
    decimals = 0
    while decimals < 3 and 0 < error < 10 ** (1 - decimals):
        decimals += 1
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
