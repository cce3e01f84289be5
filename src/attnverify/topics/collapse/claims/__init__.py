"""Rank collapse: as published, as repaired, and sharp, with its threshold and its limits."""

from attnverify.topics.collapse.claims import (
    best_constant,
    composite,
    depth,
    diameter,
    heads,
    signs,
)

CLAIMS = [
    *composite.CLAIMS,
    *heads.CLAIMS,
    *signs.CLAIMS,
    *best_constant.CLAIMS,
    *diameter.CLAIMS,
    *depth.CLAIMS,
    *diameter.LIMITS,
]
