"""The measurements of signal propagation, judged by their criteria."""

from attnverify.chapters.measured import of_prefix
from attnverify.checking.check import Check

CHECKS: dict[str, dict[str, Check]] = of_prefix("localization")
