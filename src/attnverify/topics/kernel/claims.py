"""Attention as the posterior mean of a mixture of Gaussian distributions."""

from attnverify.verification.claim import Claim, Reading, Source

CLAIMS = [
    Claim(
        id="kernel.posterior",
        title="When attention is the posterior mean of a Gaussian mixture",
        kind="theorem",
        statement=r"""
Let $k_1, \dots, k_n \in \mathbb{R}^d$ be keys, $q, y \in \mathbb{R}^d$ and $\sigma > 0$. Let $J$
have the probabilities $\pi_j > 0$, let $z$ given $J = j$ have the law $N(k_j, \sigma^2 I)$, and
observe $z = q + y$. Let $P$ be the softmax of $q \cdot k_j / \sigma^2$ (so $\sigma^2 =
\sqrt{d_{qk}}$ for attention).

- *Priors.* $P_j = \Pr(J = j \mid z)$ for all $j$ exactly if
  $\pi_j \propto \exp(\lVert k_j - y \rVert^2 / (2 \sigma^2))$, for one $q$ or for all. Attention's
  output $\sum_j P_j v_j$ then is the posterior mean of $v_J$.
- *Equal priors.* This holds with equal priors exactly if all keys have one distance from $y$. Such
  a $y$ exists whenever no key is an affine combination of the others, so for $n \le d + 1$ keys in
  general position. With $y = 0$ the keys have equal norms.
- *Error.* If the distances of the keys from $y$ lie between $\rho_-$ and $\rho_+$, then with equal
  priors

$$
\mathrm{TV}\bigl(P, \Pr(J = \cdot \mid z)\bigr)
\le \tanh\!\Bigl( \frac{\rho_+^2 - \rho_-^2}{8 \sigma^2} \Bigr) ,
$$

  and output and posterior mean differ by at most this times $\operatorname{diam}(V)$. For $n = 2$
  keys at the distances $\rho_- < \rho_+$, a query $q$ attains both.
""",
        sources=(Source("zhang2022", "attention as inference of a latent variable", related=True),),
        here="statement and proof",
        uses=("softmax.total-variation", "norms.diameter"),
        notebook="kernels",
        refutes=(
            Reading(
                says=(
                    "Attention is the posterior with its keys as equally likely Gaussian centers, "
                    "whatever the keys are."
                ),
                near="zhang2022",
                instance="Four keys in the plane with no common distance from any point.",
                check="sphere",
                holds="kernel.posterior",
                twin="four points in the plane",
            ),
        ),
    ),
    Claim(
        id="kernel.permutation",
        title="Which orders of the tokens attention cannot see",
        kind="proposition",
        statement=r"""
Let $A_{ij} = 1$ if token $i$ sees token $j$, else 0, with no row of zeros. Let a head $f$ have the
rows

$$
f(X)_i = \sum_j P_{ij}\, x_j W , \qquad
P_{ij} = \frac{A_{ij}\, w(x_i, x_j)}{\sum_k A_{ik}\, w(x_i, x_k)} ,
$$

with any function $w > 0$ of two tokens, the same at all places, as in softmax without positions.
Let $\Pi$ be a permutation matrix.

- *Sufficient.* If $\Pi A = A \Pi$, then $f(\Pi X) = \Pi f(X)$ for all $X$. The same holds for sums
  of such heads, maps of single tokens and any depth. Without a mask it holds for every $\Pi$.
- *Necessary.* If $W \ne 0$ and $\Pi A \ne A \Pi$, then $f(\Pi X) \ne \Pi f(X)$ for some $X$ with a
  single token that is not 0. Under a causal mask only $\Pi = I$ is left.
- *Positions.* If $\Pi A = A \Pi$ and $\Pi E = E$, then $X \mapsto f(X + E)$ commutes with $\Pi$.
  With $\Pi E \ne E$ it need not: without a mask, two tokens 0 of width 1 with $E = (0, 1)^\top$,
  $W = 1$ and $w(q, k) = e^{qk}$ have the outputs $\frac12$ and $\frac{e}{1 + e}$.
""",
        here="statement and proof",
        notebook="kernels",
    ),
]
