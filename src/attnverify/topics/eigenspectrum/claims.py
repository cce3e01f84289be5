"""Statistics of the query-key eigenspectrum."""

from attnverify.verification.claim import Claim, Source

BAO = "bao2024"

CLAIMS = [
    Claim(
        id="eigenspectrum.xi-bound",
        title="Concentrated eigenspectra have xi of the largest modulus",
        kind="theorem",
        statement=r"""
Let $W \in \mathbb{R}^{d \times d}$ be symmetric and not zero, with eigenvalues of mean $m$ and
standard deviation $s$, and $\xi = \operatorname{tr}(W)/\lVert W \rVert_F$. Then
$|\xi| \le \sqrt d$, with equality exactly when all eigenvalues are equal, and for $m \ne 0$

$$
\xi^2 = \frac{d}{1 + \mathrm{CV}^2} , \qquad \mathrm{CV} = \frac{s}{|m|} .
$$
""",
        sources=(Source(BAO, "the bound on xi"),),
        here="the equality case and the closed form in CV",
        notebook="eigenspectrum",
    ),
    Claim(
        id="eigenspectrum.locater",
        title="The minimizer of the regularizer",
        kind="proposition",
        statement=r"""
For symmetric $W \in \mathbb{R}^{d \times d}$ with $\operatorname{tr}(W) = c$,

$$
\operatorname{tr}(W^2) = \frac{c^2}{d} + \Bigl\lVert W - \frac cd I \Bigr\rVert_F^2 ,
$$

so $\frac cd I$ is the single minimizer of $\operatorname{tr}(W^2)$ at fixed trace, and for $c > 0$
the single maximizer of $\xi$.
""",
        sources=(Source(BAO, "LocAteR, the regularizer"),),
        here="the identity and uniqueness",
        uses=("eigenspectrum.xi-bound",),
        notebook="eigenspectrum",
    ),
    Claim(
        id="eigenspectrum.locater-general",
        title="Without symmetry the regularizer needs the Frobenius norm",
        kind="proposition",
        statement=r"""
Over all $W \in \mathbb{R}^{d \times d}$ with $\operatorname{tr}(W) = c$, $d \ge 2$:
$\operatorname{tr}(W^2)$ is unbounded below, while
$\lVert W \rVert_F^2 = \frac{c^2}{d} + \lVert W - \frac cd I \rVert_F^2$ has the single minimizer
$\frac cd I$. The difference $\lVert W \rVert_F^2 - \operatorname{tr}(W^2)$ is
$\frac12 \lVert W - W^\top \rVert_F^2$.
""",
        here="statement and proof",
        uses=("eigenspectrum.locater",),
        notebook="asymmetry",
    ),
]
