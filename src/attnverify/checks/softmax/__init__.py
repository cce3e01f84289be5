"""Checks of the softmax lemmas."""

from attnverify.checks.softmax import perturbation, piecewise
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {**perturbation.CHECKS, **piecewise.CHECKS}
