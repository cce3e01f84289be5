"""The path decomposition: terms, their number, their sums by length."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="paths.stochastic-product",
        title="Products of row-stochastic matrices are row-stochastic",
        kind="lemma",
        statement=r"""
If $P, Q \in \mathbb{R}^{n \times n}$ have non-negative entries and $P\mathbf 1 = Q\mathbf 1 =
\mathbf 1$, then so has $PQ$. Consequently $P \mathbf 1 b^\top = \mathbf 1 b^\top$ for every
$b \in \mathbb{R}^d$.
""",
        sources=(Source(DONG, "Section 2"),),
        notebook="path-theorem",
    ),
    Claim(
        id="paths.decomposition",
        title="A self-attention network is a sum over paths",
        kind="theorem",
        statement=r"""
Let layer $l = 1, \dots, L$ map $X$ to $\sum_{h=1}^H P^l_h X W^l_h + \mathbf 1 b_l^\top$, with
$P^l_h$ the attention matrices of the forward pass and $W^l_h = W^l_{V,h} W^l_{O,h}$. Then

$$
\mathrm{SAN}(X) = \sum_{\substack{(h_1, \dots, h_L) \\ \in [H]^L}}
P^L_{h_L} \cdots P^1_{h_1}\, X\, W^1_{h_1} \cdots W^L_{h_L} + \mathbf 1 b^\top,
$$

$$
b^\top = \sum_{l=1}^{L} b_l^\top \prod_{m=l+1}^{L} \Bigl(\sum_{h=1}^H W^m_h\Bigr).
$$

The factors of the product stand in the order of the layers.
""",
        sources=(Source(DONG, "Theorem 2.1"),),
        here="the closed form of b",
        uses=("paths.stochastic-product",),
        notebook="path-theorem",
    ),
    Claim(
        id="paths.skip-decomposition",
        title="Skip connections add the index 0",
        kind="theorem",
        statement=r"""
If layer $l$ maps $X$ to $X + \sum_h P^l_h X W^l_h + \mathbf 1 b_l^\top$, then

$$
\mathrm{SAN}(X) = \sum_{\substack{(h_1, \dots, h_L) \\ \in ([H] \cup \{0\})^L}}
P^L_{h_L} \cdots P^1_{h_1}\, X\, W^1_{h_1} \cdots W^L_{h_L} + \mathbf 1 b^\top,
$$

$$
b^\top = \sum_{l=1}^{L} b_l^\top \prod_{m=l+1}^{L} {\Bigl(I + \sum_{h=1}^H W^m_h\Bigr)},
$$

where $P^l_0 = I$ and $W^l_0 = I$ for every layer $l$.
""",
        sources=(Source(DONG, "Section 3"),),
        here="the closed form of b",
        uses=("paths.decomposition",),
        notebook="path-theorem",
    ),
    Claim(
        id="paths.count",
        title="How many paths of each length",
        kind="proposition",
        statement=r"""
Call the number of nonzero indices of a path its length. With skip connections there are
$\binom{L}{\ell} H^\ell$ paths of length $\ell$, and $(1 + H)^L$ paths in all.
""",
        sources=(Source(DONG, "Section 3"),),
        uses=("paths.skip-decomposition",),
        notebook="path-lengths",
    ),
    Claim(
        id="paths.length-recursion",
        title="All sums by length in O(L²H) products",
        kind="theorem",
        statement=r"""
Let $S^{(l)}_\ell$ be the sum of the terms of all paths of length $\ell$ through the first $l$
layers, so $S^{(0)}_0 = X$. Then

$$
S^{(l+1)}_\ell = S^{(l)}_\ell + \sum_{h=1}^H P^{l+1}_h\, S^{(l)}_{\ell - 1}\, W^{l+1}_h ,
$$

$$
S^{(l)}_{-1} = 0 .
$$

All $L + 1$ sums therefore cost $H L (L + 1) / 2$ products $P\,S\,W$, not $(1 + H)^L$ terms.
""",
        here="statement and proof",
        uses=("paths.skip-decomposition", "paths.count"),
        notebook="path-lengths",
    ),
    Claim(
        id="paths.energy",
        title="The energy of all paths, and a bound of each",
        kind="lemma",
        statement=r"""
Let the indices of layer $l$ be its heads and, with a skip connection, 0. Let $\Lambda^l_h$ be the
matrix of index $h$ on tokens written as one column: $\Lambda^l_h \operatorname{vec} Y =
\operatorname{vec}(P^l_h Y W^l_h)$, and $\Lambda^l_0 = I$. Let $c_p = \langle C, A_p X B_p \rangle$
be the contribution of path $p$ to a covector $C \in \mathbb{R}^{n \times d}$, where $A_p$ and $B_p$
are the products of its matrices. With $G_0 = \operatorname{vec}X\,(\operatorname{vec}X)^\top$ and
$G_l = \sum_h \Lambda^l_h\, G_{l-1}\, (\Lambda^l_h)^\top$,

$$
\sum_p c_p^2 = (\operatorname{vec} C)^\top G_L \operatorname{vec} C ,
\qquad
\max_p c_p^2 \le (\operatorname{vec} C)^\top G_L \operatorname{vec} C ,
$$

for any depth, any heads and any matrices.
""",
        here="statement and proof",
        uses=("paths.skip-decomposition",),
        notebook="path-lengths",
    ),
]
