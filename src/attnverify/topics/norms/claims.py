"""Definition audit: the composite value, its variants, the residual and the diameter."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="norms.submultiplicative",
        title="The composite value is submultiplicative",
        kind="lemma",
        statement=r"""
With $\lVert A \rVert_{1,\infty} = \sqrt{\lVert A \rVert_1 \lVert A \rVert_\infty}$, for all real
matrices of matching sizes
$\lVert AB \rVert_{1,\infty} \le \lVert A \rVert_{1,\infty} \lVert B \rVert_{1,\infty}$ and
$\lVert A^\top \rVert_{1,\infty} = \lVert A \rVert_{1,\infty}$.
""",
        sources=(Source(DONG, "notation"),),
        notebook="norms",
    ),
    Claim(
        id="norms.not-subadditive",
        title="The composite value is no norm",
        kind="counterexample",
        statement=r"""
For $A = \begin{pmatrix} 1 & 0 \\ 1 & 0 \end{pmatrix}$ and
$B = \begin{pmatrix} 1 & 1 \\ 0 & 0 \end{pmatrix}$,
$\lVert A + B \rVert_{1,\infty} = 3 > 2\sqrt 2
= \lVert A \rVert_{1,\infty} + \lVert B \rVert_{1,\infty}$.
""",
        sources=(Source(DONG, "remark on the composite norm"),),
        notebook="norms",
    ),
    Claim(
        id="norms.square-variant",
        title="With and without the square root",
        kind="lemma",
        statement=r"""
Let $\nu(A) = \sqrt{\lVert A \rVert_1 \lVert A \rVert_\infty}$ and
$\mu(A) = \lVert A \rVert_1 \lVert A \rVert_\infty$. Then $\mu = \nu^2$, so that
$\nu(A) \le \nu(B)$ exactly when $\mu(A) \le \mu(B)$; but $\nu(cA) = |c|\,\nu(A)$ while
$\mu(cA) = c^2 \mu(A)$.
""",
        here="the relation between the two variants",
        notebook="norms",
    ),
    Claim(
        id="norms.residual-centers",
        title="Centering by the mean costs at most a factor 2(1 − 1/n)",
        kind="proposition",
        statement=r"""
Let $X \in \mathbb{R}^{n \times d}$ with mean row $\bar x$. For every $x \in \mathbb{R}^d$,
the minimizer among them,

$$
\lVert X - \mathbf 1 \bar x^\top \rVert_{1,\infty} \le
{2\Bigl(1 - \frac 1n\Bigr) \lVert X - \mathbf 1 x^\top \rVert_{1,\infty}} .
$$

For every $n \ge 2$ the constant is the best that holds for all widths $d$.
""",
        here="statement and proof",
        uses=("norms.submultiplicative",),
        notebook="norms",
    ),
    Claim(
        id="norms.diameter",
        title="The diameter under products",
        kind="lemma",
        statement=r"""
$\operatorname{diam}(X) = \max_{i,k} \lVert x_i - x_k \rVert_2$ is a seminorm on
$\mathbb{R}^{n \times d}$ that vanishes exactly when all rows of $X$ are equal. For every
$W \in \mathbb{R}^{d \times d'}$ and every row-stochastic $P \in \mathbb{R}^{m \times n}$,

$$
\operatorname{diam}(XW) \le \lVert W \rVert_2 \operatorname{diam}(X),
$$

$$
\operatorname{diam}(PX) \le \max_{i,k} \mathrm{TV}(P_i, P_k)\, \operatorname{diam}(X).
$$
""",
        here="statement and proof",
        notebook="norms",
    ),
]
