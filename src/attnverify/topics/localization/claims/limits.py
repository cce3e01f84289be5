"""Localization at a fixed temperature, and near the middle of the walk."""

from attnverify.verification.claim import Claim, Source

BAO = "bao2024"

LIMITS = [
    Claim(
        id="localization.fixed-temperature",
        title="Many tokens at a fixed temperature: the upper threshold stays",
        kind="theorem",
        statement=r"""
Let tokens walk at random as in {claim}`walk.moments`. Let $W \ne 0$, $\lambda > 0$,
$F = \operatorname{tr}(M M^\top)$,
$\xi = \operatorname{tr}(M)/\sqrt F$, $\gamma = \operatorname{tr}(M^2)/F$ and
$\theta = \lambda/\sqrt F$. With $s = t - \frac12$, $v = (1 + \gamma)s^2 + \frac1{12}$,
$t_i = (i - \frac12)/T$ and $\kappa = 1/(2\sqrt{2\pi e})$ let

$$
\rho_T(t) = \Phi\Bigl( \frac{s\xi + \theta/T}{\sqrt v} \Bigr)
- \Phi\Bigl( \frac{s\xi + \theta/T - \theta}{\sqrt v} \Bigr) ,
$$

$$
\rho_\infty(t) = \Phi\Bigl( \frac{s\xi}{\sqrt v} \Bigr)
- \Phi\Bigl( \frac{s\xi - \theta}{\sqrt v} \Bigr) .
$$

Then the normal approximation $\rho^N_i$ of $\rho_i$ satisfies for every $T \ge 2$ and every $i$

$$
\bigl| \rho^N_i - \rho_T(t_i) \bigr| \le \frac{2\kappa}{T^2 - 1} ,
$$

$$
\bigl| \rho_T(t) - \rho_\infty(t) \bigr| \le \sqrt{\frac6\pi}\, \frac\theta T .
$$

For fixed $\theta$, $\rho^N_i - \rho_\infty(t_i)$ tends to 0 like $1/T$ and in general no faster:
$T (\rho_T - \rho_\infty)$ tends to
$\theta \bigl[ \phi(s\xi/\sqrt v) - \phi((s\xi - \theta)/\sqrt v) \bigr]/\sqrt v$. Neither
$2\kappa$ nor $\sqrt{6/\pi}$ can be lowered.
""",
        sources=(Source(BAO, "main theorem, at a temperature that grows with T", related=True),),
        here="statement and proof",
        uses=("walk.limit", "localization.limit"),
        notebook="fixed-temperature",
    ),
    Claim(
        id="localization.near-middle",
        title="Near the middle the skewness decides how good the normal approximation is",
        kind="theorem",
        statement=r"""
Let $Q = \sum_k \mu_k z_k^2$ with real $\mu_k$, not all zero, independent standard normal $z_k$,
$m = \max_k |\mu_k|$ and $r = \sum_k \mu_k^2/m^2$. If $r > 8$, then for all $x$

$$
\Bigl| P(Q \le x) - \Phi\Bigl( \frac{x - \mathbb{E}Q}{\sqrt{\operatorname{Var} Q}} \Bigr) \Bigr|
\le \frac{\lvert \sum_k \mu_k^3 \rvert}{12 \pi m^3}\, \mathrm{B}{\bigl(\tfrac32, \tfrac r4 -
\tfrac32\bigr)} + \frac{\sum_k \mu_k^4}{\pi m^4 (r - 8)(r - 4)} .
$$

The first term is $(1 + O(1/r))/(6\sqrt{2\pi})$ times the size of the skewness of $Q$, and this
constant is the best possible. The second is at most $(1 + O(1/r))/(\pi r)$. For the score of token
$i$ in {claim}`localization.exact`, with any $W \ne 0$ and $S = (M + M^\top)/2$,

$$
\sum_k \mu_k^3 = {g_i \Bigl( g_i^2 \operatorname{tr}(S^3)
+ \tfrac34 h^2 \operatorname{tr}(S M M^\top) \Bigr)} ,
$$

$$
\frac{\lvert \sum_k \mu_k^3 \rvert}{(\sum_k \mu_k^2)^{3/2}} \le
\frac3{\sqrt2}\, \frac{|g_i|}h \cdot \frac1{\sqrt R} ,
$$

where $R$ is $\lVert M \rVert_F^2$ over the square of the largest singular value of $M$; for
multiples of the identity the ratio of the sides tends to 1 as $g_i/h \to 0$. So the
normal approximation is off by $O(1/R)$, and not by $O(1/\sqrt R)$, at all tokens with
$|g_i| \le a h/\sqrt R$, for every fixed $a$.
""",
        here="statement and proof",
        uses=("localization.exact", "localization.gaussian"),
        notebook="fixed-temperature",
    ),
]
