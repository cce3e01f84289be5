"""Checks of signal propagation: its exact law, the normal approximation, the limit."""

from attnverify.checks import measured
from attnverify.checks.localization import inversion, law, limit, middle, normal, temperature
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **law.CHECKS,
    **normal.CHECKS,
    **inversion.CHECKS,
    **limit.CHECKS,
    **temperature.CHECKS,
    **middle.CHECKS,
    **measured.of_prefix("localization"),
}
