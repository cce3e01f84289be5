"""The entropy of attention and its floor."""

from attnverify.claims.model import Claim, Source

BAO, ZHAI = "bao2024", "zhai2023"

CLAIMS = [
    Claim(
        id="entropy.lower-bound",
        title="The entropy floor of a softmax row",
        kind="theorem",
        statement=r"""
Let $T \ge 2$, $u \in \mathbb{R}^T$ with $\lVert u \rVert_2 \le \sigma$, and
$\Delta = \sigma \sqrt{T/(T-1)}$. The entropy of $\operatorname{softmax}(u)$ is at least

$$
\log\bigl(1 + (T-1) e^{-\Delta}\bigr) + \frac{\Delta\, (T-1)\, e^{-\Delta}}{1 + (T-1) e^{-\Delta}} ,
$$

with equality for $u = \frac{\sigma}{\sqrt{T(T-1)}}\,(T-1, -1, \dots, -1)$ and, up to the order of
the logits, for no other row. The floor strictly decreases in $\sigma$.
""",
        sources=(Source(ZHAI, "Theorem 3.1"),),
        here="a proof that compares all critical rows",
        notebook="entropy",
    ),
    Claim(
        id="entropy.eigenspectrum",
        title="A smaller spectrum raises the entropy floor",
        kind="proposition",
        statement=r"""
Let $T \ge 2$, $\lambda > 0$, $W \in \mathbb{R}^{d \times d}$ and $X \in \mathbb{R}^{T \times d}$
with rows $x_i$. The logits $u = X W x_T / \lambda$ of the last token's row have norm at most
$\sigma = \lVert W \rVert_F \lVert x_T \rVert_2 \lVert X \rVert_2 / \lambda$, so the row's entropy
is at least the floor of `entropy.lower-bound` at this $\sigma$. For symmetric $W$,
$\lVert W \rVert_F = \sqrt{\operatorname{tr}(W^2)}$: at given tokens, $x_T \ne 0$, and given
$\lambda$ the floor strictly rises as $\operatorname{tr}(W^2)$ shrinks. Equality is attained with
$W = g\, e e^\top$ and the tokens $x_1 = \dots = x_{T-1} = -e$, $x_T = (T-1)\, e$, for every unit
vector $e$ and $g > 0$.
""",
        sources=(Source(BAO, "entropy and the eigenspectrum"), Source(ZHAI, "Theorem 3.1")),
        here="the equality case",
        uses=("entropy.lower-bound",),
        notebook="entropy",
    ),
]
