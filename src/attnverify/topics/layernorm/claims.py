"""Layer normalization: what it is, and how it can stop collapse."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="layernorm.as-printed",
        title="Layer normalization of each token as a right factor, as printed",
        kind="proposition",
        statement=r"""
For every $X$ whose tokens have nonzero variance there are a matrix $A$ and a vector $b$, which may
depend on $X$, with $\mathrm{LN}(X) = X A + \mathbf 1 b^\top$. Here $\mathrm{LN}$ normalizes each
token, as transformers use it. (With $A$ diagonal, as printed, two tokens refute it; with any $A$,
three do. With mean and variance of each feature over the tokens in place of those of each token, it
is true: {claim}`layernorm.by-feature`.)
""",
        sources=(Source(DONG, "Section 3, layer normalization"),),
        here="the counterexamples",
        notebook="layernorm",
        asserts="fails",
        fails_because=r"""
Each token is divided by its own deviation. Tokens $u$, $2u$ and $-u$ become $v$, $v$ and $-v$. An
affine map that sends $u$ and $2u$ to one row sends $-u$ there, too.
""",
        corrected_by="layernorm.left-factor",
    ),
    Claim(
        id="layernorm.left-factor",
        title="Layer normalization is a left and a right factor",
        kind="lemma",
        statement=r"""
For tokens with nonzero variances $\sigma_i^2$,

$$
\mathrm{LN}(X) = \operatorname{diag}(1/\sigma_i)\, X {\Bigl(I - \tfrac1d \mathbf 1 \mathbf 1^\top
\Bigr)} \operatorname{diag}(g) + \mathbf 1 b^\top
$$

with scale $g$ and shift $b$. Scaling by features instead, $X \mapsto X \operatorname{diag}(g) +
\mathbf 1 b^\top$, is a right factor and a rank-one shift.
""",
        here="the corrected statement",
        notebook="layernorm",
    ),
    Claim(
        id="layernorm.by-feature",
        title="With statistics of each feature the printed identity is true",
        kind="proposition",
        statement=r"""
Let every feature of $Y = \mathrm{SA}(X)$, a column of $Y$, have mean $m_k$ and nonzero variance
$s_k^2$ over the tokens. Normalizing the features, with scale $g$ and shift $b$, is a right factor
and a rank-one shift:

$$
\Bigl( g_k \frac{Y_{ik} - m_k}{s_k} + b_k \Bigr)_{ik} = Y A + \mathbf 1 c^\top,
$$

$$
A = \operatorname{diag}(g_k / s_k),
$$

$$
c_k = b_k - g_k m_k / s_k .
$$

$A$ and $c$ depend on $X$. Behind attention they merge into the value maps,
$\sum_h P_h X W_h A + \mathbf 1 c^\top$ if $Y = \sum_h P_h X W_h$, and all attention matrices stay.
""",
        sources=(Source(DONG, "Section 3, read with statistics of each column of SA(X)"),),
        here="the reading, and why it is another operation than that of transformers",
        notebook="layernorm",
        reads="layernorm.as-printed",
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
