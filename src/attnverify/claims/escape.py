"""Part II: what stops rank collapse. Skip connections, MLPs, layer normalization."""

from attnverify.claims.model import Claim, Source

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
\operatorname{diam}(X + \mathrm{SA}(X)) \ge \operatorname{diam}(X) \Bigl( 1 -
\sum_h \lVert W_h \rVert_2 \tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2
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
\operatorname{diam}(X_L) \ge \frac{\delta_0}{\sqrt{1 + 6 v c L \delta_0^2}} \quad (L = 0, 1, \dots).
$$

The tokens $\pm\frac{\delta_0}2 e$ with a unit vector $e$, $W_{QK} = q\, e e^\top$, $W_V = -vI$,
$v, q, \delta_0 > 0$ and no query bias shrink like $1/\sqrt{2 v c L}$: the rate $L^{-1/2}$ is
attained.
""",
        here="statement and proof",
        uses=("skip.lower-bound",),
        notebook="skip",
    ),
    Claim(
        id="mlp.lipschitz",
        title="An MLP multiplies the bound by its Lipschitz constant",
        kind="proposition",
        statement=r"""
Let $f$ act on every row. If $\lVert f(x) - f(y) \rVert_2 \le \lambda \lVert x - y \rVert_2$ then
$\operatorname{diam}(f(X)) \le \lambda \operatorname{diam}(X)$. If
$|f(x) - f(y)| \le |x - y|\, \Lambda$ entry by entry for a matrix $\Lambda \ge 0$, then
$\min_y \lVert f(X) - \mathbf 1 y^\top \rVert_{1,\infty} \le \lVert \Lambda \rVert_{1,\infty}
\lVert X - \mathbf 1 x^\top \rVert_{1,\infty}$ for every $x$.
For $f(x) = \sigma(x W_1 + b_1) W_2 + b_2$, $\sigma$ with Lipschitz constant 1,
$\lambda = \lVert W_1 \rVert_2 \lVert W_2 \rVert_2$ and $\Lambda = |W_1| |W_2|$ serve.
""",
        sources=(Source(DONG, "Corollary 3.2"),),
        here="the entrywise form that the composite value needs",
        uses=("norms.submultiplicative", "norms.diameter"),
        notebook="mlp",
    ),
    Claim(
        id="layernorm.as-printed",
        title="Layer normalization of each token as a right factor, as printed",
        kind="proposition",
        statement=r"""
For every $X$ whose tokens have nonzero variance there are a matrix $A$ and a vector $b$, which may
depend on $X$, with $\mathrm{LN}(X) = X A + \mathbf 1 b^\top$. Here $\mathrm{LN}$ normalizes each
token, as transformers use it. (With $A$ diagonal, as printed, two tokens refute it; with any $A$,
three do.)
""",
        sources=(Source(DONG, "Section 3, layer normalization"),),
        here="the counterexamples",
        notebook="layernorm",
        asserts="fails",
        corrected_by="layernorm.left-factor",
    ),
    Claim(
        id="layernorm.left-factor",
        title="Layer normalization is a left and a right factor",
        kind="lemma",
        statement=r"""
For tokens with nonzero variances $\sigma_i^2$,

$$
\mathrm{LN}(X) = \operatorname{diag}(1/\sigma_i)\, X \Bigl(I - \tfrac1d \mathbf 1 \mathbf 1^\top
\Bigr) \operatorname{diag}(g) + \mathbf 1 b^\top
$$

with scale $g$ and shift $b$. Scaling by features instead, $X \mapsto X \operatorname{diag}(g) +
\mathbf 1 b^\top$, is a right factor and a rank-one shift.
""",
        here="the corrected statement",
        notebook="layernorm",
    ),
    Claim(
        id="layernorm.escape",
        title="Layer normalization can stop collapse for good",
        kind="counterexample",
        statement=r"""
Let the features of $u$ have mean 0 and variance 1, $X = (u, -u)$, $W_{QK} = qI$ with $q > 0$ and
$d_{qk} \ge d$ (or $W_{QK} = q\, u u^\top / \lVert u \rVert_2^2$ with any $d_{qk}$), $W_V = I$, no
biases, and layer normalization (scale 1, shift 0) after the attention. Then $X$ is a fixed point
of every layer. Without layer normalization a layer multiplies $X$ by
$\tanh(q \lVert u \rVert_2^2 / \sqrt{d_{qk}}) < 1$ and the tokens collapse.
""",
        sources=(Source("wu2024", "the effect of layer normalization", related=True),),
        here="the example",
        uses=("layernorm.left-factor", "collapse.global"),
        notebook="layernorm",
    ),
]
