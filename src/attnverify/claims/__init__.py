"""The registry of claims: every statement of the book, apart from its evidence."""

from attnverify.claims.collapse import CLAIMS as COLLAPSE
from attnverify.claims.escape import CLAIMS as ESCAPE
from attnverify.claims.experiments import CLAIMS as EXPERIMENTS
from attnverify.claims.localization import CLAIMS as LOCALIZATION
from attnverify.claims.model import Claim as Claim
from attnverify.claims.model import Registry as Registry
from attnverify.claims.model import Source as Source
from attnverify.claims.norms import CLAIMS as NORMS
from attnverify.claims.paths import CLAIMS as PATHS
from attnverify.claims.sharp import CLAIMS as SHARP
from attnverify.claims.softmax import CLAIMS as SOFTMAX
from attnverify.claims.spectrum import CLAIMS as SPECTRUM

PART_2 = (*COLLAPSE, *SHARP, *ESCAPE)
PART_3 = (*LOCALIZATION, *SPECTRUM)
registry = Registry([*PATHS, *NORMS, *SOFTMAX, *PART_2, *PART_3, *EXPERIMENTS])
