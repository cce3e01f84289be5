"""Over-smoothing as a graph filter: skip connections, normalization, and fused layers."""

from attnverify.verification.claim import Claim, Reading, Source

SHI = Source("shi2022", "over-smoothing, the scale of layer normalization", related=True)

CLAIMS = [
    Claim(
        id="smoothing.contraction",
        title="A layer with a skip connection and a normalization, in two sizes",
        kind="theorem",
        statement=r"""
Let $d(X) = \lVert X - \mathbf 1 \bar x^\top \rVert_F$, the distance to the matrices with equal
rows, $J = \frac1n \mathbf 1 \mathbf 1^\top$, and $s(P) = \lVert (I - J) P (I - J) \rVert_2$. Let
$Y = X + \sum_h P_h X W_h$ with row-stochastic $P_h$, and let the rows of $Z$ be
$z_i = y_i/\rho_i$, where $\rho_i$ is the root mean square of the features of $y_i$ (RMSNorm) and
$\rho = \min_i \rho_i > 0$. Then

$$
d(Z) \le \frac1\rho \Bigl( 1 + \sum_h s(P_h) \lVert W_h \rVert_2 \Bigr) d(X) ,
$$

$$
\operatorname{diam}(Z) \le
\frac1\rho \Bigl( 1 + \sum_h \tau(P_h) \lVert W_h \rVert_2 \Bigr) \operatorname{diam}(X) .
$$

Two tokens of one length attain both, with every $\tau(P) \in [0, 1]$ and $W = vI$, $v \ge 0$. For
layer normalization put the deviations of $y_i$ from the mean of its features in place of $y_i$.

Always $\tau(P) \le 1$, and $s(P) \le \sqrt{2 \lfloor n/2 \rfloor \lceil n/2 \rceil / n}\; \tau(P)$,
which is attained for every $n \ge 2$. So the second factor is below 1 wherever
$\rho > 1 + \sum_h \lVert W_h \rVert_2$, and without a normalization ($\rho = 1$) neither is ever
below 1.
""",
        sources=(SHI,),
        here="statement and proof",
        uses=("norms.diameter", "modern.rms-lipschitz"),
        notebook="masks-graphs",
    ),
    Claim(
        id="smoothing.post-norm",
        title="With post-normalization and values wI tokens become alike",
        kind="theorem",
        statement=r"""
Let the tokens have length 1, $\delta = \operatorname{diam}(X) < \sqrt2$, $w > 0$, and let a layer
map $x_i$ to $y_i/\lVert y_i \rVert_2$ with $y_i = x_i + w \sum_j P_{ij} x_j$ and a row-stochastic
$P$. The output has

$$
\operatorname{diam} \le
\frac{1 + w\, \tau(P)}{\sqrt{(1 + w)^2 - \frac12 w (2 + w)\, \delta^2}}\; \delta .
$$

At $\tau = 0$ no smaller factor serves all $n$, whatever $\delta$ is. For softmax attention without
a mask and with $\lVert W_{QK} \rVert_2 \le q$, $\tau(P) \le T(\delta) =
\tanh(q \delta^2/(4 \sqrt{d_{qk}}))$. If the factor with $T(\delta)$ is below 1 at the start, it is
so in all layers and the diameter tends to 0. The ratio of successive diameters then tends to
$1/(1 + w)$, unless all tokens are equal from some layer on. For $w\, \tau(P) \le 1$,

$$
\operatorname{diam}^2 \ge \frac{\delta^2}{(1 + w)^2} \Bigl( (1 - w\, \tau(P))^2
- \Bigl( \frac{w (2 + w)}{2 (1 + w)}\, \delta \Bigr)^2 \Bigr) .
$$

Two tokens of angle $2\varphi < \pi$ with $P_{11} = P_{22}$ get the angle $2\varphi'$,

$$
\tan \varphi' = \frac{\lvert 1 + w\, (2 P_{11} - 1) \rvert}{1 + w} \tan \varphi ,
$$

and so reach the rate $1/(1 + w)$ with $P_{11} = \frac12$.
""",
        sources=(SHI,),
        here="statement and proof",
        uses=("smoothing.contraction", "softmax.total-variation"),
        notebook="masks-graphs",
    ),
    Claim(
        id="smoothing.fusion",
        title="What a convex combination of all layers keeps",
        kind="theorem",
        statement=r"""
Let $X_0, \dots, X_L$ be the input and the outputs of all layers, $\alpha_l \ge 0$ of sum 1. With
$\lVert \cdot \rVert$ for the diameter or the distance $d$ of {claim}`smoothing.contraction`,

$$
\Bigl\lVert \sum_l \alpha_l X_l \Bigr\rVert \ge
\alpha_0 \lVert X_0 \rVert - \sum_{l \ge 1} \alpha_l \lVert X_l \rVert .
$$

If $\lVert X_{l+1} \rVert \le v \lVert X_l \rVert$ in all layers, the right side is at least
$\bigl( \alpha_0 - \sum_{l \ge 1} \alpha_l v^l \bigr) \lVert X_0 \rVert$. Both are attained
wherever this bracket is not negative, by two tokens with $W_V = -wI$ in the first layer and $wI$ in
the others. If it is not positive, all differences can be lost. With equal weights the last
bracket is positive for every $L$ if $v \le \frac12$, and for large $L$ it is negative if
$v > \frac12$.

A fusion can do harm: there are a layer and convex weights with $\sum_l \alpha_l X_l = 0$ while the
last layer's output keeps half of the diameter of the input.
""",
        sources=(Source("shi2022", "hierarchical fusion of layers", related=True),),
        here="statement and proof",
        uses=("norms.diameter", "smoothing.contraction"),
        notebook="masks-graphs",
        refutes=(
            Reading(
                says=(
                    "A convex combination of all layers' outputs is at least as wide as the last "
                    "output."
                ),
                near="shi2022",
                instance=r"Two tokens and one layer, with the weights $\frac13$ and $\frac23$.",
                check="harm",
                holds="smoothing.fusion",
            ),
        ),
    ),
]
