"""Checks of signal propagation: its exact law, the normal approximation, the limit."""

from attnverify.checking.check import Check
from attnverify.topics.localization.checks import (
    edgeworth,
    inversion,
    law,
    limit,
    middle,
    normal,
    softmax_row,
    temperature,
)
from attnverify.topics.shared import measured

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
