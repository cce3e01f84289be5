"""Heads bounded together: concatenated output maps, and keys and values that heads share."""

from attnverify.verification.claim import Claim, Source

CLAIMS = [
    Claim(
        id="modern.concatenated-heads",
        title="Heads bounded together",
        kind="theorem",
        statement=r"""
Let $\delta = \operatorname{diam}(X)$,
$t_h = \tanh\bigl( \lVert W_{QK,h} \rVert_2\, \delta^2 / (4 \sqrt{d_{qk}}) \bigr)$ and
$v_h = \lVert W_h \rVert_2$. For every $X$, all heads, all biases and all $s_1, \dots, s_H > 0$

$$
\operatorname{diam}(\mathrm{SA}(X)) \le
\delta \max_{\lVert y \rVert_2 = 1} \sum_h t_h \lVert W_h y \rVert_2
$$

$$
{} \le \delta\, \left\lVert \begin{matrix} s_1 W_1 \\ \vdots \\ s_H W_H \end{matrix}
\right\rVert_2 \sqrt{\sum_h \frac{t_h^2}{s_h^2}} .
$$

1. The first bound is at most the sum $\delta \sum_h t_h v_h$ of {claim}`collapse.sharp-layer`, and
   so is the second for $s_h^2 = t_h/v_h$ (over the heads with $t_h v_h > 0$), which is at least
   $1/\sqrt H$ of the sum. Both are smaller unless one unit vector $y$ has
   $\lVert W_h y \rVert_2 = v_h$ for all these heads.
2. Two tokens $\pm\frac\delta2 e$ with a unit vector $e$, $W_{QK,h} = \pm q_h e\, e^\top$ with
   signs that depend on the $r_h$, and no query biases attain the first bound for all
   $W_h = e\, r_h^\top$ with any $r_h$; and both, for some $s_h$, if all $t_h > 0$, $r_h \ne 0$ and
   no two $r_h$ form an angle above 90°. Orthogonal $r_h$ give $\delta \sqrt{\sum_h t_h^2 v_h^2}$.
3. For given $W_h$, $\lVert W_{QK,h} \rVert_2$, $\delta$, $d_{qk} \ge 2$ and a width of at least
   $H + 2$ no bound smaller than the first holds for all tokens, $W_{QK,h}$ and biases.
4. With one $d_{qk}$ in all layers, {claim}`collapse.sharp-depth` holds with

   $$
   \beta_2' = \sqrt{\sum_h q_h v_h}\, \Bigl\lVert \sum_h \frac{q_h}{v_h} W_h^\top W_h
   \Bigr\rVert_2^{1/2} \le \beta_2
   $$

   in place of $\beta_2$, where $q_h = \lVert W_{QK,h} \rVert_2$ (over the heads with
   $q_h v_h > 0$).
5. The infimum of the second bound over the $s_h$ is at most $\sqrt{\pi/2} = 1.2533\ldots$ times the
   first bound, and no smaller number will do for all numbers of heads.
""",
        sources=(Source("pisier2012", "section 5, the little Grothendieck theorem", related=True),),
        here="statement and proof",
        uses=(
            "collapse.sharp-layer",
            "collapse.sharp-depth",
            "softmax.total-variation",
            "norms.diameter",
        ),
        notebook="decoder-heads",
    ),
    Claim(
        id="modern.grouped-keys",
        title="Grouped keys and values: one norm of each stored matrix",
        kind="theorem",
        statement=r"""
Let the heads of a group $g$ share their key and value maps and biases, as in grouped-query and
multi-query attention: $W_{K,h} = W_{K,g}$, $W_{V,h} = W_{V,g}$ for $h \in g$. This is a
multi-head layer with $W_{QK,h} = W_{Q,h} W_{K,g}^\top$ and $W_h = W_{V,g} W_{O,h}$, so every
bound for all multi-head layers holds for it. Let $O_g$ be the output maps $W_{O,h}$, $h \in g$,
on top of each other. With $\delta$ and $t_h$ as in {claim}`modern.concatenated-heads`, for every
$X$ and all biases

$$
\operatorname{diam}(\mathrm{SA}(X)) \le \delta \sum_g \lVert W_{V,g} \rVert_2 \lVert O_g \rVert_2
\sqrt{\sum_{h \in g} t_h^2} \le
$$

$$
\frac{\delta^3}{4 \sqrt{d_{qk}}} \sum_g \lVert W_{K,g} \rVert_2 \lVert W_{V,g} \rVert_2
\lVert O_g \rVert_2 \sqrt{\sum_{h \in g} \lVert W_{Q,h} \rVert_2^2} .
$$

The first is attained for heads of one group with any $t_h$ by two tokens, with
$W_V = v\, e b^\top$ and $W_{O,h} = b\, w_h^\top$ for unit vectors $e$, $b$ and orthonormal $w_h$.
There the sum over the heads is $\delta v \sum_h t_h$, which for $m$ equal heads is $\sqrt m$ times
as much.
""",
        sources=(
            Source("shazeer2019", "multi-query attention", related=True),
            Source("ainslie2023", "grouped-query attention", related=True),
        ),
        here="statement and proof",
        uses=(
            "collapse.sharp-layer",
            "softmax.total-variation",
            "attention.qk-reduction",
            "norms.diameter",
        ),
        notebook="decoder-heads",
    ),
]
