"""Tokens on the unit sphere, normalized after attention: balls, caps, inner products, rest."""

from attnverify.verification.claim import Claim, Reading, Source

ZYGMUND = Source("marcinkiewicz1939", "one norm for numbers and for vectors", related=True)
WU = Source("wu2024", "attention with LayerNorm, collapse and equilibria", related=True)

CLAIMS = [
    Claim(
        id="sphere.radius",
        title="The smallest ball around the tokens shrinks by the contraction coefficient",
        kind="theorem",
        statement=r"""
Let $\operatorname{rad}(X)$ be the radius of the smallest ball that holds all tokens of
$X \in \mathbb{R}^{n \times d}$. For every row-stochastic $P$ with contraction coefficient $\tau(P)$

$$
\operatorname{rad}(PX) \le \tau(P) \operatorname{rad}(X) ,
$$

with equality for every $X$ if $P = \tau I + (1 - \tau) \mathbf 1 \pi^\top$, $0 \le \tau \le 1$ and
$\pi$ any weights. So one head without a mask, with any biases of queries and keys, has

$$
\operatorname{rad}(P X W_V) \le \lVert W_V \rVert_2 \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK} \rVert_2 \operatorname{rad}(X)^2}{\sqrt{d_{qk}}} \Bigr)
\allowbreak \operatorname{rad}(X) ,
$$

attained by two tokens for all values of the two norms and of the radius.
""",
        sources=(ZYGMUND,),
        here="the bound for a head, the equality cases, and the proof",
        uses=("norms.diameter", "softmax.total-variation", "collapse.sharp-layer"),
        notebook="sphere",
    ),
    Claim(
        id="sphere.cap",
        title="The smallest cap that holds all tokens shrinks, at a sharp rate",
        kind="theorem",
        statement=r"""
Let tokens of length 1 lie in a cap of radius $\varphi < \frac\pi2$: $\langle w, x_i \rangle \ge
\rho = \cos \varphi$ for a unit vector $w$. Let a *normalized layer* map $x_i$ to
$y_i/\lVert y_i \rVert_2$ with $y_i = \sum_j P_{ij} x_j W_V$, $P$ row-stochastic and $W_V$
orthogonal. Then no $y_i$ is 0, and the new tokens lie in a cap of radius $\varphi'$ with

$$
\tan \varphi' \le \tau(P) \tan \varphi .
$$

- *Sharp.* For every $n \ge 2$, $d \ge 2$, $\varphi$ and $\tau \in [0, 1]$ some tokens and a $P$
  with $\tau(P) = \tau$ give equality with the smallest caps.
- *Masks.* Let every allowed weight be at least $\epsilon > 0$ under a mask with pair radius $s$
  ({claim}`masks.collapse-rate`). After $s$ layers $\tan \varphi' \le (1 - \rho\, \epsilon^s) \tan
  \varphi$.
""",
        sources=(WU, ZYGMUND),
        here="statement and proof",
        uses=("sphere.radius", "norms.diameter", "masks.collapse-rate"),
        notebook="sphere",
    ),
    Claim(
        id="sphere.collapse",
        title="From every open hemisphere tokens collapse, doubly exponentially in the end",
        kind="theorem",
        statement=r"""
Let tokens of length 1 lie in a cap of radius $\varphi_0 < \frac\pi2$. Let all layers be normalized
ones of one softmax head ({claim}`sphere.cap`) without a mask, with any biases of queries and keys,
and $\lVert W_{QK} \rVert_2 / \sqrt{d_{qk}} \le \kappa$, $\kappa > 0$. Then the tokens after $l$
layers lie in caps of radii $\varphi_l$ with

$$
\tan \varphi_{l+1} = \tanh \bigl( \kappa \sin^2 \varphi_l \bigr) \tan \varphi_l
\le \kappa \tan^3 \varphi_l .
$$

So $\varphi_l \to 0$, and doubly exponentially once $\sqrt\kappa \tan \varphi_l < 1$. For every
$\varphi_0$, $\kappa$ and $d_{qk} \ge d \ge 2$ these are the smallest caps of two tokens with
$W_{QK} = \kappa \sqrt{d_{qk}}\, I$ and $W_V = I$.

*Without a hemisphere* this fails: the $2k$ tokens $\pm e_1, \dots, \pm e_k$ with $W_{QK} = qI$,
$q > 0$, and $W_V = I$ are left where they are by every layer, for every $k \le d \le d_{qk}$.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("sphere.cap", "softmax.total-variation", "collapse.sharp-layer"),
        notebook="sphere",
        refutes=(
            Reading(
                says=(
                    "Divided by their lengths, with orthogonal values, tokens become alike from "
                    "every start."
                ),
                near="wu2024",
                instance=(
                    r"The tokens $\pm e_1, \dots, \pm e_k$, which lie in no open hemisphere, stay "
                    "where they are."
                ),
                check="no hemisphere",
                holds="sphere.collapse",
            ),
        ),
    ),
    Claim(
        id="sphere.monotone",
        title="Without a negative inner product the largest angle never grows",
        kind="theorem",
        statement=r"""
Let the least inner product of two of $n \ge 2$ tokens of length 1 be $m \ge 0$. After a normalized
layer ({claim}`sphere.cap`) with any row-stochastic $P$

$$
\langle x_i', x_k' \rangle \ge m + (1 - m) \sum_j P_{ij} P_{kj} \ge m .
$$

Let $\theta$ and $\theta'$ be the largest angles of two tokens before and after it. Then

$$
\tan \frac{\theta'}2 \le \frac{\tau(P)}{\sqrt{1 - (1 - \frac2n) \tan^2 \frac\theta2}}\,
\tan \frac\theta2 ,
$$

attained for all $n$, $0 < \theta \le \frac\pi2$ and $\tau(P) \le \frac2n$ if $d \ge n$. For two
tokens with $\theta < \pi$, and for $d = 2$ and tokens in an open half plane, $\tan \frac{\theta'}2
\le \tau(P) \tan \frac\theta2$, whether $m \ge 0$ or not.
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
For $n \ge 3$ and $0 < \rho^2 < \frac1n$ let $x_i = (\rho, \sigma f_i)$ with
$\rho^2 + \sigma^2 = 1$ and the unit vectors $f_i \in \mathbb{R}^{n-1}$ from the center of a
regular simplex to its corners. These $n$ tokens lie in an open hemisphere. Their inner products are
$m = \rho^2 - \frac{\sigma^2}{n-1} < 0$. With $W_V = I$ and $W_{QK} = \beta f f^\top$,
$f = (0, f_1)$, the least inner product after a normalized layer without a mask tends to

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
        refutes=(
            Reading(
                says="From an open hemisphere the least inner product of two tokens never falls.",
                near="wu2024",
                instance="Corners of a regular simplex, lifted a little, under one softmax head.",
                check="simplex",
                holds="sphere.cap",
            ),
        ),
    ),
    Claim(
        id="sphere.equilibria",
        title="Equilibria of every rank, and one of rank 2 that is stable",
        kind="theorem",
        statement=r"""
Let the layers of one softmax head divide every token by its length as in {claim}`sphere.cap`,
without a mask and biases and with $d_{qk} \ge d$, but let $W_V$ be any matrix.

- *Every rank.* For $1 \le k \le n$, $k \le d$ let $n_a$ tokens be $e_a$, $a = 1, \dots, k$, with
  $n_a \ge 1$ and $\sum_a n_a = n$. Let $W_{QK} = q \sqrt{d_{qk}}\, I$, $q \ne 0$, $E = e^q$, and on
  the span of $e_1, \dots, e_k$

$$
(W_V)_{ab} = \frac{n + n_b (E - 1)}{n_a (E - 1)} \Bigl( \delta_{ab} - \frac1{E + k - 1} \Bigr) .
$$

  No token moves: an equilibrium of rank $k$. If $k \ge 2$ and all $n_a$ are equal, it is unstable:
  the derivative of a layer has the eigenvalue $1 + \frac{2 q E}{(E - 1)(E + k - 1)} > 1$.
- *Stable, of rank 2.* For $d = 2$, the $n = 4$ tokens $\pm e_1, \pm e_2$,
  $W_{QK} = \sqrt{d_{qk}} \operatorname{diag}(-\beta, \gamma)$ and
  $W_V = \operatorname{diag}(-1, h)$ with $\beta, \gamma, h > 0$ no token moves. The derivative of a
  layer has the eigenvalues

$$
h\, \frac{\cosh \beta + \gamma}{\sinh \beta} , \qquad
\frac{\beta - \cosh \gamma}{h \sinh \gamma} ,
$$

  and the two roots of
  $\lambda^2 + \bigl( h (1 - A) + \frac1h (1 - B) \bigr) \lambda + 1 - A - B$ with
  $A = \gamma/\sinh \beta$, $B = \beta/\sinh \gamma$. For $\beta = 2$, $\gamma = \frac32$,
  $h = \frac12$ all are below $0.84$ in modulus: tokens that start close enough to these tend to
  them.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("layernorm.escape", "sphere.collapse"),
        notebook="sphere",
    ),
]
