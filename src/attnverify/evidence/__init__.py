"""Evidence for claims: sampled, attacked, certified, decided, derived, measured."""

from attnverify.evidence import ledger as ledger
from attnverify.evidence.records import Record as Record
from attnverify.evidence.search import Settings as Settings
