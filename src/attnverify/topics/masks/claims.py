"""Masks as graphs: rates of collapse when every allowed key has at least some weight."""

from attnverify.verification.claim import Claim, Reading, Source

WU = Source("wu2024", "masks as graphs, collapse for bounded weights", related=True)

CLAIMS = [
    Claim(
        id="masks.collapse-rate",
        title="Under a mask with a center tokens collapse, at a rate that its radius sets",
        kind="theorem",
        statement=r"""
Let a mask let token $i$ see the tokens of a set $N(i)$ that contains $i$. Let $c$ be a *center of
radius* $r \ge 1$: every token reaches $c$ by at most $r$ steps $i \to j$ with $j \in N(i)$. Let the
*pair radius* $s \ge 1$ be such that any two tokens reach a common one by at most $s$ steps each;
$s = r$ will do. Let $P_1, \dots, P_L$ be row-stochastic with $(P_l)_{ij} \ge \epsilon > 0$ for
$j \in N(i)$ and $(P_l)_{ij} = 0$ for all other $j$, and $\tau$ the contraction coefficient.

- *Any mask.* $\tau(P_s \cdots P_1) \le 1 - \epsilon^s$. A network of $L$ layers
  $X \mapsto \sum_h P_{l,h} X W_{l,h}$ whose attention matrices all have these properties satisfies

$$
\operatorname{diam}(\mathrm{SAN}(X)) \le (1 - \epsilon^s)^{\lfloor L/s \rfloor}
\prod_{l=1}^{L} \sum_h \lVert W_{l,h} \rVert_2\; \operatorname{diam}(X) .
$$

  Without a center no $s$ exists, and $\tau = 1$ for every number of layers.
- *One way.* If no token sees a token that is more steps away from $c$ than itself, then for all $L$

$$
\tau(P_L \cdots P_1) \le \sum_{k=0}^{r-1} \binom Lk \epsilon^k (1 - \epsilon)^{L-k} .
$$

- *Sharp.* For every $r$ and $\epsilon \le \frac12$ a causal window of two tokens, with the weight
  $\epsilon$ on the token before and $n = r + 1$, gives equality in both bounds of $\tau$, in the
  second for every $L$. A ring of five tokens has $r = 2$ and $s = 1$; with the weight
  $\epsilon \le \frac13$ on either neighbor it gives equality in the first.
""",
        sources=(Source("wu2024", "Theorem 1: the bound for any mask with s = r", related=True),),
        here="the pair radius, the bound one way, the sharp cases, and the proof",
        uses=("norms.diameter", "paths.stochastic-product", "paths.decomposition"),
        notebook="masks-graphs",
        refutes=(
            Reading(
                says="Weights that stay above a bound make tokens alike under every mask.",
                near="wu2024",
                instance="Two halves that do not see each other.",
                check="window of two",
                holds="masks.collapse-rate",
                twin="two parts without a center",
            ),
            Reading(
                says=(
                    r"With weights of at least $\epsilon$ the share $(1 - \epsilon)^L$ bounds what"
                    " $L$ layers leave, for every mask with a center."
                ),
                near="wu2024",
                instance="A causal window of two tokens.",
                check="one way",
                holds="masks.collapse-rate",
                twin="rate (1 - epsilon)^L whatever r is",
            ),
        ),
    ),
    Claim(
        id="masks.weights-from-norms",
        title="The least weight from the norms of inputs and query-key matrices",
        kind="theorem",
        statement=r"""
A row of softmax over $m$ scores that oscillate by at most $a$ has no weight below
$1/(1 + (m - 1) e^a)$, and this is attained. One head, one $d_{qk}$, no biases, no positions: let
every token see at most $m$ keys, $R = \max_i \lVert x_i \rVert_2$, $\delta =
\operatorname{diam}(X)$. Every allowed weight is at least

$$
\epsilon(X) = \frac1{1 + (m - 1)\, e^{a}} , \qquad
a = \frac{R\, \lVert W_{QK} \rVert_2\, \delta}{\sqrt{d_{qk}}} ,
$$

attained for all $m \ge 2$, $R > 0$, $0 < \delta \le 2R$ and $\lVert W_{QK} \rVert_2$. If
$\lVert W_V \rVert_2 \le 1$ and $\lVert W_{QK} \rVert_2 \le q$ in all layers, neither $R$ nor
$\delta$ grows. So $\epsilon(X)$, with $q$, serves {claim}`masks.collapse-rate` in all layers: under
every mask with a center the diameter tends to 0, from every input.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("masks.collapse-rate", "norms.diameter", "attention.shift-invariance"),
        notebook="masks-graphs",
    ),
    Claim(
        id="masks.local-slows",
        title="Local masks need more layers: two largest rates, and one of a ring",
        kind="theorem",
        statement=r"""
Let every allowed weight be at least $\epsilon > 0$, and $n \ge 2$.

- *All keys.* Without a mask $\tau(P) \le 1 - n\epsilon$, with equality for
  $P = \epsilon \mathbf 1 \mathbf 1^\top + (1 - n\epsilon) I$.
- *A causal window* of $w \ge 2$ tokens (for $w \ge n$ the causal mask): the largest
  $\tau(P_L \cdots P_1)$ is $u^{(L)}_n$, where $u^{(0)}_1 = 0$, $u^{(0)}_i = 1$ for $i > 1$, and

$$
u^{(l+1)}_i = u^{(l)}_i -
\epsilon \sum_{j = \max(1,\, i-w+1)}^{i} \bigl( u^{(l)}_i - u^{(l)}_j \bigr) .
$$

  It is 1 while $L(w - 1) \le n - 2$, and at least $(1 - \epsilon)^L$ for every $w$.
- *A ring* of $n \ge 3$ tokens that see $b$ neighbors on either side, $2b + 1 \le n$: with the
  weight $\epsilon$ on each neighbor and the rest on itself, a layer multiplies all
  $x_i = \cos(2\pi i/n)\, y + \sin(2\pi i/n)\, z$ by

$$
\mu = 1 - 2 \epsilon \sum_{k=1}^{b} \Bigl( 1 - \cos \frac{2\pi k}n \Bigr)
\ge 1 - \frac{2\pi^2 \epsilon}{3 n^2}\, b (b + 1) (2b + 1) .
$$

  Other weights on the ring, all at least $\epsilon$, may be slower still.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("norms.diameter", "masks.collapse-rate"),
        notebook="masks-graphs",
    ),
]
