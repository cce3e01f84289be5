"""The checks of every claim, by claim id and check name."""

from __future__ import annotations

from attnverify.claims import registry
from attnverify.evidence.catalog import (
    attention,
    collapse,
    entropy,
    examples,
    experiments,
    inversion,
    law,
    localization,
    mlp,
    normal,
    normalization,
    norms,
    paths,
    piecewise,
    refuted,
    sharp,
    skip,
    softmax,
    spectrum,
    walk,
)
from attnverify.evidence.checks import Check

CHECKS: dict[str, dict[str, Check]] = {
    **attention.CHECKS,
    **paths.CHECKS,
    **norms.CHECKS,
    **softmax.CHECKS,
    **collapse.CHECKS,
    **refuted.CHECKS,
    **sharp.CHECKS,
    **examples.CHECKS,
    **skip.CHECKS,
    **mlp.CHECKS,
    **normalization.CHECKS,
    **walk.CHECKS,
    **law.CHECKS,
    **normal.CHECKS,
    **inversion.CHECKS,
    **localization.CHECKS,
    **piecewise.CHECKS,
    **spectrum.CHECKS,
    **entropy.CHECKS,
    **experiments.CHECKS,
}


def checks_of(claim: str) -> dict[str, Check]:
    """The checks of a claim; raises InputError for an unknown id."""
    return CHECKS[registry[claim].id]
