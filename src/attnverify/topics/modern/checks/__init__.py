"""Checks of what modern decoders change."""

from attnverify.checking.check import Check
from attnverify.topics.modern.checks import (
    heads,
    layers,
    masks,
    padding,
    positions,
    rotary,
    windows,
)

CHECKS: dict[str, dict[str, Check]] = {
    **masks.CHECKS,
    **windows.CHECKS,
    **padding.CHECKS,
    **positions.CHECKS,
    **rotary.CHECKS,
    **heads.CHECKS,
    **layers.CHECKS,
}
