"""Checks of the entropy floors."""

from attnverify.checks.entropy import floor, spread
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {**floor.CHECKS, **spread.CHECKS}
