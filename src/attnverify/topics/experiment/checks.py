"""Checks of the claims that are nothing but the outcome of an experiment."""

from attnverify.checking.check import Check
from attnverify.topics.shared import measured

CHECKS: dict[str, dict[str, Check]] = measured.of_prefix("experiment")
