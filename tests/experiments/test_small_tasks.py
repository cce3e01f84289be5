"""Path counts, the circle, and accuracy by path length: data, measurements, pictures."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace

import pytest
import torch
from scipy.spatial import ConvexHull

import attnverify as av
from attnverify import InputError
from attnverify.experiments import circle, pathcounts, shortpaths
from attnverify.experiments.engine.ensemble import Ensemble
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.engine.train import stream
from attnverify.experiments.shortpaths import lengths, tasks
from attnverify.mathematics import paths
from attnverify.support.seeds import seed_for

TINY = shortpaths.Size(networks=2, steps=6, rate=2e-3, batch=4, sequences=5, paths=7)


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def nets(count: int, **options) -> list[av.SelfAttentionNetwork]:
    shape = {"depth": 3, "heads": 2, "width": 6, "skip": True, "bias": False} | options
    return [av.SelfAttentionNetwork.random(seed=seed, **shape) for seed in range(count)]


# ---------------------------------------------------------------- ensembles


@pytest.mark.parametrize("options", [{}, {"mlp_width": 5, "bias": True}, {"mask": "causal"}])
def test_an_ensemble_is_its_networks(options):
    """The same operations on the same numbers; only the order of a product's sums may differ.

    Three layers of some 40 roundings a value, of relative size 1e-16: 1e-12 leaves room for values
    a hundred times as large as the result.
    """
    several = nets(3, **options)
    ensemble = Ensemble(several)
    X = torch.randn(3, 4, 5, 6, generator=draws(0), dtype=torch.float64)
    together = ensemble.outputs(ensemble.initial, X)
    for index, net in enumerate(several):
        alone = net(X[index])
        torch.testing.assert_close(together[index], alone, rtol=1e-12, atol=1e-12)
        again = ensemble.network(ensemble.initial, index)
        assert all(
            torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True)
        )


def test_weights_that_are_not_given():
    """What is left out is the first network's; products summed in another order, as above."""
    several = nets(2)
    X = torch.randn(2, 4, 5, 6, generator=draws(0), dtype=torch.float64)
    values = {name: w for name, w in Ensemble(several).initial.items() if name == "weights.W_V"}
    assert len(values) == 1
    found = Ensemble(several).outputs(values, X)
    mixed = Ensemble(several).network(values, 1)
    torch.testing.assert_close(found[1], mixed(X[1]), rtol=1e-12, atol=1e-12)
    assert torch.equal(mixed.weights.W_Q, several[0].weights.W_Q)
    assert torch.equal(mixed.weights.W_V, several[1].weights.W_V)


def test_an_ensemble_needs_networks_of_one_shape():
    with pytest.raises(InputError, match="networks: got none"):
        Ensemble([])
    with pytest.raises(InputError, match="networks: got different shapes or options"):
        Ensemble([*nets(1), *nets(1, width=8)])
    with pytest.raises(InputError, match="networks: got different shapes or options"):
        Ensemble([*nets(1), *nets(1, skip=False)])


# ---------------------------------------------------------------- tasks


def test_corners_of_hulls_agree_with_scipy():
    points = torch.rand(40, 10, 2, generator=draws(1), dtype=torch.float64)
    found = tasks.on_hull(points)
    for each, corners in zip(points, found, strict=True):
        expected = set(ConvexHull(each.numpy()).vertices.tolist())
        assert set(corners.nonzero()[:, 0].tolist()) == expected


@pytest.mark.parametrize("name", tasks.TASKS)
def test_tasks_are_seeded_and_differ_between_networks(name):
    one, again, other = (tasks.TASKS[name](2, seed, 20) for seed in (3, 3, 4))
    assert one.name == name and all(
        torch.equal(a, b) for a, b in zip(one.test, again.test, strict=True)
    )
    assert not torch.equal(one.test[0], other.test[0])
    assert not torch.equal(one.test[0][0], one.test[0][1])
    inputs, labels = one.draw(draws(0), 7)
    assert labels.shape == (2, 7, one.tokens) and inputs.shape[:3] == labels.shape
    assert set(labels.flatten().tolist()) <= set(range(one.labels))


def test_sorted_labels_are_the_sorted_letters():
    inputs, labels = tasks.sorting(1, 0, 30).test
    for letters, target in zip(inputs[0].tolist(), labels[0].tolist(), strict=True):
        assert sorted(letters) == target


def test_memorized_labels_belong_to_their_windows():
    """Every drawn window is one of the windows, with its own labels."""
    task = tasks.memorization(1, 0, 12)
    pairs = zip(task.test[0][0].tolist(), task.test[1][0].tolist(), strict=True)
    known = {tuple(window): labels for window, labels in pairs}
    inputs, labels = task.draw(draws(5), 9)
    for window, each in zip(inputs[0].tolist(), labels[0].tolist(), strict=True):
        assert known[tuple(window)] == each
    assert set(task.test[1].flatten().tolist()) == set(range(task.labels)) == set(range(10))
    windows, vocabulary = tasks.documentation_windows(16)
    assert int(windows.max()) < vocabulary
    with pytest.raises(InputError, match="count: got"):
        tasks.memorization(1, 0, len(windows) + 1)


# ---------------------------------------------------------------- accuracy by length


def small_measurement(sampled: int):
    net = nets(1)[0]
    X = torch.randn(4, 5, 6, generator=draws(2), dtype=torch.float64)
    readout = torch.randn(6, 3, generator=draws(3), dtype=torch.float64)
    labels = torch.randint(0, 3, (4, 5), generator=draws(4))
    return net, X, readout, labels, lengths.measure(net, X, readout, labels, sampled, draws(5))


def score_limit(fixed: paths.FixedAttention, X, readout, labels, terms: int) -> float:
    """How far two float evaluations of the score of so many path terms may be apart.

    :meth:`FixedAttention.rounding_bound` for the sum of the terms, entry by entry, with the
    roundings behind it: width for the readout, a label each for the mean logit and one for the
    difference, and the mean over tokens, or the inner product with the gradient of the score, which
    has as many terms as X. All that is linear; in absolute values it is a sum of both logits.
    """
    more = X.numel() + readout.numel() + 1
    size = fixed.rounding_bound(X, terms + more) @ abs(readout)
    right = size.gather(-1, labels[..., None])[..., 0]
    return float((right + size.mean(-1)).mean())


def test_accuracy_by_length_agrees_with_enumeration():
    """One draw is N = ``paths`` times a score, so N times as far off.

    A standard deviation and a largest distance from the mean move by no more than the numbers do;
    N of them add N + 3 roundings of numbers of that size, which the limit has too: hence the 2.
    """
    net, X, readout, labels, (whole, rows) = small_measurement(2)
    fixed = paths.FixedAttention.of(net, X)
    sums = torch.zeros(4, *X.shape, dtype=torch.float64)
    scores = [[] for _ in range(4)]
    for path, term in paths.terms(net, X):
        length = len(path) - path.count(0)
        sums[length] += term
        scores[length].append(float(lengths.score(term @ readout, labels)))
    for length, row in enumerate(rows):
        right = (sums[length] @ readout).argmax(-1) == labels
        assert row["accuracy"] == float(right.double().mean())
        assert row["paths"] == len(scores[length])
        # the score is linear: that of the sum is the sum of those of its paths
        limit = score_limit(fixed, X, readout, labels, row["paths"])
        assert abs(row["score"] - math.fsum(scores[length])) <= limit < 1e-9
        one = row["paths"] * torch.tensor(scores[length], dtype=torch.float64)
        limit *= 2 * row["paths"]
        assert abs(row["spread"] - float(one.std(correction=0))) <= limit
        assert abs(row["farthest"] - float((one - row["score"]).abs().max())) <= limit
    assert rows[-1]["up_to"] == whole["accuracy"] == lengths.accuracy(net(X) @ readout, labels)
    assert whole["sum_share"] <= 1 and whole["chance"] == labels.flatten().bincount().max() / 20


@pytest.mark.parametrize("options", [{"depth": 4}, {"depth": 1}, {"heads": 3}])
def test_scores_of_all_paths_are_those_of_their_terms(options):
    """The same set of numbers, one by one: depths that split evenly and that do not.

    Sorted numbers are no farther apart than the numbers themselves.
    """
    net = nets(1, **options)[0]
    X = torch.randn(2, 5, 6, generator=draws(8), dtype=torch.float64)
    readout = torch.randn(6, 3, generator=draws(9), dtype=torch.float64)
    labels = torch.randint(0, 3, (2, 5), generator=draws(10))
    fixed = paths.FixedAttention.of(net, X)
    found = lengths.all_scores(fixed, X, readout, labels)
    for length, scores in enumerate(found):
        expected = [
            float(lengths.score(term @ readout, labels))
            for path, term in paths.terms(net, X)
            if len(path) - path.count(0) == length
        ]
        expected = torch.tensor(sorted(expected), dtype=torch.float64)
        limit = score_limit(fixed, X, readout, labels, 1)
        assert (scores.sort().values - expected).abs().max() <= limit < 1e-9


@pytest.mark.parametrize(("spread", "farthest"), [(1.0, 30.0), (1.0, 1.0), (0.1, 5.0)])
def test_bernstein_gives_the_distance_of_its_probability(spread, farthest):
    far = lengths.bernstein(spread, farthest, 100, 1e-5)
    exponent = 100 * far**2 / (2 * spread**2 + 2 * farthest * far / 3)
    assert 2 * math.exp(-exponent) == pytest.approx(1e-5)


def test_estimates_from_drawn_paths_are_as_near_as_chance_allows():
    *_, (_, rows) = small_measurement(400)
    assert rows[0]["sampled"] == 1 and rows[0]["sampled_score"] == rows[0]["score"]
    assert 0 < shortpaths.deviation(rows) <= 1
    assert shortpaths.deviation(rows, lambda row: 1 / row["paths"]) > 1
    off = [row | {"sampled_score": row["score"] + row["spread"]} for row in rows]
    assert shortpaths.deviation(off) > 1
    one = [rows[0] | {"sampled_score": rows[0]["score"] + 1e-9}, *rows[1:]]
    assert shortpaths.deviation(one) == math.inf, "a single path allows no difference"


def test_drawn_paths_are_equally_likely():
    """Each of the 12 paths of length 2 has probability 1/12; 5 standard deviations allowed."""
    net, random, number = nets(1)[0], draws(6), 3000
    drawn = [lengths.draw_path(net, 2, random) for _ in range(number)]
    possible = [p for p in itertools.product(range(3), repeat=3) if p.count(0) == 1]
    assert set(drawn) <= set(possible) and len(possible) == 12
    spread = math.sqrt(number / 12 * 11 / 12)
    assert all(abs(drawn.count(p) - number / 12) <= 5 * spread for p in possible)


def test_networks_with_biases_are_refused():
    _, X, readout, labels, _ = small_measurement(1)
    for options in ({"bias": True}, {"skip": False}):
        with pytest.raises(InputError, match="net: got a network without skip or with biases"):
            lengths.measure(nets(1, **options)[0], X, readout, labels, 1, draws(0))


def test_a_trainee_starts_smaller_where_it_writes():
    """By the root of its twelve writers; the other weights are those of its network."""
    trainee = shortpaths.Trainee(tasks.sorting(1, 3, 4), 1, 3)
    own = {"seed": seed_for(3, "sorting", "0") % 2**31, "dtype": torch.float32}
    net = av.SelfAttentionNetwork.random(6, 2, 48, skip=True, bias=False, **own)
    for name, size in (("W_Q", 1.0), ("W_O", math.sqrt(12))):
        found = size * trainee.weights[f"weights.{name}"][0]
        torch.testing.assert_close(found, net.weights[name].detach())


def test_every_step_of_training_has_its_own_sequences():
    """The loss of a step is the cross entropy of the sequences that its own random numbers draw."""
    task = tasks.sorting(2, 0, 3)
    trainee = shortpaths.Trainee(task, 2, 0)
    loss, measure = shortpaths.goals(trainee, replace(TINY, batch=2), seed=5)
    seen = []
    for done in (0, 1):
        inputs, labels = task.draw(stream(5, "sorting", done), 2)
        logits = trainee.logits(trainee.weights, inputs).log_softmax(-1)
        right = logits.gather(-1, labels[..., None])
        seen.append(float(loss(trainee.weights, done)))
        assert seen[-1] == pytest.approx(float(-right.mean((1, 2, 3)).sum()), rel=1e-5)  # float32
    assert seen[0] != seen[1]
    whole = trainee.losses(trainee.weights, *task.test).tolist()
    assert measure(trainee.weights, 0) == {"loss": whole}


def test_a_task_resumes_from_its_checkpoint(tmp_path):
    """Interrupted after 25 of 30 steps and resumed from step 20: the rows of one run."""
    size = replace(TINY, steps=30)

    def interrupt(what: str, done: float) -> None:
        if done >= 25 / 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        settings = Settings(folder=tmp_path, progress=interrupt)
        shortpaths.run_size("sorting", settings, size)
    assert list(tmp_path.glob("*/checkpoint.safetensors"))
    resumed = shortpaths.run_size("sorting", Settings(folder=tmp_path), size)
    assert resumed == shortpaths.run_size("sorting", Settings(), size)


# ---------------------------------------------------------------- path counts


def test_shapes_agree_with_the_configurations_of_the_reference():
    from transformers import AlbertConfig, BertConfig, GPT2Config, ViTConfig

    listed = {name: (depth, heads) for name, _, depth, heads in pathcounts.ARCHITECTURES}
    reference = {
        "BERT base": BertConfig(),
        "GPT-2 small": GPT2Config(),
        "ALBERT xxlarge": AlbertConfig(),
        "ViT base": ViTConfig(),
    }
    for name, config in reference.items():
        assert listed[name] == (config.num_hidden_layers, config.num_attention_heads)


# ---------------------------------------------------------------- the circle


def test_arcs_are_opposite_and_end_where_the_other_began():
    pairs = circle.arcs()
    assert pairs.shape == (circle.POINTS + 1, 2, 2)
    torch.testing.assert_close(pairs[:, 0], -pairs[:, 1])
    for k, (x, y) in enumerate(pairs[:, 1].tolist()):  # counterclockwise, from (1, 0)
        assert (x, y) == pytest.approx((math.cos(k * math.pi / 50), math.sin(k * math.pi / 50)))


def test_a_layer_is_rebuilt_from_its_numbers():
    net = av.SelfAttentionNetwork.random(1, 1, 2, 7, 7, seed=4)
    row = circle.effective(net, "attention")
    X = torch.randn(9, 3, 2, generator=draws(7), dtype=torch.float64)
    torch.testing.assert_close(circle.rebuilt(row)(X), net(X), rtol=1e-12, atol=1e-12)
    assert circle.effective(net, "attention + skip") == {}


def test_the_layer_with_the_least_loss_is_kept():
    """Of each seed's restarts, and its error is the root mean square over the arcs."""
    size = circle.Size(seeds=2, restarts=3, steps=2)
    here, there = circle.arcs()[:-1], circle.arcs()[1:]
    nets, errors = circle.layers("attention", size, Settings())
    every, _ = circle.layers("attention", replace(size, seeds=6, restarts=1), Settings())
    off = lambda net: float((net(here) - there).square().mean().sqrt())  # noqa: E731
    least = [min(map(off, every[k : k + 3])) for k in (0, 3)]
    assert errors == pytest.approx(least, rel=1e-5)  # trained in float32
    assert [off(net) for net in nets] == pytest.approx(least, rel=1e-5)


def test_a_run_is_measured_from_its_first_pair_to_its_last():
    """By hand: the layer applied 50 times to two opposite points at a radius."""
    net = av.SelfAttentionNetwork.random(1, 1, 2, 2, 2, skip=True, seed=0, scale=0.2)
    X = torch.tensor([[-0.9, 0.0], [0.9, 0.0]], dtype=torch.float64)
    sizes = []
    for _ in range(51):
        sizes.append(float((X[0] - X[1]).norm()))
        X = net(X)
    row = circle.measure(net, 0.9, False)
    assert row["ratio"] == pytest.approx(sizes[50] / sizes[0], rel=1e-12)
    assert abs(sizes[1] / sizes[0] - 1) > 1e-6, "else the first pair could be the second"
    assert row["diameters"] == pytest.approx(sizes[::5], rel=5.1e-4)  # four digits


def moved(by: float) -> av.SelfAttentionNetwork:
    """A layer that adds a number to the first coordinate of every token."""
    net = av.SelfAttentionNetwork.random(1, 1, 2, 2, 2, skip=True)
    with torch.no_grad():
        for value in net.parameters():
            value.zero_()
        net.weights["b_O"][0, 0] = by
    return net


def test_a_run_ends_before_it_is_farther_than_a_thousand():
    """Tokens at -1 and 1, to the left by 333 a step: -1000 is not farther, -1333 is."""
    states = circle.trajectory(moved(-333.0), 1.0, 9)
    assert states[:, :, 0].tolist() == [[-1, 1], [-334, -332], [-667, -665], [-1000, -998]]
    assert states[:, :, 1].abs().max() == 0
    assert len(circle.trajectory(moved(-0.5), 1.0, 9)) == 10
    row = circle.measure(moved(-333.0), 1.0, False)
    assert row == {"ratio": None, "stopped": 4, "diameters": [2.0]}
    assert circle.measure(moved(-0.5), 1.0, False)["stopped"] is None


def test_positions_are_read_as_they_were_measured():
    """To four decimals, of the first seed and one radius."""
    net = av.SelfAttentionNetwork.random(1, 1, 2, 2, 2, skip=True, seed=0, scale=0.2)
    drawn, other = circle.measure(net, 0.9, True), circle.measure(moved(0.0), 0.9, False)
    rows = [
        {"variant": "a", "start": 0.9} | other,
        {"variant": "a", "start": 0.9} | drawn,
        {"variant": "a", "start": 1.0, "path": [1.0] * 4},
    ]
    read = circle.positions(rows, 0.9)
    expected = circle.trajectory(net, 0.9, circle.POINTS)
    assert list(read) == ["a"] and read["a"].shape == (51, 2, 2)
    torch.testing.assert_close(read["a"], expected, rtol=0, atol=0.5e-4 + 1e-15)


def test_the_threshold_of_a_layer_is_that_of_its_products():
    """Singular values as roots of eigenvalues; 100 roundings are room for two products."""
    net = av.SelfAttentionNetwork.random(1, 1, 2, 7, 5, seed=4, scale=3.0)
    w = {name: value[0].detach() for name, value in net.weights.items()}
    products = [w["W_Q"][0] @ w["W_K"][0].mT, w["W_V"][0] @ w["W_O"][0]]
    qk, value = (float(torch.linalg.eigvalsh(M @ M.mT)[-1]) ** 0.5 for M in products)
    expected = (4 * 7**0.5 * math.atanh(1 / value) / qk) ** 0.5
    found = circle.effective(net, "attention")["threshold"]
    assert value > 1 and found == pytest.approx(expected, rel=100 * 2.0**-53)


@pytest.mark.parametrize("count", [2, 5])
def test_drawn_paths_are_measured_one_by_one_and_summed(count):
    """The same paths drawn again, read out by the definitions."""
    net, X, readout, labels, (whole, rows) = small_measurement(count)
    random, terms = draws(5), dict(paths.terms(net, X))
    sums = torch.zeros_like(X)
    for length, row in enumerate(rows):
        number = 1 if length == 0 else count
        drawn = [terms[lengths.draw_path(net, length, random)] for _ in range(number)]
        right = [((term @ readout).argmax(-1) == labels).double().mean() for term in drawn]
        summed = (sum(drawn) @ readout).argmax(-1) == labels
        sums = sums + sum(term for path, term in terms.items() if 3 - path.count(0) == length)
        scores = [row["paths"] * float(lengths.score(term @ readout, labels)) for term in drawn]
        spread = statistics.stdev(scores) if number > 1 else 0.0
        assert row["length"] == length and row["sampled"] == number
        assert row["alone"] == pytest.approx(float(sum(right)) / number)
        assert row["sampled_accuracy"] == float(summed.double().mean())
        assert row["up_to"] == float(((sums @ readout).argmax(-1) == labels).double().mean())
        # numbers near 1 with some hundred roundings: 10^-9 is far above them
        assert row["sampled_score"] == pytest.approx(statistics.mean(scores), abs=1e-9)
        assert row["sampled_error"] == pytest.approx(spread / number**0.5, abs=1e-9)
    off = abs(sums - net(X)).max()
    assert whole["sum_error"] <= 1e-9 and off <= 1e-9


def test_means_have_an_error_from_two_networks_on():
    """Of 1 and 3: variance 2, over two networks."""
    assert shortpaths.mean_and_error(torch.tensor([1.0, 3.0])) == pytest.approx((2.0, 1.0))
    mean, error = shortpaths.mean_and_error(torch.tensor([5.0]))
    assert mean == 5 and math.isnan(error)
    # t_1(0.99) = tan(0.49 pi) = 31.82
    assert shortpaths.exceeds(31.9, 1.0, 2) is True and shortpaths.exceeds(31.7, 1.0, 2) is False
    assert shortpaths.exceeds(40.0, 1.0, 1) is None
    rows = [
        {"steps": steps, "length": length, "score": steps + length + sign}
        for steps in (1, 2)
        for length in range(7)
        for sign in (-1.0, 1.0)
    ]
    assert shortpaths.summary(rows, "score") == [(2.0 + length, 1.0) for length in range(7)]


def test_tokens_are_near_a_tie_up_to_twice_the_error_of_a_logit():
    """The error is 0.5 times 0.25, so a gap of 0.25 is a tie and one of 0.3125 is none."""
    wide, narrow = shortpaths.Watch(), shortpaths.Watch()
    logits = torch.tensor([[2.0, 1.75, 1.75], [2.0, 1.6875, 0.0], [0.0, 2.0, 2.0]])
    wide(logits.double(), torch.tensor([0, 0, 1]))
    narrow(logits + torch.tensor([0.0, -0.25, 0.125]), torch.tensor([0, 0, 1]))
    assert shortpaths.near_ties(wide, narrow, 0.5) == 2
