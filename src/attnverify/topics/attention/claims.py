"""Attention: what a layer does not see, and the reduction of its biases."""

from attnverify.verification.claim import Claim, Source

DONG = "dong2021"

CLAIMS = [
    Claim(
        id="attention.shift-invariance",
        title="Softmax ignores a constant in a row of logits",
        kind="lemma",
        statement=r"""
For every row $z \in \mathbb{R}^n$ of logits and every real $c$,
$\operatorname{softmax}(z + c\mathbf 1) = \operatorname{softmax}(z)$.
""",
        sources=(Source(DONG, "Section 2"),),
        notebook="attention",
    ),
    Claim(
        id="attention.qk-reduction",
        title="Two of the four bias terms drop out",
        kind="lemma",
        statement=r"""
For $X \in \mathbb{R}^{n \times d}$, $W_Q, W_K \in \mathbb{R}^{d \times d_{qk}}$ and
$b_Q, b_K \in \mathbb{R}^{d_{qk}}$ put $W_{QK} = W_Q W_K^\top$ and $b_{QK} = W_K b_Q$. Then

$$
\operatorname{softmax}\!\left(\frac{(X W_Q + \mathbf 1 b_Q^\top)(X W_K + \mathbf 1 b_K^\top)^\top}
{\sqrt{d_{qk}}}\right)
= \operatorname{softmax}\!\left(\frac{(X W_{QK} + \mathbf 1 b_{QK}^\top) X^\top}
{\sqrt{d_{qk}}}\right)
$$

with the softmax taken in each row: the key bias $b_K$ has no effect.
""",
        sources=(Source(DONG, "Section 2"),),
        uses=("attention.shift-invariance",),
        notebook="attention",
    ),
]
