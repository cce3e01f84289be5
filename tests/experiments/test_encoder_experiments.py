"""The experiments on encoders: their parts, their criteria, and a model of the user's."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import modelzoo
from attnverify.experiments import architectures, texts
from attnverify.experiments.engine import weights
from attnverify.experiments.engine.model import Settings
from attnverify.experiments.trained_encoder import layer_bounds, margins, silent_heads, spectra
from attnverify.mathematics import collapse, depth_bounds, norms, stacks
from attnverify.mathematics.centerbounds import optimal_residual_bounds
from attnverify.mathematics.deviations import Layer, Tokens, apply
from attnverify.mathematics.encoder import Encoder
from attnverify.mathematics.softmax import critical_float, oscillation
from attnverify.support.errors import InputError


@pytest.fixture(scope="module")
def minilm():
    return Encoder.bundled()


# ---------------------------------------------------------------- text


def test_passages():
    """Consecutive words of the essay, without its diagram; starts differ."""
    text = texts.words()
    assert len(text) > 500 and "1" not in text[60:70]
    first, second = texts.passage(0, 20).split(), texts.passage(1, 20).split()
    assert first == text[:20] and len(second) == 20 and first != second
    assert " ".join(second) in " ".join(text)
    places = [texts.passage(index, 96) for index in range(20)]
    whole = " ".join(texts._with_documentation())
    ends = [(whole.index(each), whole.index(each) + len(each)) for each in places]
    assert all(a < b for (_, a), (b, _) in pairwise(ends)), "no two share a word"
    with pytest.raises(InputError, match="^length: got 100000, expected 1 to"):
        texts.passage(0, 100_000)
    with pytest.raises(InputError, match="^index: got -1"):
        texts.passage(-1, 5)


# ---------------------------------------------------------------- bounds of a layer


def test_rates_are_those_of_the_large_matrices(minilm):
    """QR factors have the singular values: 384 * 32 products, each 2^-53, of all one sign."""
    layer = Layer.of(minilm.network, 2)
    c, v = layer_bounds.rates(layer)
    dense = collapse.rate(layer.W_Q @ layer.W_K.mT, 32)
    tolerance = 384 * 32 * 2.0**-53
    assert (c - dense).abs().max() <= tolerance * dense.max()
    values = torch.linalg.matrix_norm(layer.W_V @ layer.W_O, ord=2)
    assert (v - values).abs().max() <= tolerance * values.max()


def test_residual_of_diameter():
    """K bounds the quotient, and two tokens with equal entries attain it up to n = 2's sqrt."""
    g = torch.Generator().manual_seed(0)
    for n, d in ((2, 3), (5, 8), (40, 2)):
        X = torch.randn(100, n, d, generator=g, dtype=torch.float64)
        quotient = norms.composite(norms.mean_centered(X)) / norms.diameter(X)
        assert float(quotient.max()) <= layer_bounds.residual_of_diameter(n, d)
    ones = torch.tensor([[1.0] * 4, [-1.0] * 4], dtype=torch.float64)
    quotient = norms.composite(norms.mean_centered(ones)) / norms.diameter(ones)
    # rows attain sqrt(d)(1 - 1/n); columns have 2 where the bound has sqrt(n(n-1)/2) diam = 4
    assert float(quotient) == pytest.approx(layer_bounds.residual_of_diameter(2, 4) / 2**0.5)


def test_bounds_hold_at_small_tokens(minilm):
    """Where tokens are close, every one-layer bound applies and is above what attention leaves."""
    X = minilm.embed(texts.passage(0, 10))
    X = Tokens.of(X.mean(0) + (X - X.mean(0)) / 1000)
    layer = Layer.of(minilm.network, 0)
    after = apply(layer, X, architectures.ALL_PARTS["attention"])
    size = layer_bounds.diameter(X)
    assert layer_bounds.diameter(after) <= layer_bounds.sharp_step(layer_bounds.rates(layer), size)
    steps = layer_bounds.composite_steps(layer, X)
    found = float(norms.composite(after.deviations))
    # the mean center is at most 2 (1 - 1/n) < 2 times the optimum (claim norms.residual-centers)
    assert found / 2 <= steps["corrected"] and found / 2 <= steps["printed"]
    far = Tokens.of(minilm.embed(texts.passage(0, 10)))
    assert layer_bounds.composite_steps(layer, far) == {"printed": None, "corrected": None}
    scores = collapse.scores_of_residual(X.deviations, layer.W_Q @ layer.W_K.mT, 32)
    unit = (critical_float() / float(oscillation(scores).max())) ** 0.5
    for size, known in ((0.99, True), (1.01, False)):  # scores grow with the square
        steps = layer_bounds.composite_steps(layer, Tokens(X.center, size * unit * X.deviations))
        assert [value is not None for value in steps.values()] == [known, known]


def test_threshold_of_many_heads():
    c, v = torch.rand(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    limit = depth_bounds.layer_threshold(c, v)
    factor = collapse.sharp_factor(torch.tensor(limit, dtype=torch.float64), c, v)
    # 12 + 8 roundings of the factor, and at most 2 of a size that is the next float
    assert float(factor) == pytest.approx(1, abs=22 * 2.0**-53)
    assert depth_bounds.layer_threshold(c, v / v.sum()) == math.inf


# ---------------------------------------------------------------- measures of heads


def test_measures_of_known_matrices():
    """Multiples of a projection, a skew matrix and a nilpotent one."""
    eye = torch.eye(4, 2, dtype=torch.float64)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    shift = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    Q = torch.stack([3 * eye, eye @ turn, eye @ shift])
    found = spectra.measures(Q, torch.stack([eye] * 3))
    expected = {
        "xi": [2**0.5, math.nan, math.nan],
        "xi_frobenius": [2**0.5, 0, 0],
        "skew_share": [0, 1, 0.5**0.5],
    }
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values, abs=1e-15, nan_ok=True), name


def test_a_symmetric_matrix_has_a_skew_share_of_rounding_size():
    """W = Q S Q^T in factors Q and Q S: tr W^2 / ||W||^2 may be rounded to more than 1.

    Behind a product of 3 terms for Q S, its numerator and denominator are sums of 9 products of two
    sums of 8: 2 * (3 + 8 + 1) + 9 roundings each of at most (|Q| |Q S|)^2, over ||W||^2.
    """
    g = torch.Generator().manual_seed(0)
    Q = torch.randn(200, 8, 3, generator=g, dtype=torch.float64)
    S = torch.randn(200, 3, 3, generator=g, dtype=torch.float64)
    K = Q @ (S + S.mT)
    sizes, whole = Q.square().sum((1, 2)) * K.square().sum((1, 2)), (Q @ K.mT).square().sum((1, 2))
    share = spectra.measures(Q, K)["skew_share"]
    assert (share.square() <= 33 * 2.0**-53 * sizes / whole).all()


def test_measures_of_a_product_that_vanishes_are_undefined():
    """Neither factor is zero, so no encoder is refused for it."""
    Q, K = torch.zeros(2, 1, 4, 2, dtype=torch.float64)
    Q[0, 0, 0] = K[0, 0, 1] = 1
    for name, value in spectra.measures(Q, K).items():
        assert math.isnan(float(value)), name


def test_heads_of_a_decoder_are_those_of_its_layers():
    """Scores of two tokens of the same place, head by head, from the weights as they are stored."""
    kept = weights.committed("small-decoder")
    query, key = spectra.heads_of(kept)
    layer, own = "model.layers.2.self_attn", torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 64, dtype=torch.float64, generator=own)
    q = (kept[f"{layer}.q_proj.weight"].double() @ x).reshape(4, 16)
    k = (kept[f"{layer}.k_proj.weight"].double() @ y).reshape(2, 16)
    for head in range(4):
        score = x @ query[2, head] @ key[2, head].mT @ y
        assert float(score) == pytest.approx(float(q[head] @ k[head // 2]), rel=1e-9)


# ---------------------------------------------------------------- architectures


def test_sizes_are_relative_to_the_whole_tokens():
    """By the definitions, with deviations that are zero and a largest one that is negative.

    Rows 4, 2, 2 and the column 8; the tokens (1, -3), (1, 3), (1, 3) have rows 4, columns 3 and 9.
    """
    center = torch.tensor([1.0, 1.0], dtype=torch.float64)
    R = torch.tensor([[0.0, -4.0], [0.0, 2.0], [0.0, 2.0]], dtype=torch.float64)
    found = architectures.sizes(Tokens(center, R))
    low, high = optimal_residual_bounds(R)
    expected = {"mean": 32**0.5 / 6, "low": low / 6, "high": high / 6, "root_free": 32 / 36}
    assert found == pytest.approx(expected, rel=20 * 2.0**-53)  # two roots, products, quotients
    assert architectures.sizes(Tokens(center, R - 2))["mean"] > 0  # no deviation is positive


SMALL = stacks.Shape("small", width=8, embedding=8, heads=2, depth=3, hidden=12)


def small_model(shape=SMALL):
    return architectures.Model(
        shape.name,
        lambda seed: stacks.random_layers(shape, seed, 0.5),
        lambda seed, text: stacks.random_embedding(shape, list(map(int, text.split())), seed),
        judged=False,
    )


NAMES = ("attention + skip + norm", "attention")


def test_attention_by_position_has_no_bounds():
    shape = replace(SMALL, normalized=False, relative=True)
    rows = architectures.trace(small_model(shape), 4, "1 2 3 2", "cpu", NAMES)
    assert len(rows) == 8 and not any(set(architectures.BOUNDS) & set(row) for row in rows)


# ---------------------------------------------------------------- the criterion on architectures


def table(pure, skip, full=1.0, judged=True):
    """Two layers, one seed: residual 1 at the input and the given one after the last layer."""
    ends = {"attention": pure, "attention + skip": skip, "attention + skip + mlp + norm": full}
    return [
        {"model": "m", "judged": judged, "variant": name, "layer": layer, "low": [v], "high": [v]}
        for name, end in ends.items()
        for layer, v in ((0, 1.0), (1, end))
    ]


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        (table(1e-4, 0.5), True),
        (table(0.0, 0.5), None),
        (table(1e-4, 0.0), False),
        (table(None, 0.5), None),
        (table(1e-4, 1e-4, full=None), False),
        ([], None),
    ],
)
def test_criterion(rows, holds):
    assert architectures.judge(rows).holds is holds


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["attention", *architectures.WITH_SKIP])
def test_criterion_asks_every_seed(name, place):
    """A factor of 1,000 in one of two seeds decides."""
    rows = [{**row, "low": row["low"] * 2, "high": row["high"] * 2} for row in table(1e-4, 0.5)]
    assert architectures.judge(rows).holds
    last = next(row for row in rows if row["variant"] == name and row["layer"] == 1)
    wrong = 1.1e-3 if name == "attention" else 0.9e-3
    for end in ("low", "high"):
        last[end][place] = wrong
    assert architectures.judge(rows).holds is False


def test_criterion_takes_the_unfavorable_end_of_every_enclosure():
    """A fall counts down to the high end after it, a hold with skip connections to the low end."""
    rows = table(1e-4, 0.5)
    for name, end, value in (("attention", "high", 2e-3), ("attention + skip", "low", 0.5e-3)):
        open_ended = [
            row | {end: [value]} if row["variant"] == name and row["layer"] == 1 else row
            for row in rows
        ]
        assert architectures.judge(rows).holds is True
        assert architectures.judge(open_ended).holds is False


def with_middle(*values):
    """Attention alone falls to 0, a layer of each of the values before."""
    first, *rest = table(0.0, 0.5)
    middle = [{**first, "low": [value], "high": [value]} for value in values]
    return [row | {"layer": n} for n, row in enumerate([first, *middle, *rest])]


@pytest.mark.parametrize(
    ("values", "least", "holds"),
    [
        ((1e-5, 1e-254), 1e253, True),
        ((1e-5, 1e-254), 1e255, None),  # down to where it is resolved; what comes then is unknown
        ((1e-5, 0.0), 1e3, True),
        ((1e-2, 1e-300, 1e-4), 1e3, None),
        ((), 1e3, None),
    ],
)
def test_an_underflow_decides_nothing_by_itself(values, least, holds):
    """Only a fall that was seen before it counts, and no hold with skip connections."""
    verdict = architectures.judge(with_middle(*values), least_fall=least)
    assert verdict.holds is holds
    assert ("underflow" in verdict.argument) is (holds is None)


def ends(name, *values, layer=1):
    """One judged row of a variant with these values of the seeds."""
    place = {"model": "m", "judged": True, "variant": name, "layer": layer}
    return place | {"low": list(values), "high": list(values)}


@pytest.mark.parametrize(
    ("title", "rows", "holds"),
    [
        ("pure attention does not fall by 1,000", table(1.1e-3, 1.0), True),
        ("pure attention falls by 1e35 everywhere", table(0.9e-35, 1.0), True),
        ("with skip connections it falls by 1,000 as well", table(1.0, 0.9e-3), True),
        ("with skip connections it falls by less than 8", table(1e-4, 0.126), True),
        ("with skip connections the residual stays above 0.1", table(0.0, 0.11, 0.11), True),
        ("with skip connections the residual stays above 0.1", table(1.0, 0.11, 0.09), False),
        ("doubly exponential in every stack", [ends("attention", 1e-100, layer=6)], True),
        ("doubly exponential in every stack", [ends("attention", 1e-100, 2e-100, layer=6)], False),
        ("doubly exponential in every stack", [ends("attention", 1e-200, layer=5)], None),
    ],
)
def test_false_neighbors_of_the_criterion(title, rows, holds):
    """Each is met by some table, beside models that are not judged."""
    other = [row | {"model": "x", "judged": False, "low": [1e-9], "high": [1e9]} for row in rows]
    assert dict(architectures.TWINS)[title]([*other, *rows]).holds is holds


def test_a_model_whose_attention_is_one_hot_at_once_decides_nothing(tmp_path):
    """Queries of the size that is still allowed: deviations are zero after the first layers."""
    model = modelzoo.saved_bert(tmp_path, max_position_embeddings=128)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if "query" in name:
                value.fill_(9e5)
    model.save_pretrained(tmp_path)
    rows = architectures.EXPERIMENT.run(Settings(model=tmp_path))
    assert architectures.EXPERIMENT.judge(rows).holds is None


def test_criterion_looks_at_judged_models_and_all_layers():
    rows = table(1e-4, 0.5)
    other = [{**row, "model": "other"} for row in table(1.0, 1.0, judged=False)]
    assert architectures.judge([*rows, *other]).holds
    dip = next(row for row in rows if row["variant"] == "attention + skip" and row["layer"] == 1)
    rows.insert(rows.index(dip), {**dip, "low": [1e-4], "high": [1e-4]})
    assert not architectures.judge(rows).holds


def test_curve_and_spread():
    means = ([1.0, 2.0], [0.5, 0.0], [None, 1.0], [3.0, 1e-5])
    place = {"model": "m", "variant": "v"}
    rows = [{**place, "layer": layer, "mean": values} for layer, values in enumerate(means)]
    assert architectures.curve(rows, "m", "v") == ([0, 3], [1.0, 1e-5], [2.0, 3.0])
    assert architectures.spread([0.5, 0.25]) == "0.25 to 0.50"
    assert architectures.spread([0.0, 0.0]) == "< 1e-308"
    assert architectures.spread([0.5, None]) == "unresolved"
    assert architectures.spread([0.0099, 0.01]) == "1e-02 to 0.01"


def test_the_table_of_last_layers_has_a_line_a_variant():
    """A model per column, in the order of the rows; a variant that no model has is left out."""
    rows = [
        {"model": model, "variant": variant, "layer": layer, "mean": [value]}
        for model, variant, values in (
            ("BERT-base, deviation 0.04", "attention", (1.0, 1e-5)),
            ("m", "attention", (1.0, 0.125)),
            ("m", "attention + skip", (1.0, 0.75)),
        )
        for layer, value in enumerate(values)
    ]
    assert architectures.last_layers(rows) == [
        ["variant", "BERT-base σ = 0.04", "m"],
        ["attention", "1e-05", "0.12"],
        ["attention + skip", "", "0.75"],
    ]


def test_sizes_at_the_ends():
    assert set(architectures.sizes(None).values()) == {None}
    same = Tokens.of(torch.ones(3, 4, dtype=torch.float64))
    assert set(architectures.sizes(same).values()) == {0.0}
    g = torch.Generator().manual_seed(0)
    near = Tokens(
        torch.ones(4, dtype=torch.float64),
        1e-200 * torch.randn(3, 4, generator=g, dtype=torch.float64),
    )
    found = architectures.sizes(near)
    assert 0 < found["low"] <= found["high"] <= found["mean"] * (1 + 1e-12) < 1e-199
    assert found["root_free"] == 0, "the square of 1e-200 is below the floats"


# ---------------------------------------------------------------- a model of the user's


@pytest.mark.parametrize(
    "experiment",
    [
        architectures.EXPERIMENT,
        spectra.EXPERIMENT,
        margins.EXPERIMENT,
        silent_heads.EXPERIMENT,
    ],
    ids=lambda e: e.name,
)
def test_a_model_of_the_user(tmp_path, experiment):
    """A small BERT from a folder gives rows and a verdict; a folder without one is an error."""
    modelzoo.saved_bert(tmp_path, max_position_embeddings=128)
    told = []
    rows = experiment.run(Settings(model=tmp_path, progress=lambda _, done: told.append(done)))
    assert rows and experiment.takes_model
    assert told[0] == 0 and told == sorted(told) and told[-1] < 1
    assert experiment.judge(rows).holds in (True, False)
    if experiment.name == "architectures":
        assert {row["model"] for row in rows} == {tmp_path.name}
    with pytest.raises(InputError, match="^path: got"):
        experiment.run(Settings(model=tmp_path / "nowhere"))


def test_silent_heads_are_of_passages_from_the_second_on(tmp_path):
    modelzoo.saved_bert(tmp_path, max_position_embeddings=128)
    settings = Settings(model=tmp_path, seed=3)
    layers = silent_heads.heads_of(silent_heads.encoder_of(settings), texts.passage(4, 24))
    for row in silent_heads.run(settings):
        head = layers[row["layer"] - 1][row["head"] - 1]
        assert row["share"] == [pytest.approx(head.share, rel=1e-5)]  # six digits


def zero(name):
    def spoil(state):
        state[name].zero_()

    return spoil


def huge(state):
    for tensor in state.values():
        tensor.fill_(1e30)


def one_head(state):
    state["encoder.layer.1.attention.self.key.weight"][4:8] = 0


DEGENERATE = {
    "equal words": (zero("embeddings.word_embeddings.weight"), "word embeddings, which are all"),
    "no query": (zero("encoder.layer.0.attention.self.query.weight"), "W_Q of layer 1, head 1"),
    "one head": (one_head, "W_K of layer 2, head 2, which vanishes"),
    "no later scale": (zero("encoder.layer.1.output.LayerNorm.weight"), "a layer norm of layer 2"),
    "huge": (huge, "up to 1.0e"),
}


@pytest.mark.parametrize(("spoil", "message"), DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_models_are_refused_by_name(tmp_path, spoil, message):
    model = modelzoo.saved_bert(tmp_path, max_position_embeddings=128)
    with torch.no_grad():
        spoil(model.state_dict())
    model.save_pretrained(tmp_path)
    for experiment in (architectures.EXPERIMENT, spectra.EXPERIMENT, margins.EXPERIMENT):
        with pytest.raises(InputError, match=f"^model: got .*{message}"):
            experiment.run(Settings(model=tmp_path))


# ---------------------------------------------------------------- figures of the encoder


def test_a_diameter_is_that_of_the_deviations_however_small():
    for size in (1.0, 1e-200, 1e200):
        far = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], dtype=torch.float64) * size
        assert layer_bounds.diameter(Tokens(torch.ones(2), far)) == pytest.approx(5 * size)
    assert layer_bounds.diameter(Tokens(torch.ones(2), 0 * far)) == 0


def test_a_range_of_margins_has_its_ratio_and_its_neighbor():
    assert margins.judge([{"over_threshold": [40.0, 36.0]}]).ratio == pytest.approx(1 / 36)
    for value, holds in ((36.0, True), (35.0, False), (None, None)):
        assert margins.judge([{"over_threshold": [40.0, value]}], factor=35.0).holds is holds
