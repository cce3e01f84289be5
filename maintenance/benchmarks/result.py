"""One line of a table of benchmarks, and the table."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

import attnverify as av


@dataclass(frozen=True)
class Result:
    """One line of the table: what was measured, against which bar."""

    name: str
    measured: str
    bar: str
    met: bool


def show(results: list[Result]) -> int:
    """Print the table; exit code 0 if every bar is met."""
    table = Table(
        title=f"attnverify {av.__version__}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads, {platform.machine()}"
    )
    for heading in ("what", "measured", "bar", "met"):
        table.add_column(heading)
    for result in results:
        table.add_row(result.name, result.measured, result.bar, "yes" if result.met else "NO")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0 if all(result.met for result in results) else 1
