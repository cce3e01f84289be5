"""The registry of claims: every statement of the book, apart from its evidence.

One file a prefix of ids: the claims ``softmax.*`` are stated in ``softmax.py``, their checks are in
``attnverify.topics.softmax.checks``.

``registry`` maps ids to claims; it is a mapping in the order of the book.

>>> import attnverify as av
>>> [claim.id for claim in av.claims.registry.select(["paths.*"])][:2]
['paths.stochastic-product', 'paths.decomposition']
>>> av.claims.registry["paths.count"].title
'How many paths of each length'
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
