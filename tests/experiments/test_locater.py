"""The parts of the LocAteR experiment: source and floor, spectrum, models, replicas."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from attnverify import InputError, SelfAttentionNetwork
from attnverify.experiments import find, locater
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.engine.train import Plan, train
from attnverify.experiments.locater import language, sources
from attnverify.experiments.locater.language import Case, Point, Replicas
from attnverify.experiments.locater.sources import UNKNOWN, HiddenMarkov, MarkovSource, TextSource
from attnverify.mathematics import querykey

SOURCE = HiddenMarkov.sticky(3, stay=0.9, right=0.7)
SHAPE = language.Shape(symbols=3, context=6, depth=2, heads=2, width=8, mlp_width=16)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def probability(source: HiddenMarkov, word: tuple[int, ...]) -> float:
    """P(word) by going through all state paths: nothing shared with the filter."""
    states, law, total = range(len(source.transition)), source.stationary(), 0.0
    for path in itertools.product(states, repeat=len(word)):
        p = float(law[path[0]])
        for a, b in itertools.pairwise(path):
            p *= float(source.transition[a, b])
        for state, symbol in zip(path, word, strict=True):
            p *= float(source.emission[state, symbol])
        total += p
    return total


def test_the_filter_gives_the_probability_of_every_word():
    """Sums of 81 products of 8 factors: relative rounding below 100 units."""
    for word in itertools.product(range(3), repeat=4):
        losses = SOURCE.best_loss(torch.tensor([word]))[0]
        expected = probability(SOURCE, word) / probability(SOURCE, word[:1])
        assert float((-losses.sum()).exp()) == pytest.approx(expected, rel=100 * 2.0**-52)


def test_the_stationary_law_is_kept():
    """Solving n = 3 equations of condition below 20 in float64: n^3 * 20 roundings at most."""
    uneven = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]).double()
    uneven /= uneven.sum(-1, keepdim=True)
    for transition in (SOURCE.transition, uneven):
        law = HiddenMarkov(transition, SOURCE.emission).stationary()
        assert float((law @ transition - law).abs().max()) <= 27 * 20 * 2.0**-52
        assert float(law.sum()) == pytest.approx(1, abs=1e-12) and float(law.min()) > 0


def test_the_entropy_rate_is_enclosed_ever_closer():
    bounds = [SOURCE.entropy_bounds(n) for n in (2, 4, 6, 8, 10)]
    lows, highs = zip(*bounds, strict=True)
    assert list(lows) == sorted(lows) and list(highs) == sorted(highs, reverse=True)
    assert all(low < high for low, high in bounds) and highs[-1] - lows[-1] < 5e-4
    independent = HiddenMarkov.sticky(3, stay=1 / 3, right=0.7)
    assert independent.entropy_bounds(4) == pytest.approx((math.log(3),) * 2, abs=1e-9)


def test_the_floor_of_drawn_words_is_the_entropy_rate():
    """Far from the start the mean of the best loss is within the bounds, to 5 standard errors."""
    losses = SOURCE.best_loss(SOURCE.draw(4000, 40, random()))[:, -10:].mean(1)
    error = float(losses.std()) / len(losses) ** 0.5
    low, high = SOURCE.entropy_bounds(10)
    assert low - 5 * error <= float(losses.mean()) <= high + 5 * error


def test_drawn_words_have_the_probabilities_of_the_model():
    """All words of length 2: counts within 5 standard deviations of the binomial law."""
    draws = 20_000
    words = SOURCE.draw(draws, 2, random(1))
    for word in itertools.product(range(3), repeat=2):
        p = probability(SOURCE, word)
        count = int((words == torch.tensor(word)).all(1).sum())
        assert abs(count - draws * p) <= 5 * math.sqrt(draws * p * (1 - p)), word


def test_bad_sources_are_refused():
    half = torch.full((2, 2), 0.5).double()
    with pytest.raises(InputError, match="transition: got a row sum"):
        HiddenMarkov(half * 2, half)
    with pytest.raises(InputError, match="transition: got a zero entry"):
        HiddenMarkov(torch.eye(2).double(), half)
    for length in (1, 30):
        with pytest.raises(InputError, match=f"length: got {length}"):
            SOURCE.entropy_bounds(length)
    with pytest.raises(InputError, match="text: got"):
        TextSource.of(["short", "text"]).held_out(1, 33)


def test_text_is_coded_and_split():
    pieces = ["aaab", "bz"] + ["ab"] * 9
    source = TextSource.of(pieces, symbols=3)
    assert source.alphabet == "ab" + UNKNOWN
    assert source.floor(source.held_out(2, 5)) is None
    assert [source.alphabet[k] for k in source.unseen] == list("aaab" + UNKNOWN * 2 + "ab")
    assert source.batch(3, 4, random()).shape == (3, 4)


def test_text_from_the_standard_library_and_from_a_file(tmp_path):
    pieces = sources.documentation(20_000)
    assert 20_000 <= sum(map(len, pieces)) < 30_000 and pieces == sources.documentation(20_000)
    file = tmp_path / "text.txt"
    file.write_text("one\n\n\n\ntwo\nlines\n")
    assert sources.paragraphs(file) == ("one", "two\nlines")
    with pytest.raises(InputError, match="text: got .*none.txt"):
        sources.paragraphs(tmp_path / "none.txt")


def dense(W_Q, W_K):
    return (W_Q @ W_K.mT).double()


def test_spectrum_by_way_of_small_matrices_is_that_of_the_large_one():
    """Against the d x d matrix in float64. Sums of at most d k^2 float64 products.

    Moments: let S = |W_Q| |W_K| in Frobenius norms, which bounds those of W, of K'Q and of their
    entries' absolute values. Eigenvalues are those of K'Q with an error of 10 k u S (backward
    stable; LAPACK Users' Guide, section 4.8) beside the d u S of its products, and the trace of a
    p-th power moves by p k S^(p-1) times that; their powers and sum are 4 p + k roundings of at
    most k S^p. The d x d side has p (d + k) + d roundings of at most S^p. With k = 3, d = 8:
    3 p (30 + 8) + 3 (4 p + 3) + 11 p + 8 <= 160 p.
    """
    W_Q, W_K = (torch.randn(5, 8, 3, generator=random(k), dtype=torch.float64) for k in (0, 1))
    W = dense(W_Q, W_K)
    close = dict(rtol=0, atol=1e4 * 2.0**-52)
    assert torch.allclose(querykey.trace(W_Q, W_K), W.diagonal(dim1=1, dim2=2).sum(1), **close)
    assert torch.allclose(querykey.squared_norm(W_Q, W_K), (W**2).sum((1, 2)), **close)
    antisymmetric = ((W - W.mT) / 2).square().sum((1, 2)) / W.square().sum((1, 2))
    assert torch.allclose(querykey.skew_square(W_Q, W_K), antisymmetric, **close)
    values = language.eigenvalues(W_Q, W_K)
    for power in (1, 2, 3):
        moments = torch.linalg.matrix_power(W, power).diagonal(dim1=1, dim2=2).sum(1)
        S = W_Q.norm(dim=(1, 2)) * W_K.norm(dim=(1, 2))
        off = ((values**power).sum(1).real - moments).abs()
        assert (off <= 160 * power * 2.0**-53 * S**power).all()


def test_xi_is_largest_when_all_eigenvalues_agree():
    """With columns of lengths 1 + e, e of rounding size, it is sqrt(3) up to e^2.

    So only its own roundings count: 24 of the trace, half of 8 + 1 + 9 of the squared norm (whose
    entries off the diagonal are squares of roundings), 2 of root and quotient: 35.
    """
    W_Q = torch.linalg.qr(torch.randn(8, 3, generator=random(), dtype=torch.float64)).Q
    found = float(querykey.xi_general(W_Q, W_Q))
    assert found == pytest.approx(math.sqrt(3), rel=36 * 2.0**-53, abs=0)
    for seed in range(50):
        W_K = W_Q + torch.randn(8, 3, generator=random(seed), dtype=torch.float64)
        assert abs(float(querykey.xi_general(W_Q, W_K))) < math.sqrt(3)


def test_the_regularizer_is_least_at_a_concentrated_spectrum():
    """Minimized by Adam: all k eigenvalues become t/k with t = c nu/(kappa/k + nu).

    1e-4 is no rounding bound but a criterion: ten of the last steps, which are at most 0.03/3000 an
    entry. A kappa or nu that is 1 % off would move the minimum by 2.5e-3.
    """
    W_Q, W_K = (torch.randn(8, 3, generator=random(k), dtype=torch.float64) for k in (0, 1))
    weights, two = [W_Q.requires_grad_(), W_K.requires_grad_()], torch.tensor(2.0).double()
    optimizer = torch.optim.Adam(weights, lr=0.03)
    for k in range(3000):
        optimizer.param_groups[0]["lr"] = 0.03 * (1 - k / 3000)
        optimizer.zero_grad()
        language.regularizer(*weights, two / 2, two / 2, 2 * two).backward()
        optimizer.step()
    values = language.eigenvalues(*weights).detach()
    expected = 4 / (1 / 3 + 1) / 3
    assert torch.allclose(values.real, torch.full((3,), expected).double(), rtol=0, atol=1e-4)
    assert float(values.imag.abs().max()) < 1e-4


@pytest.mark.parametrize("mlp_width", [None, 16])
def test_a_model_is_the_packages_network_between_embedding_and_output(mlp_width):
    """In float64, where the package's own forward pass is run beside it: equal to the last bit.

    So are the attention matrices. An entropy has at most 6 summands with 3 roundings each (the
    logarithm one unit in the last place, the product), 5 of their sum, 4 of the mean over layers
    and heads, 1 of the quotient: 15 on either side of at most log 6 / log 2.
    """
    shape = language.Shape(3, 6, 2, 2, 8, mlp_width)
    model = language.LanguageModel(shape, seed=3).double()
    words = SOURCE.draw(4, 6, random())
    logits, entropy = model(words)
    X = model.symbols[words] + model.places  # torch multiplies otherwise if no gradient is asked
    assert isinstance(model.network, SelfAttentionNetwork)
    assert torch.equal(logits, model.network(X) @ model.output)
    P = model.network.attention(X)
    by_hand = -(P * P.clamp(min=1e-300).log()).sum(-1).mean((0, 1))
    places = torch.arange(2, 7).log()
    off = (entropy[:, 1:] - by_hand[:, 1:] / places).abs().max()
    assert off <= 2 * 15 * 2.0**-53 * math.log2(6)
    changed = words.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 3
    assert torch.equal(model(changed)[0][:, :-1], logits[:, :-1]), "looks into the future"


def test_replicas_are_models_of_their_own():
    """Side by side in float64 they give what each gives alone, up to 10^4 roundings."""
    parameters = {n: v.double() for n, v in language.start(SHAPE, [5, 6]).items()}
    words = torch.stack([SOURCE.draw(4, 7, random(k)) for k in (0, 1)])
    losses, entropy = language.predict(SHAPE, parameters, words)
    for k, seed in enumerate((5, 6)):
        model = language.LanguageModel(SHAPE, seed).double()
        logits, own = model(words[k, :, :-1])
        log_p = torch.log_softmax(logits, -1).gather(-1, words[k, :, 1:, None])[..., 0]
        assert torch.allclose(losses[k], -log_p, rtol=0, atol=1e4 * 2.0**-52)
        assert torch.allclose(entropy[k], own, rtol=0, atol=1e4 * 2.0**-52)


CASE = Case(
    "hidden Markov",
    False,
    Plan(40, 0.03, measure_every=20),
    width=8,
    batch=4,
    context=6,
    held_out=8,
)


def trained(points: tuple[Point, ...], seeds: tuple[int, ...]) -> list[dict]:
    replicas = Replicas(CASE, points, seeds, MarkovSource(SOURCE))
    start = {name: value.double() for name, value in replicas.start().items()}
    return train(start, replicas.loss, replicas.measure, CASE.plan)


def test_a_replica_does_not_depend_on_the_others():
    """Trained alone or beside others, in float64: equal to the six digits that are recorded, as
    long as 40 steps amplify rounding less than 10^9 times; another point is far away."""
    points = (Point(0.0, 0.0), Point(0.1, 1.0))
    together, alone = trained(points, (7, 8)), trained(points[1:], (8,))
    for name in ("loss", "trace", "squared_norm"):
        for place in (0, -1):
            assert together[place][name][3] == pytest.approx(alone[place][name][0], rel=1e-5)
    assert together[0]["trace"][1] == together[0]["trace"][3], "one seed, one start"
    assert abs(together[-1]["trace"][1] - together[-1]["trace"][3]) > 1


def test_the_regularizer_moves_the_trace_to_its_target():
    """With a strong penalty most of the way to c nu/(kappa/k + nu) = 4/(1/4 + 1) in 40 steps."""
    row = trained((Point(1.0, 1.0),), (0, 1))[-1]
    assert all(abs(t - 4 / 1.25) < 0.2 for t in row["trace"])
    assert all(1.8 < x <= 2 for x in row["xi"]), "at most the root of the key width"


def row(source, architecture, rate, point, loss, entropy):
    place = {"source": source, "architecture": architecture, "rate": rate}
    return place | {**vars(point), "loss": loss, "entropy": entropy}


def table(gain: float, scatter: float = 0.01, seeds: int = locater.SEEDS) -> list[dict]:
    """Every regularized point gains so much at the high rate, with so much scatter over seeds."""
    rows = []
    for source in locater.WIDTH:
        for architecture in ("attention only", "with MLPs"):
            for rate in locater.RATES.values():
                for point in locater.GRID:
                    better = gain * (point in locater.REGULARIZED) * (rate == 0.03)
                    loss = [
                        2 + k - better + scatter * (-1) ** k * (better != 0) for k in range(seeds)
                    ]
                    entropy = [0.5 + better + 0.001 * k * (better != 0) for k in range(seeds)]
                    rows.append(row(source, architecture, rate, point, loss, entropy))
    return rows


def test_the_criterion_asks_for_more_than_the_scatter_over_seeds():
    """Differences +-0.01 around the gain: standard error 0.0049, quantile t_4(1 - 0.05/6) = 3.96,
    so a gain of 0.03 is believed and one of 0.01 is not."""
    judge = locater.EXPERIMENT.judge
    assert judge(table(0.03)).holds is True
    assert judge(table(0.01)).holds is False
    assert judge(table(-0.03)).holds is False
    assert judge(table(0.03, seeds=2)).holds is None
    rows = table(0.03)
    for each in locater.select(rows, source="text", architecture="attention only", rate=0.03):
        each["loss"] = [2.0 + k for k in range(locater.SEEDS)]
    assert judge(rows).holds is False, "one of the four cases without a gain"


def test_a_lower_loss_without_more_entropy_is_not_enough():
    rows = table(0.03)
    for each in rows:
        each["entropy"] = [0.5] * locater.SEEDS
    assert locater.EXPERIMENT.judge(rows).holds is False


def test_the_twins_ask_for_other_things():
    """Of a table with gains at the high rate everywhere, and of one without any gain."""
    judges = [judge for _, judge in locater.EXPERIMENT.twins]
    assert [judge(table(0.03)).holds for judge in judges] == [False, True, False]
    assert [judge(table(0.0)).holds for judge in judges] == [False, False, True]


@pytest.mark.parametrize("text", [None, "a few words", "a line\n\n" * 12 + "w" * 400])
def test_a_text_that_cannot_be_used_is_told_before_the_training(tmp_path, text):
    """Missing, too short, and too short in the held-out tenth alone."""
    if text is not None:
        (tmp_path / "text.txt").write_text(text)
    trains = lambda *_: pytest.fail("it trained")  # noqa: E731
    with pytest.raises(InputError, match="^text: got "):
        locater.run(Settings(text=tmp_path / "text.txt", progress=trains))
    missing = Settings(text=tmp_path / "missing", progress=trains)
    with pytest.raises(InputError, match="^text: got .*missing, expected an existing text file"):
        results.run(find("locater"), missing)


def test_a_run_on_a_text_of_ones_own_resumes(tmp_path, monkeypatch):
    """The whole run with tiny sizes; stopped and started again it gives the same rows."""
    file = tmp_path / "own.txt"
    file.write_text("\n\n".join(f"paragraph {k} says little, and says it twice" for k in range(40)))
    plan = Plan(12, 0.03, measure_every=6, checkpoint_every=4)
    small = [Case("text", True, plan, 8, batch=2, context=6, held_out=4)]
    monkeypatch.setattr(locater, "cases", lambda quick: iter(small))
    rows = locater.run(Settings(text=file))
    assert len(rows) == len(locater.QUICK_GRID) and rows[0]["floor"] is None
    assert rows[0]["steps"] == [0, 6, 12] and len(rows[0]["eigenvalues"][0]) == 2 * 2 * 4

    def stop(what: str, done: float) -> None:
        if done > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        locater.run(Settings(text=file, folder=tmp_path, progress=stop))
    assert list(tmp_path.rglob("checkpoint.safetensors"))
    assert locater.run(Settings(text=file, folder=tmp_path)) == rows
