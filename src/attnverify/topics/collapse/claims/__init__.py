"""Rank collapse: as published, as repaired, and sharp, with its threshold and its limits."""

from attnverify.topics.collapse.claims import best_constant, depth, heads
from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

SETTING = r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, $E = R W_{QK} R^\top / \sqrt{d_{qk}}$ and
$D_i = \operatorname{osc}(E_i)$ for its rows, with $D_i \le x^* = 1.25643\ldots$ for every $i$
({claim}`softmax.perturbation`).
"""

NO_CONDITION = r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, $E = R W_{QK} R^\top / \sqrt{d_{qk}}$ and
$D_i = \operatorname{osc}(E_i)$ for its rows, of any size.
"""

CLAIMS = [
    Claim(
        id="collapse.single-layer",
        title="One layer, one head, in the composite value",
        kind="theorem",
        statement=SETTING
        + r"""
If $E \ne 0$ then, with $\gamma = \sqrt{\sum_i D_i \cdot \max_i D_i} \,/\, (2 \lVert E \rVert_1)$,

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty}
\le \frac{4 \gamma \beta}{\sqrt{d_{qk}}} \lVert R \rVert_{1,\infty}^3,
$$

$$
\beta = \lVert W_{QK} \rVert_1 \lVert W_V \rVert_{1,\infty} .
$$

If $E = 0$ the left side is 0.
""",
        sources=(Source(DONG, "Theorem 2.2 of version 2, one layer"),),
        uses=("softmax.perturbation", "norms.submultiplicative", "attention.qk-reduction"),
        notebook="collapse-composite",
    ),
    Claim(
        id="collapse.single-head",
        title="Doubly exponential collapse, as in version 2",
        kind="theorem",
        statement=r"""
Stack $L$ such layers with one $d_{qk}$. Let $\operatorname{res}$ be the residual with the
minimizing center, let $D_i \le x^*$ hold at every layer with $R = \operatorname{res}(X_l)$ for its
input $X_l$, and let $\beta$ and $\gamma \ge 0$, taken with the same $R$, be at least those of
every layer (for $\gamma$: of every layer with $E \ne 0$). Then

$$
\lVert \operatorname{res}(\mathrm{SAN}(X)) \rVert_{1,\infty} \le
\Bigl( \frac{4\gamma\beta}{\sqrt{d_{qk}}} \Bigr)^{\frac{3^L - 1}{2}}
\lVert \operatorname{res}(X) \rVert_{1,\infty}^{3^L} .
$$
""",
        sources=(Source(DONG, "Theorem 2.2, version 2"),),
        uses=("collapse.single-layer",),
        notebook="collapse-composite",
    ),
    Claim(
        id="collapse.version-1-proof-gap",
        title="A step of version 1: the sum of oscillations",
        kind="proposition",
        statement=r"""
For every $E \in \mathbb{R}^{n \times n}$, $\sum_i \operatorname{osc}(E_i) \le 2 \lVert E \rVert_1$.
""",
        sources=(Source(DONG, "proof of Theorem 2.2, version 1"),),
        here="the counterexample",
        notebook="collapse-composite",
        asserts="fails",
        corrected_by="collapse.single-head-without-gamma",
    ),
    Claim(
        id="collapse.single-head-without-gamma",
        title="One head without γ, if D ≤ x*",
        kind="theorem",
        statement=SETTING
        + r"""
Then for one head

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty}
\le \frac{4 \beta}{\sqrt{d_{qk}}} \lVert R \rVert_{1,\infty}^3,
$$

and $L$ layers with one $d_{qk}$, $\beta$ at least that of each and the condition met at each with
$R = \operatorname{res}(X_l)$, the residual with the minimizing center, leave a residual of at most
$(4\beta/\sqrt{d_{qk}})^{(3^L - 1)/2} \lVert \operatorname{res}(X) \rVert_{1,\infty}^{3^L}$.

Without the condition $D_i \le x^*$ this is false: one layer on 200,001 tokens exceeds the bound by
a factor of more than 1.565.

Version 1 of the source can be read in two ways. If its theorem has the condition, this is that
theorem. If only a lemma of its appendix has it, the theorem is false by the layer just named. Which
of the two was meant is not decided here.
""",
        sources=(Source(DONG, "Theorem 2.2 of version 1, if read with the condition"),),
        here="the proof, and the layer that needs the condition",
        uses=(
            "softmax.perturbation",
            "softmax.total-variation",
            "norms.submultiplicative",
            "attention.qk-reduction",
        ),
        notebook="collapse-composite",
    ),
    Claim(
        id="collapse.single-layer-sharp",
        title="With γ: the best constant, and no condition",
        kind="theorem",
        statement=NO_CONDITION
        + r"""
If $E \ne 0$ then, with $\gamma = \sqrt{\sum_i D_i \cdot \max_i D_i} \,/\, (2 \lVert E \rVert_1)$
and $\beta = \lVert W_{QK} \rVert_1 \lVert W_V \rVert_{1,\infty}$, one head leaves

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty}
\le \frac{\gamma}{\sqrt 2} \cdot \frac{\beta}{\sqrt{d_{qk}}} \lVert R \rVert_{1,\infty}^3 ,
$$

and two tokens show that no smaller multiple of $\gamma$ will do. If $E = 0$ the left side is 0.
""",
        here="statement and proof",
        uses=("softmax.total-variation", "norms.submultiplicative", "attention.qk-reduction"),
        notebook="collapse-composite",
        sharpens="collapse.single-layer",
    ),
    Claim(
        id="collapse.single-head-sharpened",
        title="Neither γ nor a condition: a constant that tends to 1/√2",
        kind="theorem",
        statement=NO_CONDITION
        + r"""
With $D = \max_i D_i$, $\kappa(x) = (e^x - 1)/x$, $\kappa(0) = 1$ and
$\beta = \lVert W_{QK} \rVert_1 \lVert W_V \rVert_{1,\infty}$, one head leaves

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty}
\le \min\Bigl\{ \kappa\bigl(\tfrac D2\bigr),\ \tfrac{1}{\sqrt 2} e^{D/2} \Bigr\}
\frac{\beta}{\sqrt{d_{qk}}} \lVert R \rVert_{1,\infty}^3 .
$$

For $D \le x^*$ the constant is at most $\sqrt{(1 + 2x^*)/2} = 1.325\ldots$ As $D \to 0$ it tends to
$1/\sqrt 2$, which cannot be improved for four or more tokens.
""",
        here="statement and proof",
        uses=(
            "softmax.perturbation",
            "softmax.total-variation",
            "norms.submultiplicative",
            "attention.qk-reduction",
        ),
        notebook="collapse-composite",
        sharpens="collapse.single-head-without-gamma",
    ),
    *heads.CLAIMS,
    *best_constant.CLAIMS,
    Claim(
        id="collapse.stochastic-products",
        title="Products of fixed stochastic matrices contract only geometrically",
        kind="proposition",
        statement=r"""
For row-stochastic $P_1, \dots, P_L$ with contraction coefficients
$\tau(P) = \max_{i,k} \mathrm{TV}(P_i, P_k)$,
$\operatorname{diam}(P_L \cdots P_1 X) \le \tau(P_L) \cdots \tau(P_1) \operatorname{diam}(X)$.
For two tokens and $P = \begin{pmatrix} 1-a & a \\ a & 1-a \end{pmatrix}$ both sides are
$|1 - 2a|^L \operatorname{diam}(X)$: the rate is geometric, not doubly exponential.
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
For every $X$, all heads and all biases,

$$
\operatorname{diam}(\mathrm{SA}(X)) \le
\operatorname{diam}(X) \sum_h \lVert W_h \rVert_2 \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr)
\le \frac{\beta_2}{4 \sqrt{d_{qk}}} \operatorname{diam}(X)^3,
$$

$$
\beta_2 = \sum_h \lVert W_{QK,h} \rVert_2 \lVert W_h \rVert_2 .
$$

The first bound is an equality for two tokens $\pm\frac\delta2 e$, $W_{QK,h} = q_h\, e e^\top$ and
$W_h = v_h\, e w^\top$ with unit vectors $e$, $w$ (one $w$ for all heads), $q_h, v_h \ge 0$ and no
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
For $L$ layers with one $d_{qk}$, if $\beta_2$ is at least that of every layer,

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
    *depth.CLAIMS,
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
