"""MLPs: how much they can undo."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="mlp.lipschitz",
        title="An MLP multiplies the bound by its Lipschitz constant",
        kind="proposition",
        statement=r"""
Let $f$ act on every row. If $\lVert f(x) - f(y) \rVert_2 \le \lambda \lVert x - y \rVert_2$ then
$\operatorname{diam}(f(X)) \le \lambda \operatorname{diam}(X)$. If
$|f(x) - f(y)| \le |x - y|\, \Lambda$ entry by entry for a matrix $\Lambda \ge 0$, then
$\min_y \lVert f(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le \lVert \Lambda \rVert_{1,\infty}
\lVert X - \mathbf 1 x^\top \rVert_{1,\infty}$ for every $x$.
For $f(x) = \sigma(x W_1 + b_1) W_2 + b_2$, $\sigma$ with Lipschitz constant 1,
$\lambda = \lVert W_1 \rVert_2 \lVert W_2 \rVert_2$ and $\Lambda = |W_1| |W_2|$ serve.
""",
        sources=(Source(DONG, "Corollary 3.2, the step for one map"),),
        here="the entrywise form that the composite value needs",
        uses=("norms.submultiplicative", "norms.diameter"),
        notebook="mlp",
    ),
    Claim(
        id="mlp.as-printed",
        title="MLPs behind many heads, as printed",
        kind="proposition",
        statement=r"""
Let every layer be followed by a map $f$ of each row with Lipschitz constant $\lambda$. With $H$
heads, $\beta \ge \max_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}$, every
$D_i \le x^*$ and $\gamma$ as in {claim}`collapse.multi-head-as-printed` or $\gamma = 1$, a layer
satisfies

$$
\lVert \operatorname{res}(f(\mathrm{SA}(X))) \rVert_{1,\infty} \le
\frac{4 \gamma \beta H \lambda}{\sqrt{d_{qk}}} \lVert \operatorname{res}(X) \rVert_{1,\infty}^3 .
$$

(The norm in which $\lambda$ is taken does not matter here: the counterexample has $f(x) = x$ and
$\lambda = 1$ in every norm.)
""",
        sources=(Source(DONG, "Corollary 3.2, with the constant as usually read"),),
        here="the counterexample",
        uses=("collapse.multi-head-as-printed",),
        notebook="mlp",
        asserts="fails",
        fails_because=r"""
The map $f(x) = x$ with $\lambda = 1$ is allowed. With it this is the theorem for many heads, which
fails.
""",
        corrected_by="mlp.depth",
    ),
    Claim(
        id="mlp.depth",
        title="MLPs over depth",
        kind="theorem",
        statement=r"""
Stack $L$ layers with one $d_{qk}$ and any numbers of heads, the attention of each followed by a map
$f_l$ of each row. For all biases:

1. Let $|f_l(x) - f_l(y)| \le |x - y|\, \Lambda_l$ entry by entry and, with $D_l$ and $B_l$ as in
   {claim}`collapse.multi-head-depth`,
   $C \ge \frac12 \sqrt{1 + \kappa(D_l)}\, B_l \lVert \Lambda_l \rVert_{1,\infty} / \sqrt{d_{qk}}$
   at every layer. Then the output $Y$ has
   $\lVert \operatorname{res}(Y) \rVert_{1,\infty} \le C^{(3^L - 1)/2} \lVert \operatorname{res}(X)
   \rVert_{1,\infty}^{3^L}$. If $D_l \le x^*$ and $B_l \lVert \Lambda_l \rVert_{1,\infty} \le B$ at
   every layer, $C = 4 B / \sqrt{d_{qk}}$ will do.
2. Let $\lVert f_l(x) - f_l(y) \rVert_2 \le \lambda_l \lVert x - y \rVert_2$ and
   $C \ge \lambda_l \beta_{2,l} / (4 \sqrt{d_{qk}})$ at every layer, $\beta_{2,l}$ being its
   $\beta_2$ ({claim}`collapse.sharp-layer`). Then
   $\operatorname{diam}(Y) \le C^{(3^L - 1)/2} \operatorname{diam}(X)^{3^L}$.
""",
        here="statement and proof",
        uses=("mlp.lipschitz", "collapse.multi-head-depth", "collapse.sharp-depth"),
        notebook="mlp",
    ),
]
