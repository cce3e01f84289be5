"""Checks of signal propagation: its exact law, the normal approximation, the limit."""

from attnverify.checking.check import Check
from attnverify.topics.localization.checks import (
    edgeworth,
    exact_law,
    fixed_temperature,
    inversion,
    limit,
    middle_tokens,
    normal_approximation,
    softmax_row,
)
from attnverify.topics.shared import measured

CHECKS: dict[str, dict[str, Check]] = {
    **exact_law.CHECKS,
    **normal_approximation.CHECKS,
    **edgeworth.CHECKS,
    **inversion.CHECKS,
    **limit.CHECKS,
    **fixed_temperature.CHECKS,
    **middle_tokens.CHECKS,
    **softmax_row.CHECKS,
    **measured.of_prefix("localization"),
}
