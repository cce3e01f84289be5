"""Checks of the random-walk model: moments of a score and the law of a row."""

from attnverify.checking.check import Check
from attnverify.topics.walk.checks import moments, row

CHECKS: dict[str, dict[str, Check]] = {**moments.CHECKS, **row.CHECKS}
