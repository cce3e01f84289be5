"""The registry of claims: every statement of the book, apart from its evidence.

A topic is a folder for one prefix of ids. The claims ``softmax.*`` are stated in
``attnverify.topics.softmax.claims`` and checked in ``attnverify.topics.softmax.checks``; what a
formula means entry by entry is in ``attnverify.topics.softmax.definitions``.
"""

from importlib import import_module

from attnverify.verification.claim import Claim as Claim
from attnverify.verification.claim import Registry as Registry
from attnverify.verification.claim import Source as Source

#: The prefixes of ids, in the order of the book; each is the folder of a topic.
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
