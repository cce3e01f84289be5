"""The measurements of signal propagation, judged by their criteria."""

from attnverify.checking.check import Check
from attnverify.topics.shared.measured import of_prefix

CHECKS: dict[str, dict[str, Check]] = of_prefix("localization")
