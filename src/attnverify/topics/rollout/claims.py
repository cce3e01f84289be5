"""One linear operator of the tokens, attention rollout as a path sum, relevance propagation."""

from attnverify.verification.claim import Claim, Reading, Source

ABNAR = "abnar2020"

CLAIMS = [
    Claim(
        id="rollout.operator",
        title="Held, a network is one linear operator with parts by token",
        kind="theorem",
        statement=r"""
Hold the row-stochastic attention matrices $P^l_h$ of a network with skip connections, whose biases
add up to $\mathbf 1 b^\top$ ({claim}`paths.skip-decomposition`). Let $A_p$ and $B_p$ be the
products of the matrices of path $p$, and $K_{ij} = \sum_p (A_p)_{ij} B_p$. Output token $i$ is
$\sum_j x_j K_{ij} + b^\top$, and

$$
\sum_j K_{ij} = \prod_{l=1}^{L} \Bigl(I + \sum_h W^l_h\Bigr) \quad \text{for every } i .
$$

For a number $y = \langle C, \sum_p A_p X B_p \rangle$ of the output without biases let $C_L = C$
and $C_{l-1} = C_l + \sum_h (P^l_h)^\top C_l (W^l_h)^\top$. The *part* of input token $j$ is

$$
T_j = \Bigl\langle C, \sum_p A_p e_j x_j B_p \Bigr\rangle = \langle (C_0)_j, x_j \rangle ,
\qquad y = \sum_j T_j ,
$$

so the $L$ steps back give the parts of all tokens, with $HL$ products $P^\top C\, W^\top$. The
terms of all paths through the step from $i$ to $j$ in head $h$ of layer $l$ add up to
$(P^l_h)_{ij}\, \partial y / \partial (P^l_h)_{ij}$, if $y$ is this sum over paths and all other
attention is held.
""",
        here="statement and proof; that a held network is linear is well known",
        uses=("paths.skip-decomposition", "paths.stochastic-product"),
        notebook="rollout",
    ),
    Claim(
        id="rollout.lengths",
        title="Rollout is a path sum with fixed weights, and its lengths have a fixed law",
        kind="theorem",
        statement=r"""
Let $A_l = \frac1H \sum_h P^l_h$ with row-stochastic $P^l_h$, $0 \le a_l \le 1$ and
$R = M_L \cdots M_1$ with $M_l = a_l A_l + (1 - a_l) I$. Attention rollout has $a_l = \frac12$. Then
$R = \sum_p \rho_p A_p$, over the paths of {claim}`paths.skip-decomposition`, with

$$
\rho_p = \prod_{l:\, h_l > 0} \frac{a_l}H \prod_{l:\, h_l = 0} (1 - a_l) .
$$

In every row of $R$ the terms of length $\ell$ add up to $\Pr(N = \ell)$, whatever the attention.
Here $N$ counts the successes of $L$ independent trials with chances $a_l$: its mean is
$\sum_l a_l$, its variance $\sum_l a_l (1 - a_l)$. For $a_l = \frac12$,
$\Pr(N = \ell) = \binom L\ell 2^{-L}$, and for
$0 \le \ell \le \frac L2$ with the entropy $\eta(x) = -x \log_2 x - (1 - x) \log_2(1 - x)$, and
$\eta(0) = 0$,

$$
\frac{2^{-L(1 - \eta(\ell/L))}}{L + 1} \le \Pr(N \le \ell) \le 2^{-L(1 - \eta(\ell/L))} .
$$

The right side is attained at $\ell = 0$.
""",
        sources=(Source(ABNAR, "attention rollout", related=True),),
        here="statement and proof; the bounds of binomial tails are classical",
        uses=("paths.skip-decomposition", "paths.stochastic-product"),
        notebook="rollout",
    ),
    Claim(
        id="rollout.order",
        title="When rollout orders two tokens correctly",
        kind="theorem",
        statement=r"""
In {claim}`rollout.operator` let $y = \langle c, y_i \rangle$ read output token $i$, without biases,
and let $v_p(j) = H^{\lvert p \rvert} \langle c, x_j B_p \rangle$, with $\lvert p \rvert$ the length
of $p$. If $0 < \alpha \le v_p(j) \le \beta$ for all paths $p$ and tokens $j$, then rollout $R$ with
$a_l = \frac12$ satisfies

$$
2^L \alpha\, R_{ij} \le T_j \le 2^L \beta\, R_{ij} ,
\qquad
\beta\, R_{ik} T_j \ge \alpha\, R_{ij} T_k ,
$$

so $R_{ij} > \frac\beta\alpha R_{ik}$ implies $T_j > T_k$.

*Gains.* Let $W^l_h = \frac{w_l}H I$ with $w_l > 0$, and let all $\langle c, x_j \rangle$ be equal
and positive. Then the best $\alpha$ and $\beta$ have
$\frac\beta\alpha = \prod_l \max(w_l, \frac1{w_l})$. For all $w_1, \dots, w_L$ the last inequality
is attained by row-stochastic $P^l_h$, with $R_{ij} = R_{ik} > 0$ and $2^L$ tokens of which each
attends to one. If some $w_l \ge 1$, no smaller factor implies the order for all attention: there
are $2^L + 1$ tokens with $R_{ij} = \frac\beta\alpha R_{ik} > 0$ and $T_j = T_k$.

*Signs.* Without $\alpha > 0$ no share of rollout is large enough. For every $\frac12 < s < 1$ there
is one layer with one head in which $R_{ii} = s$ and $T_i = 0 < T_k$ for some $k$.
""",
        sources=(Source(ABNAR, "attention rollout", related=True),),
        here="statement and proof",
        uses=("rollout.operator", "rollout.lengths"),
        notebook="rollout",
        refutes=(
            Reading(
                says="A token with more than half of a row of rollout has a part in that output.",
                near="abnar2020",
                instance="One layer with one head, in which the part of such a token is 0.",
                check="signs",
                holds="rollout.order",
            ),
        ),
    ),
    Claim(
        id="rollout.shares",
        title="How far rollout can be from the shares, exactly",
        kind="theorem",
        statement=r"""
Let layer $l$ map $X$ to $X + w_l A_l X$ with $w_l > 0$ and row-stochastic $A_l$. Output token $i$
is $\prod_l (1 + w_l) \sum_j t_{ij} x_j$, and its *shares* $t_{ij}$ are general rollout with
$a_l = w_l/(1 + w_l)$. Against rollout $R$ with $a_l = \frac12$

$$
\frac12 \sum_j \lvert t_{ij} - R_{ij} \rvert \le \frac12 \sum_{S \subseteq \{1, \dots, L\}}
\Bigl\lvert \prod_{l \in S} a_l \prod_{l \notin S} (1 - a_l) - 2^{-L} \Bigr\rvert .
$$

For all $w_1, \dots, w_L$ this is attained, with $2^L$ tokens of which each attends to one. If all
$w_l = w$, the right side is the distance $\frac12 \sum_\ell \binom L\ell \lvert a^\ell
(1 - a)^{L - \ell} - 2^{-L} \rvert$ of two binomial laws, $L + 1$ tokens attain it, and it tends to
1 with the depth unless $w = 1$.
""",
        sources=(Source(ABNAR, "attention rollout", related=True),),
        here="statement and proof",
        uses=("rollout.lengths",),
        notebook="rollout",
    ),
    Claim(
        id="rollout.relevance",
        title="Relevance propagation weighs a path by the unit of the output, and drops paths",
        kind="theorem",
        statement=r"""
Let $G^l_h = P^l_h \odot \partial y / \partial P^l_h$, entry by entry, or any matrices, and
$R = M_L \cdots M_1$ with $M_l = I + \frac1H \sum_h (G^l_h)^+$, where $x^+ = \max(x, 0)$. Let
$(G^l_0)^+ = I$. Then over all paths

$$
R = \sum_p H^{-\lvert p \rvert} (G^L_{h_L})^+ \cdots (G^1_{h_1})^+ .
$$

- *Unit.* For $s > 0$ the number $s y$ in place of $y$ multiplies the term of a path by
  $s^{\lvert p \rvert}$, but the part of each token by $s$. So the order of two tokens may depend on
  $s$: in a network of two layers and four tokens it is reversed between $y$ and $2y$.
- *Dropped.* A term vanishes where one of its factors does: a path from token to token is left out
  as soon as one of its steps has $G \le 0$, also if its own term in $y$ is positive. There are a
  network of two layers and a number $y$, with parts $0, -3, 2$ of three tokens, whose relevance is
  $1, 0, 0$.
""",
        sources=(
            Source(
                "chefer2021", "the rule for self-attention, as published code has it", related=True
            ),
        ),
        here="statement and proof",
        uses=("rollout.operator",),
        notebook="rollout",
        refutes=(
            Reading(
                says="Relevance orders two tokens in one way, whatever the unit of the output.",
                near="chefer2021",
                instance="Two layers and four tokens.",
                check="reversed",
                holds="rollout.operator",
            ),
            Reading(
                says="A token with a positive part in the output has a positive relevance.",
                near="chefer2021",
                instance="Two layers and three tokens.",
                check="dropped",
                holds="rollout.operator",
            ),
        ),
    ),
]
