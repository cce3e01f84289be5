"""MLPs: how much they can undo."""

from attnverify.claims.model import Claim, Source

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
        sources=(Source(DONG, "Corollary 3.2"),),
        here="the entrywise form that the composite value needs",
        uses=("norms.submultiplicative", "norms.diameter"),
        notebook="mlp",
    ),
]
