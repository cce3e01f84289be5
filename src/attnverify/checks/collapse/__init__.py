"""Checks of rank collapse, in the composite value and in the diameter."""

from attnverify.checks.collapse import (
    best,
    composite,
    depth,
    dimension,
    paths,
    refuted,
    sharp,
    stochastic,
    threshold,
)
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **composite.CHECKS,
    **depth.CHECKS,
    **best.CHECKS,
    **dimension.CHECKS,
    **refuted.CHECKS,
    **sharp.CHECKS,
    **stochastic.CHECKS,
    **threshold.CHECKS,
    **paths.CHECKS,
}
