"""The spectral gap: first singular value, the centered matrix, removal, single large weights."""

from attnverify.verification.claim import Claim, Reading, Source

NAIT = Source("naitsaada2025", "spectral gap, removal of outlier eigenvalues", related=True)
MARKOV = Source("bordenave2012", "eigenvalues and edge of random Markov matrices", related=True)
BRAUER = Source("brauer1952", "the eigenvalues after the removal", related=True)
SCHUR = Source("schur1911", "the bound by the largest total", related=True)

CLAIMS = [
    Claim(
        id="gap.perron",
        title="Unequal totals raise the first singular value; removal moves one eigenvalue",
        kind="theorem",
        statement=r"""
Let $A$ be a row-stochastic $n \times n$ matrix with the totals $t_j = \sum_i A_{ij}$ of its keys
and the singular values $s_1 \ge s_2 \ge \dots$ Then

$$
1 + \frac1n \sum_j (t_j - 1)^2 \;\le\; s_1^2 \;\le\; \max_j t_j \;\le\; n .
$$

So $s_1 \ge 1$, with equality exactly if $A$ is doubly stochastic, and $s_1^2 = n$ exactly if all
weight is on one key. The first bound is attained by every $A$ with equal rows, the second by every
$A$ whose rows are all uniform on the same $k$ keys, where $s_1^2 = n/k$.

*Eigenvalues.* For every square $A$ with $A \mathbf 1 = \mathbf 1$ (real or complex, of any signs),
every $u$ and every $c$

$$
(\lambda - 1) \det(\lambda I - A + c\, \mathbf 1 u^\top)
= (\lambda - 1 + c\, u^\top \mathbf 1) \det(\lambda I - A) .
$$

So subtracting $c\, \mathbf 1 u^\top$ moves one eigenvalue from $1$ to $1 - c\, u^\top \mathbf 1$
and leaves the others, with their algebraic multiplicities.
""",
        sources=(NAIT, BRAUER, SCHUR),
        here="the lower bound, the equality cases, and the proof",
        notebook="spectral-gap",
        refutes=(
            Reading(
                says="The first singular value of an attention matrix is 1.",
                near="naitsaada2025",
                instance="Keys with unequal totals.",
                check="largest total",
                holds="gap.perron",
                twin="at most 1, as for doubly stochastic attention",
            ),
        ),
    ),
    Claim(
        id="gap.center",
        title="The rate of the centered output lies between s2 and s1 s2",
        kind="theorem",
        statement=r"""
Let $A$ be a row-stochastic $n \times n$ matrix, $n \ge 2$, and
$C = I - \frac1n \mathbf 1 \mathbf 1^\top$. Then $C A = C A C$, and for every
$X \in \mathbb{R}^{n \times d}$

$$
\lVert C A X \rVert_F \le \lVert C A \rVert_2\, \lVert C X \rVert_F , \qquad
s_2(A) \;\le\; \lVert C A \rVert_2 \;\le\; s_1(A)\, s_2(A) .
$$

The first is attained for every $A$ and every $d \ge 1$ by some $X$ with $C X \ne 0$. Every doubly
stochastic $A$ attains both others, since $s_1 = 1$. The upper bound is also attained by every
$A = \frac1n \mathbf 1 \mathbf 1^\top + a w^\top$ with a row $w^\top$ of sum 0, whose rows lie on
one line through $\frac1n \mathbf 1$. So it is an equality whenever $n = 2$.
With {claim}`gap.perron`, $s_2 \le \lVert C A \rVert_2 \le s_2 \sqrt{\max_j t_j}$.
""",
        sources=(NAIT,),
        here="statement and proof",
        uses=("gap.perron",),
        notebook="spectral-gap",
        refutes=(
            Reading(
                says="The second singular value is the rate at which the centered output shrinks.",
                near="naitsaada2025",
                instance="Two tokens whose rows lean to one key.",
                check="centered output",
                holds="gap.center",
                twin="the second singular value as the rate",
            ),
        ),
    ),
    Claim(
        id="gap.removal",
        title="Removing a common row changes the mean token and no difference",
        kind="theorem",
        statement=r"""
Let every head of a layer without a mask subtract a row from its attention,
$Y = \sum_h (A_h - \mathbf 1 u_h^\top) X W_h$, where $u_h$ may depend on $X$. All differences
$y_i - y_k$ are those of ordinary attention. So for every $X$, all heads and all biases of
queries and keys

$$
\operatorname{diam}(Y) \le \operatorname{diam}(X) \sum_h \lVert W_h \rVert_2 \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr) ,
$$

with equality for the two tokens of {claim}`collapse.sharp-layer`. *What is left.* With the mean row
$\bar a = \frac1n A^\top \mathbf 1$ of a row-stochastic $n \times n$ matrix $A$

$$
(A - \mathbf 1 u^\top)^\top (A - \mathbf 1 u^\top)
= A^\top C A + n\, (\bar a - u) (\bar a - u)^\top .
$$

So $\lVert A - \mathbf 1 u^\top \rVert_2$ is least for $u = \bar a$, where it is
$\lVert C A \rVert_2$. *Two tokens.* Let $A$ have the rows $(p, 1 - p)$ and $(q, 1 - q)$,
$\tau = p - q$ and $\beta = p + q - 1$. Then $\lVert C A \rVert_2 = |\tau|$ and

$$
\bigl\lVert A - \tfrac12 \mathbf 1 \mathbf 1^\top \bigr\rVert_2^2 = \tau^2 + \beta^2 \le 1 , \qquad
\langle y_1, y_2 \rangle = \tfrac14 (\beta^2 - \tau^2)\, \lVert x_1 - x_2 \rVert^2
$$

for $Y = (A - \frac12 \mathbf 1 \mathbf 1^\top) X$: both outputs point the same way if
$|\beta| > |\tau|$, and opposite ways if $|\beta| < |\tau|$, for $x_1 \ne x_2$.
""",
        sources=(NAIT,),
        here="statement and proof",
        uses=("collapse.sharp-layer",),
        notebook="spectral-gap",
        refutes=(
            Reading(
                says=r"Of all common rows, $\frac1n \mathbf 1^\top$ is the best one to remove.",
                near="naitsaada2025",
                instance="A matrix whose mean row is another one.",
                check="least",
                holds="gap.removal",
                twin="u = 1/n is best",
            ),
        ),
    ),
    Claim(
        id="gap.second",
        title="One large weight bounds s1 s2 from below",
        kind="theorem",
        statement=r"""
Let $A$ be a row-stochastic $n \times n$ matrix, $n \ge 2$. For every query $i$ and key $j$, with
the mean $m_{ij} = \frac{t_j - A_{ij}}{n - 1}$ of the other queries' weights of this key

$$
\lvert A_{ij} - m_{ij} \rvert \;\le\; \lVert C A \rVert_2 \;\le\; s_1(A)\, s_2(A) .
$$

For every $n$ and all $p, q \in [0, 1]$ both are equalities if query $i$ has the weight $p$ on key
$j$, all others have $q$, and each query weighs its other keys equally.

*Random logits.* Let $A$ be the softmax of $n^2$ independent $N(0, \sigma^2)$ logits, $\sigma > 0$,
without a mask. Let $0 < \theta < \sqrt n$, $0 < \epsilon < 1$, and let $\Phi$ be the standard
normal distribution function. With $\omega = \theta/\sqrt n$ and
$x_\pm = \log \bigl( (1 \pm \epsilon)(n - 1)\, e^{\sigma^2/2}\, \frac{\omega}{1 - \omega} \bigr)$

$$
1 - \Phi\bigl( \tfrac{x_+}\sigma \bigr)^{n^2} - \frac{e^{\sigma^2}}{\epsilon^2 (n - 1)}
\;\le\; P\bigl( \sqrt n \max_{i,j} A_{ij} \ge \theta \bigr) \;\le\;
n^2 \Bigl( \Phi\bigl( \tfrac{-x_-}\sigma \bigr) + e^{-\epsilon^2 (n - 1) e^{-\sigma^2}/2} \Bigr) .
$$

For every $\eta > 0$, $P(\sqrt n\, s_1 s_2 \ge \theta - \eta)$ is at least the first bound less
$\frac1{\eta \sqrt n}$.

*Numbers.* Let $v = \sqrt{e^{\sigma^2} - 1}$. For $\sigma = 1$,
$\sqrt n \max A_{ij} \ge v$ has a probability of at least $0.85$ at $n = 10^4$ and of at most $0.16$
at $n = 2 \cdot 10^5$. For $\sigma = \frac32$, $\sqrt n \max A_{ij} \ge 2 v$ has one of at least
$0.99$ at $n = 10^4$ and at $n = 10^6$, so $\sqrt n\, s_1 s_2 \ge 2 v - 0.1$ one of at least
$0.98$ at $n = 10^6$.
""",
        sources=(NAIT, MARKOV),
        here="statement and proof",
        uses=("gap.center",),
        notebook="spectral-gap",
        refutes=(
            Reading(
                says=(
                    r"For independent $N(0, \sigma^2)$ logits single weights can be neglected "
                    r"beside the edge $2 \sqrt{e^{\sigma^2} - 1}/\sqrt n$, at all lengths in use."
                ),
                near="naitsaada2025",
                instance=(
                    r"At $\sigma = \frac32$ one weight reaches the edge with a probability of at "
                    r"least $0.99$, for $n = 10^4$ and $10^6$. At $\sigma = 1$ one reaches half of"
                    " it with at least $0.85$, for $n = 10^4$."
                ),
                check="numbers",
                holds="gap.second",
            ),
        ),
    ),
]
