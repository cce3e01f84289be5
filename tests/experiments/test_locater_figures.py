"""Every figure of the LocAteR experiment against its definition, on made-up numbers and by hand."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from dataclasses import replace

import pytest
import torch

from attnverify.experiments import locater
from attnverify.experiments.engine.train import Plan, stream
from attnverify.experiments.locater import language
from attnverify.experiments.locater.language import Case, Point, Replicas
from attnverify.experiments.locater.sources import UNKNOWN, HiddenMarkov, MarkovSource, TextSource
from attnverify.support.seeds import generator

#: Three states, two symbols, nothing symmetric.
UNEVEN = HiddenMarkov(
    torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.5, 0.25]]).double(),
    torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]).double(),
)
STATISTICS = ("xi", "trace", "squared_norm", "asymmetry")


def paths(source: HiddenMarkov, word: tuple[int, ...]) -> list[float]:
    """P(word, first state) by going through all paths of states."""
    states, found = range(len(source.transition)), [0.0] * len(source.transition)
    for path in itertools.product(states, repeat=len(word)):
        p = float(source.stationary()[path[0]])
        p *= math.prod(float(source.transition[a, b]) for a, b in itertools.pairwise(path))
        p *= math.prod(float(source.emission[s, x]) for s, x in zip(path, word, strict=True))
        found[path[0]] += p
    return found


# ---------------------------------------------------------------- the hidden Markov source


def test_a_sticky_source_shares_what_is_left_among_the_others():
    source = HiddenMarkov.sticky(3, stay=0.5, right=0.75)
    half, eighth = [[0.5 if a == b else 0.25 for b in range(3)] for a in range(3)], 0.125
    assert source.transition.tolist() == half and source.symbols == 3
    assert source.emission.tolist() == [
        [0.75 if a == b else eighth for b in range(3)] for a in range(3)
    ]
    assert UNEVEN.symbols == 2


def test_the_enclosure_of_the_entropy_rate_by_all_paths():
    """Sums of at most 24 terms below 1, of 3 + 3 factors each: 1e-12 is 4000 roundings."""

    def entropy(parts: list[float]) -> float:
        return -sum(p * math.log(p) for p in parts)

    by_word = {n: [paths(UNEVEN, w) for w in itertools.product((0, 1), repeat=n)] for n in (2, 3)}
    known = {n: entropy([p for parts in found for p in parts]) for n, found in by_word.items()}
    free = {n: entropy([sum(parts) for parts in found]) for n, found in by_word.items()}
    low, high = UNEVEN.entropy_bounds(3)
    assert low == pytest.approx(known[3] - known[2], abs=1e-12)
    assert high == pytest.approx(free[3] - free[2], abs=1e-12)


def test_words_of_an_uneven_source():
    """Counts within 5 standard deviations of the binomial law; and the best loss of many words."""
    words = UNEVEN.draw(20_000, 3, generator(0, "uneven"))
    counts = Counter(map(tuple, words.tolist()))
    for word in itertools.product((0, 1), repeat=3):
        p = sum(paths(UNEVEN, word))
        assert abs(counts[word] - 20_000 * p) <= 5 * math.sqrt(20_000 * p * (1 - p)), word
    losses = UNEVEN.best_loss(words[:5])
    assert losses.shape == (5, 2)
    for word, found in zip(words[:5].tolist(), losses.tolist(), strict=True):
        ratios = [sum(paths(UNEVEN, word[: n + 1])) / sum(paths(UNEVEN, word[:n])) for n in (1, 2)]
        assert found == pytest.approx([-math.log(r) for r in ratios], abs=1e-13)  # 400 roundings


# ---------------------------------------------------------------- text and other sources


def test_the_held_out_words_follow_from_their_name_alone():
    source = MarkovSource(UNEVEN)
    expected = UNEVEN.draw(4, 5, generator(0, "held-out words"))
    assert torch.equal(source.held_out(4, 5), expected) and source.symbols == 2
    assert torch.equal(source.floor(expected), UNEVEN.best_loss(expected))
    text = TextSource.of([chr(97 + k) * 7 for k in range(20)], symbols=30)
    first = torch.randint(len(text.unseen) - 5, (4,), generator=generator(0, "held-out words"))
    expected = torch.stack([text.unseen[k : k + 5] for k in first.tolist()])
    assert torch.equal(text.held_out(4, 5), expected) and text.symbols == 21


def test_pieces_of_text_are_of_the_known_part():
    """Every tenth piece is held out; pieces of 3 of 5 characters, and no place beyond the end."""
    pieces = ["zz", "a", "b"] + [""] * 7 + ["yy"]
    source = TextSource.of(pieces, symbols=9)
    assert "".join(source.alphabet[k] for k in source.unseen) == "zz\n\nyy".replace("\n", UNKNOWN)
    known = "a\n\nb" + "\n\n" * 7
    assert "".join(source.alphabet[k] for k in source.known) == known.replace("\n", UNKNOWN)
    source = TextSource(source.alphabet, torch.arange(5), source.unseen)
    drawn = source.batch(100, 3, generator(0, "windows")).tolist()
    assert {tuple(piece) for piece in drawn} == {(0, 1, 2), (1, 2, 3)}


# ---------------------------------------------------------------- models and replicas


def test_a_model_starts_from_the_draws_of_its_seed():
    model = language.LanguageModel(language.Shape(3, 6, 2, 2, 16, None), seed=4)
    random = generator(4, "language model")
    assert torch.equal(model.symbols, torch.randn(3, 16, generator=random))
    assert torch.equal(model.places, torch.randn(6, 16, generator=random))
    assert torch.equal(model.output, torch.randn(16, 3, generator=random) / 4)
    assert model(torch.zeros(1, 6, dtype=torch.long))[1][0, 0] == 0, "one key: no entropy"


def test_the_regularizer_by_the_large_matrix():
    """Traces and squares of 8 x 8 matrices of size 10: 1e-10 is 1000 roundings of 1000."""
    W_Q, W_K = (torch.randn(8, 3, generator=generator(0, n)).double() for n in ("Q", "K"))
    W = W_Q @ W_K.T
    expected = 0.5 * float((W**2).sum()) + 0.25 * (float(W.trace()) - 3) ** 2
    weights = (torch.tensor(value).double() for value in (0.5, 0.25, 3.0))
    found = float(language.regularizer(W_Q, W_K, *weights))
    assert found == pytest.approx(expected, abs=1e-10)


def test_the_figures_of_a_case_are_those_of_its_models_alone():
    """In float64; figures are kept to 6 digits, eigenvalues to 3, so half a unit is 5e-6 and 5e-3
    of a figure. The loss to be minimized is not rounded: 1e-10 is 10^4 roundings of 100."""
    case = Case("hidden Markov", True, Plan(4, 0.03), 8, batch=3, context=5, held_out=7)
    points, seeds = (Point(0.5, 0.25), Point(0.25, 2.0), Point(0.0, 0.0)), (7, 8)
    replicas = Replicas(case, points, seeds, MarkovSource(UNEVEN))
    plain = Replicas(replace(case, mlp=False), points, seeds, MarkovSource(UNEVEN))
    assert plain.shape == language.Shape(2, 5, 2, 2, 8, None)
    assert replicas.shape == language.Shape(2, 5, 2, 2, 8, 32) and replicas.shape.key_width == 4
    words = UNEVEN.draw(7, 6, generator(0, "held-out words"))
    assert torch.equal(replicas.floor, UNEVEN.best_loss(words))
    assert replicas.unseen.shape == (6, 7, 6)
    start = replicas.start()
    for k, seed in enumerate(seeds * 3):
        model = dict(language.LanguageModel(replicas.shape, seed).named_parameters())
        assert all(torch.equal(start[name][k], own) for name, own in model.items())
    # every replica moves to a place of its own
    scale = 1 + torch.arange(6).double() / 10
    weights = {name: v * scale.view(-1, *[1] * (v.dim() - 1)) for name, v in start.items()}
    drawn = [UNEVEN.draw(3, 6, stream(seed, "hidden Markov", 9)) for seed in seeds]
    row, total = replicas.measure(weights, 9), 0.0
    for k, (point, own) in enumerate(itertools.product(points, drawn)):
        model = language.LanguageModel(replicas.shape, 0).double()
        model.load_state_dict({name: value[k] for name, value in weights.items()})

        def losses(words, model=model):
            logits, entropy = model(words[:, :-1])
            log_p = torch.log_softmax(logits, -1).gather(-1, words[:, 1:, None])
            return float(-log_p.detach().mean()), float(entropy[:, 1:].mean())

        figures = dict(zip(("loss", "entropy"), losses(words), strict=True))
        pairs = zip(*(w[k].flatten(0, 1) for w in language.heads(weights)), strict=True)
        W = [W_Q @ W_K.T for W_Q, W_K in pairs]
        sizes = [float((each**2).sum()) for each in W]
        traces = [float(each.trace()) for each in W]
        figures["trace"], figures["squared_norm"] = map(statistics.mean, (traces, sizes))
        figures["xi"] = statistics.mean(t / s**0.5 for t, s in zip(traces, sizes, strict=True))
        skew = [float(((each - each.T) ** 2).sum()) / 4 for each in W]
        figures["asymmetry"] = statistics.mean(a / s for a, s in zip(skew, sizes, strict=True))
        assert {name: row[name][k] for name in figures} == pytest.approx(figures, rel=5.1e-6)
        total += losses(own)[0]
        target = 4 * point.target
        pull = [s + (t - target) ** 2 for s, t in zip(sizes, traces, strict=True)]
        total += point.strength * sum(pull)
        if k % 2 == 0:
            found = [torch.linalg.eigvals(each) for each in W]
            largest = [v[v.abs().argsort()[-4:]].real for v in found]  # the others are 0 by rank
            expected = torch.cat(largest).sort().values.tolist()
            assert row["eigenvalues"][k // 2] == pytest.approx(expected, rel=5.1e-3)
    assert float(replicas.loss(weights, 9).detach()) == pytest.approx(total, abs=1e-10)


# ---------------------------------------------------------------- the run and its table


def test_the_cases_of_both_settings():
    full = list(locater.cases(quick=False))
    assert full == [
        Case(source, mlp, plan, width, held_out=128)
        for source, width in (("hidden Markov", 16), ("text", 32))
        for mlp in (False, True)
        for plan in (
            Plan(600, rate, warmup=50, measure_every=60, checkpoint_every=60)
            for rate in (0.01, 0.03)
        )
    ]
    assert list(locater.cases(quick=True)) == [
        Case(source, mlp, plan, width, held_out=32)
        for source, mlp, width in (("hidden Markov", False, 16), ("text", True, 32))
        for plan in (
            Plan(90, rate, warmup=50, measure_every=30, checkpoint_every=60)
            for rate in (0.01, 0.03)
        )
    ]
    names = [case.architecture for case in full]
    assert names == (["attention only"] * 2 + ["with MLPs"] * 2) * 2
    assert full[-1].name == "text, with MLPs, learning rate 0.03"


def measured(count: int, points: int) -> list[dict]:
    """Five rows of made-up metrics; no two figures are equal."""
    rows = []
    for step in range(5):
        row = {"step": 10 * step}
        for place, name in enumerate(("loss", "entropy", *STATISTICS)):
            row[name] = [1 + place + step / 8 + k**2 / 64 for k in range(count)]
        row["eigenvalues"] = [[float(step), float(k)] for k in range(points)]
        rows.append(row)
    return rows


def test_the_argument_counts_points_and_names_the_best():
    """Six points whose losses are off by -0.3, -0.2, ..., 0.2, always alike in the five seeds but
    for +-0.01: standard error 0.0049, so 0.019 is allowed (t_4(1 - 0.05/6) = 3.96)."""
    rows = []
    for source, architecture, point in itertools.product(
        locater.WIDTH, ("attention only", "with MLPs"), locater.GRID
    ):
        place = {"source": source, "architecture": architecture, "rate": 0.03, **vars(point)}
        regularized = point in locater.REGULARIZED
        off = (locater.REGULARIZED.index(point) - 3) / 10 if regularized else 0.0
        loss = [2 + k + off + 0.01 * (-1) ** k * regularized for k in range(5)]
        entropy = [0.5 - off + 0.01 * (-1) ** k * regularized for k in range(5)]
        rows.append(place | {"loss": loss, "entropy": entropy})
    verdict = locater.EXPERIMENT.judge(rows)
    # the mean of +-0.01 over five seeds is 0.002; 3.96 * 0.0049 = 0.0194
    case = "of 6 points 3 better and 2 of higher loss, at best -0.2980 (below -0.2786) nats"
    cases = [f"{s}, {a}: {case}" for s in locater.WIDTH for a in ("attention only", "with MLPs")]
    assert verdict.holds is True and verdict.cases == 4 * 8 * 5
    assert verdict.argument == f"at learning rate 0.03: {'; '.join(cases)}"


# ---------------------------------------------------------------- a part of it, once more
