"""Experiments.

A claim is the criterion on the table of the full run. Chapters say what was fixed after a pilot.
"""

from attnverify.verification.claim import Claim, Source

BAO, DONG = "bao2024", "dong2021"


def _short_paths(name: str, title: str, task: str) -> Claim:
    return Claim(
        id=f"experiment.{name}",
        title=title,
        kind="experiment",
        statement=rf"""
{task} Sixteen attention networks with skip connections and without biases are trained; $S_\ell$ is
the sum over all paths of length $\ell$, read out like the whole network. Then

1. $\sum_\ell S_\ell$ is the network's output, to within the derived rounding bound;
2. the accuracy of $S_1$ exceeds that of $S_L$, the longest paths, by Student's one-sided test over
   the networks at level $1\,\%$, and so does the mean accuracy of single paths drawn at random;
3. for every network and length from 1 on, the score of $S_\ell$ estimated from 100 paths drawn at
   random is as near to its exact value as Bernstein's inequality demands, with the exact spread
   over all paths and an error probability of $0.1\,\%$ for all these comparisons together; at
   length 0, with its single path, the two are equal.

The criterion was registered as it stands before its one run, of seed 1. In a run of seed 0 part 3
had replaced another one, which *Sorting* had failed there.
""",
        sources=(Source(DONG, "Section 4"),),
        uses=("paths.length-recursion",),
        notebook="path-accuracy",
    )


CLAIMS: list[Claim] = [
    Claim(
        id="experiment.architectures",
        title="The residual falls a thousandfold in pure attention, and less with skip connections",
        kind="experiment",
        statement=r"""
Measured: the relative residual $\min_x \lVert X - \mathbf 1 x^\top \rVert_{1,\infty} / \lVert X
\rVert_{1,\infty}$ by layer, for stacks of the shapes of BERT-base, ALBERT-base and XLNet-base at
random initialization (standard deviation 0.02, 12 layers) and for a trained encoder (6 layers), on
English text. *Criterion:* attention alone brings it down by a factor of 1,000 or more after the
last layer, in every stack and seed; with skip connections, alone or with MLP and layer
normalization, it is never down by that much, at any layer, in any stack and seed. It was registered
as it stands before its one run, of seeds 5 to 9 and five passages that no run had used. In a run of
seeds 0 to 4 the last layer alone had been judged at first with skip connections.
""",
        sources=(Source(DONG, "Section 4.1 and Figure 2"),),
        notebook="architectures",
    ),
    Claim(
        id="experiment.path-counts",
        title="Most paths of well-known architectures are long",
        kind="experiment",
        statement=r"""
In each of the listed architectures, with $L$ attention layers of $H$ heads, the mean length of all
$(1 + H)^L$ paths is $L H / (1 + H)$, and fewer than one path in a hundred is shorter than $L/2$.
""",
        sources=(Source(DONG, "Section 3"),),
        uses=("paths.count",),
        notebook="path-accuracy",
    ),
    Claim(
        id="experiment.circle",
        title="Attention alone collapses in a recurrence, with a skip connection it does not",
        kind="experiment",
        statement=r"""
One layer with one head is trained to move two opposite points of a circle along their arcs, 50
steps for half a turn, and is then fed its own output 50 times. The first positions are at $0.9$ of
the radius. In every one of five seeds, each the best of eight layers by its loss, the distance of
the two tokens falls below $1/1000$ of the first one with attention alone, and stays above $1/2$ of
it with attention and a skip connection.
""",
        sources=(Source(DONG, "Section 4"),),
        notebook="circle",
    ),
    _short_paths(
        "sorting",
        "Sorting: paths of length 1 are more accurate than the longest",
        "*Sorting*: eight letters of an alphabet of ten are labeled with the sorted sequence.",
    ),
    _short_paths(
        "convex-hull",
        "Convex hull: paths of length 1 are more accurate than the longest",
        "*Convex hull*: each of ten points of a square is labeled: corner of their hull or not.",
    ),
    _short_paths(
        "memorization",
        "Memorization: paths of length 1 are more accurate than the longest",
        "*Memorization*: every word of 128 windows of English text has a random one of ten labels.",
    ),
    Claim(
        id="experiment.locater",
        title="A concentrated eigenspectrum lowers the perplexity, in each of four cases",
        kind="experiment",
        statement=r"""
Train causal language models of two layers for 600 steps from five seeds at the learning rate
$0.03$: with the penalty
$\kappa \operatorname{tr}(W W^\top) + \nu (\operatorname{tr} W - c)^2$ on $W = W_{QK}$ of every
head, $\kappa = \nu \in \{10^{-4}, 10^{-3}, 10^{-2}\}$, $c \in \{d_{qk}, d_{qk}/4\}$, and without.
*Criterion:* on a hidden Markov source and on real text, attention only and with MLPs, in each of
these four cases some of the six points of the grid has a lower held-out perplexity and a higher
attention entropy than no penalty, both by Student's one-sided test of the paired differences of the
logarithm of the perplexity and of the entropy at level $5\,\%/6$.
""",
        sources=(Source(BAO, "experiments with LocAteR"),),
        notebook="locater",
        asserts="fails",
    ),
    Claim(
        id="experiment.real-spectra",
        title="Trace and symmetry tell more than half of the trained heads from random ones",
        kind="experiment",
        statement=r"""
Measured for $W = W_Q W_K^\top$ of all 16 heads of a small decoder, that of
{claim}`experiment.small-decoder` trained anew:
$\operatorname{tr} W / \lVert W \rVert_F$ and the asymmetry
$\lVert (W - W^\top)/2 \rVert_F / \lVert W \rVert_F$. *Criterion:* in each of the two, more than
half of the heads lie outside the central 95 % of random heads of the same shape. It was registered
as it stands before its one run, of seed 7. The two measures had been chosen on the 72 heads of a
trained encoder, after a first one, $\operatorname{tr} W / \sqrt{\operatorname{tr} W^2}$, had failed
this criterion there.
""",
        sources=(Source(BAO, "the statistic ξ, there for symmetric W"),),
        here="the comparison",
        notebook="trained-models",
    ),
    Claim(
        id="experiment.real-margins",
        title="A trained encoder works above the collapse threshold",
        kind="experiment",
        statement=r"""
Measured: the diameter of the inputs of every attention layer of a trained encoder, on English
text. *Criterion:* in every layer and for every passage it exceeds the threshold, the diameter at
which the factor $\sum_h \lVert W_h \rVert_2 \tanh(c_h \operatorname{diam}^2)$ of the sharp theorem
is 1, so that the theorem promises no collapse.
""",
        here="threshold and measurement",
        uses=("collapse.sharp-layer",),
        notebook="trained-models",
    ),
    Claim(
        id="experiment.silent-heads",
        title="Sinks of a trained encoder have little more than the log-odds they need",
        kind="experiment",
        statement=r"""
Measured in every head of a trained encoder, on five passages of English: its sink (the key with the
largest mean weight), the direction $u$ of the point nearest to 0 in the convex hull of the other
values, so that $\langle u, v_j \rangle \ge a$, and the row with the least
$|\langle u, o \rangle|$. *Criterion:* in layers 2 to 5 at least 90 % of all heads and passages have
the first token as sink, with a value at most 0.15 times as long as the others on average; their
quietest row has $|\langle u, o \rangle| \le a/2$, and there the sink's log-odds exceed the needed
$\log \frac{a - \langle u, o \rangle}{b + \langle u, o \rangle}$ by at most 1. Nowhere do they fall
short of it. Layers and limits were chosen on one other passage.
""",
        here="the measurement",
        uses=("sinks.necessary",),
        notebook="sinks-gates",
    ),
    Claim(
        id="experiment.random-gap",
        title="At 500 tokens the second singular value is near the edge or beyond it",
        kind="experiment",
        statement=r"""
Attention with independent $N(0, \sigma^2)$ logits, without a mask, at 125, 250 and 500 tokens, 20
matrices each. *Criterion:* at $n = 500$ the mean of $\sqrt n\, s_2$ is within 5 % of the edge
$2 \sqrt{e^{\sigma^2} - 1}$ for $\sigma = \frac12$, and at least 5 % above it for $\sigma = 1$ and
$\sigma = \frac32$. For $\sigma = \frac32$ a weight less the mean of the others of its key,
times $\sqrt n$, is above the edge in at least half of the matrices. In all matrices the bounds of
{claim}`gap.second` and {claim}`gap.center` hold. The criterion was written after a look at other
matrices with $\sigma = \frac12$ and $\sigma = 1$.
""",
        here="the measurement",
        uses=("gap.second", "gap.center"),
        notebook="spectral-gap",
    ),
    Claim(
        id="experiment.small-decoder",
        title="A small decoder has learned more than the byte before tells",
        kind="experiment",
        statement=r"""
A decoder of Llama's form (4 layers, 4 query heads and 2 key-value heads, width 64, 164,416
parameters) is trained for 800 steps on nine tenths of the documentation strings of Python's
standard library, byte by byte. *Criterion:* on the tenth held out it needs fewer bits per byte, the
mean of $-\log_2 p$ over bytes, than an interpolated model that counts what follows the last byte.
""",
        here="training and measurement",
        notebook="trained-models",
    ),
    Claim(
        id="experiment.three-models",
        title="Three trained models: far above the threshold, and little in long paths",
        kind="experiment",
        statement=r"""
Measured on five texts each: an encoder (6 layers), an ALBERT trained on reactions (12 layers with
the same weights) and a small decoder (4 layers). *Criterion:*

1. every step of every trace agrees with the model within its derived rounding bound;
2. in encoder and ALBERT the input of every layer is at least 20 times as wide as the threshold of
   the sharp theorem; in the decoder its hypotheses fail;
3. in encoder and ALBERT, the paths that use a head in more than half of the layers are most paths,
   and their share of what distinguishes the output's tokens is at most $0.2$ in absolute value;
4. in encoder and ALBERT, attention rollout names the input token whose part has the largest norm
   for fewer than half of the output tokens;
5. some head of the ALBERT has, on every text, a normalized entropy (entropy over the logarithm of
   the number of tokens) below $0.1$ in the first layer and above $0.25$ in the last, with the same
   matrices.

The criterion was registered as it stands before its one run, on texts 6 to 10 of each model, which
no earlier run of it had used. On texts 1 to 5 part 3 had asked for $0.1$ at first and had not come
out: two reactions had $-0.11$ and $-0.12$.
""",
        here="criterion and measurement",
        uses=("paths.length-recursion", "paths.skip-decomposition", "collapse.sharp-layer"),
        notebook="trained-models",
    ),
    Claim(
        id="experiment.rollout-lengths",
        title="A trained encoder has far shorter paths than rollout gives it",
        kind="experiment",
        statement=r"""
Measured in a trained encoder of $L = 6$ layers, with attention, gates and normalization held, on
five passages of English: for each length $\ell$ the net share of its paths in what distinguishes
the tokens of the output, and the norm $N_\ell$ of their sum. *Criterion,* for every passage:
lengths 0 and 1 have together a net share of at least $0.8$; the mean length with the weights
$N_\ell$ is at most $1.25$, where rollout's law has 3; and the total variation between
$N_\ell / \sum_k N_k$ and $\binom 6\ell 2^{-6}$ is at least $0.5$.

The limits were chosen on the five passages of {claim}`experiment.three-models` and registered
before the run on five others. For comparison, and outside the criterion, the table has the same
shares and norms for rollout itself, applied to the tokens that enter the first layer.
""",
        here="criterion and measurement",
        uses=("rollout.lengths", "paths.length-recursion"),
        notebook="rollout",
    ),
    Claim(
        id="experiment.parallel-contexts",
        title="In a small decoder parallel encoding hardly changes the entropy",
        kind="experiment",
        statement=r"""
Measured in the decoder of {claim}`experiment.small-decoder`: four contexts of 24 held-out bytes
from places far apart, then the 24 bytes that follow the last one as a question. Every byte sees all
before it (serial), or a context's byte only its own context (parallel), with the same positions.
For the question's rows over the contexts' 96 keys: the means, over rows and heads, of the entropy
$H$ and its two parts $H(W)$ and $\sum_b W_b H_b$ of {claim}`entropy.blocks`. *Criterion,* for each
of five texts: in layer 1 both readings have one entropy; in later layers these differ by at most
$0.25$; in every layer and both readings $H(W) \ge 0.5$, where $\log 4 = 1.39$ is the most; in
every row and head the two parts add up to $H$ within a derived rounding bound.

The limits were chosen on five other texts and registered before the one run.
""",
        here="criterion and measurement",
        uses=("entropy.blocks",),
        notebook="parallel-contexts",
    ),
    Claim(
        id="experiment.trained-copying",
        title="Trained layers copy by the same two steps, with a first layer that is not exact",
        kind="experiment",
        statement=r"""
Three networks of two layers are trained on the task of {claim}`heads.induction`, with its tokens
$[e_{w_i}, e_i, 0]$, its causal mask, skip connections and one head a layer, without biases, and
with a linear readout. Texts have 16 independent words out of 16, so $n = 15$. Each of 2,000 steps
of Adam lowers $-\log p$ of the right word on 128 new texts, at every token whose word occurred
before. *Criterion,* for the last token of new texts in which its word occurred before, each with
its $k$, in at least 99 percent of them for every network: the largest logit is that of $w_k$; in
layer 1 each token $i \ge 1$ has its largest weight on token $i - 1$; in layer 2 the last token has
its largest weight on token $k$.

The criterion was chosen on networks of other seeds and registered before the one run.
""",
        here="criterion and measurement",
        uses=("heads.induction",),
        notebook="heads-copy",
    ),
    Claim(
        id="experiment.default-initialization",
        title="Default initialization of GPT-2, Llama and BERT against a formula",
        kind="experiment",
        statement=r"""
Measured in models of the library transformers at their default initialization, with weights of
standard deviation $0.02$, heads of width 64, MLPs four times as wide as the stream and no dropout:
the mean cosine of two tokens after each layer, averaged over ten seeds. All three families have
width 256, 12 and 48 layers, and 16 and 256 different random tokens; with 12 layers and 256 tokens
also width 768, and Llama 1,024. The formula is the recursion of {claim}`training.gram-recursion`
with normalization and with the Gaussian expectations of attention and MLP, an approximation.
*Criterion:* in every layer the two differ by at most 10 percent of the measured mean at 12 layers,
and by at most 15 percent at 48, plus two standard errors of that mean.

This is the third run, with the seeds of base 2. The first had left out the standard errors and did
not come out: after the first of 48 layers of GPT-2, where the cosine is near 0.02, the difference
was 18 percent. The second came out, at width 256 alone and with uniform attention in the formula;
at larger widths that formula fails. Scores and larger widths were added before the third run, after
a pilot with two models of Llama at width 1,024.
""",
        here="formula, criterion and measurement",
        uses=("training.gram-recursion",),
        notebook="initialization",
    ),
    Claim(
        id="experiment.training-failures",
        title="Two ways in which training fails, an early sign, and a remedy for one",
        kind="experiment",
        statement=r"""
A decoder (3 layers, 4 heads, width 64, 64 bytes of context) is trained for 300 steps of AdamW
without warm-up, pre-norm or post-norm, with attention, with clipped scores, and without attention.
Learning rates: the best of a pilot ($0.003$ for pre-norm, $0.001$ for post-norm), and two at which
it failed ($0.03$, $0.06$; $0.01$, $0.02$); five seeds. Every five steps a watch measures four
held-out windows: for each layer the mean entropy of its rows in nats and the relative residual
$\lVert X - \mathbf 1 \bar x \rVert_F / \lVert X \rVert_F$ of the tokens that enter attention. The
*final loss* is the mean of the last ten measurements. *Criterion:*

1. In every run at a failing rate the final loss is more than $0.1$ nats above that without
   attention. At the end of pre-norm the entropy is below $0.5$ in some layer and the residual above
   $0.05$ in all. At the end of post-norm the residual is below $0.05$ in some layer and the entropy
   above 1 in all.
2. At the best rates no final loss is more than $0.1$ nats above that without attention, and no run
   has an alarm: three measurements in a row with entropy below $0.5$ or residual below $0.03$ in
   some layer.
3. Every run at a failing rate has an alarm, and in three of four the alarm comes before the loss
   tells: before the step from which on it is $0.1$ nats above the loss at the best rate.
4. Scaled queries, such that no score is above 30, lower the final loss of pre-norm by $0.05$ nats
   or more, averaged over the runs at failing rates. In post-norm they change it by less than that.

The criterion was registered as it stands before its one run, of seeds 10 to 14. A pilot had used
seeds 0 to 2.

What it leaves open: an alarm has the step of the first of its three measurements, and the loss at
the best rate is that of the same seed. What the run showed: for post-norm $0.001$ was not the best
rate, as the mean final loss was lower at $0.003$ to $0.005$. There clipping never acted at any of
the three rates, so the second half of 4 says only that scores were small.
""",
        here="criterion and measurement",
        uses=("training.covariance", "training.clipped-scores"),
        notebook="watch-training",
    ),
]
