"""Checks of rank collapse, in the composite value and in the diameter."""

from attnverify.checking.check import Check
from attnverify.topics.collapse.checks import (
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
