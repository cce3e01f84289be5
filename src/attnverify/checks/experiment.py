"""Checks of the claims that are nothing but the outcome of an experiment."""

from attnverify.checks import measured
from attnverify.evidence.forms import Check

CHECKS: dict[str, dict[str, Check]] = measured.of_prefix("experiment")
