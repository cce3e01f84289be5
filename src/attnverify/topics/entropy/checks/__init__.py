"""Checks of the entropy floors."""

from attnverify.checking.check import Check
from attnverify.topics.entropy.checks import floor, spread

CHECKS: dict[str, dict[str, Check]] = {**floor.CHECKS, **spread.CHECKS}
