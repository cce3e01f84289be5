"""Part IV: experiments."""

from attnverify.claims.model import Claim, Source

BAO = "bao2024"

CLAIMS: list[Claim] = [
    Claim(
        id="experiment.locater",
        title="A concentrated eigenspectrum lowers the perplexity, in each of four cases",
        kind="experiment",
        statement=r"""
Train causal language models of two layers for 600 steps from five seeds at the learning rate
$0.03$: with the penalty
$\kappa \operatorname{tr}(W W^\top) + \nu (\operatorname{tr} W - c)^2$ on $W = W_{QK}$ of every
head, $\kappa = \nu \in \{10^{-4}, 10^{-3}, 10^{-2}\}$, $c \in \{d_{qk}, d_{qk}/4\}$, and without.
*Criterion:* on a hidden Markov source and on real text, attention only and with MLPs, in each of
these four cases some of the six points of the grid has a lower held-out perplexity and a higher
attention entropy than no penalty, both by Student's test of the paired differences of the
logarithm of the perplexity and of the entropy at level $5\,\%/6$.
""",
        sources=(Source(BAO, "experiments with LocAteR"),),
        notebook="locater",
        asserts="fails",
    ),
]
