"""How far a softmax moves when its logits move, and its piecewise linear form."""

from attnverify.verification.claim import Claim, Source

BAO = "bao2024"

CLAIMS = [
    Claim(
        id="softmax.perturbation",
        title="Entrywise perturbation of a softmax row",
        kind="lemma",
        statement=r"""
Let $\tilde r = \operatorname{softmax}(r)$, $P = \operatorname{softmax}(r + e)$ for
$r, e \in \mathbb{R}^n$, and $D = \operatorname{osc}(e) = \max e - \min e$. If $D \le x^*$ then

$$
(1 - D)\, \tilde r_j \le P_j \le {(1 + 2D)\, \tilde r_j} \qquad {(j = 1, \dots, n)},
$$

where $x^* = 1.25643\ldots$ is the positive root of $e^x = 1 + 2x$,
$x^* = -\tfrac12 - W_{-1}\bigl(-\tfrac12 e^{-1/2}\bigr)$. The lower bound needs no condition.
""",
        sources=(Source("dong2021", "appendix"),),
        here="the closed form of x*",
        notebook="softmax",
    ),
    Claim(
        id="softmax.total-variation",
        title="The sharp bound in total variation",
        kind="theorem",
        statement=r"""
For all $u, e \in \mathbb{R}^n$,

$$
\mathrm{TV}\bigl(\operatorname{softmax}(u), \operatorname{softmax}(u + e)\bigr)
\le \tanh\!\Bigl(\frac{\operatorname{osc}(e)}{4}\Bigr),
$$

with equality for two tokens, $e = (D, 0)$ and $u = (-D/2, 0)$. No smallness is assumed.
""",
        here="statement and proof",
        sharpens="softmax.perturbation",
        notebook="softmax",
    ),
    Claim(
        id="softmax.linearization",
        title="How far softmax is from its linearization",
        kind="lemma",
        statement=r"""
For $u \in \mathbb{R}^T$ with mean $\bar u$ and $D = \operatorname{osc}(u)$, for every $i$,

$$
\Bigl| \operatorname{softmax}(u)_i - \frac{1 + u_i - \bar u}{T} \Bigr|
\le \frac{D^2 e^D}{2T} .
$$
""",
        sources=(Source("bao2024", "the piecewise linear approximation of softmax"),),
        here="the error bound",
        uses=("softmax.linearization-sharp",),
        notebook="softmax",
    ),
    Claim(
        id="softmax.linearization-sharp",
        title="The best linearization bound for all numbers of tokens",
        kind="theorem",
        statement=r"""
For $u \in \mathbb{R}^T$ with mean $\bar u$ and $D = \operatorname{osc}(u)$, for every $i$,

$$
\Bigl| \operatorname{softmax}(u)_i - \frac{1 + u_i - \bar u}{T} \Bigr|
\le \frac{e^D - 1 - D}{T} ,
$$

and for every $D$ the two sides, times $T$, have the same limit for $u = (D, 0, \dots, 0)$ as
$T \to \infty$: no bound of the form $c(D)/T$ that holds for all $T$ is smaller.
""",
        here="statement and proof",
        sharpens="softmax.linearization",
        notebook="softmax",
    ),
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
]
