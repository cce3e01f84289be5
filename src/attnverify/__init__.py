"""attnverify: the instrument behind *Attention, Verified*.

import attnverify as av

net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)
"""

from attnverify import claims as claims
from attnverify import evidence as evidence
from attnverify import experiments as experiments
from attnverify import symbolic as symbolic
from attnverify.book import figures as figures
from attnverify.book import interactive as interactive
from attnverify.errors import InputError as InputError
from attnverify.evidence import ledger as ledger
from attnverify.formulas import centerbounds as centerbounds
from attnverify.formulas import chisquare as chisquare
from attnverify.formulas import collapse as collapse
from attnverify.formulas import eigenspectrum as spectrum  # noqa: F401
from attnverify.formulas import entropy as entropy
from attnverify.formulas import heads as heads
from attnverify.formulas import layernorm as layernorm
from attnverify.formulas import localization as localization
from attnverify.formulas import norms as norms
from attnverify.formulas import softmax as softmax
from attnverify.formulas import walk as walk
from attnverify.network import deviations as deviations
from attnverify.network import encoder as encoder
from attnverify.network import frozen as frozen
from attnverify.network import paths as paths
from attnverify.network import stacks as stacks
from attnverify.network.attention import SelfAttentionNetwork as SelfAttentionNetwork
from attnverify.network.weights import MLP as MLP
from attnverify.network.weights import AttentionWeights as AttentionWeights
from attnverify.network.weights import LayerNorm as LayerNorm

__version__ = "0.1.0"
