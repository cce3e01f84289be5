"""Checks of rank collapse, in the composite value and in the diameter."""

from attnverify.checking.check import Check
from attnverify.topics.collapse.checks import (
    best_constant,
    composite,
    counterexamples,
    depth,
    many_heads,
    paths,
    sharp,
    stochastic_matrices,
    threshold,
)

CHECKS: dict[str, dict[str, Check]] = {
    **composite.CHECKS,
    **depth.CHECKS,
    **best_constant.CHECKS,
    **many_heads.CHECKS,
    **counterexamples.CHECKS,
    **sharp.CHECKS,
    **stochastic_matrices.CHECKS,
    **threshold.CHECKS,
    **paths.CHECKS,
}
