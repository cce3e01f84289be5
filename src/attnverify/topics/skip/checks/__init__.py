"""Checks of skip connections, one head and several."""

from attnverify.checking.check import Check
from attnverify.topics.skip.checks import heads, rates

CHECKS: dict[str, dict[str, Check]] = {**rates.CHECKS, **heads.CHECKS}
