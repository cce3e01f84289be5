"""Checks of the softmax lemmas."""

from attnverify.checking.check import Check
from attnverify.topics.softmax.checks import perturbation, piecewise

CHECKS: dict[str, dict[str, Check]] = {**perturbation.CHECKS, **piecewise.CHECKS}
