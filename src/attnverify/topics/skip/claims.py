"""Skip connections: what they keep from collapsing, and how fast the rest does."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="skip.no-collapse",
        title="With skip connections collapse can be avoided at every depth",
        kind="theorem",
        statement=r"""
Let $\mathrm{SA}(X)$ be what the attention of a layer without a mask returns for the tokens $X$.
Head $h$ has the query-key map $W_{QK,h}$ and the value map $W_h$, which includes the output map. If
$W_{QK,h} = 0$ for every head, then for all $W_h$ and all biases the layer with a skip connection
leaves the residual unchanged:
$X + \mathrm{SA}(X) - \mathbf 1 \overline{(X + \mathrm{SA}(X))} = X - \mathbf 1 \bar x$, where
$\bar x$ is the mean of the tokens, as a row, and the overline means the same for
$X + \mathrm{SA}(X)$. Let $\lVert A \rVert_1$ be the largest column sum of absolute values and
$\lVert A \rVert_\infty$ the largest row sum, with
$\lVert A \rVert_{1,\infty} = \sqrt{\lVert A \rVert_1 \lVert A \rVert_\infty}$. Then
$\beta = \max_h \lVert W_{QK,h} \rVert_1 \lVert W_h \rVert_{1,\infty}$ is 0 for these parameters.
""",
        sources=(Source(DONG, "Claim 3.1"),),
        uses=("attention.qk-reduction",),
        notebook="skip",
    ),
    Claim(
        id="skip.lower-bound",
        title="How fast a layer with a skip connection can collapse at most",
        kind="theorem",
        statement=r"""
For every $X$, all heads and all biases, a layer without a mask has

$$
\operatorname{diam}(X + \mathrm{SA}(X)) \ge \operatorname{diam}(X) \allowbreak \Bigl( {1 -
\sum_h \lVert W_h \rVert_2} \allowbreak \tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2
\operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr) \Bigr),
$$

with equality for one head without query bias, the tokens $\pm\frac\delta2 e$ with a unit row
vector $e$, $W_{QK} = q\, e^\top e$ and $W_V = -vI$ with $q, v \ge 0$, where the sum is at most 1.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer", "norms.diameter"),
        sharpens="skip.no-collapse",
        notebook="skip",
    ),
    Claim(
        id="skip.polynomial-rate",
        title="With skip connections and small value maps, decay of one head is at most polynomial",
        kind="theorem",
        statement=r"""
Let every layer have one head, a skip connection and no mask, with
$\lVert W_V \rVert_2 \le v \le v^*$, $\lVert W_{QK} \rVert_2 \le q$ and one $d_{qk}$. Here
$1/v^* = \max_{y \ge 0} (\tanh y + 2y \operatorname{sech}^2 y)$, so $v^* = 0.62436\ldots$ Put
$c = q/(4\sqrt{d_{qk}})$ and $\delta_0 = \operatorname{diam}(X)$. If
$v c\, \delta_0^2 \le \frac12$, then

$$
\operatorname{diam}(X_L) \ge \frac{\delta_0}{\sqrt{1 + 6 v c L \delta_0^2}}
\quad {(L = 0, 1, \dots)}.
$$

The rate $L^{-1/2}$ is attained: the tokens $\pm\frac{\delta_0}2 e$ with a unit row vector $e$,
$W_{QK} = q\, e^\top e$, $W_V = -vI$, $v, q, \delta_0 > 0$ and no biases shrink like
$1/\sqrt{2 v c L}$.
""",
        here="statement and proof",
        uses=("skip.lower-bound",),
        notebook="skip",
    ),
    Claim(
        id="skip.polynomial-rate-heads",
        title="With skip connections, small values and bounded scores, decay is at most polynomial",
        kind="theorem",
        statement=r"""
A skip connection and no mask in every layer, any number of heads and any biases, $0 < V < 1$, and
in layer $l = 1, \dots, L$

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
        id="skip.equal-rates",
        title="With equal rates the constant is 2, however large the value maps",
        kind="theorem",
        statement=r"""
Let $0 < V < 1$ and layers as in {claim}`skip.polynomial-rate-heads` with $m_l \le m$ for one
$m > 0$ and every $l$. Put $A = 3/(1 - V)^2$ and, for $\delta_0 = \operatorname{diam}(X) > 0$,
$t = \max(\delta_0^{-2}, \sqrt A\, m) + (2 - V)\, m/(1 - V)^2$. Then at every depth $L$

$$
\frac{1}{\operatorname{diam}(X_L)^2} \le t + 2 m L + \frac{A m}{2} \log\Bigl( 1 + \frac{2 m L}{t}
\Bigr) + \frac{A m^2}{t} .
$$

So $\liminf_{L \to \infty} \sqrt L\, \operatorname{diam}(X_L) \ge 1/\sqrt{2m}$ whatever $V < 1$ and
$X$ are, and no larger number will do: the two tokens of {claim}`skip.polynomial-rate` with
$vc = m$ and $v < 1$ have this limit.
""",
        here="statement and proof",
        uses=("skip.polynomial-rate-heads", "skip.polynomial-rate"),
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
  bounds: $W_{QK,h}$ need not vanish.
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
