"""Checks of MLPs: their Lipschitz constants, the corollary as printed, the bounds over depth."""

from attnverify.checking.check import Check
from attnverify.topics.mlp.checks import depth, lipschitz, printed

CHECKS: dict[str, dict[str, Check]] = {
    **lipschitz.CHECKS,
    **printed.CHECKS,
    **depth.CHECKS,
}
