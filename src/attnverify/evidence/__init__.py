"""Evidence for claims: sampled, attacked, certified, decided, derived, measured.

Names are imported when they are first used: the ledger of derivations does without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnverify.lazy import attributes

if TYPE_CHECKING:
    from attnverify.evidence import ledger as ledger
    from attnverify.evidence.records import Record as Record
    from attnverify.evidence.search import Settings as Settings

PUBLIC = {
    "Record": "attnverify.evidence.records:Record",
    "Settings": "attnverify.evidence.search:Settings",
    "ledger": "attnverify.evidence.ledger",
}
__getattr__, __dir__ = attributes(__name__, PUBLIC)
