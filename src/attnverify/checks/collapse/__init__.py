"""Checks of rank collapse, in the composite value and in the diameter."""

from attnverify.checks.collapse import (
    composite,
    depth,
    dimension,
    refuted,
    sharp,
    stochastic,
)
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **composite.CHECKS,
    **depth.CHECKS,
    **dimension.CHECKS,
    **refuted.CHECKS,
    **sharp.CHECKS,
    **stochastic.CHECKS,
}
