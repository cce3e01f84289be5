"""Rank collapse in the diameter: the sharp theorem, its threshold, and what ends the cubic rate."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="collapse.stochastic-products",
        title="Products of stochastic matrices: a geometric bound, attained",
        kind="proposition",
        statement=r"""
For row-stochastic $P_1, \dots, P_L$ with contraction coefficients
$\tau(P) = \max_{i,k} \mathrm{TV}(P_i, P_k)$,
$\operatorname{diam}(P_L \cdots P_1 X) \le \tau(P_L) \cdots \tau(P_1) \operatorname{diam}(X)$.
For two tokens, $0 \le a \le 1$ and
$P = \begin{pmatrix} 1-a & a \\ a & 1-a \end{pmatrix}$ both sides are
$|1 - 2a|^L \operatorname{diam}(X)$: for a fixed $P$ with $0 < |1 - 2a| < 1$ the rate is geometric,
not doubly exponential.
""",
        sources=(Source(DONG, "discussion of Theorem 2.2"),),
        uses=("norms.diameter", "paths.stochastic-product"),
        notebook="collapse-sharp",
    ),
    Claim(
        id="collapse.sharp-layer",
        title="The sharp theorem for one layer",
        kind="theorem",
        statement=r"""
For every $X$, all heads and all biases, a layer without a mask has

$$
\operatorname{diam}(\mathrm{SA}(X)) \le
\operatorname{diam}(X) \sum_h \lVert W_h \rVert_2 \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr)
\le \frac{\beta_2}{4 \sqrt{d_{qk}}} \operatorname{diam}(X)^3,
$$

$$
\beta_2 = \sum_h \lVert W_{QK,h} \rVert_2 \lVert W_h \rVert_2 .
$$

The first bound is an equality for two tokens $\pm\frac\delta2 a$, $W_{QK,h} = q_h\, a^\top a$ and
$W_h = v_h\, a^\top w$ with unit rows $a$, $w$ (one $w$ for all heads), $q_h, v_h \ge 0$ and no
query bias. So the constant ¼ cannot be improved.
""",
        here="statement and proof",
        uses=("softmax.total-variation", "norms.diameter", "attention.qk-reduction"),
        notebook="collapse-sharp",
    ),
    Claim(
        id="collapse.sharp-depth",
        title="The sharp theorem over depth",
        kind="theorem",
        statement=r"""
For $L$ layers with one $d_{qk}$, if $\beta_2$ is at least the $\beta_2$ of every layer,

$$
\operatorname{diam}(\mathrm{SAN}(X)) \le
\Bigl( \frac{\beta_2}{4 \sqrt{d_{qk}}} \Bigr)^{\frac{3^L - 1}{2}} \operatorname{diam}(X)^{3^L} .
$$
""",
        here="statement and proof",
        uses=("collapse.sharp-layer",),
        notebook="collapse-sharp",
    ),
    Claim(
        id="collapse.global",
        title="Collapse from every input",
        kind="theorem",
        statement=r"""
One head, one $d_{qk}$, $\lVert W_V \rVert_2 \le 1$ and $\lVert W_{QK} \rVert_2 \le q$ at every
layer. With
$\delta_0 = \operatorname{diam}(X)$ and $c = q / (4\sqrt{d_{qk}})$,

$$
\operatorname{diam}(\mathrm{SAN}(X)) \le {\tanh(c\, \delta_0^2)^L\, \delta_0 \to 0
\quad (L \to \infty)},
$$

whatever $X$ and $q$ are; from the layer on where $c\,\delta^2 < 1$ the decay is doubly exponential.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer", "collapse.sharp-depth"),
        notebook="collapse-sharp",
    ),
    Claim(
        id="collapse.threshold",
        title="The threshold below which one head collapses",
        kind="theorem",
        statement=r"""
One head, one $d_{qk}$, $\lVert W_V \rVert_2 \le v$ with $v > 1$, and $\lVert W_{QK} \rVert_2 \le q$
with $q > 0$ at every layer. Let $c = q / (4\sqrt{d_{qk}})$ and

$$
\delta_*^2 = \frac{4 \sqrt{d_{qk}}\, \operatorname{artanh}(1/v)}{q} .
$$

If $\delta_0 = \operatorname{diam}(X) < \delta_*$ then
$\operatorname{diam}(\mathrm{SAN}(X)) \le \bigl(v \tanh(c\, \delta_0^2)\bigr)^L \delta_0$ with a
base below 1, so the tokens collapse. Two tokens at a distance of exactly $\delta_*$ can stay there
forever.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer",),
        notebook="collapse-sharp",
    ),
]

#: Claims on the limits of collapse, which come after those on depth.
LIMITS = [
    Claim(
        id="collapse.absolute-not-relative",
        title="Absolute collapse is not relative collapse",
        kind="counterexample",
        statement=r"""
Let $X$ hold the corners of an equilateral triangle with positive sides, centered at the origin,
$W_{QK} = qI$ with $q > 0$ (so $d_{qk}$ is at least the width), $W_V = I$ and no biases. Every
layer multiplies its input by

$$
s(a) = \frac{e^{a} - e^{-a/2}}{e^{a} + 2 e^{-a/2}} < 1,
$$

$$
a = \frac{q\, \lVert x_1 \rVert_2^2}{\sqrt{d_{qk}}} ,
$$

where $x_1$ is the first token of that layer's own input; so $a_{l+1} = s(a_l)^2 a_l$.

Hence $\operatorname{diam} \to 0$, in the end doubly exponentially, while the residual with the mean
center is all of the output at every depth:
$\lVert \operatorname{res}(X_l) \rVert / \lVert X_l \rVert = 1$ in every norm.
""",
        here="the example",
        uses=("collapse.global",),
        notebook="collapse-relative",
    ),
    Claim(
        id="collapse.causal-mask",
        title="A causal mask ends the cubic rate",
        kind="theorem",
        statement=r"""
Two different tokens under a causal mask, one head, $W_V = I$, no biases. The first token stays, and
the distance $\delta$ of the two becomes $\delta'$ with

$$
\Bigl| \frac{\delta'}{\delta} - \frac12 \Bigr| \le
\frac12 \tanh\!\Bigl( \frac{\lVert W_{QK} \rVert_2 \lVert x_2 \rVert_2\, \delta}
{2\sqrt{d_{qk}}} \Bigr) .
$$

Over layers with $\lVert W_{QK} \rVert_2 \le q$ for one $q$, the ratio of successive distances
therefore tends to ½: the decay is geometric.
""",
        sources=(Source("wu2024", "the effect of masks", related=True),),
        here="the constant ½",
        uses=("attention.shift-invariance",),
        notebook="collapse-masks",
    ),
]
