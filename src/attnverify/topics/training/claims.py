"""What reaches the query-key matrix in training, and what random value maps do to the tokens."""

from attnverify.verification.claim import Claim, Source

POPOVICIU, DAVIS, FEDER, NOCI = "popoviciu1935", "bhatia2000", "feder1994", "noci2022"

GRADIENTS = [
    Claim(
        id="training.covariance",
        title="How much tokens vary under a row of given entropy",
        kind="theorem",
        statement=r"""
Let $a_1, \dots, a_n \ge 0$ be weights of sum 1 and entropy $H$ in nats, $x_1, \dots, x_n$ the rows
of $X$, $y = \sum_j a_j x_j$ and $C = \sum_j a_j (x_j - y)^\top (x_j - y)$. Put
$P = \max(\frac12, a_1, \dots, a_n)$, $h(p) = -p \log p - (1 - p) \log(1 - p)$, and
$v(H) = p(1 - p)$ for the $p \in [\frac12, 1]$ with $h(p) = \min(H, \log 2)$. Then

$$
\lVert C \rVert_2 \le P (1 - P) \operatorname{diam}(X)^2 \le v(H) \operatorname{diam}(X)^2 .
$$

Two tokens give equality in both, for every $H \in [0, \log 2]$. For larger $H$ place enough tokens
at two points of weight $\frac12$ each. So no smaller function of $H$, the same for all $n$, will
do.

On $[0, \log 2]$ the function $v$ increases from 0 to $\frac14$ and is convex, with
$v' \le \frac12$ and $v(H) \le H/(4 \log 2)$.
""",
        sources=(
            Source(POPOVICIU, "a variance is at most a quarter of the squared range", related=True),
            Source(DAVIS, "a variance is at most (M - mean)(mean - m)", related=True),
            Source(FEDER, "the entropy is at least that of two weights", related=True),
        ),
        here="statement and proof",
        uses=("norms.diameter",),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.covariance-trace",
        title="How much tokens vary in all directions together",
        kind="proposition",
        statement=r"""
For weights and tokens as in {claim}`training.covariance`

$$
\operatorname{tr} C = \tfrac12 \sum_{j, k} a_j a_k \lVert x_j - x_k \rVert_2^2
\le \tfrac12 \Bigl( 1 - \sum_j a_j^2 \Bigr) \operatorname{diam}(X)^2 ,
$$

with equality exactly if any two different tokens (of the list) with positive weight are
$\operatorname{diam}(X)$ apart.
""",
        here="the bound and its equality case; the identity is classical",
        uses=("norms.diameter",),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.query-key-gradient",
        title="Rank collapse and entropy collapse shrink one gradient",
        kind="theorem",
        statement=r"""
One head: a query's token $x \in \mathbb{R}^d$ (a row) sees the tokens $x_1, \dots, x_n$. Its logits
are $s_j = x\, W_{QK}\, x_j^\top/\sqrt{d_{qk}} + t_j$ with numbers $t_j$ that do not depend on
$W_{QK}$. The output $y = \sum_j a_j x_j$ of the row $a = \operatorname{softmax}(s)$, before the
value map, has in the direction $D$ of $W_{QK}$ the derivative

$$
\mathrm{d}y\,[D] = \frac{1}{\sqrt{d_{qk}}}\; x\, D\, C ,
$$

with $C$, $P$ and $v(H)$ as in {claim}`training.covariance`. So

$$
\max_{\lVert D \rVert_2 \le 1} \lVert \mathrm{d}y\,[D] \rVert_2
= \frac{\lVert x \rVert_2}{\sqrt{d_{qk}}}\, \lVert C \rVert_2 ,
$$

$$
\lVert C \rVert_2 \le P (1 - P) \operatorname{diam}(X)^2 \le v(H) \operatorname{diam}(X)^2 .
$$

The maximum is the same over $\lVert D \rVert_F \le 1$. For $x \ne 0$ it is attained at
$D = x^\top u/\lVert x \rVert_2$, where $u$ is a unit row with $u\, C = \lVert C \rVert_2\, u$. Both
bounds are attained by two tokens at every $H \in (0, \log 2]$. In the direction $E$ of the
value map $W$ the output $y\, W$ has the derivative $y\, E$, in which neither $C$ nor the diameter
occurs.
""",
        sources=(Source(NOCI, "the query-key gradient vanishes at rank collapse", related=True),),
        here="statement and proof",
        uses=("training.covariance", "attention.qk-reduction"),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.softmax-jacobian",
        title="What reaches the logits, and through them the layers below",
        kind="theorem",
        statement=r"""
Let $a$ be a row of attention with entropy $H$ and largest weight $m$, $v(H)$ as in
{claim}`training.covariance`, $J = \operatorname{diag}(a) - a^\top a$ the derivative of softmax in
the logits, and $z_j = v_j\, g^\top$ for values $v_j$ (the rows of $V$) and the gradient $g$ of a
loss in the output $\sum_j a_j v_j$. The gradient of the loss in the logits is $J z$, and

$$
\lVert J \rVert_2 \le 2 m (1 - m) \le 2\, v(H) ,
$$

$$
\lVert J z \rVert_2 \le \sqrt2\; v(H) \operatorname{diam}(V)\, \lVert g \rVert_2 .
$$

All are equalities for two tokens, the last one with $g$ along the difference of their values.
""",
        sources=(Source("gershgorin1931", "the first bound", related=True),),
        here="statement and proof",
        uses=("training.covariance",),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.loss-gradient",
        title="The gradient of a loss in a query-key matrix",
        kind="theorem",
        statement=r"""
One head with value map $W$, in a layer with any number of other heads. No other head and no other
layer has its $W_{QK}$. Query $i$ has the token $x_i$, sees tokens $X_i$ (all, or those that a mask
leaves), has logits $x_i W_{QK} x_j^\top/\sqrt{d_{qk}} + t_{ij}$ as in
{claim}`training.query-key-gradient`, and the row $a_i$ with entropy $H_i$. Let $P_i$ and the
covariance $C_i$ of $X_i$ be those of {claim}`training.covariance` for this row. If $g_i$ is the
gradient of a loss in the head's output $y_i W$, the gradient in $W_{QK}$ is

$$
\frac{\partial \ell}{\partial W_{QK}}
= \frac{1}{\sqrt{d_{qk}}} \sum_i x_i^\top\, (g_i W^\top)\, C_i ,
$$

and its nuclear norm, hence its Frobenius and its spectral norm, is at most

$$
\frac{1}{\sqrt{d_{qk}}} \allowbreak \sum_i \lVert x_i \rVert_2\, \lVert g_i W^\top \rVert_2\;
\allowbreak P_i (1 - P_i) \operatorname{diam}(X_i)^2 ,
$$

and so at most the same sum with $v(H_i)$ in place of $P_i (1 - P_i)$. Any two tokens $x_i = t_i e$
on a line through the origin attain both for all three norms, if $g_i W^\top = \gamma_i e$ with all
$t_i \gamma_i$ of one sign.
""",
        here="statement and proof",
        uses=("training.query-key-gradient",),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.queries-and-keys",
        title="The gradients of the query map, with positions, and of the key map without",
        kind="theorem",
        statement=r"""
Let $q_i$, $k_j$ and $v_j$ be any queries, keys and values (rows), turned by rotary positions or
not, $s_{ij} = q_i k_j^\top/\sqrt{d_{qk}} + t_{ij}$ with numbers $t_{ij}$ that do not depend on the
queries and keys, $a_i = \operatorname{softmax}(s_i)$, $g_i$ the gradient of a loss in
$\sum_j a_{ij} v_j$, and $C_i^{kv}$ the covariance of keys and values under the row $a_i$. The
gradient of the loss in one query $q_i$ is $g_i\, (C_i^{kv})^\top/\sqrt{d_{qk}}$.

Keys and values: with $P_i$ and $v(H_i)$ as in {claim}`training.covariance`

$$
\lVert C_i^{kv} \rVert_2 \le P_i (1 - P_i) \operatorname{diam}(K) \operatorname{diam}(V)
\allowbreak \le v(H_i) \operatorname{diam}(K) \operatorname{diam}(V) ,
$$

with equalities for two tokens at every $H_i \in (0, \log 2]$.

The query map: for $q_i = (x_i W_Q + b_Q) R_i$ with rotations $R_i$

$$
\Bigl\lVert \frac{\partial \ell}{\partial W_Q} \Bigr\rVert \le
\frac{1}{\sqrt{d_{qk}}} \allowbreak \sum_i
\lVert x_i \rVert_2 \lVert g_i \rVert_2\, \allowbreak v(H_i)
\operatorname{diam}(K) \operatorname{diam}(V) .
$$

The key map: for $k_j = x_j W_K + b_K$, without rotations,

$$
\Bigl\lVert \frac{\partial \ell}{\partial W_K} \Bigr\rVert \le
\frac{1}{\sqrt{d_{qk}}} \allowbreak \sum_i
\lVert q_i \rVert_2 \lVert g_i \rVert_2\, \allowbreak v(H_i)
\operatorname{diam}(X) \operatorname{diam}(V) .
$$

The last two hold in the nuclear, the Frobenius and the spectral norm, and with $P_i (1 - P_i)$ in
place of $v(H_i)$, for a map that no other head and no other layer has. Without rotations
$\operatorname{diam}(K)$ does not depend on a bias $b_K$ of the keys; with rotations it can.
""",
        here="statement and proof",
        uses=("training.covariance",),
        notebook="query-key-gradient",
    ),
    Claim(
        id="training.gradient-over-depth",
        title="For near tokens the query-key gradient dies doubly exponentially with depth",
        kind="proposition",
        statement=r"""
Layers of attention alone without a mask, with one $d_{qk}$, any heads and biases, $\beta_2$ as in
{claim}`collapse.sharp-depth`, $\delta = \operatorname{diam}(X)$ and
$r = \beta_2 \delta^2/(4 \sqrt{d_{qk}})$. In layer $l + 1$, $l \ge 0$, let $x$ be a query's token
and $W$ the value map of a head. In the direction $D$ of this head's $W_{QK}$ the layer's output for
that query changes at a rate of at most

$$
\lVert D \rVert_2\; \lVert W \rVert_2\, \lVert x \rVert_2\, \frac{\delta^2}{4 \sqrt{d_{qk}}}\;
r^{3^l - 1} .
$$

For $r < 1$ the last factor falls doubly exponentially with $l$. For one head without biases,
$W_{QK} = q\, a^\top a$ and $W = v\, a^\top a$ in every layer with a unit row $a$ and $q, v > 0$,
tokens $\pm\frac\delta2 a$ and $D = a^\top a$ the quotient of the rate and this bound tends to 1 as
$\delta \to 0$, at every $l$.
""",
        here="statement and proof",
        uses=("training.query-key-gradient", "collapse.sharp-layer", "collapse.sharp-depth"),
        notebook="query-key-gradient",
    ),
]

INITIALIZATION = [
    Claim(
        id="training.gram-recursion",
        title="The expected inner products of tokens after a layer with random value maps",
        kind="theorem",
        statement=r"""
Let $X' = X + \alpha \sum_{h=1}^H A_h X W_h$ with $X \in \mathbb{R}^{n \times d}$ and any
$n \times n$ matrices $A_h$. Let the entries of all $W_h$ together be uncorrelated, with mean 0 and
variance $s^2/(dH)$, given $X$ and the $A_h$, which may depend on $X$. With $G = X X^\top$ and
$\tau = \alpha^2 s^2$

$$
\mathbb{E}\bigl[ X' X'^\top \mid X, A \bigr] = G + \frac{\tau}{H} \sum_h A_h\, G\, A_h^\top .
$$
""",
        here="statement and proof",
        notebook="initialization",
    ),
    Claim(
        id="training.uniform-attention",
        title="Uniform attention keeps differences and lets the mean token grow",
        kind="theorem",
        statement=r"""
Let all rows of attention be uniform in every layer, $A_h = \mathbf 1 \mathbf 1^\top/n$. Otherwise
the layers are as in {claim}`training.gram-recursion`, with value maps independent of those below.
Then $x_i - x_j$ is the same in all layers, whatever the value maps are. With the mean token
$\bar x$ of the input, $G = X X^\top$ and $g = (1 + \tau)^L$, after $L$ layers

$$
\mathbb{E}\, X_L X_L^\top = G + (g - 1)\, \lVert \bar x \rVert_2^2\; \mathbf 1 \mathbf 1^\top .
$$

From orthogonal tokens of one positive length, for $i \ne j$,

$$
\frac{\mathbb{E} \langle x_i, x_j \rangle}{\mathbb{E} \lVert x_i \rVert_2^2}
= \frac{g - 1}{g - 1 + n} ,
$$

which for $\tau > 0$ passes $\frac12$ at $L = \log(n + 1)/\log(1 + \tau)$.
""",
        here="statement and proof",
        uses=("training.gram-recursion",),
        notebook="initialization",
    ),
    Claim(
        id="training.mean-fluctuation",
        title="How far one network is from the average over networks",
        kind="proposition",
        statement=r"""
Uniform attention as in {claim}`training.uniform-attention`, with independent Gaussian entries. The
mean token $\bar x_L$ after $L$ layers of width $d$ has

$$
\mathbb{E} \lVert \bar x_L \rVert_2^2 = (1 + \tau)^L \lVert \bar x \rVert_2^2 ,
$$

$$
\mathbb{E} \lVert \bar x_L \rVert_2^4 = \Bigl( (1 + \tau)^2 + \frac{4 \tau + 2 \tau^2}{d} \Bigr)^L
\lVert \bar x \rVert_2^4 .
$$

So for $\bar x \ne 0$ and $L \ge 1$ the relative variance of $\lVert \bar x_L \rVert_2^2$ is less
than $e^{2L/d} - 1$, whatever $\tau$ is, and $\lVert \bar x_L \rVert_2^2$ differs from its mean by a
fraction $\varepsilon > 0$ of it or more with probability at most $(e^{2L/d} - 1)/\varepsilon^2$.
""",
        here="statement and proof",
        uses=("training.uniform-attention",),
        notebook="initialization",
    ),
    Claim(
        id="training.doubly-stochastic",
        title="Doubly stochastic attention: on average the mean grows, differences do not shrink",
        kind="theorem",
        statement=r"""
One layer as in {claim}`training.gram-recursion` with doubly stochastic $A_h$. Let $\bar x$,
$\bar x'$ be the mean tokens, $X_c$, $X'_c$ the tokens less their mean, and $\sigma_h$ the largest
singular value of $A_h - \mathbf 1 \mathbf 1^\top/n$. Given $X$ and the $A_h$

$$
\mathbb{E} \lVert \bar x' \rVert_2^2 = (1 + \tau) \lVert \bar x \rVert_2^2 ,
$$

$$
\lVert X_c \rVert_F^2 \le \mathbb{E} \lVert X'_c \rVert_F^2
\le \Bigl( 1 + \frac{\tau}{H} \sum_h \sigma_h^2 \Bigr) \lVert X_c \rVert_F^2 .
$$

The first bound holds for all matrices $A_h$ and is an equality for uniform attention; the second is
one for two tokens.
""",
        here="statement and proof",
        uses=("training.gram-recursion",),
        notebook="initialization",
    ),
    Claim(
        id="training.relative-share",
        title="The scale of the updates limits relative collapse at initialization",
        kind="theorem",
        statement=r"""
$L$ layers as in {claim}`training.gram-recursion` with doubly stochastic attention, which may depend
on the tokens, one $\tau$, and value maps independent of those below. For $X \ne 0$ the differences
have of the tokens' expected sum of squares the part

$$
\frac{\mathbb{E} \lVert X_{L,c} \rVert_F^2}{\mathbb{E} \lVert X_L \rVert_F^2} \ge
\frac{\lVert X_c \rVert_F^2}{\lVert X_c \rVert_F^2 + (1 + \tau)^L\, n \lVert \bar x \rVert_2^2} ,
$$

with equality for uniform attention: no doubly stochastic attention collapses faster in this sense.
For fixed $\tau > 0$ and $\bar x \ne 0$ the right side falls exponentially with $L$. For $\alpha =
1/\sqrt L$ it is at least its value with $e^{s^2}$ in place of $(1 + \tau)^L$, at every depth.
""",
        here="statement and proof",
        uses=("training.doubly-stochastic", "training.uniform-attention"),
        notebook="initialization",
    ),
]

REMEDIES = [
    Claim(
        id="training.clipped-scores",
        title="What clipped scores guarantee",
        kind="theorem",
        statement=r"""
A head's queries $q_i$ and keys $k_j$ have the scores
$s_{ij} = q_i R_{ij}\, k_j^\top/\sqrt{d_{qk}}$, with $\lVert R_{ij} \rVert_2 \le 1$ (rotations by
position, or $I$). Let
$B = \max_i \lVert q_i \rVert_2 \max_j \lVert k_j \rVert_2/\sqrt{d_{qk}}$, let $\tau > 0$, and put
$t = \min(1, \tau/B)$ (1 if $B = 0$). Multiply all queries by $t$, which multiplies all scores by
$t$. Nothing is added to the scores; a mask, if there is one, leaves a row the tokens that it sees.

- Afterwards no score of these tokens is larger than $\tau$ in size.
- The entropy of no row falls: for a row $a = \operatorname{softmax}(t s)$ the entropy has in $t$
  the derivative $-t \operatorname{Var}_a(s)$.
- Let $C$ be the covariance of $n \ge 2$ tokens $X$ under a row whose logits lie in an interval of
  length $D$, as they do with $D = 2\tau$ after clipping. Then

$$
\lVert C \rVert_2 \ge \frac{\operatorname{diam}(X)^2}{4 + 2 (n - 2)\, e^{D}} \quad (n \ge 3),
\qquad
\lVert C \rVert_2 \ge \frac{\operatorname{diam}(X)^2}{2 + e^{D} + e^{-D}} \quad (n = 2) .
$$

Both are attained, for every $D \ge 0$ and every $n$.
""",
        sources=(Source("kimi2025", "queries and keys are scaled to clip scores", related=True),),
        here="statement and proof",
        uses=("training.covariance", "norms.diameter"),
        notebook="watch-training",
    ),
]

CLAIMS = [*GRADIENTS, *INITIALIZATION, *REMEDIES]
