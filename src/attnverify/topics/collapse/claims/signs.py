"""Columns of both signs in the composite value, and the widths at which the printed bound holds."""

from attnverify.verification.claim import Claim

CLAIMS = [
    Claim(
        id="collapse.signed-columns",
        title="What many rows with one base move together, between the two norms of a vector",
        kind="lemma",
        statement=r"""
Let $p = \operatorname{softmax}(r)$ and $P_i = \operatorname{softmax}(r + E_i)$ for the rows $E_i$
of a real matrix $E$, $D = \max_i \operatorname{osc}(E_i) \le x^*$ ({claim}`softmax.perturbation`),
$\kappa(D) = (e^D - 1)/D$, $\kappa(0) = 1$ and

$$
g(D) = \max\Bigl\{ \frac{1}{\sqrt2},\ \frac{1 + \kappa(D)}{4} \Bigr\} .
$$

For every vector $v$, with $\lVert v \rVert_1 = \sum_j |v_j|$ and
$\lVert v \rVert_\infty = \max_j |v_j|$,

$$
\sum_i \bigl| (P_i - p)^\top v \bigr| \le
g(D)\, \lVert E \rVert_1 \sqrt{\lVert v \rVert_1 \lVert v \rVert_\infty} .
$$

For no $D$ with $0 < D \le x^*$ is there a smaller number that holds for all matrices with
oscillations of at most $D$.
""",
        here="statement and proof",
        uses=("collapse.column-sums", "softmax.perturbation", "softmax.total-variation"),
        notebook="collapse-signs",
    ),
    Claim(
        id="collapse.multi-head-width",
        title="The printed many-heads bound without γ is true up to width 13,884",
        kind="theorem",
        statement=r"""
With $R$, $D$, $d$ and $\kappa$ as in {claim}`collapse.multi-head-dimension`, $d \ge 2$,
$D \le x^*$, any number of heads and all biases

$$
\min_y \lVert \mathrm{SA}(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le
\frac{K_\pm(D, d)}{\sqrt{d_{qk}}} \sum_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}\;
\allowbreak \lVert R \rVert_{1,\infty}^3
$$

with $c = (1 + \kappa)/4$, $g = \max\{1/\sqrt2, c\}$ and

$$
K_\pm(D, d) = \frac{\sqrt c}{2} \Bigl( \tau + \frac1\tau \Bigr),
$$

$$
\tau^4 = \frac{g^2 d}{2 c^2} .
$$

The same holds with $c = g = \frac34$ for all $D \le x^*$. So the printed bound with $\gamma = 1$,
that is $4 \beta H \lVert R \rVert_{1,\infty}^3 / \sqrt{d_{qk}}$ with
$\beta \ge \max_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}$, is true for every layer
with $D \le x^*$ at every width $d \le 13\,884$, $d = 1$ included
({claim}`collapse.multi-head-small-width`).
""",
        here="statement and proof",
        uses=(
            "collapse.signed-columns",
            "collapse.column-sums",
            "collapse.multi-head-dimension",
            "collapse.multi-head-small-width",
            "softmax.perturbation",
        ),
        notebook="collapse-signs",
    ),
]
