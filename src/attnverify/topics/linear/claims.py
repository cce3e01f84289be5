"""Attention whose exponential is replaced: one row, all layers, Taylor's polynomial."""

from attnverify.verification.claim import Claim, Reading, Source

GERAMI = Source("gerami2024", "attention by a polynomial kernel", related=True)

CLAIMS = [
    Claim(
        id="linear.truncation",
        title="What an approximate exponential does to a row of attention",
        kind="theorem",
        statement=r"""
Let $P$ be the softmax of scores $s \in \mathbb{R}^n$, and $\hat P_j = w_j / \sum_k w_k$ with
$(1 - \delta)\, e^{s_j} \le w_j \le (1 + \delta)\, e^{s_j}$ for one $0 \le \delta < 1$. Then

$$
\mathrm{TV}(P, \hat P) \le \tanh\!\Bigl( \frac14 \log \frac{1 + \delta}{1 - \delta} \Bigr)
= \frac{\delta}{1 + \sqrt{1 - \delta^2}} ,
$$

and the outputs for values $v_j$ differ by at most this times $\operatorname{diam}(V)$. Both are
attained for every $\delta$ and every $n \ge 2$.
""",
        sources=(GERAMI,),
        here="statement and proof",
        uses=("softmax.total-variation", "norms.diameter"),
        notebook="kernels",
    ),
    Claim(
        id="linear.depth",
        title="What an approximate exponential does to collapse, and over depth",
        kind="theorem",
        statement=r"""
Let all weights of attention without a mask be replaced as in {claim}`linear.truncation`, by any
$w$ with one $\delta < 1$.

- *Collapse.* With $t_h = \tanh(\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2 / (4
  \sqrt{d_{qk}}))$ the output $Y$ of a layer with any heads $h$, any $X$ and any biases has

$$
\operatorname{diam}(Y) \le \operatorname{diam}(X) \sum_h \lVert W_h \rVert_2\,
\frac{t_h + \delta}{1 + t_h \delta} .
$$

  For every $\delta$ it is attained by the two tokens of {claim}`collapse.sharp-layer`. As the
  diameter tends to 0, the factor tends to $\delta \sum_h \lVert W_h \rVert_2$: the bound is
  cubic only for $\delta = 0$.
- *Error.* One head, one $d_{qk}$, no biases, $\lVert W_V \rVert_2 \le 1$ and
  $\lVert W_{QK} \rVert_2 / (4 \sqrt{d_{qk}}) \le c$ in every layer. Let $D_0$ be the diameter and
  $R$ the largest length of the input tokens, $\theta = \tanh(c D_0^2)$, $D_l = \theta^l D_0$ and
  $\eta = \delta/(1 + \sqrt{1 - \delta^2})$. After $L$ layers every token of the approximate network
  is within $e_L$ of that of the exact one, where $e_0 = 0$ and

$$
e_{l+1} = e_l + D_l \tanh\bigl( \operatorname{artanh} \eta + c\, e_l (D_l + 2R) \bigr) .
$$

$$
e_L \le \frac{\eta\, D_0}{1 - \theta} \exp\!\Bigl( \frac{c D_0 (D_0 + 2R)}{1 - \theta} \Bigr)
$$

  for every $L$. With enough tokens the error comes as near to $\eta D_0 = e_1 = \lim_{c \to 0} e_L$
  as one likes, for every $L \ge 1$, $c$, $\delta$ and $D_0$. Two tokens attain $e_1$ if
  $c D_0^2 \ge \frac12 \operatorname{artanh} \delta$.
""",
        here="statement and proof",
        uses=(
            "linear.truncation",
            "softmax.total-variation",
            "norms.diameter",
            "collapse.sharp-layer",
            "collapse.global",
        ),
        notebook="kernels",
    ),
    Claim(
        id="linear.taylor",
        title="A Taylor polynomial in place of the exponential, and any polynomial",
        kind="theorem",
        statement=r"""
Let $T_p(s) = \sum_{k=0}^p s^k/k!$ with $p \ge 1$, $\tau(s) = e^{-s} T_p(s)$ and $r > 0$.

- *Error.* $\tau(s) = 1 - \frac{1}{p!} \int_0^s e^{-t} t^p\, dt$. The largest relative error on
  $|s| \le r$ is that at $s = -r$,

$$
\delta(p, r) = |\tau(-r) - 1| = \frac{1}{p!} \int_0^r e^t t^p\, dt
\le \frac{e^r r^{p+1}}{(p+1)!} .
$$

- *Sign.* For even $p$, $T_p > 0$ everywhere. For odd $p$, $T_p$ is positive on $|s| \le r$
  exactly if $\delta(p, r) < 1$.
- *Rows.* Let $T_p > 0$ on $|s| \le r$, and let all scores of a row lie there. With $T_p(s_j)$ in
  place of $e^{s_j}$ the row differs from softmax in total variation by at most

$$
\tanh \frac \omega 4, \qquad
\omega = \log \frac{\tau(-r)}{\tau(r)} \ \text{ ($p$ even)}, \qquad
\omega = \log \frac{1}{\tau(-r)} \ \text{ ($p$ odd)} .
$$

  For no such $p$ and $r$ does a smaller bound hold for all numbers of keys.
- *Any polynomial.* For points $s_0, \dots, s_{p+1}$, no two equal, let
  $a_i = e^{s_i} \prod_{k \ne i} (s_i - s_k)^{-1}$. Every polynomial of degree at most $p$ has a
  relative error of at least $|\sum_i a_i| / \sum_i |a_i|$ at one of these points. One polynomial
  has exactly this error at all of them.
- *Cost.* $T_p(q \cdot k) = \langle \varphi(q), \varphi(k) \rangle$ for $q, k \in \mathbb{R}^d$,
  with $\binom{d+p}{p}$ features, monomials over roots of factorials. Fewer features are not enough.
""",
        sources=(GERAMI, Source("delavallee1919", "the bound for any polynomial", related=True)),
        here="statement and proof",
        uses=("softmax.total-variation",),
        notebook="kernels",
        refutes=(
            Reading(
                says=(
                    "A Taylor polynomial in place of the exponential gives positive weights, "
                    "whatever its degree."
                ),
                near="gerami2024",
                instance="An odd degree.",
                check="sign",
                holds="linear.taylor",
                twin="the degree 5",
            ),
        ),
    ),
]
