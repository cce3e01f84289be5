"""Checks of signal propagation: its exact law, the normal approximation, the limit."""

from attnverify.checks import measured
from attnverify.checks.localization import (
    edgeworth,
    inversion,
    law,
    limit,
    middle,
    normal,
    softmax_row,
    temperature,
)
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **law.CHECKS,
    **normal.CHECKS,
    **edgeworth.CHECKS,
    **inversion.CHECKS,
    **limit.CHECKS,
    **temperature.CHECKS,
    **middle.CHECKS,
    **softmax_row.CHECKS,
    **measured.of_prefix("localization"),
}
