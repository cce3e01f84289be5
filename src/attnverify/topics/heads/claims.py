"""What one head, many heads and two layers can compute."""

from attnverify.verification.claim import Claim, Source

AMSEL = Source("amsel2024", "the abstract", related=True)

CLAIMS = [
    Claim(
        id="heads.nearest",
        title="How well softmax finds the best key",
        kind="theorem",
        statement=r"""
Let $n \ge 2$ keys have scores $z_j$ and values $v_j$, let $\beta > 0$ and
$p = \operatorname{softmax}(\beta z)$. If $z_* - z_j \ge g$ for one key $*$ and all others $j$, and
$D = \max_j \lVert v_j - v_* \rVert_2$, then

$$
\Bigl\lVert \sum_j p_j v_j - v_* \Bigr\rVert_2 \le
D\, \frac{(n - 1)\, e^{-\beta g}}{1 + (n - 1)\, e^{-\beta g}} ,
$$

with equality if all other scores are $z_* - g$ and all other values equal. Whatever the scores are,

$$
\max_j z_j - \sum_j p_j z_j \le \frac1\beta\, W\Bigl( \frac{n - 1}e \Bigr) , \qquad
W(x)\, e^{W(x)} = x ,
$$

with equality if all other scores lie
$\bigl( 1 + W(\frac{n - 1}e) \bigr) / \beta$ below the largest. With
$W_{QK} = \beta \sqrt{d_{qk}}\, I$ the score $\beta z_j$ is $\beta \langle q, k_j \rangle$. So as
$\beta \to \infty$ one head of full rank finds the key with the largest inner product, if there is
only one.
""",
        sources=(AMSEL,),
        here="statement and proof",
        notebook="heads-copy",
    ),
    Claim(
        id="heads.rank",
        title="Below full rank a head is in some direction no better than silence",
        kind="theorem",
        statement=r"""
Let $M = \frac12 (W_{QK} + W_{QK}^\top)$. For a unit vector $q$ and one head with the two keys $q$
and $-q$, which are also the values, let $o(q)$ be the output for the query $q$. Then

$$
\max_{\lVert q \rVert_2 = 1} \lVert o(q) - q \rVert_2 =
1 - \tanh \frac{\lambda_{\min}(M)}{\sqrt{d_{qk}}} .
$$

If $W_{QK} \in \mathbb{R}^{d \times d}$ has rank below $d$, this is at least 1. More generally let
an output $f(q, K) \in \mathbb{R}^d$ depend on the query only through $qR$, where $R$ has $d$ rows
and a rank below $d$. For every unit vector $u$ with $uR = 0$, and $K$ of $u$, $-u$ and any keys
orthogonal to $u$,

$$
\max \bigl\{ \lVert f(u, K) - u \rVert_2 , \lVert f(-u, K) + u \rVert_2 \bigr\} \ge
\sqrt{1 + \lVert f(u, K) \rVert_2^2} \ge 1 ,
$$

with equality in the first exactly if $f(u, K) \perp u$, and in both exactly for $f(u, K) = 0$.
This covers $H$ heads of rank $r$ with $Hr < d$, with biases, with any values and with any function
after them, but without a skip connection.
""",
        sources=(AMSEL,),
        here="statement and proof",
        uses=("heads.nearest",),
        notebook="heads-copy",
    ),
    Claim(
        id="heads.truncation",
        title="The error of softmax as a clipped line, exactly",
        kind="theorem",
        statement=r"""
Let $v_k = a + k \delta$, $k = 0, \dots, p - 1$, with $p \ge 2$ and $\delta = (b - a)/(p - 1) > 0$.
Let $m(x) = \sum_k \operatorname{softmax}\bigl( \beta (x v - \tfrac12 v^2) \bigr)_k\, v_k$ with
$\beta > 0$, and $t = \beta \delta^2$. Then

$$
\sup_{x \in \mathbb{R}} \bigl| m(x) - \min\{\max\{x, a\}, b\} \bigr| =
\delta \max_{0 \le u \le 1} \biggl(
\frac{\sum_{j < p} j\, e^{-t (j - u)^2/2}}{\sum_{j < p} e^{-t (j - u)^2/2}} - u \biggr)
=: \delta\, S_p(t) .
$$

$S_p(t)$ increases with $p$, and
$S_p(t) \le \frac12 + \sum_{i=1}^{p - 2} i\, e^{-t i^2/2}$. For $t > 4$ also

$$
S_p(t) \ge \frac12 \sqrt{1 - \frac4t} - \frac2t \operatorname{artanh} \sqrt{1 - \frac4t} ,
$$

which increases with $t$ to $\frac12$.

At $t = 5.44$ it is at most $0.0619$ for every $p$. For no $t$ and no $p$ is it below $0.056$.
""",
        sources=(Source("hu2025", "the abstract", related=True),),
        here="statement and proof",
        notebook="heads-copy",
    ),
    Claim(
        id="heads.experts",
        title="Heads with gates are one softmax over all heads, coordinates and keys",
        kind="proposition",
        statement=r"""
Let $y_i = \sum_h \bigl( g_{ih} \odot \sum_j P_{hij}\, x_j W_{V,h} \bigr) W_{O,h}$ with gates
$g_{ihl} > 0$, $P_h = \operatorname{softmax}(s_h)$ and $G_i = \sum_{h,l} g_{ihl}$. Then

$$
y_{ic} = \sum_{h,l} \frac{g_{ihl}}{G_i} \sum_j P_{hij}\, E_{ihljc} , \qquad
E_{ihljc} = G_i\, (x_j W_{V,h})_l\, (W_{O,h})_{lc} ,
$$

a mixture of mixtures of experts $E$ that are linear in $x_j$. The weights
$\frac{g_{ihl}}{G_i} P_{hij}$ are the softmax over all triples $(h, l, j)$ of the scores
$s_{hij} + \log g_{ihl} - \log \sum_k e^{s_{hik}}$. Hence

$$
|y_{ic}| \le G_i \max_{h,l,j} \bigl| (x_j W_{V,h})_l\, (W_{O,h})_{lc} \bigr| ,
$$

with equality if all experts are equal. Without gates all $g_{ihl} = 1$.
""",
        sources=(Source("nguyen2026", "the abstract", related=True),),
        here="statement and proof",
        notebook="heads-copy",
    ),
    Claim(
        id="heads.induction",
        title="Two layers that copy, with their exact error",
        kind="theorem",
        statement=r"""
Let $w_0, \dots, w_n$ be words with $w_{k-1} = w_n$ for some $1 \le k \le n$; let $k$ be the largest
such. Tokens are $x_i = [e_{w_i}, e_i, 0]$. Layer 1 has the scores $\beta$ at $j = i - 1$ and 0 at
the other $j \le i$, and adds $\sum_j P_{ij}\, e_{w_j}$ to the last block. For the query $n$ layer 2
has the scores

$$
(n + 1)\, \gamma \Bigl\langle e_{w_n}, \sum_l P_{jl}\, e_{w_l} \Bigr\rangle + \gamma j
$$

and the values $e_{w_j}$, with $\beta, \gamma > 0$. The output is a probability vector $o$ over
words with

$$
1 - o_{w_k} \le \frac{\tau}{1 + \tau} , \qquad
\tau = e^{2 (n + 1) \gamma \varepsilon}\, \frac{1 - e^{-n \gamma}}{e^\gamma - 1} , \qquad
\varepsilon = \frac n{e^\beta + n} .
$$

For $\beta \to \infty$ the bound is below $e^{-\gamma}$ for every $n$, and is attained by the
words $A^k B\, C^{n - k - 1} A$ for every $1 \le k < n$, with $B \ne A$ and $C \ne A, B$. So the
output tends to the right word if $\beta \to \infty$ and then $\gamma \to \infty$.
""",
        sources=(
            Source("elhage2021", "induction heads", related=True),
            Source("chen2024induction", "the abstract", related=True),
        ),
        here="statement and proof",
        uses=("heads.nearest",),
        notebook="heads-copy",
    ),
]
