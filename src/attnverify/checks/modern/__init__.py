"""Checks of what modern decoders change."""

from attnverify.checks.modern import heads, layers, masks, padding, positions, rotary, windows
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **masks.CHECKS,
    **windows.CHECKS,
    **padding.CHECKS,
    **positions.CHECKS,
    **rotary.CHECKS,
    **heads.CHECKS,
    **layers.CHECKS,
}
