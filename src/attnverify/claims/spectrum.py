"""Part III: eigenspectrum and entropy."""

from attnverify.claims.model import Claim, Source

BAO, ZHAI = "bao2024", "zhai2023"

CLAIMS = [
    Claim(
        id="softmax.piecewise-linear",
        title="What the piecewise linear softmax keeps of the true one",
        kind="proposition",
        statement=r"""
For $u \in \mathbb{R}^T$ with mean $\bar u$ and $D = \operatorname{osc}(u)$ let
$\hat p_i = \min\{1, \max\{0, (1 + u_i - \bar u)/T\}\}$ and $p = \operatorname{softmax}(u)$. Then
$|p_i - \hat p_i| \le (e^D - 1 - D)/T$ for every $i$. If $\hat p_i = 0$ then $p_i \le 1/(eT)$, and
no constant below $1/e$ holds for all $T$. All $i$ with $\hat p_i = 0$ together have
$\sum p_i \le 1/(1 + e^2)$, attained for every even $T$. For $T \ge 2$ the model's weights sum to
at least 1 and to at most $T - 1$, and both are attained.
""",
        sources=(Source(BAO, "the piecewise linear approximation of softmax"),),
        here="the error bound, and what blocked tokens have in truth",
        uses=("softmax.linearization-sharp",),
        notebook="piecewise-softmax",
    ),
    Claim(
        id="eigenspectrum.xi-bound",
        title="Concentrated eigenspectra have the largest xi",
        kind="theorem",
        statement=r"""
Let $W \in \mathbb{R}^{d \times d}$ be symmetric and not zero, with eigenvalues of mean $m$ and
standard deviation $s$, and $\xi = \operatorname{tr}(W)/\sqrt{\operatorname{tr}(W^2)}$. Then
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
    Claim(
        id="entropy.lower-bound",
        title="The entropy floor of a softmax row",
        kind="theorem",
        statement=r"""
Let $T \ge 2$, $u \in \mathbb{R}^T$ with $\lVert u \rVert_2 \le \sigma$, and
$\Delta = \sigma \sqrt{T/(T-1)}$. The entropy of $\operatorname{softmax}(u)$ is at least

$$
\log\bigl(1 + (T-1) e^{-\Delta}\bigr) + \frac{\Delta\, (T-1)\, e^{-\Delta}}{1 + (T-1) e^{-\Delta}} ,
$$

with equality for $u = \frac{\sigma}{\sqrt{T(T-1)}}\,(T-1, -1, \dots, -1)$ and, up to the order of
the logits, for no other row. The floor strictly decreases in $\sigma$.
""",
        sources=(Source(ZHAI, "Theorem 3.1"),),
        here="a proof that compares all critical rows",
        notebook="entropy",
    ),
    Claim(
        id="entropy.eigenspectrum",
        title="A smaller spectrum raises the entropy floor",
        kind="proposition",
        statement=r"""
Let $T \ge 2$, $\lambda > 0$, $W \in \mathbb{R}^{d \times d}$ and $X \in \mathbb{R}^{T \times d}$
with rows $x_i$. The logits $u = X W x_T / \lambda$ of the last token's row have norm at most
$\sigma = \lVert W \rVert_F \lVert x_T \rVert_2 \lVert X \rVert_2 / \lambda$, so the row's entropy
is at least the floor of `entropy.lower-bound` at this $\sigma$. For symmetric $W$,
$\lVert W \rVert_F = \sqrt{\operatorname{tr}(W^2)}$: at given tokens, $x_T \ne 0$, and given
$\lambda$ the floor strictly rises as $\operatorname{tr}(W^2)$ shrinks. Equality is attained with
$W = g\, e e^\top$ and the tokens $x_1 = \dots = x_{T-1} = -e$, $x_T = (T-1)\, e$, for every unit
vector $e$ and $g > 0$.
""",
        sources=(Source(BAO, "entropy and the eigenspectrum"), Source(ZHAI, "Theorem 3.1")),
        here="the equality case",
        uses=("entropy.lower-bound",),
        notebook="entropy",
    ),
]
