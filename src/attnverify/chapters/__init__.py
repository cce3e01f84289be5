"""The registry of claims: every statement of the book, apart from its evidence.

Chapters state the claims (:mod:`attnverify.verification.statements`) and check them
(:mod:`attnverify.chapters.cells`); what the checks of several chapters share is in the modules of
this package.

``registry`` maps ids to claims; it is a mapping in the order of the book.

>>> import attnverify as av
>>> [claim.id for claim in av.claims.registry.select(["paths.*"])][:2]
['paths.stochastic-product', 'paths.decomposition']
>>> av.claims.registry["paths.count"].title
'How many paths of each length'
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnverify.derivation import notebook_sources
from attnverify.verification import statements
from attnverify.verification.claim import Claim as Claim
from attnverify.verification.claim import Origin
from attnverify.verification.claim import Registry as Registry
from attnverify.verification.claim import Source as Source

if TYPE_CHECKING:
    from attnverify.checking.check import Check


class Book(Origin):
    """The chapters of this package, from which the claims of the book come."""

    def checks_of(self, id: str) -> "Mapping[str, Check]":
        from attnverify.chapters import lookup

        return lookup.checks_of(id)

    def cells(self, id: str) -> tuple[str, ...]:
        from attnverify.chapters import cells

        return cells.sources(id)

    def changed(self, claim: Claim) -> str:
        from attnverify.derivation import reviewed_record

        return reviewed_record.unread(claim)


registry = Registry(
    [claim for name, text in notebook_sources.chapters() for claim in statements.read(text, name)],
    Book(),
)
