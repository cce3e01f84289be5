"""The LocAteR experiment: each figure against its definition, sources, models, the criterion."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from dataclasses import replace

import pytest
import torch

from attnverify import InputError, SelfAttentionNetwork
from attnverify.experiments import find, locater
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.engine.train import Plan, stream
from attnverify.experiments.locater import language, sources
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


def test_the_stationary_law_is_kept():
    """Solving n = 3 equations of condition below 20 in float64: n^3 * 20 roundings at most."""
    law = UNEVEN.stationary()
    assert float((law @ UNEVEN.transition - law).abs().max()) <= 27 * 20 * 2.0**-52
    assert float(law.sum()) == pytest.approx(1, abs=1e-12) and float(law.min()) > 0


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


def test_bad_sources_are_refused():
    half = torch.full((2, 2), 0.5).double()
    with pytest.raises(InputError, match="transition: got a row sum"):
        HiddenMarkov(half * 2, half)
    with pytest.raises(InputError, match="transition: got a zero entry"):
        HiddenMarkov(torch.eye(2).double(), half)
    for length in (1, 30):
        with pytest.raises(InputError, match=f"length: got {length}"):
            UNEVEN.entropy_bounds(length)
    with pytest.raises(InputError, match="text: got"):
        TextSource.of(["short", "text"]).held_out(1, 33)


def test_text_from_the_standard_library_and_from_a_file(tmp_path):
    pieces = sources.documentation(20_000)
    assert 20_000 <= sum(map(len, pieces)) < 30_000 and pieces == sources.documentation(20_000)
    file = tmp_path / "text.txt"
    file.write_text("one\n\n\n\ntwo\nlines\n")
    assert sources.paragraphs(file) == ("one", "two\nlines")
    with pytest.raises(InputError, match="text: got .*none.txt"):
        sources.paragraphs(tmp_path / "none.txt")


# ---------------------------------------------------------------- models and replicas


@pytest.mark.parametrize("mlp_width", [None, 16])
def test_a_model_is_the_packages_network_between_embedding_and_output(mlp_width):
    """In float64, where the package's own forward pass is run beside it: equal to the last bit.

    So are the attention matrices. An entropy has at most 6 summands with 3 roundings each (the
    logarithm one unit in the last place, the product), 5 of their sum, 4 of the mean over layers
    and heads, 1 of the quotient: 15 on either side of at most log 6 / log 2.
    """
    shape = language.Shape(2, 6, 2, 2, 8, mlp_width)
    model = language.LanguageModel(shape, seed=3).double()
    words = UNEVEN.draw(4, 6, generator(0, "words"))
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
    changed[:, -1] = 1 - changed[:, -1]
    assert torch.equal(model(changed)[0][:, :-1], logits[:, :-1]), "looks into the future"


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


# ---------------------------------------------------------------- the criterion and the run


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
                    place = {"source": source, "architecture": architecture, "rate": rate}
                    rows.append(place | {**vars(point), "loss": loss, "entropy": entropy})
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
