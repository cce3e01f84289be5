"""Positions in the logits: a layer, the end of the cubic rate, scores at a distance."""

from attnverify.verification.claim import Claim, Source

CLAIMS = [
    Claim(
        id="modern.positions-layer",
        title="One layer with positions",
        kind="theorem",
        statement=r"""
In head $h$ let the logit of query $i$ and key $j$ be
$\ell_{ij} = (x_i W_Q + b_Q)\, R_{ij}\, (x_j W_K + b_K)^\top / \sqrt{d_{qk}} + b_{ij}$ with any
matrices $R_{ij}$ and numbers $b_{ij}$. (Rotary positions: $R_{ij}$ is a rotation that depends on
$i - j$. ALiBi, T5, learned tables: $R_{ij} = I$, $b_{ij}$ depends on $i - j$.) Let
$e_{ij} = \ell_{ij} - x_i W_{QK} x_j^\top / \sqrt{d_{qk}}$ and

$$
\omega_h = \max_{i,k} \operatorname{osc}_j (e_{ij} - e_{kj}) , \qquad
\kappa_h = \frac{\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2}{\sqrt{d_{qk}}} .
$$

For every $X$, all heads and all biases

$$
\operatorname{diam}(\mathrm{SA}(X)) \le
\operatorname{diam}(X) \sum_h \lVert W_h \rVert_2 \tanh \frac{\omega_h + \kappa_h}4 ,
$$

also with any matrices $A_h$ in place of $W_{QK,h}$, in $e$ and $\kappa_h$ alike. The bound uses
nothing of the form of the logits: $\ell_{ij}$ may be any numbers. If all $R_{ij} = I$, then
$\omega_h = \max_{i,k} \operatorname{osc}_j (b_{ij} - b_{kj})$ whatever the tokens are. The bound is
attained in width $d = d_{qk} = 2$ by the two tokens $(m, -\frac\delta2)$ and $(m, \frac\delta2)$
with $m \ge 0$, $0 \le \delta \le 2m$, if $W_{Q,h} = q_h I$, $W_{K,h} = I$, $W_h = v_h I$ with
$q_h, v_h \ge 0$, there are no biases, and query and key of token $i$ are turned counterclockwise by
$i\theta_h$, $0 \le \theta_h \le \pi$. The factor then is

$$
\sum_h v_h \tanh\!\Bigl( \frac{q_h}{\sqrt{d_{qk}}}
\bigl( m \sin \tfrac{\theta_h}2 + \tfrac\delta2 \cos \tfrac{\theta_h}2 \bigr)^2 \Bigr) .
$$
""",
        here="statement and proof",
        sources=(
            Source("su2021", "rotary positions", related=True),
            Source("press2022", "biases by distance", related=True),
        ),
        uses=("collapse.sharp-layer", "softmax.total-variation", "norms.diameter"),
        notebook="decoder-positions",
    ),
    Claim(
        id="modern.positions-end-cubic",
        title="Positions can end the cubic rate",
        kind="theorem",
        statement=r"""
Let every layer be one and the same head without a mask, with $W_h = I$ and without value and output
biases, and let its logits $\ell_{ij}$ be those of the first formula of
{claim}`modern.positions-layer`, with the same $R_{ij}$ and $b_{ij}$ in every layer.
Let $\delta_l$ be the diameter after $l$ layers, $P_c$ the attention matrix of $n \ge 2$ equal
tokens $c$, and $\lambda_2(P_c), \dots, \lambda_n(P_c)$ its eigenvalues, by falling modulus, but for
one eigenvalue 1, which belongs to the vector $\mathbf 1$.

- For every $c$ and $\zeta_c = \max_i \operatorname{osc}_j \bigl( \ell_{ij} - \ell_{ij}(c) \bigr)$,
  the second logit being that of equal tokens $c$,
  $\lvert \operatorname{diam}(\mathrm{SA}(X)) - \operatorname{diam}(P_c X) \rvert
  \le \tanh(\zeta_c/2) \operatorname{diam}(X)$.
- The tokens converge to one token $c$, and $\limsup_l \delta_l^{1/l} \le |\lambda_2(P_c)|$. Unless
  they become equal at some layer, $\liminf_l \delta_l^{1/l} \ge |\lambda_n(P_c)|$, which is
  positive if $P_c$ is invertible.
- If $\lambda_2(P_{c_0}) \ne 0$ for some $c_0$, then for $0 < \varepsilon < |\lambda_2(P_{c_0})|$
  there is an open set of inputs, with points arbitrarily near to $n$ equal tokens $c_0$, for which
  $\delta_l \ge C (|\lambda_2(P_{c_0})| - \varepsilon)^l$ at every depth with some $C > 0$. If
  $\lambda_2(P_{c_0})$ is real and larger in modulus than the ones after it, then there is such a
  set on which $\delta_{l+1}/\delta_l \to |\lambda_2(P_c)|$, $c$ the limit of the tokens.
- In width $d = d_{qk} = 2$ the two tokens $(m, -\frac{\delta_0}2)$ and $(m, \frac{\delta_0}2)$,
  $m \ge 0$, $0 \le \delta_0 \le 2m$, attain the bound of {claim}`modern.positions-layer` in every
  layer, if $W_Q = qI$, $q \ge 0$, $W_K = I$, there are no biases, and query and key of token $i$
  are turned counterclockwise by $i\theta$, $0 \le \theta \le \pi$. For $q, m, \delta_0 > 0$ their
  $\delta_{l+1}/\delta_l$ falls (for $\theta = \pi$ it is equal) to
  $\tanh\bigl( q\, m^2 \sin^2(\theta/2) / \sqrt{d_{qk}} \bigr) = \lambda_2(P_{(m, 0)})$.
""",
        here="statement and proof",
        sources=(
            Source("su2021", "rotary positions", related=True),
            Source("press2022", "biases by distance", related=True),
            Source("wu2025", "masks and positions over depth", related=True),
        ),
        uses=("modern.positions-layer",),
        notebook="decoder-positions",
    ),
    Claim(
        id="modern.rope-spectrum",
        title="Rotary positions: what a score keeps at a distance",
        kind="theorem",
        statement=r"""
Tokens walk at random as in {claim}`walk.moments`, and the last token's score with token $i$ is
$\ell_{Ti} = x_T^\top W(T - i)\, x_i$ with $W(m) = W_Q R_m W_K^\top$, where $R_m$ turns plane
$p = 1, \dots, d_{qk}/2$ of the queries (rows) counterclockwise by $m \theta_p$. Let
$Q = \Sigma^{1/2} W_Q$, $K = \Sigma^{1/2} W_K$ and $M(m) = Q R_m K^\top$.

**Law.** With $M = M(T - i)$, $z \sim N(0, I)$ and an independent $g \sim N(0, 1)$, $\ell_{Ti}$ has
the law of $i\, z^\top M z + \sqrt{i (T - i)}\, \lVert M^\top z \rVert_2\, g$, the mean
$i \operatorname{tr} M$ and the variance
$i T \lVert M \rVert_F^2 + i^2 \operatorname{tr}(M^2)$.

**Distance.** $\operatorname{tr} M(m) = \sum_p a_p \cos(m \theta_p) + b_p \sin(m \theta_p)$
for every $m$, with $a_p$ the inner product of the two columns of $Q$ and $K$ in plane $p$, and
$b_p$ the same after a quarter turn counterclockwise of those of $Q$, $(u, v) \mapsto (-v, u)$. If
$K^\top K$ or $Q^\top Q$ is a multiple of $I$, then $\lVert M(m) \rVert_F$ is the same for all $m$.
""",
        here="statement and proof",
        sources=(
            Source("su2021", "rotary positions", related=True),
            Source("bao2024", "the random-walk model of tokens", related=True),
        ),
        uses=("walk.moments",),
        notebook="decoder-positions",
    ),
    Claim(
        id="modern.rope-averages",
        title="Rotary positions: averages over distances and tokens",
        kind="theorem",
        statement=r"""
Tokens, scores $\ell_{Ti}$ and matrices $Q$, $K$ and $M(m) = Q R_m K^\top$ are those of
{claim}`modern.rope-spectrum`, so $\operatorname{tr} M(m) = \sum_p a_p \cos(m \theta_p) + b_p \sin(m
\theta_p)$ with the $a_p$ and $b_p$ given there, and $i \operatorname{tr} M(T - i)$ is the mean of
$\ell_{Ti}$.

**Means.** Let $s_p = \sqrt{a_p^2 + b_p^2}$ and $0 < \theta_p \le \pi$ for all $p$. For all $N$
and $T$

$$
\Bigl\lvert \frac1N \sum_{m < N} \operatorname{tr} M(m) \Bigr\rvert \le
\frac1N \sum_p \frac{s_p}{\sin(\theta_p/2)} ,
$$

$$
\Bigl\lvert \mathbb{E}\, \frac1T \sum_i \ell_{Ti} \Bigr\rvert \le
\frac12 \sum_p \frac{s_p}{\sin(\theta_p/2)} \Bigl( 1 + \frac1{T \sin(\theta_p/2)} \Bigr) ,
$$

the first attained for every $N$ by one plane with $\theta_1 = \pi/N$, the second for every odd
$T$ by one with $\theta_1 = \pi$. Without rotation the two are $\operatorname{tr} M(0)$ and
$\frac{T + 1}2 \operatorname{tr} M(0)$.

**Quadratic mean.** If in addition the $\theta_p$ are different and below $\pi$, then for all $N$

$$
\Bigl\lvert \frac1N \sum_{m < N} (\operatorname{tr} M(m))^2 - \frac12 \sum_p s_p^2 \Bigr\rvert \le
\frac1N \Bigl( \sum_p \frac{s_p^2}{2 \sin \theta_p} + \sum_{p < q} \Bigl(
\frac{s_p s_q}{\lvert \sin \frac{\theta_p - \theta_q}2 \rvert} +
\frac{s_p s_q}{\sin \frac{\theta_p + \theta_q}2} \Bigr) \Bigr) ,
$$

attained for every $N$ by one plane with $\theta_1 = \pi/(2N)$. So this mean tends to
$\frac12 \sum_p s_p^2 \le \frac12 \sum_p \lVert Q_p \rVert_F^2 \lVert K_p \rVert_F^2$, where
$Q_p$, $K_p$ are the columns of plane $p$. If $K^\top K$ or $Q^\top Q$ is a multiple of $I$, the
right side is $\lVert M(m) \rVert_F^2$, the same for all $m$: if that is not 0, the quadratic mean
of $\operatorname{tr} M(m)/\lVert M(m) \rVert_F$ over all distances is at most 1. It is 1 for
$Q = K$ with orthonormal columns, where this quotient is $\sqrt{d_{qk}}$ at $m = 0$.
""",
        here="statement and proof",
        sources=(
            Source("su2021", "rotary positions", related=True),
            Source("bao2024", "the random-walk model of tokens", related=True),
        ),
        uses=("modern.rope-spectrum",),
        notebook="decoder-positions",
    ),
]
