"""Part IV: experiments."""

from attnverify.claims.model import Claim, Source

CLAIMS: list[Claim] = [
    Claim(
        id="experiment.architectures",
        title="Pure attention collapses with depth, skip connections prevent it",
        kind="experiment",
        statement=r"""
Measured: the relative residual $\min_x \lVert X - \mathbf 1 x^\top \rVert_{1,\infty} / \lVert X
\rVert_{1,\infty}$ by layer, for stacks of the shapes of BERT-base, ALBERT-base and XLNet-base at
random initialization (12 layers) and for a trained encoder (6 layers), on English text.
*Criterion:* attention alone brings it down by a factor of 1,000 or more in every stack and seed;
with skip connections, alone or with MLP and layer norm, no stack and seed falls by that much.
""",
        sources=(Source("dong2021", "Section 4.1 and Figure 2"),),
        notebook="architectures",
    ),
    Claim(
        id="experiment.real-spectra",
        title="Trained heads are told from random ones by trace and symmetry",
        kind="experiment",
        statement=r"""
Measured for $W = W_Q W_K^\top$ of all 72 heads of a trained encoder:
$\operatorname{tr} W / \lVert W \rVert_F$ and the asymmetry
$\lVert (W - W^\top)/2 \rVert_F / \lVert W \rVert_F$. *Criterion:* in each of the two, more than
half of the heads lie outside the central 95 % of random heads of the same shape.
""",
        sources=(Source("bao2024", "the statistic ξ, there for symmetric W"),),
        here="the comparison",
        notebook="real-encoder",
    ),
    Claim(
        id="experiment.real-margins",
        title="A trained encoder works above the collapse threshold",
        kind="experiment",
        statement=r"""
Measured: the diameter of the inputs of every attention layer of a trained encoder, on English
text. *Criterion:* in every layer and for every passage it exceeds the threshold, the diameter at
which the factor $\sum_h \lVert W_h \rVert_2 \tanh(c_h \operatorname{diam}^2)$ of the sharp theorem
is 1, so that the theorem promises no collapse.
""",
        here="threshold and measurement",
        uses=("collapse.sharp-layer",),
        notebook="real-encoder",
    ),
]
