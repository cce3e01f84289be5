"""Evidence for claims: sampled, attacked, certified, decided, derived, measured.

Names are imported when they are first used: the ledger of derivations does without torch.

``Settings`` says how hard to search: instances, starting points, gradient steps, seed, device.

>>> import attnverify as av
>>> av.evidence.Settings(samples=100, seed=1).steps
30
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnverify.support.lazy import attributes

if TYPE_CHECKING:
    from attnverify.checking.records import Record as Record
    from attnverify.checking.records import Settings as Settings
    from attnverify.derivation import ledger as ledger

PUBLIC = {
    "Record": "attnverify.checking.records:Record",
    "Settings": "attnverify.checking.records:Settings",
    "ledger": "attnverify.derivation.ledger",
}
__getattr__, __dir__ = attributes(__name__, PUBLIC)
