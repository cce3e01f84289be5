"""attnverify: the instrument behind *Attention, Verified*.

import attnverify as av

net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)

A public name is imported when it is first used: the claims and the ledger of derivations do
without torch, and so do the commands that compute nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnverify.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with PUBLIC
    from attnverify import claims as claims
    from attnverify import evidence as evidence
    from attnverify import experiments as experiments
    from attnverify import ops as ops
    from attnverify import symbolic as symbolic
    from attnverify.book import figures as figures
    from attnverify.book import interactive as interactive
    from attnverify.claims.model import Claim as Claim
    from attnverify.claims.model import Source as Source
    from attnverify.errors import InputError as InputError
    from attnverify.evidence import ledger as ledger
    from attnverify.evidence.conjecture import best_constant as best_constant
    from attnverify.evidence.forms import Decision as Decision
    from attnverify.evidence.forms import Identity as Identity
    from attnverify.evidence.forms import Inequality as Inequality
    from attnverify.evidence.forms import Twin as Twin
    from attnverify.evidence.numbers import number as number
    from attnverify.evidence.verify import verify as verify
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
    from attnverify.models.forward import trace as trace
    from attnverify.models.report import inspect as inspect
    from attnverify.network import deviations as deviations
    from attnverify.network import encoder as encoder
    from attnverify.network import frozen as frozen
    from attnverify.network import paths as paths
    from attnverify.network import stacks as stacks
    from attnverify.network.attention import SelfAttentionNetwork as SelfAttentionNetwork
    from attnverify.network.masks import Mask as Mask
    from attnverify.network.weights import MLP as MLP
    from attnverify.network.weights import AttentionWeights as AttentionWeights
    from attnverify.network.weights import LayerNorm as LayerNorm
    from attnverify.verdict import Verdict as Verdict

__version__ = "0.1.0"

#: Public names and what they stand for: a module, or "module:name".
PUBLIC = {
    "AttentionWeights": "attnverify.network.weights:AttentionWeights",
    "Claim": "attnverify.claims.model:Claim",
    "Decision": "attnverify.evidence.forms:Decision",
    "Identity": "attnverify.evidence.forms:Identity",
    "Inequality": "attnverify.evidence.forms:Inequality",
    "InputError": "attnverify.errors:InputError",
    "LayerNorm": "attnverify.network.weights:LayerNorm",
    "MLP": "attnverify.network.weights:MLP",
    "Mask": "attnverify.network.masks:Mask",
    "SelfAttentionNetwork": "attnverify.network.attention:SelfAttentionNetwork",
    "Source": "attnverify.claims.model:Source",
    "Twin": "attnverify.evidence.forms:Twin",
    "Verdict": "attnverify.verdict:Verdict",
    "best_constant": "attnverify.evidence.conjecture:best_constant",
    "centerbounds": "attnverify.formulas.centerbounds",
    "chisquare": "attnverify.formulas.chisquare",
    "claims": "attnverify.claims",
    "collapse": "attnverify.formulas.collapse",
    "deviations": "attnverify.network.deviations",
    "encoder": "attnverify.network.encoder",
    "entropy": "attnverify.formulas.entropy",
    "evidence": "attnverify.evidence",
    "experiments": "attnverify.experiments",
    "figures": "attnverify.book.figures",
    "frozen": "attnverify.network.frozen",
    "heads": "attnverify.formulas.heads",
    "inspect": "attnverify.models.report:inspect",
    "interactive": "attnverify.book.interactive",
    "layernorm": "attnverify.formulas.layernorm",
    "ledger": "attnverify.evidence.ledger",
    "localization": "attnverify.formulas.localization",
    "norms": "attnverify.formulas.norms",
    "number": "attnverify.evidence.numbers:number",
    "ops": "attnverify.ops",
    "paths": "attnverify.network.paths",
    "softmax": "attnverify.formulas.softmax",
    "spectrum": "attnverify.formulas.eigenspectrum",
    "stacks": "attnverify.network.stacks",
    "symbolic": "attnverify.symbolic",
    "trace": "attnverify.models.forward:trace",
    "verify": "attnverify.evidence.verify:verify",
    "walk": "attnverify.formulas.walk",
}

__getattr__, __dir__ = attributes(__name__, PUBLIC)
