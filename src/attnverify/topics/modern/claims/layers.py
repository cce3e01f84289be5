"""Normalization in front of a layer, gated MLPs, and streams that only grow."""

from attnverify.verification.claim import Claim, Source

CLAIMS = [
    Claim(
        id="modern.rms-lipschitz",
        title="Normalization of tokens that are not short",
        kind="theorem",
        statement=r"""
For rows $x \in \mathbb R^d$, $g, b \in \mathbb R^d$ and $\epsilon \ge 0$ let
$N(x) = x \operatorname{diag}(g) / \sqrt{\lVert x \rVert_2^2/d + \epsilon} + b^\top$ (RMSNorm). If
$\lVert x \rVert_2, \lVert y \rVert_2 \ge \rho$ and $\rho^2/d + \epsilon > 0$, then

$$
\lVert N(x) - N(y) \rVert_2 \le \lambda \lVert x - y \rVert_2,
$$

$$
\lambda = \frac{\max_k |g_k|}{\sqrt{\rho^2/d + \epsilon}},
$$

with equality if both lengths are $\rho$ and $x$ and $y$ differ only in features of the largest
$|g_k|$. For layer normalization the inequality holds with $x - \bar x \mathbf 1^\top$ in place of
$x$ in the length and $\lVert (I - \frac1d \mathbf 1 \mathbf 1^\top) \operatorname{diag}(g)
\rVert_2$ in place of $\max_k |g_k|$, with equality if both these lengths are $\rho$ and $x - y$ is
a left singular vector of that matrix for its norm.

With such a normalization in front of attention, all tokens (for layer normalization their
deviations) of length at least $\rho$, $\delta = \operatorname{diam}(X)$ and $c_h = \lVert W_{QK,h}
\rVert_2 / (4 \sqrt{d_{qk}})$, for all biases

$$
\operatorname{diam}(\mathrm{SA}(N(X))) \le
\lambda \delta \sum_h \lVert W_h \rVert_2 \tanh(c_h \lambda^2 \delta^2) ,
$$

attained for RMSNorm without shift in width $d \ge 2$ at every $\rho > 0$ and $\delta \le 2\rho$.
Let every layer be one head with $\lVert W_V \rVert_2 \le v$ and $c_h \le c$ behind a normalization
with this $\lambda$, and let all its inputs keep these lengths. If
$\lambda v \tanh(c \lambda^2 \delta^2) < 1$, the diameter tends to 0. If it is 1,
$\delta \le 2\rho$ and $d \ge 2$, there are an RMSNorm without shift with this $\lambda$, weights
with $\lVert W_V \rVert_2 = v$ and $c_h = c$, and two tokens at distance $\delta$ that stay at every
depth.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer", "layernorm.left-factor"),
        notebook="decoder-layers",
    ),
    Claim(
        id="modern.gated-mlp",
        title="The Lipschitz constant of a gated MLP on a ball",
        kind="theorem",
        statement=r"""
Let $f(x) = \bigl( \sigma(x W_G) \odot x W_U \bigr) W_D$ with $\sigma(a) = a/(1 + e^{-a})$. For all
rows $x$, $y$ with $\lVert x \rVert_2, \lVert y \rVert_2 \le R$

$$
\lVert f(x) - f(y) \rVert_2 \le K R\, \lVert W_G \rVert_2 \lVert W_U \rVert_2 \lVert W_D \rVert_2
\lVert x - y \rVert_2 ,
$$

$$
K = \max_{a > 0} \Bigl( \sigma'(a) + \frac{\sigma(a)}a \Bigr) = 2.0421312\ldots
$$

The maximum is at $a \tanh \frac a2 = 3$, where it is $1 + \frac a4 + \frac3{4a}$.

No smaller $K$ will do, in any dimensions. Behind RMSNorm without shift, with the $\lambda$ of
{claim}`modern.rms-lipschitz` and $\gamma = \max_k |g_k|$, the block $f(N(x))$ has as a Lipschitz
constant
$K \sqrt d\, \gamma \lambda \lVert W_G \rVert_2 \lVert W_U \rVert_2 \lVert W_D \rVert_2$ on tokens
of length at least $\rho$. These constants may stand for $\lambda_l$ in part 2 of
{claim}`mlp.depth`, if every input of $f$ is in the ball, or every input of the block is no shorter
than $\rho$.
""",
        sources=(Source("shazeer2020", "SwiGLU, equation 6", related=True),),
        here="statement and proof",
        uses=("modern.rms-lipschitz", "mlp.depth"),
        notebook="decoder-layers",
    ),
    Claim(
        id="modern.layer-share",
        title="Pre-norm streams: the share of a new layer",
        kind="theorem",
        statement=r"""
1. Let $x_{l+1} = x_l + F_l$ be a token in a network with skip connections, $x_L \ne 0$ and
   $0 < m \le \lVert F_l \rVert_2 \le M$ for $l = 0, \dots, L$. Then
   $\lVert x_L \rVert_2 \le \lVert x_0 \rVert_2 + LM$ and

   $$
   \frac{\lVert F_L \rVert_2}{\lVert x_L \rVert_2} \ge \frac{m}{\lVert x_0 \rVert_2 + LM} .
   $$

   If the updates on the whole do not point against the stream,
   $\sum_{l < L} \langle F_l, x_l \rangle \ge 0$, then
   $\lVert x_L \rVert_2^2 \ge \lVert x_0 \rVert_2^2 + L m^2$ and

   $$
   \frac{\lVert F_L \rVert_2}{\lVert x_L \rVert_2} \le
   \frac{M}{\sqrt{\lVert x_0 \rVert_2^2 + L m^2}} .
   $$

   So a new layer's share is below $s$ if $L > (M^2/s^2 - \lVert x_0 \rVert_2^2)/m^2$. With
   $m = M$ and $d \ge 2$ both bounds are attained at every depth: $F_l$ along the stream and
   orthogonal to it.
2. Behind RMSNorm as in {claim}`modern.rms-lipschitz`, with scale $g$ and no shift,
   $\gamma = \max_k |g_k|$, and without biases,
   $M = \sqrt d\, \gamma \sum_h \lVert W_h \rVert_2$ will do for attention and
   $M = d \gamma^2 \lVert W_G \rVert_2 \lVert W_U \rVert_2 \lVert W_D \rVert_2$ for the MLP of
   {claim}`modern.gated-mlp`.
""",
        here="statement and proof",
        uses=("modern.gated-mlp", "modern.rms-lipschitz"),
        notebook="decoder-layers",
    ),
    Claim(
        id="modern.pre-norm-depth",
        title="Pre-norm streams: when distances stay",
        kind="theorem",
        statement=r"""
Let $X_{l+1} = X_l + \mathrm{SA}_l(N_l(X_l))$, attention alone and without a mask, with
normalizations and any biases, all tokens of $X_l$ (for layer normalization their deviations from
their means) of length at least $\rho_l > 0$,
$\lambda_l$ and $c_h^l$ as in {claim}`modern.rms-lipschitz` for $\rho_l$,
$\lambda_l \sum_h \lVert W_h^l \rVert_2 \le V$, $0 < V < 1$, and
$\mu_l = \sum_h \lVert W_h^l \rVert_2\, c_h^l$. With $K(V)$ of
{claim}`skip.polynomial-rate-heads` and $\delta_0 = \operatorname{diam}(X_0)$

$$
\operatorname{diam}(X_L) \ge \frac{\delta_0}{\sqrt{1 + K(V)\, \delta_0^2
\sum_{l < L} \lambda_l^3 \mu_l}} .
$$

Two tokens attain it for every $V$ and every depth.

If $\lambda_l \le \Gamma/\rho_l$, $\mu_l \le \mu$ and $\rho_l^2 \ge \rho_0^2 + l m^2$ for some
$m > 0$, the sum is at most $\Gamma^3 \mu\, (\rho_0^{-3} + 2 m^{-2} \rho_0^{-1})$ at every depth, so
for $\delta_0 > 0$ the diameters stay above one positive number. With RMSNorm and $\rho_l$ the
length of the shortest token of $X_l$ streams grow so by {claim}`modern.layer-share`, if every token
$x_l$ has updates
$F_l = x_{l+1} - x_l$ with $\lVert F_l \rVert_2 \ge m$ and, at every depth,
$\sum_{k < l} \langle F_k, x_k \rangle \ge 0$. With either normalization, if the
diameters stay so and all $\lVert F_l \rVert_2 \le M$, then
$\lVert x_L \rVert_2 \le \lVert x_0 \rVert_2 + LM$, and the diameter relative to the longest token
falls no faster than $1/L$.
""",
        here="statement and proof",
        uses=(
            "modern.rms-lipschitz",
            "modern.layer-share",
            "skip.lower-bound",
            "skip.polynomial-rate-heads",
        ),
        notebook="decoder-layers",
    ),
]
