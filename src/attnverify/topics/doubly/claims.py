"""Attention normalized over queries and keys: totals of tokens, collapse, Sinkhorn's limit."""

from attnverify.verification.claim import Claim, Reading, Source

DING = Source("ding2020", "doubly normalized attention, guarantees for tokens", related=True)
SANDER = Source("sander2022", "doubly stochastic attention by Sinkhorn's algorithm", related=True)
LAPENNA = Source("lapenna2026", "rank decay of doubly stochastic attention", related=True)

CLAIMS = [
    Claim(
        id="doubly.lower-bound",
        title="With two normalizations no token is ignored: the least total, exactly",
        kind="theorem",
        statement=r"""
Let $s \in \mathbb{R}^{m \times n}$ be scores of $m \ge 2$ queries and $n \ge 2$ keys. *Doubly
normalized attention* is

$$
P_{ij} = \frac{Q_{ij}}{\sum_l Q_{il}} , \qquad Q_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{kj}}} .
$$

Let the *total* of key $j$ be $t_j = \sum_i P_{ij}$; the mean of the totals is $m/n$.

- *All scores.* $\frac1n < t_j < m - \frac{n-1}n$. Both numbers are the best ones and never
  attained. For softmax attention they are 0 and $m$.
- *Bounded scores.* If the scores of each key differ by at most $D$ between queries, then with
  $E = e^{D/2}$

$$
t_j \ge \frac1n \min_{1 \le k < m} \frac{(k E + m - k)^2}{k E^2 + m - k}
\ge \frac mn \operatorname{sech}^2 \frac D4 .
$$

  The least $k$ with $(m - k)(m - k - 1) \le k (k + 1)\, e^D$ gives the minimum. For $n \ge 3$ and
  for $m = n$ the first bound is attained, for every $D$. For $n = 2 < m$ it need not be. The second
  is an equality if $m/(1 + E)$ is a whole number. With softmax attention, and scores of each query
  that differ by at most $D$ between keys, the least total is $m/(1 + (n - 1)\, e^D)$.
- *Invariance.* Adding a number to all scores of one key does not change $P$.
- *The other order.* Normalized over the keys first and then over the queries, every total is 1, and
  the weights of a query add up to more than $\frac1m$, which is the best number.
""",
        sources=(DING,),
        here="statement and proof",
        notebook="doubly-normalized",
    ),
    Claim(
        id="doubly.collapse",
        title="Doubly normalized attention collapses under the same sharp bound",
        kind="theorem",
        statement=r"""
Doubly normalized attention is softmax attention with the biases $-\log \sum_k e^{s_{kj}}$ of the
keys. So without a mask, for every $X$, all heads and all biases of queries and keys, the layer
$Y = \sum_h P_h X W_h$ satisfies

$$
\operatorname{diam}(Y) \le \operatorname{diam}(X) \sum_h \lVert W_h \rVert_2 \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK,h} \rVert_2 \operatorname{diam}(X)^2}{4 \sqrt{d_{qk}}} \Bigr) ,
$$

with equality for the two tokens of {claim}`collapse.sharp-layer` if there is no key bias; here the
query bias has no effect. *Two tokens.* Let
$\kappa = s_{11} - s_{12} - s_{21} + s_{22}$, $\alpha = \frac12 (s_{11} - s_{21} + s_{12} - s_{22})$
and $\beta = \frac12 (s_{11} - s_{12} + s_{21} - s_{22})$. The contraction coefficients of softmax
attention and of doubly normalized attention are

$$
\tau = \frac{\sinh \frac{|\kappa|}2}{\cosh \beta + \cosh \frac\kappa2} , \qquad
\tau_2 = \frac{\sinh \frac{|\kappa|}2\, \bigl( \cosh \alpha + \cosh \frac\kappa2 \bigr)}
{1 + 2 \cosh \alpha \cosh \frac\kappa2 + \cosh^2 \frac\kappa2} .
$$

For a given $\kappa \ne 0$ they take exactly the values

$$
0 < \tau \le \tanh \frac{|\kappa|}4 , \qquad
\tfrac12 \tanh \frac{|\kappa|}2 < \tau_2 \le \tanh \frac{|\kappa|}4 ,
$$

and $\tau \le \tau_2$ exactly if $\cosh \frac\kappa2\, (\cosh \alpha - \cosh \beta) \le
\cosh \alpha \cosh \beta - 1$. This is so if $|\alpha| \le |\beta|$, in particular for symmetric
$W_{QK}$ without biases, where $\alpha = \beta$ and $\tau < \tau_2$ unless $\alpha = 0$ or
$\kappa = 0$.
""",
        sources=(DING,),
        here="statement and proof",
        uses=("softmax.total-variation", "norms.diameter", "collapse.sharp-layer"),
        notebook="doubly-normalized",
        refutes=(
            Reading(
                says=(
                    "Doubly normalized attention never brings two tokens together faster than "
                    "softmax."
                ),
                near="ding2020",
                instance=r"Two tokens with $\alpha, \kappa \ne 0$ and $\beta = 0$.",
                check="slower",
                holds="doubly.collapse",
                twin="for any alpha",
            ),
        ),
    ),
    Claim(
        id="doubly.sinkhorn",
        title="Doubly stochastic attention keeps the mean, and contracts by a singular value",
        kind="theorem",
        statement=r"""
Let $S$ be doubly stochastic with $S_{ij} = e^{s_{ij} + a_i + b_j}$, as the limit of Sinkhorn's
algorithm is for scores $s$ of $n \ge 2$ tokens. Let $\sigma_2(S)$ be its second singular value,
$d(X) = \lVert X - \mathbf 1 \bar x^\top \rVert_F$ and $\Delta = \max |s_{ij} - s_{il} - s_{kj} +
s_{kl}|$. Then $SX$ has the mean token of $X$, and

$$
d(SX) \le \sigma_2(S)\, d(X) , \qquad
\sigma_2(S) \le \tanh \frac\Delta4 , \qquad
\operatorname{diam}(SX) \le \tanh \frac\Delta4\, \operatorname{diam}(X) .
$$

The first is attained by a singular vector in every $S$, so over $L$ layers with one
symmetric $S$ as $\sigma_2^L$. The others are attained by two tokens for every $\Delta \ge 0$: there
$\sigma_2 = \tau(S) = \tanh(|\kappa|/4)$ with $\kappa$ of {claim}`doubly.collapse`, whatever
$\alpha$ and $\beta$ are. For scores $x_i W_{QK} x_j^\top / \sqrt{d_{qk}}$ with any biases,
$\Delta \le \lVert W_{QK} \rVert_2 \operatorname{diam}(X)^2/\sqrt{d_{qk}}$.
""",
        sources=(SANDER, LAPENNA, Source("hopf1963", "the bounds by tanh", related=True)),
        here="the constants in norms, when they are attained, and the proof",
        uses=("softmax.total-variation", "norms.diameter", "doubly.collapse"),
        notebook="doubly-normalized",
    ),
]
