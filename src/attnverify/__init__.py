"""attnverify: the instrument behind *Attention, Verified*.

    import attnverify as av

    net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)
"""

from attnverify import centerbounds as centerbounds
from attnverify import chisquare as chisquare
from attnverify import claims as claims
from attnverify import collapse as collapse
from attnverify import deviations as deviations
from attnverify import encoder as encoder
from attnverify import entropy as entropy
from attnverify import evidence as evidence
from attnverify import experiments as experiments
from attnverify import figures as figures
from attnverify import frozen as frozen
from attnverify import interactive as interactive
from attnverify import layernorm as layernorm
from attnverify import localization as localization
from attnverify import norms as norms
from attnverify import paths as paths
from attnverify import softmax as softmax
from attnverify import spectrum as spectrum
from attnverify import stacks as stacks
from attnverify import symbolic as symbolic
from attnverify import walk as walk
from attnverify.attention import SelfAttentionNetwork as SelfAttentionNetwork
from attnverify.errors import InputError as InputError
from attnverify.evidence import ledger as ledger
from attnverify.weights import MLP as MLP
from attnverify.weights import AttentionWeights as AttentionWeights
from attnverify.weights import LayerNorm as LayerNorm

__version__ = "0.1.0"
