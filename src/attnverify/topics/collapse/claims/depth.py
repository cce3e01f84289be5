"""Many heads over depth: their threshold, and what a single path of a network keeps."""

from attnverify.verification.claim import Claim

CLAIMS = [
    Claim(
        id="collapse.threshold-heads",
        title="The threshold below which many heads collapse",
        kind="theorem",
        statement=r"""
One $d_{qk}$, and in every layer $\lVert W_h \rVert_2 \le v_h$ and
$\lVert W_{QK,h} \rVert_2 \le q_h$ for the heads $h = 1, \dots, H$. With
$c_h = q_h/(4\sqrt{d_{qk}})$ and $\delta_0 = \operatorname{diam}(X)$ let

$$
F(\delta) = \sum_h v_h \tanh(c_h \delta^2),
$$

$$
a_0 = \delta_0, \qquad
a_{l+1} = a_l\, F(a_l) .
$$

- After $L$ layers the diameter is at most $a_L$. It is $a_L$ at every depth for the two tokens
  $\pm\frac{\delta_0}2 e$ with a unit vector $e$, $W_{QK,h} = q_h\, e e^\top$,
  $W_h = v_h\, e e^\top$ in every layer and no biases.
- If $F(\delta_0) < 1$, the diameter is at most $F(\delta_0)^L \delta_0 \to 0$.
- Let $V = \sum_h v_h$ over the heads with $q_h > 0$. If $V \le 1$, then $F(\delta_0) < 1$ for every
  input. If $V > 1$, then $F(\delta_*) = 1$ has exactly one root $\delta_* > 0$, and
  $F(\delta_0) < 1$ exactly for $\delta_0 < \delta_*$. The two tokens above stay at $\delta_*$
  forever, and from any larger distance they move apart without bound.
- With $\beta_2 = \sum_h q_h v_h$ and $V > 1$,

$$
\delta_*^2 \ge \frac{4\sqrt{d_{qk}}\, V \operatorname{artanh}(1/V)}{\beta_2} ,
$$

with equality exactly if all $q_h > 0$ with $v_h > 0$ are equal: no larger threshold can be
computed from $V$ and $\beta_2$ alone.
""",
        here="statement and proof",
        uses=("collapse.sharp-layer",),
        notebook="heads-depth",
    ),
    Claim(
        id="collapse.each-path",
        title="Every path of a network with many heads converges by itself",
        kind="theorem",
        statement=r"""
In a network with any biases, with or without skip connections, let $\delta_l$ be the diameter of
what layer $l = 1, \dots, L$ gets, $P^l_h$ the attention matrices of this forward pass and

$$
f^l_h = \lVert W^l_h \rVert_2
\tanh\!\Bigl( \frac{\lVert W^l_{QK,h} \rVert_2\, \delta_l^2}{4\sqrt{d_{qk}}} \Bigr) ,
$$

$$
P^l_0 = W^l_0 = I, \quad f^l_0 = 1 .
$$

Then for every path $(h_1, \dots, h_L)$

$$
\operatorname{diam}\bigl( P^L_{h_L} \cdots P^1_{h_1} X\, W^1_{h_1} \cdots W^L_{h_L} \bigr)
\le f^1_{h_1} \cdots f^L_{h_L} \operatorname{diam}(X) .
$$

For the two tokens and the weights of {claim}`collapse.threshold-heads` all paths attain this at
once, with and without skip connections. Without them $\delta_l \le a_{l-1}$ of that claim: below
the threshold every single path converges, in the end doubly exponentially.
""",
        here="statement and proof",
        uses=(
            "paths.skip-decomposition",
            "collapse.sharp-layer",
            "collapse.sharp-depth",
            "collapse.threshold-heads",
            "norms.diameter",
        ),
        notebook="heads-depth",
    ),
]
