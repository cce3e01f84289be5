"""A causal mask and positions together."""

from attnverify.verification.claim import Claim, Source

CLAIMS = [
    Claim(
        id="modern.causal-positions-rate",
        title="With positions, too, the first token that differs sets the rate of a causal stack",
        kind="theorem",
        statement=r"""
Causal mask, one head with $W_h = I$, every layer the same, and nothing else in it: no biases after
the attention, skip connections or normalization. The logit $\ell_{ij}$ of query $i$ and key
$j \le i$ is any locally Lipschitz function of $x_i$ and $x_j$, another one for each pair $i, j$:
rotary positions, ALiBi and learned tables of logits are cases. Let
$x_1 = \dots = x_m \ne x_{m+1}$ with $1 \le m < n$. Let $P^*$ be the attention matrix of $n$ tokens
that all equal $x_1$, with the logits $\ell^*_{ij}$. Let $\pi_i = P^*_{ii}$, and let $\delta_l$ be
the diameter after $l$ layers.

- *Rate.* The first $m$ tokens stay, all tokens converge to $x_1$, and

$$
\pi_{m+1} \le \liminf_{l \to \infty} \delta_l^{1/l} \le
\limsup_{l \to \infty} \delta_l^{1/l} \le \max_{i > m} \pi_i .
$$

- *Limit.* Suppose that $\pi_{m+1} > \pi_i$ for all $i > m + 1$. Let $u_i = 0$ for $i \le m$,
  $u_{m+1} = 1$ and

$$
u_i = \frac{1}{\pi_{m+1} - \pi_i} \sum_{m < j < i} P^*_{ij} u_j > 0 \quad (i > m + 1) ,
$$

  so that $P^* u = \pi_{m+1} u$. There is a $\lambda > 0$ with, for all $i$,

$$
\pi_{m+1}^{-l} \bigl( x^{(l)}_i - x_1 \bigr) \to \lambda\, u_i\, (x_{m+1} - x_1) .
$$

  So the ratio of successive diameters tends to $\pi_{m+1}$. With $\pi_i = \pi_{m+1}$ for one
  $i > m + 1$ there may be no such limit.
- *One layer.* Under the same condition let $N(X) = \max_{i > m} \lVert x_i - x_1 \rVert_2 / u_i$
  and $D = \max_{i > m} \operatorname{osc}_{j \le i} (\ell_{ij} - \ell^*_{ij})$. Token $m + 1$
  gives itself a weight $p$, and

$$
N(X') \le \pi_{m+1} e^D N(X) , \quad
\frac{1}{1 + (1/\pi_{m+1} - 1)\, e^{D}} \le p \le \frac{1}{1 + (1/\pi_{m+1} - 1)\, e^{-D}} .
$$

  The first is attained by $x_i = x_1 + u_i y$ if the logits do not depend on the tokens, so that
  $D = 0$. The other two are attained with every $D \ge 0$. The sum $S$ of the $D$ of all layers
  is finite, and $e^{-S} \le \lambda \le e^{(1 - \pi_{m+1}) S}$.
- *Relative positions.* If $\ell^*_{ij} = \ell(i - j)$, then

$$
\pi_i = \frac{1}{1 + \sum_{t=1}^{i-1} e^{\ell(t) - \ell(0)}}
$$

  falls strictly with $i$. So the condition always holds, and the rate is $\pi_{m+1}$. Without
  positions it is $1/(m+1)$. For ALiBi with slope $\beta > 0$, whatever $x_1$ is,

$$
\pi_{m+1} = \frac{1 - e^{-\beta}}{1 - e^{-\beta (m+1)}} > 1 - e^{-\beta} , \qquad
u_i = \prod_{k=1}^m \frac{e^{\beta (i - k)} - 1}{e^{\beta k} - 1} \quad (i > m) .
$$

  For rotary positions let $q_p$ and $k_p$ be the parts of $x_1 W_Q + b_Q$ and $x_1 W_K + b_K$ in
  plane $p$, which turns counterclockwise by $\theta_p$ from a token to the next. With
  $q \times k = q_1 k_2 - q_2 k_1$,

$$
\ell(t) = \frac{1}{\sqrt{d_{qk}}} \sum_p
\bigl( q_p \cdot k_p \cos t\theta_p + q_p \times k_p \sin t\theta_p \bigr) .
$$

- *A learned table* of logits may give a later token the larger weight. For $n = 3$ let rows 2
  and 3 of the attention matrix be $(\frac12, \frac12, 0)$ and
  $(\frac1{20}, \frac1{20}, \frac9{10})$ whatever the tokens are. From the tokens $0, 1, 1$ the
  ratio of diameters tends to $\frac9{10}$.
""",
        here="statement and proof",
        sources=(
            Source("su2021", "rotary positions", related=True),
            Source("press2022", "biases by distance", related=True),
            Source("wu2025", "masks and positions over depth", related=True),
        ),
        uses=("attention.shift-invariance",),
        notebook="decoder-both",
    ),
]
