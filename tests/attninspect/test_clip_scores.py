"""Clipped scores: within the limit, scaled head by head, nothing else changed, in every family."""

import pytest
import torch
from torch import nn

import attnverify as av
import modelzoo
from attnverify import InputError
from attnverify.mathematics import clipping

LIMIT = 0.01  # small enough that every head of these models is scaled
NORMED = ("afmoe", "qwen3", "phi, norms of heads", "gemma3", "olmo2", "olmo3")
FAMILIES = [case for case in modelzoo.CASES if not case.startswith(NORMED)]
#: Those whose scores are what the factors multiply: not under a soft cap, not of shared layers.
PLAIN = [case for case in FAMILIES if case != "gemma2" and "albert" not in case]


def inputs_of(case: str):
    """Two texts; images go under their name."""
    given = modelzoo.inputs(case, batch=2, tokens=7)
    return {"pixel_values": given} if case == "vit" else given


def rows_of(model, inputs) -> list[torch.Tensor]:
    """Logarithms of the weights of each layer, less what is added to the scores and their mean over
    the keys that a row sees.
    """
    found = []
    given = inputs.get("pixel_values", inputs) if isinstance(inputs, dict) else inputs
    for layer in av.trace(model, given).layers:
        added = 0.0 if layer.heads.bias is None else layer.heads.bias
        logs = layer.heads.P.log() - added
        seen = layer.heads.P > 0
        mean = torch.where(seen, logs, 0.0).sum(-1) / seen.sum(-1)
        found.append(torch.where(seen, logs - mean[..., None], 0.0))
    return found


def rounding(width: int, tokens: int, size: float) -> float:
    """Of differences of logarithms of weights, which some families have from a softmax in float32.

    A score of size s is off by (width + 3) u s, an exponential and a sum over tokens by
    (tokens + 2) u, with u = 2^-24; each is counted four times: twice in a difference, before and
    after.
    """
    return 4 * 2.0**-24 * ((width + 3) * size + tokens + 2)


@pytest.mark.parametrize("case", FAMILIES)
def test_no_score_is_above_the_limit(case):
    """Scores within +-LIMIT: logarithms of the weights of a row differ by twice that at most."""
    model, inputs = modelzoo.model(case).double(), inputs_of(case)
    factors = av.clip_scores(model, inputs, LIMIT)
    assert (factors < 1).all() and (factors > 0).all()
    if "albert" in case:
        return  # the same module at other depths: the guarantee is for the last one alone
    for rows in rows_of(model, inputs):
        spread = float((rows.amax(-1) - rows.amin(-1)).max())
        biased = "bloom" in case or "alibi" in case or "t5" in case
        size = LIMIT + (6 if biased else 0)  # the most that is added at 7 tokens
        assert spread <= 2 * LIMIT + rounding(rows.shape[-1] + 32, rows.shape[-1], size)


@pytest.mark.parametrize("case", PLAIN)
def test_scores_of_the_first_layer_are_multiplied_by_the_factors(case):
    """The first layer sees the same tokens before and after, so its scores scale exactly."""
    model, inputs = modelzoo.model(case).double(), inputs_of(case)
    before = rows_of(model, inputs)[0]
    factors = av.clip_scores(model, inputs, LIMIT)
    after = rows_of(model, inputs)[0]
    error = rounding(32, before.shape[-1], float(before.abs().max()))
    assert (after - factors[0][None, :, None, None] * before).abs().max() <= error


def test_only_queries_change_and_modes_stay():
    model = modelzoo.model("llama").train()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    av.clip_scores(model, modelzoo.inputs("llama"), LIMIT)
    changed = {name for name, v in model.named_parameters() if not torch.equal(v, before[name])}
    assert changed == {f"layers.{k}.self_attn.q_proj.weight" for k in range(2)}
    assert model.training and all(not m._forward_pre_hooks for m in model.modules())


def test_scores_below_the_limit_are_left_alone():
    model = modelzoo.model("gpt2")
    before = [value.detach().clone() for value in model.parameters()]
    factors = av.clip_scores(model, modelzoo.inputs("gpt2"), 1e6)
    assert (factors == 1).all()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_a_torch_encoder_with_tokens_first():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    keys = model.layers[0].self_attn.in_proj_weight[8:].detach().clone()
    X = torch.randn(3, 5, 8, dtype=torch.float64)
    factors = av.clip_scores(model, X, LIMIT)
    assert factors.shape == (2, 2) and (factors < 1).all()
    assert torch.equal(model.layers[0].self_attn.in_proj_weight[8:], keys)


def test_the_bound_is_attained_and_the_least_share_is_what_is_left():
    """A query along its key; two tokens under equal logits have the variance 1/4."""
    Q = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    assert clipping.score_bound(Q, 2 * Q, 0.5) == 25.0
    zero = torch.zeros((), dtype=torch.float64)
    assert clipping.least_share(zero, 2) == 0.25 and clipping.least_share(zero, 4) == 1 / 8


@pytest.mark.parametrize("case", NORMED)
def test_normalized_queries_are_refused(case):
    with pytest.raises(InputError, match="model: got one that normalizes queries and keys"):
        av.clip_scores(modelzoo.model(case), modelzoo.inputs(case))


def test_bad_input():
    model = modelzoo.model("gpt2")
    with pytest.raises(InputError, match="largest: got 0, expected a positive number"):
        av.clip_scores(model, modelzoo.inputs("gpt2"), 0)
    with pytest.raises(InputError, match="model: got Linear without config.model_type"):
        av.clip_scores(nn.Linear(2, 2), torch.zeros(1, 2, 2))
    with pytest.raises(InputError, match="batch: got Tensor of shape"):
        av.clip_scores(model, torch.zeros(2))
