"""The entropy of attention and its floor."""

from attnverify.verification.claim import Claim, Reading, Source

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
is at least the floor of {claim}`entropy.lower-bound` at this $\sigma$. For symmetric $W$,
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
    Claim(
        id="entropy.spread",
        title="The entropy floor of a row of given spread",
        kind="theorem",
        statement=r"""
Let $T \ge 2$, $D > 0$, let $q$ be a row of $T$ positive weights of sum 1 and
$p_j = q_j e^{e_j} / \sum_k q_k e^{e_k}$ with $\max e - \min e \le D$. Put
$a = D/(1 - e^{-D})$ and, for $0 < s < 1$ and $P = s e^D/(1 - s + s e^D)$,

$$
K(s, D) = P D - {\log(1 - s + s e^D)},
$$

$$
c(D) = a - 1 - \log a .
$$

Then $\operatorname{KL}(p \,\Vert\, q) \le \max_S K(q(S), D) \le c(D) \le \tfrac18 D^2$ with the
maximum over all sets $S$ of tokens but the empty one and the whole row; the first is an equality
for $e = D$ on a best $S$ and $e = 0$ elsewhere and, up to a common constant, for no other $e$.

For $q$ uniform: a softmax row whose logits spread by at most $D$ has an entropy of at least
$\log T - \max_{1 \le k < T} K(\tfrac kT, D) \ge \log T - c(D)$. The best $k$ is one of the two
whole numbers next to $T s^*$, $s^* = (a - 1)/(e^D - 1) < \tfrac12$, and the last bound is attained
exactly if $T s^*$ is whole. As $D$ grows $c(D) - (D - 1 - \log D)$ tends to 0.
""",
        sources=(Source("dong2020", "mechanisms of bounded range", related=True),),
        here="the best set, when it is attained, and the proof",
        notebook="entropy-spread",
    ),
    Claim(
        id="entropy.spectral",
        title="Two entropy floors with the spectral norm, exact for every matrix",
        kind="theorem",
        statement=r"""
Let $T \ge 2$, $\lambda > 0$, $W \in \mathbb{R}^{d \times d}$, $X \in \mathbb{R}^{T \times d}$
with rows $x_i$, and $X_c = X - \mathbf 1 \bar x^\top$. The entropy of
$\operatorname{softmax}(X W x_T/\lambda)$ is at least the floor of {claim}`entropy.lower-bound` at
$\sigma_c$ and at least $\log T - \max_{1 \le k < T} K(\tfrac kT, D)$, the one of
{claim}`entropy.spread`,
with $K(s, 0) = 0$ and

$$
\sigma_c = \frac{\lVert W \rVert_2 \lVert x_T \rVert_2 \lVert X_c \rVert_2}{\lambda},
$$

$$
D = \frac{\lVert W \rVert_2 \lVert x_T \rVert_2 \operatorname{diam}(X)}{\lambda}
\le \sqrt2\,\sigma_c .
$$

Both are exact for every $W \ne 0$: given $W$, $\lambda$, $T$, $q > 0$ and $s > 0$ there are tokens
with $\lVert x_T \rVert_2 = q$ and $\lVert X_c \rVert_2 = s$ whose row has the first floor as its
entropy, and tokens with $\lVert x_T \rVert_2 = q$ and $\operatorname{diam}(X) = s$ whose row has
the second. $\sigma_c$ is at most the $\sigma$ of {claim}`entropy.eigenspectrum`, and at most
$\sigma/\sqrt d$ for $W = \alpha I$. The second floor is $\log T$ less at most $c(D) < D$,
whatever $T$ is, for $D > 0$.
""",
        sources=(Source(ZHAI, "Theorem 3.1, a tight floor in the spectral norm", related=True),),
        here="centered tokens, the length of the query, exactness for every W, the second floor",
        uses=("entropy.lower-bound", "entropy.spread", "entropy.eigenspectrum"),
        sharpens="entropy.eigenspectrum",
        notebook="entropy-spread",
    ),
    Claim(
        id="entropy.blocks",
        title="The entropy of blocks that are read together",
        kind="theorem",
        statement=r"""
Let the keys of a row be split into $B \ge 2$ blocks. Let $F_b = \log \sum_{j \in b} e^{z_j}$,
$W = \operatorname{softmax}(F)$ and $H_b$ the entropy of the softmax of block $b$ alone. The entropy
of the whole row is

$$
H = H(W) + \sum_b W_b H_b \le \log \sum_b e^{H_b} ,
$$

with equality exactly if $W_b$ is proportional to $e^{H_b}$. If no two $F_b$ differ by more than
$D > 0$, then with $K$ and $c$ of {claim}`entropy.spread`

$$
H \ge \sum_b W_b H_b + \log B - \max_{1 \le k < B} K(\tfrac kB, D)
\ge \min_b H_b + \log B - c(D) ,
$$

and the first is attained. Blocks of equal $F_b$ have $H = \log B + \frac1B \sum_b H_b$.
""",
        sources=(Source("zhang2025parallel", "the abstract", related=True),),
        here="statement and proof",
        uses=("entropy.spread",),
        notebook="parallel-contexts",
    ),
    Claim(
        id="entropy.selection",
        title="Keeping the heaviest block can raise the entropy",
        kind="counterexample",
        statement=r"""
In {claim}`entropy.blocks` keep block 1 alone. Its entropy is $H_1 \le H / W_1$. For every
$0 < W_1 < 1$ no factor smaller than $1/W_1$ holds, since two blocks with $H_2 = 0$ have
$H_1 / H \to 1 / W_1$ as $H_1 \to \infty$. For two blocks $H_1 > H$ exactly if
$H(W) < W_2 (H_1 - H_2)$. It is so for 100 equal keys of weight $\frac35$ together beside one key
of weight $\frac25$: $H = H(\frac35, \frac25) + \frac35 \log 100 < \log 100 = H_1$.
""",
        sources=(Source("zhang2025parallel", "the abstract", related=True),),
        here="statement and proof",
        uses=("entropy.blocks",),
        notebook="parallel-contexts",
        refutes=(
            Reading(
                says="To keep only the context with the largest weight lowers the entropy.",
                near="zhang2025parallel",
                instance="100 equal keys beside one key.",
                check="raised",
                holds="entropy.blocks",
            ),
        ),
    ),
]
