"""Checks of signal propagation: its exact law, the normal approximation, the limit."""

from attnverify.checks import measured, row
from attnverify.checks.localization import edgeworth, inversion, law, limit, normal
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **law.CHECKS,
    **normal.CHECKS,
    **edgeworth.CHECKS,
    **inversion.CHECKS,
    **limit.CHECKS,
    "localization.softmax-row": row.NEAR_CHECKS,
    **measured.of_prefix("localization"),
}
