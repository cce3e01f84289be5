"""Skip connections with many heads: the rate, when nothing collapses, scores of any size."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

MANY_HEADS = [
    Claim(
        id="skip.polynomial-rate-heads",
        title="With skip connections, small values and bounded scores, decay is at most polynomial",
        kind="theorem",
        statement=r"""
A skip connection in every layer, any number of heads and any biases, $0 < V < 1$, and in layer
$l = 1, \dots, L$

$$
\sum_h \lVert W^l_h \rVert_2 \le V,
$$

$$
\sum_h \lVert W^l_h \rVert_2 \frac{\lVert W^l_{QK,h} \rVert_2}{4\sqrt{d_{qk}}} \le m_l .
$$

Then for every $X$ with $\delta_0 = \operatorname{diam}(X)$, without a condition on its size,

$$
\operatorname{diam}(X_L) \ge \frac{\delta_0}{\sqrt{1 + K(V)\, (m_1 + \dots + m_L)\, \delta_0^2}} ,
$$

$$
K(V) = \max_{x > 0} \frac{(1 - V \tanh(x/V))^{-2} - 1}{x} \le \frac{2 - V}{(1 - V)^2} .
$$

$K(V)$ increases with $V$ and tends to 2 as $V \to 0$; $K(\frac12) = 3.2381\ldots$ No smaller
constant will do at any $V$ and any depth: two tokens attain it with $m_l = x_V/\delta_{l-1}^2$,
where $\delta_{l-1}$ is their distance before layer $l$ and the maximum is at $x_V$. For $V = 1$
there is no constant.

If $V \le v^*$ ({claim}`skip.polynomial-rate`) and $m_l \delta_0^2 \le \frac12$ for all $l$, then
$K^* = 2 (1 - v^* \tanh(1/(2v^*)))^{-2} - 2 = 3.8418\ldots$ may stand in place of $K(V)$, and no
smaller number for all such $V$.
""",
        here="statement and proof",
        uses=("skip.lower-bound", "skip.polynomial-rate"),
        notebook="heads-depth",
    ),
    Claim(
        id="skip.summable",
        title="What keeps tokens apart at every depth: a finite sum",
        kind="theorem",
        statement=r"""
Let $0 < V < 1$ and $m_1, m_2, \dots \ge 0$ bound the layers of a network of any depth as in
{claim}`skip.polynomial-rate-heads`.

- If $M = \sum_l m_l < \infty$, then at every depth
  $\operatorname{diam}(X_L) \ge \delta_0/\sqrt{1 + K(V) M \delta_0^2}$, for all weights within these
  bounds, whatever their scores are: $W_{QK,h}$ need not vanish.
- If $\sum_l m_l = \infty$, there are weights within these bounds, with one head, for which two
  tokens collapse: $\operatorname{diam}(X_L) \to 0$.
""",
        here="statement and proof",
        uses=("skip.polynomial-rate-heads",),
        sharpens="skip.no-collapse",
        notebook="heads-depth",
    ),
    Claim(
        id="skip.any-scores",
        title="A direction that no value map writes to is kept, whatever the scores are",
        kind="theorem",
        statement=r"""
Let every $W^l_h$ of a network with skip connections have the same column $u$ in its kernel,
$W^l_h u = 0$. Then for all $W^l_{QK,h}$ and all biases the residual along $u$ is at every depth
what it was: $X_L u - \mathbf 1 \overline{X_L u} = X u - \mathbf 1 \overline{X u}$. With
$\lVert u \rVert_2 = 1$ the diameter never falls below $\operatorname{osc}(X u)$.
""",
        sources=(Source(DONG, "Claim 3.1", related=True),),
        here="statement and proof",
        uses=("paths.stochastic-product",),
        sharpens="skip.no-collapse",
        notebook="heads-depth",
    ),
]
