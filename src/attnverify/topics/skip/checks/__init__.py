"""Checks of skip connections, one head and several."""

from attnverify.checking.check import Check
from attnverify.topics.skip.checks import many_heads, one_head

CHECKS: dict[str, dict[str, Check]] = {**one_head.CHECKS, **many_heads.CHECKS}
