"""Rank collapse with many heads: as printed, corrected, sharpened, in the printed quantities."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="collapse.multi-head-as-printed",
        title="Many heads, as printed",
        kind="theorem",
        statement=r"""
With $H$ heads, $\beta \ge \max_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}$ and every
$D_i \le x^*$, a layer satisfies

$$
\lVert \operatorname{res}(\mathrm{SA}(X)) \rVert_{1,\infty} \le
\frac{4 \gamma \beta H}{\sqrt{d_{qk}}} \lVert \operatorname{res}(X) \rVert_{1,\infty}^3,
$$

with $\gamma \ge 0$ at least that of every head with $E_h \ne 0$, or $\gamma = 1$ as in version 1.
""",
        sources=(Source(DONG, "Theorem 2.3"),),
        here="the counterexample",
        notebook="collapse-heads",
        asserts="fails",
        fails_because=r"""
The size $\sqrt{\lVert A \rVert_1 \lVert A \rVert_\infty}$ is no norm: $(4, 0, \dots, 0)$ and
$(1, \dots, 1)$ of width 16 have size 4 each, and their sum has size 10. So bounds of single heads
do not add up. Two heads exceed the bound of version 1 at every width from 14,330 on, and the bound
with γ from width 179 on (there with 178 tokens).
""",
        corrected_by="collapse.multi-head-corrected",
    ),
    Claim(
        id="collapse.multi-head-corrected",
        title="Many heads, corrected",
        kind="theorem",
        statement=r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, and let the rows of every
$E_h = R W_{QK,h} R^\top / \sqrt{d_{qk}}$ have oscillations at most $x^*$. With
$q_h = \lVert W_{QK,h} \rVert_1$,

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{4}{\sqrt{d_{qk}}}
\sqrt{\sum_h q_h \lVert W_h \rVert_1 \cdot \sum_h q_h \lVert W_h \rVert_\infty}\;
\allowbreak \lVert R \rVert_{1,\infty}^3 .
$$

The proof gives $\sqrt 2$ in place of 4.
""",
        here="statement and proof",
        uses=("collapse.single-head-without-gamma",),
        notebook="collapse-heads",
    ),
    Claim(
        id="collapse.multi-head-depth",
        title="Many heads over depth",
        kind="theorem",
        statement=r"""
Stack $L$ layers with one $d_{qk}$ and any numbers of heads, and let $\operatorname{res}$ be the
residual with the minimizing center. For the layer with input $X_l$ take
$R = \operatorname{res}(X_l)$; let $D_l$ be the largest oscillation of all rows of all
$E_h = R W_{QK,h} R^\top / \sqrt{d_{qk}}$, of any size, $q_h = \lVert W_{QK,h} \rVert_1$,
$\kappa(D) = (e^D - 1)/D$, $\kappa(0) = 1$ and

$$
B_l = \sqrt{\sum_h q_h \lVert W_h \rVert_1 \cdot \sum_h q_h \lVert W_h \rVert_\infty} .
$$

If $C \ge \frac12 \sqrt{1 + \kappa(D_l)}\, B_l / \sqrt{d_{qk}}$ at every layer, then for all biases

$$
\lVert \operatorname{res}(\mathrm{SAN}(X)) \rVert_{1,\infty} \le
C^{(3^L - 1)/2}\, \lVert \operatorname{res}(X) \rVert_{1,\infty}^{3^L} .
$$

If $D_l \le x^*$ and $B_l \le B$ at every layer, $C = \frac{\sqrt3}{2} B / \sqrt{d_{qk}}$ will do,
and so will $4 B / \sqrt{d_{qk}}$, which stands in place of the printed
$4 \gamma \beta H / \sqrt{d_{qk}}$.
""",
        here="statement and proof",
        uses=("collapse.multi-head-corrected", "collapse.multi-head-sharpened"),
        notebook="collapse-heads",
    ),
    Claim(
        id="collapse.column-sums",
        title="What many rows with one base move together",
        kind="lemma",
        statement=r"""
Let $p = \operatorname{softmax}(r)$ and $P_i = \operatorname{softmax}(r + E_i)$ for the rows $E_i$
of a real matrix $E$, $D = \max_i \operatorname{osc}(E_i)$, $\kappa(D) = (e^D - 1)/D$ and
$\kappa(0) = 1$. For every vector $v$ and every token $j$

$$
\sum_i \bigl| (P_i - p)^\top v \bigr| \le
\frac{\kappa(D)}{2} \lVert E \rVert_1 \operatorname{osc}(v),
$$

$$
\sum_i \lvert P_{ij} - p_j \rvert \le \frac{1 + \kappa(D)}{4} \lVert E \rVert_1 .
$$

At no $D > 0$ can either constant be smaller for all numbers of rows and tokens.
""",
        here="statement and proof",
        uses=("softmax.total-variation",),
        notebook="collapse-width",
    ),
    Claim(
        id="collapse.multi-head-sharpened",
        title="Many heads without a condition",
        kind="theorem",
        statement=r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, let $D$ be the largest oscillation of all rows of all
$E_h = R W_{QK,h} R^\top / \sqrt{d_{qk}}$, of any size, $\kappa(D) = (e^D - 1)/D$, $\kappa(0) = 1$
and $q_h = \lVert W_{QK,h} \rVert_1$. For all biases

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{\sqrt{1 + \kappa(D)}}{2 \sqrt{d_{qk}}} \allowbreak
\sqrt{\sum_h q_h \lVert W_h \rVert_1 \cdot \sum_h q_h \lVert W_h \rVert_\infty}\;
\lVert R \rVert_{1,\infty}^3 .
$$

For $D \le x^*$, $\frac12 \sqrt{1 + \kappa(D)} \le \sqrt3/2$, which stands in place of 4. As
$D \to 0$ it tends to $1/\sqrt2$, which cannot be improved for four or more tokens.

For one head the right side may be multiplied by $\sqrt{\tanh(D/4)/(D/4)}$, or by 1 if $D = 0$.
""",
        here="statement and proof",
        uses=(
            "collapse.column-sums",
            "softmax.total-variation",
            "norms.submultiplicative",
            "attention.qk-reduction",
            "collapse.single-head-sharpened",
        ),
        notebook="collapse-width",
    ),
    Claim(
        id="collapse.multi-head-dimension",
        title="Many heads in the printed quantities: the loss is the fourth root of the width",
        kind="theorem",
        statement=r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, where $X$ has $n$ tokens and $d$ features. Let $D$ be
the largest oscillation of all rows of all $E_h = R W_{QK,h} R^\top / \sqrt{d_{qk}}$, of any size,
and $\kappa = (e^D - 1)/D$, or 1 if $D = 0$. For any number of heads and all biases

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{K(D, d)}{\sqrt{d_{qk}}} \sum_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}\;
\allowbreak \lVert R \rVert_{1,\infty}^3
$$

with

$$
K(D, d) = \frac{\sqrt{1 + \kappa}}{4} \Bigl( \tau + \frac1\tau \Bigr),
$$

$$
\tau^4 = \frac{2 \kappa d}{1 + \kappa} .
$$

As $D \to 0$, $K(D, d) \to \frac{1}{2\sqrt2}(d^{1/4} + d^{-1/4})$. At every width $d \ge 2$ no
smaller limit holds for all $n$: two heads reach it as $D \to 0$ and $n \to \infty$.
""",
        here="statement and proof",
        uses=(
            "collapse.column-sums",
            "softmax.total-variation",
            "norms.submultiplicative",
            "attention.qk-reduction",
            "collapse.multi-head-as-printed",
        ),
        notebook="collapse-width",
    ),
    Claim(
        id="collapse.multi-head-small-width",
        title="Widths at which the printed many-heads bound without γ is true",
        kind="proposition",
        statement=r"""
With $R$, $D$, $d$ and $K$ as in {claim}`collapse.multi-head-dimension` and
$\beta \ge \max_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}$, the printed bound with
$\gamma = 1$, that is $4 \beta H \lVert R \rVert_{1,\infty}^3 / \sqrt{d_{qk}}$, holds for every
layer with $K(D, d) \le 4$:

- at every width $d \le 5206$, for all $D \le x^*$;
- at every width $d \le 15\,873$, for all $D \le D_d$ with a $D_d > 0$.

At every width $d \ge 14\,330$ there are layers of two heads with $D \le x^*$ for which it is false.
At every width $d \ge 15\,874$ there are such layers with arbitrarily small $D$, for which it is
false with $\gamma$ as in version 2, too.
""",
        here="statement and proof",
        uses=("collapse.multi-head-dimension", "collapse.multi-head-as-printed"),
        notebook="collapse-width",
    ),
    Claim(
        id="collapse.multi-head-gamma",
        title="Many heads with γ: the loss is the fourth root of tokens times width",
        kind="theorem",
        statement=r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, where $X$ has $n$ tokens and $d$ features,
$E_h = R W_{QK,h} R^\top / \sqrt{d_{qk}}$ and $\gamma_h$ as in version 2
({claim}`collapse.single-layer`). With $\tau = (nd)^{1/4}$, for oscillations of any size, any number
of heads and all biases

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{\tau + \tau^{-1}}{2 \sqrt2} \sum_h \frac{\gamma_h}{\sqrt{d_{qk}}}
\lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}\, \allowbreak \lVert R \rVert_{1,\infty}^3 ,
$$

the sum being over the heads with $E_h \ne 0$. So the printed bound with $\gamma$ as in version 2 is
true for every layer with $nd \le 15\,873$.

If $n$ is even, $n \le d$ and $nd \ge 31\,748$, there are layers of two heads, with arbitrarily
small oscillations, for which the printed bound with this $\gamma$ is false. The smallest such width
is 179, with 178 tokens. For even $n \le d$ no factor in place of $(\tau + \tau^{-1})/(2 \sqrt2)$
can be smaller than that number with $nd/2$ for $nd$.
""",
        here="statement and proof",
        uses=(
            "collapse.single-layer-sharp",
            "attention.qk-reduction",
            "collapse.multi-head-as-printed",
        ),
        notebook="collapse-width",
    ),
]
