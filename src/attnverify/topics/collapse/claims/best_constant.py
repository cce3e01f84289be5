"""One head in the composite value: the best constant."""

from attnverify.verification.claim import Claim

CLAIMS = [
    Claim(
        id="collapse.row-and-column",
        title="A row that moves far leaves less for its columns",
        kind="lemma",
        statement=r"""
Let $p = \operatorname{softmax}(r)$ and $P_i = \operatorname{softmax}(r + E_i)$ for the rows $E_i$
of a real matrix $E$ with $\operatorname{osc}(E_i) \le x^*$ ({claim}`softmax.perturbation`). Then

$$
4 \, \max_j \sum_i \lvert P_{ij} - p_j \rvert \cdot \max_i \mathrm{TV}(P_i, p)
\le \lVert E \rVert_1^2 .
$$

No smaller constant will do, however small the oscillations are required to be. If
$\lVert E \rVert_1 \le \log 2$, then even without the condition on the oscillations the two factors,
without the 4, add up to at most $\lVert E \rVert_1$.
""",
        here="statement and proof",
        uses=("collapse.column-sums", "softmax.perturbation", "softmax.total-variation"),
        notebook="best-constant",
    ),
    Claim(
        id="collapse.single-head-best-constant",
        title="One head: the best constant is 1/√2 under the published condition",
        kind="theorem",
        statement=r"""
Let $R = X - \mathbf 1 x^\top$ for any $x$, let the rows of
$E = R W_{QK} R^\top / \sqrt{d_{qk}}$ have oscillations at most $x^* = 1.25643\ldots$, and
$\beta = \lVert W_{QK} \rVert_1 \lVert W_V \rVert_{1,\infty}$. For one head and all biases

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{1}{\sqrt 2} \cdot \frac{\beta}{\sqrt{d_{qk}}} \lVert R \rVert_{1,\infty}^3 .
$$

For four or more tokens no smaller constant holds, however small the oscillations are required to
be. $L$ layers with one $d_{qk}$, $\beta$ at least that of each and the condition met at each with
$R = \operatorname{res}(X_l)$, the residual with the minimizing center, leave at most
$(\beta/\sqrt{2 d_{qk}})^{(3^L - 1)/2} \lVert \operatorname{res}(X) \rVert_{1,\infty}^{3^L}$.
""",
        here="statement and proof",
        uses=(
            "collapse.row-and-column",
            "norms.submultiplicative",
            "attention.qk-reduction",
            "collapse.single-head-sharpened",
        ),
        sharpens="collapse.single-head-without-gamma",
        notebook="best-constant",
    ),
]
