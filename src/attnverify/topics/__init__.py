"""The registry of claims: every statement of the book, apart from its evidence.

One file a prefix of ids: the claims ``softmax.*`` are stated in ``softmax.py``, their checks are in
``attnverify.topics.softmax.checks``.
"""

from importlib import import_module

from attnverify.verification.claim import Claim as Claim
from attnverify.verification.claim import Registry as Registry
from attnverify.verification.claim import Source as Source

#: The prefixes of ids, in the order of the book; each is a file of statements and one of checks.
PREFIXES = (
    "attention",
    "paths",
    "norms",
    "softmax",
    "collapse",
    "skip",
    "mlp",
    "layernorm",
    "walk",
    "localization",
    "eigenspectrum",
    "entropy",
    "modern",
    "experiment",
)
FILES = tuple(import_module(f"{__name__}.{prefix}.claims") for prefix in PREFIXES)
registry = Registry([claim for file in FILES for claim in file.CLAIMS])
