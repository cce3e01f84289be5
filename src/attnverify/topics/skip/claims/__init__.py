"""Skip connections: what they keep from collapsing, and how fast the rest does."""

from attnverify.topics.skip.claims import many_heads
from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="skip.no-collapse",
        title="With skip connections collapse can be avoided at every depth",
        kind="theorem",
        statement=r"""
If $W_{QK,h} = 0$ for every head, then for all $W_h$ and all biases a layer with a skip connection
leaves the residual unchanged:
$X + \mathrm{SA}(X) - \mathbf 1 \overline{(X + \mathrm{SA}(X))} = X - \mathbf 1 \bar x$. These
parameters have $\beta = 0$.
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
For every $X$, all heads and all biases,

$$
\operatorname{diam}(X + \mathrm{SA}(X)) \ge \operatorname{diam}(X) \allowbreak \Bigl( {1 -
\sum_h \lVert W_h \rVert_2} \allowbreak \tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2
\operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr) \Bigr),
$$

with equality for one head without query bias, the tokens $\pm\frac\delta2 e$ with a unit vector
$e$, $W_{QK} = q\, e e^\top$ and $W_V = -vI$ with $q, v \ge 0$, where the sum is at most 1.
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
One head and a skip connection in every layer, $\lVert W_V \rVert_2 \le v \le v^*$ and
$\lVert W_{QK} \rVert_2 \le q$ with one $d_{qk}$, where
$1/v^* = \max_{y \ge 0} (\tanh y + 2y \operatorname{sech}^2 y)$, $v^* = 0.62436\ldots$ With
$c = q/(4\sqrt{d_{qk}})$, $\delta_0 = \operatorname{diam}(X)$ and $v c\, \delta_0^2 \le \frac12$,

$$
\operatorname{diam}(X_L) \ge \frac{\delta_0}{\sqrt{1 + 6 v c L \delta_0^2}}
\quad {(L = 0, 1, \dots)}.
$$

The tokens $\pm\frac{\delta_0}2 e$ with a unit vector $e$, $W_{QK} = q\, e e^\top$, $W_V = -vI$,
$v, q, \delta_0 > 0$ and no biases shrink like $1/\sqrt{2 v c L}$: the rate $L^{-1/2}$ is
attained.
""",
        here="statement and proof",
        uses=("skip.lower-bound",),
        notebook="skip",
    ),
    *many_heads.MANY_HEADS,
]
