"""Checks of MLPs: their Lipschitz constants, the corollary as printed, the bounds over depth."""

from attnverify.checks.mlp import depth, lipschitz, printed
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = {
    **lipschitz.CHECKS,
    **printed.CHECKS,
    **depth.CHECKS,
}
