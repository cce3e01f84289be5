"""What a silent head costs, what softmax-plus-one changes, and what massive activations do."""

from attnverify.verification.claim import Claim, Reading, Source

RAN = Source("ranmilo2026", "the abstract", related=True)

CLAIMS = [
    Claim(
        id="sinks.necessary",
        title="The weight that a silent head needs on its sink",
        kind="theorem",
        statement=r"""
Let $o = p_s v_s + \sum_j p_j v_j$ with weights that are not negative and add up to 1. Let $u$ be a
vector with $0 < a \le \langle u, v_j \rangle \le a'$ for every key $j$ other than the sink $s$,
and $\langle u, v_s \rangle = -b$ with $b > -a$. Then

$$
\frac{a - \langle u, o \rangle}{a + b} \le p_s \le \frac{a' - \langle u, o \rangle}{a' + b} ,
$$

with equality on both sides if $a = a'$. So $\langle u, o \rangle \le \ell$ needs
$p_s \ge \frac{a - \ell}{a + b}$, and $p_s \ge \frac{a' - \ell}{a' + b}$ suffices, for
$0 \le \ell < a$. If $b < -\ell$, no weights do it.
""",
        sources=(RAN,),
        here="statement and proof",
        notebook="sinks-gates",
    ),
    Claim(
        id="sinks.score",
        title="The score that the sink needs",
        kind="proposition",
        statement=r"""
In {claim}`sinks.necessary` let there be $n$ keys besides the sink. Let the weights be the softmax
of scores $z_s, z_1, \dots, z_n$, let $\bar z = \frac1n \sum_j z_j$ and
$\langle u, o \rangle < a$. Then

$$
z_s - \bar z \ge \log n + \log \frac{a - \langle u, o \rangle}{b + \langle u, o \rangle} ,
$$

with equality if the $n$ scores are equal and $a = a'$. If no two of the $n + 1$ scores differ by
more than $D$, then $\langle u, o \rangle \le \ell$ with $0 \le \ell < a$ and $b > -\ell$ needs

$$
n \le e^{D}\, \frac{b + \ell}{a - \ell} .
$$
""",
        here="statement and proof",
        uses=("sinks.necessary",),
        notebook="sinks-gates",
    ),
    Claim(
        id="sinks.plus-one",
        title="Softmax-plus-one is a gate, and its silence depends on the length",
        kind="proposition",
        statement=r"""
Let $p_j = e^{z_j} / (e^c + \sum_k e^{z_k})$ for $n$ keys. With $p_+ = 1 - \sum_j p_j$, the weights
$(p, p_+)$ are the softmax of $(z, c)$: one more key of score $c$, whose value is 0. With
$\sigma(t) = 1/(1 + e^{-t})$ also

$$
p = \sigma\Bigl( \log \sum_k e^{z_k} - c \Bigr) \operatorname{softmax}(z) .
$$

Let $0 < a \le \langle u, v_j \rangle \le a'$ for every key and $o = \sum_j p_j v_j$. Then

$$
\frac{a - \langle u, o \rangle}{\langle u, o \rangle} \le \frac{e^{c - \bar z}}{n}
\quad\text{and}\quad
\frac{e^{c - \max z}}{n} \le \frac{a' - \langle u, o \rangle}{\langle u, o \rangle} .
$$

For $o = \sigma(g) \sum_j q_j v_j$ with any weights $q_j \ge 0$ of sum 1,

$$
\frac{a - \langle u, o \rangle}{\langle u, o \rangle} \le e^{-g} \le
\frac{a' - \langle u, o \rangle}{\langle u, o \rangle} .
$$

All four are equalities if all scores are equal and $a = a'$.
""",
        here="statement and proof",
        uses=("sinks.necessary",),
        notebook="sinks-gates",
    ),
    Claim(
        id="sinks.substochastic",
        title="How far weights of any sums bring tokens together",
        kind="lemma",
        statement=r"""
Let $P \in \mathbb{R}^{m \times n}$ have the row sums $r_i$ and let
$X \in \mathbb{R}^{n \times d}$. With $R = \max_j \lVert x_j \rVert_2$,
$\operatorname{diam}(PX)$ is at most

$$
\max_{i,k} \Bigl( \tfrac12 \bigl( \lVert P_i - P_k \rVert_1 - |r_i - r_k| \bigr)
\operatorname{diam}(X) + |r_i - r_k|\, R \Bigr) .
$$

For two rows with $r_i \ge r_k$ both sides are equal if $x_j = R w$ where $P_{ij} \ge P_{kj}$ and
$x_j = (R - D) w$ elsewhere, for a unit $w$ and $0 \le D \le 2R$.
""",
        here="statement and proof",
        uses=("norms.diameter",),
        notebook="sinks-gates",
    ),
    Claim(
        id="sinks.collapse",
        title="With softmax-plus-one the bound is linear in the diameter",
        kind="theorem",
        statement=r"""
Let $Y = P X W_V$ with $P_{ij} = e^{s_{ij}} / (e^c + \sum_k e^{s_{ik}})$ and
$s_{ij} = x_i W_{QK}\, x_j^\top / \sqrt{d_{qk}} + t_j$, for any $c$ and $t$. With
$D_0 = \max\{ \operatorname{diam}(X), \max_j \lVert x_j \rVert_2 \}$,

$$
\operatorname{diam}(Y) \le \lVert W_V \rVert_2\, D_0\, \allowbreak
\tanh\!\Bigl( \frac{\lVert W_{QK} \rVert_2 \operatorname{diam}(X)\, D_0}{4 \sqrt{d_{qk}}} \Bigr)
\le \frac{\lVert W_{QK} \rVert_2 \lVert W_V \rVert_2}{4 \sqrt{d_{qk}}}\, \allowbreak D_0^2
\operatorname{diam}(X) .
$$

The first bound is attained. For every value of the diameter from 0 to twice the longest token's
length, two tokens in width 1 reach it in the limit of $c$ and $t$, for every value of both norms.
Nearly equal tokens reach both bounds in the limit. So no bound
$C \operatorname{diam}(X)^3$ holds with $C$ from the norms of the weights and the longest token.
""",
        here="statement and proof",
        uses=("softmax.total-variation", "norms.diameter"),
        notebook="sinks-gates",
        refutes=(
            Reading(
                says="With softmax-plus-one the bound on collapse stays cubic in the diameter.",
                near="miller2023",
                instance="Two tokens under one head with the constant.",
                check="layer",
                holds="sinks.collapse",
                twin="the sharp bound for attention alone",
            ),
        ),
    ),
    Claim(
        id="sinks.separates",
        title="With softmax-plus-one the relative diameter of nearly equal tokens can grow",
        kind="proposition",
        statement=r"""
In {claim}`sinks.collapse` let $W_V = I$, $t = 0$ and $x_i = (1 + h_i)\, x$ with $x \ne 0$ and
numbers $h_i$ that tend to 0 in fixed proportions, not all equal. With
$s = x W_{QK}\, x^\top / \sqrt{d_{qk}}$,
$r = n e^s / (e^c + n e^s)$ and the mean tokens $\bar x$ and $\bar y$,

$$
\frac{\operatorname{diam}(Y)}{\lVert \bar y \rVert_2} \bigg/
\frac{\operatorname{diam}(X)}{\lVert \bar x \rVert_2} \to (1 - r)\, |s| .
$$

As $c \to \infty$ this factor tends to $|s|$, which can be any number. The diameter itself has
$\operatorname{diam}(Y) / \operatorname{diam}(X) \to r (1 - r)\, |s| \le \frac14 |s|$. Without $e^c$
both limits are 0.
""",
        here="statement and proof",
        notebook="sinks-gates",
    ),
    Claim(
        id="sinks.massive",
        title="One massive coordinate makes a normalized token nearly constant",
        kind="theorem",
        statement=r"""
Let $x \in \mathbb{R}^d$, $d \ge 3$, let $m > 0$ be coordinate $k$ less the mean of the others, and
$\tau$ the standard deviation of these others. Layer norm without scale and shift, with
$\varepsilon \ge 0$, gives $\operatorname{LN}_\varepsilon(x)$; let
$f = \operatorname{LN}_0(e_k)$ and

$$
\tan \theta = \frac1m \sqrt{d\, \tau^2 + \frac{d^2 \varepsilon}{d - 1}} , \qquad
0 \le \theta < \frac\pi2 .
$$

With $N^2 = \frac{d - 1}d m^2 + (d - 1)\, \tau^2 + d \varepsilon$ then

$$
\lVert \operatorname{LN}_\varepsilon(x) - f \rVert_2^2
= d (1 - \cos \theta)^2 + \frac{d (d - 1)\, \tau^2}{N^2} \le 4 d \sin^2 \frac\theta2
\le d \tan^2 \theta .
$$

The first bound is an equality exactly at $\varepsilon = 0$, where the second is $d^2 \tau^2 / m^2$.
Tokens with one $k$, all of whose angles are at most $\theta$, have

$$
\operatorname{diam}(\operatorname{LN}_\varepsilon(X)) \le 2 \sqrt d \sin \theta ,
$$

attained at $\varepsilon = 0$. For RMS norm both displays hold with the same equalities, if $w$ are
the other coordinates, $f = \sqrt d\, e_k$, $d \ge 2$, $m = x_k > 0$,
$N^2 = m^2 + \lVert w \rVert_2^2 + d \varepsilon$,
$\tan \theta = \frac1m \sqrt{\lVert w \rVert_2^2 + d \varepsilon}$, and
$d \lVert w \rVert_2^2 / N^2$ stands for the term with $\tau^2$.
""",
        sources=(Source("sun2024", "the abstract", related=True),),
        here="statement and proof",
        notebook="sinks-gates",
    ),
]
