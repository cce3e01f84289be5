"""The registry of claims: every statement of the book, apart from its evidence.

One file a prefix of ids: the claims ``softmax.*`` are stated in ``softmax.py``, their checks are in
``attnverify.checks.softmax``.
"""

from attnverify.claims import (
    attention,
    collapse,
    eigenspectrum,
    entropy,
    experiment,
    layernorm,
    localization,
    mlp,
    norms,
    paths,
    skip,
    softmax,
    walk,
)
from attnverify.claims.model import Claim as Claim
from attnverify.claims.model import Registry as Registry
from attnverify.claims.model import Source as Source

#: The files of statements, in the order of the book.
FILES = (
    attention,
    paths,
    norms,
    softmax,
    collapse,
    skip,
    mlp,
    layernorm,
    walk,
    localization,
    eigenspectrum,
    entropy,
    experiment,
)
registry = Registry([claim for file in FILES for claim in file.CLAIMS])
