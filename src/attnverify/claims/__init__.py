"""The registry of claims: every statement of the book, apart from its evidence."""

from attnverify.claims.collapse import CLAIMS as COLLAPSE
from attnverify.claims.escape import CLAIMS as ESCAPE
from attnverify.claims.experiments import CLAIMS as EXPERIMENTS
from attnverify.claims.model import Claim as Claim
from attnverify.claims.model import Registry as Registry
from attnverify.claims.model import Source as Source
from attnverify.claims.norms import CLAIMS as NORMS
from attnverify.claims.paths import CLAIMS as PATHS
from attnverify.claims.sharp import CLAIMS as SHARP
from attnverify.claims.softmax import CLAIMS as SOFTMAX

registry = Registry([*PATHS, *NORMS, *SOFTMAX, *COLLAPSE, *SHARP, *ESCAPE, *EXPERIMENTS])
