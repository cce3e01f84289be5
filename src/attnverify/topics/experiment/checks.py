"""Checks of the claims that are nothing but the outcome of an experiment."""

from attnverify.chapters import measured
from attnverify.checking.check import Check

CHECKS: dict[str, dict[str, Check]] = measured.of_prefix("experiment")
