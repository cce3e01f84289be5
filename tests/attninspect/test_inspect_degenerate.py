"""Models and inputs of which little can be said: what is undefined is said, and nothing is NaN."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import attnverify as av
import modelzoo
from attninspect import command, layers, shares, words
from attninspect import trace as trace_module
from attninspect.drawings import figures, grid
from attninspect.findings import dumps
from attninspect.forward import trace
from attninspect.inspect_model import SINGLE as SINGLE_NOTE
from attninspect.page import page
from attninspect.reconstruction import HERE, ReconstructionError, Streams
from attninspect.trace import Step
from attnverify.arithmetic import ops
from attnverify.mathematics import maps, norms
from attnverify.support.errors import InputError

SINGLE = trace_module.unit_roundoff(torch.float32)


def encoder(factor: float, norm_first: bool = False) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(factor)
    return module


def tokens(count: int = 5) -> torch.Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(1))


#: Name to model and tokens.
CASES = {
    "weights all zero": (encoder(0.0), tokens()),
    "weights all zero, norms before": (encoder(0.0, norm_first=True), tokens()),
    "tokens all zero": (encoder(1.0), torch.zeros(5, 8)),
    "tokens all zero, norms before": (encoder(1.0, norm_first=True), torch.zeros(5, 8)),
    "one token": (encoder(1.0), tokens(1)),
    "tokens all equal": (encoder(1.0), tokens(1).expand(5, 8).clone()),
    "weights of size 1e-30": (encoder(1e-30), tokens()),
}


def refuse(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_is_undefined_is_none(name, brief):
    report = av.inspect(*CASES[name], brief=brief)
    found = json.loads(dumps(report), parse_constant=refuse)
    drawn = figures(report)
    text = page(report) + "".join(drawn.values())
    assert not any(word in text.lower() for word in (">nan<", "nan,", ":nan", ">inf<"))
    if all(row["share"] is None for row in found["lengths"]):
        assert "lengths.svg" not in drawn and "all equal, up to rounding: shares without" in str(
            report
        )
    if found["rollout"] and found["rollout"]["rank_correlation"] is None:
        assert "rollout is compared with nothing" in str(report)


def test_rollout_of_an_output_without_parts_is_none():
    """The final norm multiplies by zero, and nothing of any token is in the output."""
    found = av.inspect(*CASES["weights all zero"]).rollout
    assert found is not None and found["own_rollout"] > 0
    assert [found[k] for k in ("rank_correlation", "same_top", "own_true")] == [None] * 3


@pytest.mark.parametrize(
    ("name", "dtype", "some"),
    [
        ("weights all zero", "float64", True),
        ("tokens all zero", "float64", True),
        ("weights of size 1e-30", "float64", False),  # products of 1e-60 are resolved there
        ("weights of size 1e-30", "float32", True),
        ("one token", "float64", False),
    ],
)
def test_steps_that_decide_nothing_are_counted_and_said(name, dtype, some):
    report = av.inspect(*CASES[name], dtype=dtype)
    count = report.proof["deciding_nothing"]
    assert (0 < count < report.proof["steps"]) if some else count == 0
    assert (f"But nothing is decided by {count} of the steps" in words.proved(report)) is some


@pytest.mark.parametrize("size", [1e-40, 1e-250])
def test_a_wrong_step_among_tiny_numbers_is_seen(size):
    """In float64, where nothing underflows; in float32 it would, and the step decides nothing."""
    X = tokens()[None].double()
    weight = torch.eye(8, dtype=torch.float64) * size
    valid = torch.ones(1, 5, dtype=torch.bool)
    right, wrong = (Step("here", [maps.Dense(weight)], X * s, HERE) for s in (size, 2 * size))
    streams = Streams.of(X, valid)
    streams.through([right], "layer 1")
    assert not streams.checks[0].idle
    with pytest.raises(ReconstructionError, match="^layer 1, here: the adapter is not this model"):
        Streams.of(X, valid).through([wrong], "layer 1")
    coarse = Streams.of(X, valid)
    coarse.through([Step("here", wrong.maps, wrong.seen, SINGLE)], "layer 1")
    assert coarse.checks[0].idle


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("count", [6, 7, 11])
def test_what_only_rounding_tells_apart_is_equal(count, norm_first, brief):
    """Rounding alone makes tokens differ here: ratios of it would be shares like 20 and -7.6."""
    report = av.inspect(encoder(1.0, norm_first), tokens(1).expand(count, 8).clone(), brief=brief)
    assert all(row["share"] is None for row in report.lengths)
    assert all(row["factor"] is None and row["nearest_distance"] is None for row in report.layers)
    assert all(row["part"] is None and row["moves"] is None for row in report.heads)
    assert not {"lengths.svg", "factor.svg", "moves.svg"} & set(figures(report))


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("case", ["llama", "qwen3", "gpt_neox", "phi"])
def test_equal_tokens_of_a_model_that_computes_in_float32_inside(case, brief):
    """In a float64 run; norms and softmax of the first two are float32, of the others the softmax.

    Rows of attention then add up to 1 but for 2^-24, and that alone tells the tokens apart.
    """
    report = av.inspect(modelzoo.model(case), [5, 5, 5, 5], brief=brief)
    assert report.model["dtype"] == "float64" and SINGLE_NOTE in report.notes
    assert SINGLE_NOTE in str(report) and SINGLE_NOTE in page(report)
    assert all(row["share"] is None for row in report.lengths)
    assert report.proof["rounding_of_shares"] is None
    assert all(row["factor"] is None and row["nearest_distance"] is None for row in report.layers)
    assert all(row["part"] is None and row["moves"] is None for row in report.heads)
    assert "shares without their mean are undefined" in str(report)
    assert brief or "no head stands out" in str(report)


@pytest.mark.parametrize("case", modelzoo.CASES)
def test_float32_inside_is_seen_where_it_is(case):
    """In the attention matrices and norms of the model, and never said of one that has none."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    for layer in (found := trace(model, ids)).layers:
        P = layer.heads.P
        single = bool((P == P.float().double()).all())
        assert layer.heads.softmax_unit == (SINGLE if single else HERE)
        normed = modelzoo.single_norms(model)
        assert layer.unit == (SINGLE if single or normed else HERE)
    assert found.layers, case
    for inputs, dtype in ((ids, "float64"), (ids, "float32")):
        notes = av.inspect(model, inputs, dtype=dtype, brief=True).notes
        inside = dtype == "float64" and found.layers[0].unit == SINGLE
        assert (SINGLE_NOTE in notes) is inside
    if case == "bert":  # weights of 1 and of 1/4 are float32 numbers by chance
        assert SINGLE_NOTE not in av.inspect(model, [5]).notes
        assert trace_module.rounded_to(torch.full((4, 4), 0.25).double()) == HERE


def test_a_share_below_its_rounding_is_no_headline():
    """Streams that cancel but for a part of what rounding left: the report says so, in words."""
    draw = torch.Generator().manual_seed(0)
    S = torch.randn(1, 5, 4, generator=draw, dtype=torch.float64)
    Y = norms.mean_centered(torch.randn(1, 5, 4, generator=draw, dtype=torch.float64))
    valid = torch.ones(1, 5, dtype=torch.bool)
    for part, headline in ((0.25, None), (0.75, 1)):
        sums = torch.stack([S, part * Y - S, 0 * S])
        streams = Streams(sums, (1 - part) * Y, Y, sums.abs().sum(0), valid)
        rounding = shares.rounding(streams)
        assert rounding == pytest.approx(1 - part, rel=1e-12)
        assert rounding is not None
        rows = shares.rows(streams, valid, 2, HERE)
        rows[0]["share"], rows[1]["share"] = 0.0, part
        top = words.top_length(rows, rounding)
        assert (top and top["length"]) == headline
        said = words._lengths(rows, rounding)
        assert said.startswith(
            "Paths of length 1 carry the largest share"
            if headline
            else "No length has a share above what the model's rounding may be of it, 0.75 of what"
        )
        assert headline is None or said.endswith("; the model's rounding may be 0.25 of each.")


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_shares_of_nearly_equal_tokens(size):
    """Against balls. Left: products of u times the sums with size times them, over size^2."""
    draw = torch.Generator().manual_seed(0)
    sums = torch.randn(3, 1, 1, 8, generator=draw, dtype=torch.float64)
    sums = sums + size * torch.randn(3, 1, 7, 8, generator=draw, dtype=torch.float64)
    Y, valid = sums.sum(0), torch.ones(1, 7, dtype=torch.bool)
    streams = Streams(sums, torch.zeros_like(Y), Y, sums.abs().sum(0), valid)
    found = [row["share"] for row in shares.rows(streams, valid, 2, HERE)]
    with ops.precision(256):
        *parts, whole = (norms.mean_centered(ops.balls(x)) for x in [*sums[:, 0], Y[0]])
        stated = [float((part * whole).sum() / (whole * whole).sum()) for part in parts]
    assert found[:3] == pytest.approx(stated, abs=100 * HERE / size)


def test_tokens_that_float64_tells_apart_have_a_factor():
    """They differ by 2^-35 of their size, which is 2^18 units of rounding; the cube is none."""
    near = tokens(1).double() + 2.0**-35 * tokens().double()
    row = av.inspect(encoder(1.0).double(), near).layers[0]
    assert 2.0**-36 < row["diameter"] < 2.0**-30 and row["factor"] is not None


@pytest.mark.parametrize(("power", "apart"), [(-42, False), (-41, True)])
def test_rounding_is_that_of_the_longest_token(power, apart):
    """Tokens of squared length 8 = width: 2^10 u = 2^-43 of that is a difference of 2^-41.5."""
    near = torch.ones(2, 8).double()
    near[1, 0] += 2.0**power
    row = av.inspect(encoder(1.0).double(), near).layers[0]
    assert [row[name] is not None for name in ("factor", "nearest_distance")] == 2 * [apart]
    assert row["residual"] is not None and row["residual_of_rest"] is None  # one token is left


def test_rollout_has_no_unit():
    """An output times a power of two has the same true parts, relative to one another."""
    model, ids = modelzoo.model("gpt2"), modelzoo.inputs("gpt2")[:1]
    before = av.inspect(model, ids).rollout
    with torch.no_grad():
        for parameter in model.ln_f.parameters():
            parameter.mul_(2.0**-20)
    assert av.inspect(model, ids).rollout == before


@pytest.mark.parametrize("power", [-40, -1, 40])
def test_the_relative_residual_has_no_unit(power):
    """Tokens times a power of two have the same one, to the last bit; only zeros have none."""
    X = tokens()
    assert layers.relative_residual(X * 2.0**power) == layers.relative_residual(X)
    assert layers.relative_residual(0 * X) is None


def test_a_figure_that_is_defined_nowhere_is_not_drawn():
    """And a cell of one that is undefined says so, in place of 0."""
    assert not {"moves.svg", "sink.svg"} & set(figures(av.inspect(*CASES["one token"])))
    rows = [{"layer": 1, "head": 1, "moves": None}, {"layer": 1, "head": 2, "moves": 0.0}]
    drawn = grid("title", rows, "moves")
    assert "layer 1, head 1: not defined<" in drawn and "layer 1, head 2: 0<" in drawn


@pytest.mark.parametrize("content", [b"layer,value\r1,2\r", b'\x00\r\x02,"', b"layer,value\n1,2\n"])
def test_a_table_of_somebody_else_is_refused(tmp_path, content):
    (tmp_path / "layers.csv").write_bytes(content)
    with pytest.raises(InputError, match="layers.csv, which was not written by this program"):
        command.require_own(tmp_path)
    assert (tmp_path / "layers.csv").read_bytes() == content
