"""Tokens on the unit sphere, normalized after attention: caps, collapse, inner products."""

from attnverify.verification.claim import Claim, Source

WU = Source("wu2024", "LayerNorm, value matrices under which tokens collapse", related=True)

CLAIMS = [
    Claim(
        id="sphere.cap",
        title="The smallest cap that holds all tokens shrinks, at a sharp rate",
        kind="theorem",
        statement=r"""
Let tokens of length 1 lie in a cap of radius $\varphi < \frac\pi2$: $\langle w, x_i \rangle \ge
\rho = \cos \varphi$ for a unit vector $w$. Let $P$ be row-stochastic with the *common weight*
$\alpha = \sum_j \min_i P_{ij}$, $W_V$ orthogonal, and let a layer map $x_i$ to
$y_i/\lVert y_i \rVert_2$ with $y_i = \sum_j P_{ij} x_j W_V$. Then no $y_i$ is 0, and the new tokens
lie in a cap of radius $\varphi'$ with

$$
\tan \varphi' \le (1 - \alpha) \tan \varphi .
$$

- *Sharp.* For every $\varphi$ and $\alpha$ and every even $n$, also for odd $n$ if $d \ge 3$, tokens
  and a $P$ give equality with the smallest caps.
- *Masks.* Let every allowed weight be at least $\epsilon > 0$ under a mask with a center of radius
  $r$ ({claim}`masks.collapse-rate`). After $r$ layers $\tan \varphi' \le (1 - \rho\, \epsilon^r)
  \tan \varphi$. Without a mask the factor of a layer is $1 - n \epsilon$.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("masks.collapse-rate",),
        notebook="sphere",
    ),
    Claim(
        id="sphere.collapse",
        title="From every open hemisphere tokens collapse, doubly exponentially in the end",
        kind="theorem",
        statement=r"""
*Common weight of softmax.* Let tokens $X \in \mathbb{R}^{n \times d}$ lie in a ball of radius $r$,
one head, any biases, no mask. Then
$1 - \alpha(P) \le \tanh \bigl( \lVert W_{QK} \rVert_2\, r^2/\sqrt{d_{qk}} \bigr)$, attained for every
$r$ and $\lVert W_{QK} \rVert_2$ by two tokens.

*Collapse.* Let tokens of length 1 lie in a cap of radius $\varphi_0 < \frac\pi2$, the layers be
those of {claim}`sphere.cap` with such a $P$, and $\lVert W_{QK} \rVert_2/\sqrt{d_{qk}} \le \kappa$ in
all layers. Then the tokens after $l$ layers lie in a cap of radius $\varphi_l$ with

$$
\tan \varphi_{l+1} \le \tanh \bigl( \kappa \sin^2 \varphi_l \bigr) \tan \varphi_l
\le \kappa \tan^3 \varphi_l .
$$

So $\varphi_l \to 0$, doubly exponentially once $\sqrt\kappa \tan \varphi_l < 1$. For every $\varphi_0$
and $\kappa$ two tokens have equality in the first bound in all layers, with the smallest caps.

*Without a hemisphere* this fails: the $2k$ tokens $\pm e_1, \dots, \pm e_k$ with $W_{QK} = qI$,
$q > 0$, and $W_V = I$ are left where they are by every layer, for every $k \le d$.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("sphere.cap",),
        notebook="sphere",
    ),
    Claim(
        id="sphere.monotone",
        title="Without a negative inner product the largest angle never grows",
        kind="theorem",
        statement=r"""
Let the least inner product of two tokens of length 1 be $m \ge 0$, $n \ge 2$, and let a layer be that
of {claim}`sphere.cap` with any row-stochastic $P$. The new tokens satisfy

$$
\langle x_i', x_k' \rangle \ge m + (1 - m) \sum_j P_{ij} P_{kj} \ge m .
$$

Let $\theta$ and $\theta'$ be the largest angles of two tokens before and after the layer. Then

$$
\tan \frac{\theta'}2 \le \frac{\tau(P)}{\sqrt{1 - (1 - \frac2n) \tan^2 \frac\theta2}}\,
\tan \frac\theta2 ,
$$

attained for all $n$, $0 < \theta \le \frac\pi2$ and $\tau(P) \le \frac2n$ if $d > n$. For two
tokens with $\theta < \pi$, and for $d = 2$ and tokens in an open half plane, $\tan \frac{\theta'}2
\le \tau(P) \tan \frac\theta2$, whether $m \ge 0$ or not; this is attained for every $\theta$ and
$\tau$.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("norms.diameter", "sphere.cap"),
        notebook="sphere",
    ),
    Claim(
        id="sphere.hemisphere",
        title="In an open hemisphere the least inner product can fall",
        kind="counterexample",
        statement=r"""
For $n \ge 3$ and $0 < \rho^2 < \frac1n$ let $x_i = (\rho, \sigma f_i)$ with $\rho^2 + \sigma^2 = 1$
and the unit vectors $f_i \in \mathbb{R}^{n-1}$ from the center of a simplex to its corners. These $n$
tokens lie in an open hemisphere and have the inner products $m = \rho^2 - \frac{\sigma^2}{n-1} < 0$.
With $W_V = I$ and $W_{QK} = \beta f f^\top$, $f = (0, f_1)$, the least inner product after a
normalized layer tends to

$$
\frac{m}{\sqrt{\rho^2 + \sigma^2/(n-1)^2}} < m \qquad (\beta \to \infty).
$$

So it falls in a softmax layer. As $\rho \to 0$, $m$ tends to $-\frac1{n-1}$ and the limit to $-1$.
Hence {claim}`sphere.monotone` fails for every hypothesis $m \ge -\eta$ with $\eta > 0$.
""",
        sources=(WU,),
        here="the example",
        uses=("sphere.monotone",),
        notebook="sphere",
    ),
]
