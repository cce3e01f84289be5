"""Causal masks, sliding windows and padding, for any number of tokens."""

from attnverify.verification.claim import Claim, Source

KARAGODIN = Source("karagodin2024", "convergence to a single point", related=True)
WU = Source("wu2024", "the effect of masks", related=True)

CLAIMS = [
    Claim(
        id="modern.causal-rate",
        title="The first token that differs sets the rate of a causal stack",
        kind="theorem",
        statement=r"""
Causal mask, one head, one $d_{qk}$, $\lVert W_{QK} \rVert_2 \le q$ and
$\lVert W_V \rVert_2 \le v$ in every layer, and nothing else in it: no biases, positions, skip
connections or normalization. Let $x_1 = \dots = x_m \ne x_{m+1}$ with $1 \le m < n$, and

$$
u_i = \binom{i-1}{m}, \qquad
N(X) = \max_{i > m} \frac{\lVert x_i - x_1 \rVert_2}{u_i} .
$$

The first $m$ tokens stay equal; $N$ has the $m$ of the input $X$ at every depth. The next token
stays different as long as $(x_{m+1} - x_1) W_V \ne 0$.

- *One layer.* If the logits of a row oscillate by at most $D$ over the tokens it sees,

$$
N(X') \le \frac{v}{1 + m e^{-D}}\, N(X) ,
$$

$$
x'_{m+1} - x'_1 = p\, (x_{m+1} - x_1) W_V, \quad
\frac1{1 + m e^{D}} \le p \le \frac1{1 + m e^{-D}} ,
$$

  and the first factor is attained for every $m$ and $D$.
- *Depth.* Let $a_0 = q\, (u_n + u_{n-1}) \max_i \lVert x_i \rVert_2\, N(X)/\sqrt{d_{qk}}$. If
  $v^2 < 1 + m e^{-a_0}$, as always for $v \le 1$, then with
  $S = a_0/\bigl(1 - v^2/(1 + m e^{-a_0})\bigr)$, after $L$ layers,

$$
N(X_L) \le \Bigl( \frac{v}{m+1} \Bigr)^{L} e^{\frac{m}{m+1} S}\, N(X) .
$$

- *Limit.* If moreover $W_V = vI$, $v > 0$, there is a $\lambda$ with
  $e^{-S} \le \lambda \le e^{\frac m{m+1} S}$ and for every $i$, as $l \to \infty$,

$$
\Bigl( \frac{m+1}{v} \Bigr)^{l} \bigl( x^{(l)}_i - x^{(l)}_1 \bigr)
\to \lambda\, u_i\, (x_{m+1} - x_1) .
$$

So with $W_V = I$ every input collapses, and the ratio of successive diameters tends to
$1/(m+1)$: to ½ exactly if $x_2 \ne x_1$. The tokens end on one line, equally spaced for $m = 1$.

- *The condition.* For $m = 1$, width 2 or more and every $v \in (1, \sqrt2)$, two tokens with $W_V
  = vI$ and $a_0$ as near to equality in the condition as one wants keep the ratio $1/v$ forever.
""",
        sources=(KARAGODIN, WU),
        here="statement and proof",
        uses=("attention.shift-invariance",),
        notebook="decoder-masks",
    ),
    Claim(
        id="modern.window-rate",
        title="A sliding window keeps the rate and delays it, unless it is narrow",
        kind="theorem",
        statement=r"""
As {claim}`modern.causal-rate`, but a token sees itself and the $w - 1$ tokens before it, $w \ge 2$.
Where all logits are equal, attention has the eigenvalues $1/\min(i, w)$, $i = 1, \dots, n$.

- *Wide windows*, $w \ge m + 2$. The bounds and limits of {claim}`modern.causal-rate` hold with

$$
u_i = \binom{i-1}{m} \ (i \le w), \qquad
u_i = \frac{m+1}{w-m-1} \sum_{j=i-w+1}^{i-1} u_j \ (i > w) .
$$

  So with $W_V = I$ the ratio of successive diameters tends to $1/(m+1)$, whatever $w$ is.
- *What such a window costs*, $w \ge m + 2$. Let $g > 1$ be the number for which the mean of
  $1, g^{-1}, \dots, g^{-(w-1)}$ is $1/(m+1)$. For $n \ge w$

$$
g^{\,n-w-m+1} \le u_n \le \binom{w-1}{m}\, g^{\,n-m-1} ,
$$

  and $g^w > e^\theta$, where $\theta > 0$ solves $\theta = (m+1)(1 - e^{-\theta})$. For
  $w \to \infty$ with $m$ fixed, $g^w \to e^\theta$; this is $4.92\ldots$ for $m = 1$.
- *Narrow windows*, $2 \le w \le m + 1$. With $W_V = I$ the ratio of successive diameters tends to
  $1/w$, and for $i > m$, with some $\lambda > 0$,

$$
w^l\, l^{-(i-m-1)} \bigl( x^{(l)}_i - x_1 \bigr)
\to \frac{\lambda}{(i-m-1)!}\, (x_{m+1} - x_1) .
$$

- *Horizon.* Let $W_V = I$. While $l (w - 1) \le n - 2$ there are inputs whose diameter has not
  changed after $l$ layers, whatever $W_{QK}$ is. From $l (w - 1) \ge n - 1$ on, every diameter
  other than 0 is smaller than at the start.
""",
        sources=(WU,),
        here="statement and proof",
        uses=("modern.causal-rate", "collapse.stochastic-products"),
        notebook="decoder-masks",
    ),
    Claim(
        id="modern.padding",
        title="Padding is invisible",
        kind="proposition",
        statement=r"""
Let a network have any heads, biases, skip connections, normalization and MLPs that act on single
tokens, no positions, and a mask under which a real token sees itself. Fill its input up with
padding tokens of any values, anywhere among the real ones, and let no real token see padding. If
the mask between real tokens is that of the unpadded input, all real tokens are, after every layer,
exactly those of the unpadded input.

- So every bound holds with the real tokens alone: of one layer without other masks,
  {claim}`collapse.sharp-layer` with the diameter of the real tokens on both sides.
- Under a causal mask or a window, padding on the right needs no mask of its own.
- If instead a number $c$ is subtracted from the logits of $k$ padding tokens, a row that sees $s$
  real tokens, with logits that oscillate by at most $D$ before that, gives padding a total weight
  of at most

$$
\frac{k}{k + s\, e^{c - D}} ,
$$

  which is attained for every $k$, $s$, $c$ and $D$.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer",),
        notebook="decoder-masks",
    ),
]
