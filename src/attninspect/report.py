"""The report of an inspection, which shows itself in sentences and, in a notebook, as a page."""

from __future__ import annotations

from dataclasses import dataclass

from attninspect.findings import Findings
from attninspect.page import body
from attninspect.words import summary


@dataclass(frozen=True)
class Report(Findings):
    """Everything that an inspection found; ``print`` shows it in sentences."""

    def _repr_html_(self) -> str:
        return body(self)

    def __str__(self) -> str:
        return "\n".join(summary(self))
