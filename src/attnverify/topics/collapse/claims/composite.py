"""Rank collapse in the composite value: as published and as repaired, with one head."""

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
        fails_because=r"""
In the identity matrix of size 3 every row has oscillation 1. The sum is 3, but
$2 \lVert E \rVert_1 = 2$.
""",
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
]
