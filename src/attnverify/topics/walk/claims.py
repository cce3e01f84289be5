"""Random-walk tokens: the model of scores."""

from attnverify.verification.claim import Claim, Source

BAO = "bao2024"
MODEL = (Source(BAO, "the random-walk model of tokens"),)

CLAIMS = [
    Claim(
        id="walk.moments",
        title="Mean and variance of a centered score",
        kind="proposition",
        statement=r"""
Let $\Sigma$ be positive definite, $x_1 \sim N(0, \Sigma)$ and
$x_{t+1} \mid x_t \sim N(x_t, \Sigma)$ for $t < T$, and $\omega_i = x_i^\top W x_T$ for any
$W \in \mathbb{R}^{d \times d}$. Then, for $i = 1, \dots, T$,

$$
\begin{aligned}
\mathbb{E}[\omega_i - \bar\omega] &= g_i \operatorname{tr}(W\Sigma), \\
\operatorname{Var}[\omega_i - \bar\omega] &= a_i T \operatorname{tr}(W\Sigma W^\top\Sigma) \\
&\quad + g_i^2 \operatorname{tr}(W\Sigma W\Sigma),
\end{aligned}
$$

with $g_i = \tfrac12 (2i - T - 1)$ and $a_i = (2T^2 - 6Ti + 3T + 6i^2 - 6i + 1)/(6T)$, and
$a_i T - g_i^2 = \tfrac1{12}(T^2 - 1)$ does not depend on $i$.
""",
        sources=MODEL,
        here="the moments for any W, and the remainder that does not depend on i",
        notebook="walk",
    ),
    Claim(
        id="walk.limit",
        title="The variance of a score for many tokens",
        kind="proposition",
        statement=r"""
For tokens that walk at random as in {claim}`walk.moments` and $t_i = (i - \frac12)/T$,

$$
\frac{\operatorname{Var}[\omega_i - \bar\omega]}{T^2} =
{\bigl(t_i^2 - t_i + \tfrac13\bigr)} \operatorname{tr}(W\Sigma W^\top\Sigma)
+ {\bigl(t_i - \tfrac12\bigr)}^2 \operatorname{tr}(W\Sigma W\Sigma)
- \frac{\operatorname{tr}(W\Sigma W^\top\Sigma)}{12\, T^2} ,
$$

and the first two terms are $(2t_i^2 - 2t_i + \tfrac7{12}) \operatorname{tr}(W^2)$ for
$\Sigma = I$ and symmetric $W$.
""",
        sources=(Source(BAO, "the limit of many tokens"),),
        here="the exact finite-size term, with positions in the middle of the cells",
        uses=("walk.moments",),
        notebook="walk",
    ),
    Claim(
        id="walk.row",
        title="The law of a whole row of scores, and its limit for many tokens",
        kind="theorem",
        statement=r"""
Let tokens walk at random as in {claim}`walk.moments`. For any $W$ let
$M = \Sigma^{1/2} W \Sigma^{1/2}$,
$z \sim N(0, I_d)$ and $b$ a standard Brownian bridge on $[0, 1]$, independent of $z$. For every
$T \ge 2$ the row $(\omega_1, \dots, \omega_T)$ has the law of

$$
T \bigl( \lVert M z \rVert_2\; b(\tfrac iT) + z^\top M z \cdot \tfrac iT \bigr),
\qquad {i = 1, \dots, T} .
$$

Let $\lambda = \tau T$ with a given $\tau > 0$, and take the rows $p$ of
$\operatorname{softmax}(\omega/\lambda)$ for all $T$ from one pair $(z, b)$. Then for
$f(t) = (\lVert M z \rVert_2\, b(t) + t\, z^\top M z)/\tau$ and
$\rho(t) = e^{f(t)} / \int_0^1 e^f$, as $T \to \infty$ and with probability 1,
$T p_{\lceil tT \rceil} \to \rho(t)$ uniformly in $0 < t \le 1$ and
$\log T - H(p) \to \int_0^1 \rho \log \rho < \infty$, which is positive if $W \ne 0$. So at a
given $\lambda/T$ the last row of a long walk shows neither collapse: $H(p)/\log T \to 1$, and for
$W \ne 0$ the row stays away from the uniform one.
""",
        here="statement and proof",
        notebook="softmax-row",
    ),
]
