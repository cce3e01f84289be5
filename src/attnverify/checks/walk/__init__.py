"""Checks of the random-walk model: moments of a score and the law of a row."""

from attnverify.checks.walk import moments, row
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {**moments.CHECKS, **row.CHECKS}
