"""attnverify: the instrument behind *Attention, Verified*.

>>> import attnverify as av
>>> net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)
>>> av.claims.registry["collapse.threshold"].kind
'theorem'

A public name is imported when it is first used: the claims and the ledger of derivations do
without torch, and so do the commands that compute nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnverify.derivation import assumptions
from attnverify.support.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with PUBLIC
    from attninspect.clip_scores import clip_scores as clip_scores
    from attninspect.compare import compare as compare
    from attninspect.families import adapter as adapter
    from attninspect.forward import trace as trace
    from attninspect.inspect_model import inspect as inspect
    from attninspect.watch import Watch as Watch
    from attnverify import chapters as claims  # noqa: F401
    from attnverify import experiments as experiments
    from attnverify import verification as evidence  # noqa: F401
    from attnverify.arithmetic import ops as ops
    from attnverify.arithmetic.interval_cover import certain as certain
    from attnverify.book import figures as figures
    from attnverify.book import interactive as interactive
    from attnverify.chapters.verify import verify as verify
    from attnverify.checking.closed_forms import number as number
    from attnverify.checking.declare import decision as decision
    from attnverify.checking.declare import definition as definition
    from attnverify.checking.declare import identity as identity
    from attnverify.checking.declare import inequality as inequality
    from attnverify.checking.declare import measured as measured
    from attnverify.checking.definition_agreement import drawn as drawn
    from attnverify.checking.definition_agreement import largest as largest
    from attnverify.checking.definition_agreement import table as table
    from attnverify.derivation import ledger as ledger
    from attnverify.derivation import noncommuting as symbolic  # noqa: F401
    from attnverify.mathematics import centerbounds as centerbounds
    from attnverify.mathematics import chisquare as chisquare
    from attnverify.mathematics import collapse as collapse
    from attnverify.mathematics import deviations as deviations
    from attnverify.mathematics import eigenspectrum as spectrum  # noqa: F401
    from attnverify.mathematics import encoder as encoder
    from attnverify.mathematics import entropy as entropy
    from attnverify.mathematics import gradients as gradients
    from attnverify.mathematics import heads as heads
    from attnverify.mathematics import initialization as initialization
    from attnverify.mathematics import layernorm as layernorm
    from attnverify.mathematics import localization as localization
    from attnverify.mathematics import norms as norms
    from attnverify.mathematics import paths as paths
    from attnverify.mathematics import softmax as softmax
    from attnverify.mathematics import stacks as stacks
    from attnverify.mathematics import walk as walk
    from attnverify.mathematics.attention import SelfAttentionNetwork as SelfAttentionNetwork
    from attnverify.mathematics.masks import Mask as Mask
    from attnverify.mathematics.weights import MLP as MLP
    from attnverify.mathematics.weights import AttentionWeights as AttentionWeights
    from attnverify.mathematics.weights import LayerNorm as LayerNorm
    from attnverify.support.errors import InputError as InputError
    from attnverify.support.stated import stated as stated
    from attnverify.support.verdict import Verdict as Verdict
    from attnverify.verification.claim import Claim as Claim
    from attnverify.verification.claim import Source as Source
    from attnverify.verification.conjecture import best_constant as best_constant

__version__ = "0.1.0"

#: Public names and what they stand for: a module, or "module:name".
PUBLIC = {
    "AttentionWeights": "attnverify.mathematics.weights:AttentionWeights",
    "Claim": "attnverify.verification.claim:Claim",
    "InputError": "attnverify.support.errors:InputError",
    "LayerNorm": "attnverify.mathematics.weights:LayerNorm",
    "MLP": "attnverify.mathematics.weights:MLP",
    "Mask": "attnverify.mathematics.masks:Mask",
    "SelfAttentionNetwork": "attnverify.mathematics.attention:SelfAttentionNetwork",
    "Source": "attnverify.verification.claim:Source",
    "Verdict": "attnverify.support.verdict:Verdict",
    "Watch": "attninspect.watch:Watch",
    "adapter": "attninspect.families:adapter",
    "best_constant": "attnverify.verification.conjecture:best_constant",
    "centerbounds": "attnverify.mathematics.centerbounds",
    "certain": "attnverify.arithmetic.interval_cover:certain",
    "chisquare": "attnverify.mathematics.chisquare",
    "claims": "attnverify.chapters",
    "clip_scores": "attninspect.clip_scores:clip_scores",
    "collapse": "attnverify.mathematics.collapse",
    "compare": "attninspect.compare:compare",
    "decision": "attnverify.checking.declare:decision",
    "definition": "attnverify.checking.declare:definition",
    "deviations": "attnverify.mathematics.deviations",
    "drawn": "attnverify.checking.definition_agreement:drawn",
    "encoder": "attnverify.mathematics.encoder",
    "entropy": "attnverify.mathematics.entropy",
    "evidence": "attnverify.verification",
    "experiments": "attnverify.experiments",
    "figures": "attnverify.book.figures",
    "gradients": "attnverify.mathematics.gradients",
    "heads": "attnverify.mathematics.heads",
    "identity": "attnverify.checking.declare:identity",
    "inequality": "attnverify.checking.declare:inequality",
    "initialization": "attnverify.mathematics.initialization",
    "inspect": "attninspect.inspect_model:inspect",
    "interactive": "attnverify.book.interactive",
    "largest": "attnverify.checking.definition_agreement:largest",
    "layernorm": "attnverify.mathematics.layernorm",
    "ledger": "attnverify.derivation.ledger",
    "localization": "attnverify.mathematics.localization",
    "measured": "attnverify.checking.declare:measured",
    "norms": "attnverify.mathematics.norms",
    "number": "attnverify.checking.closed_forms:number",
    "ops": "attnverify.arithmetic.ops",
    "paths": "attnverify.mathematics.paths",
    "softmax": "attnverify.mathematics.softmax",
    "spectrum": "attnverify.mathematics.eigenspectrum",
    "stacks": "attnverify.mathematics.stacks",
    "stated": "attnverify.support.stated:stated",
    "symbolic": "attnverify.derivation.noncommuting",
    "table": "attnverify.checking.definition_agreement:table",
    "trace": "attninspect.forward:trace",
    "verify": "attnverify.chapters.verify:verify",
    "walk": "attnverify.mathematics.walk",
}

__getattr__, __dir__ = attributes(__name__, PUBLIC)


def _claims_of_the_book():
    """The claims that a derivation may name unless it is told others."""
    from attnverify.chapters import registry

    return registry


assumptions.among_by_default(_claims_of_the_book)
