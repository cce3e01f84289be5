"""Heads whose output is gated: what the gates are, what they round, and what is refused."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import attnverify as av
import modelzoo
from attninspect import architecture as named
from attninspect import configuration
from attninspect.record import GATED
from attninspect.trace import gamma
from attnverify import InputError

ROUTED, DENSE = "afmoe", "afmoe, dense, biases"


@pytest.fixture(scope="module", params=[ROUTED, DENSE])
def gated(request):
    """A model, the trace of two texts, the second padded, and the report on them."""
    model, ids = modelzoo.model(request.param), modelzoo.inputs(request.param, tokens=5)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    given["attention_mask"][1, 4:] = 0
    return model, av.trace(model, given), av.inspect(model, given)


def test_gates_by_their_definition(gated):
    """Head by head 1 / (1 + exp(-x W)), and what they multiply is what the report calls a part."""
    model, traced, report = gated
    for layer, own in zip(traced.layers, model.layers, strict=True):
        W = own.self_attn.gate_proj.weight.double()
        rows = [row for row in report.heads if row["layer"] == layer.number]
        assert sum(row["part"] for row in rows) == pytest.approx(1, abs=2.0**-20)
        for h, row in enumerate(rows):
            found = layer.heads.gates[:, h]
            expected = 1 / (1 + (-(layer.heads.input @ W[6 * h : 6 * h + 6].T)).exp())
            assert (found - expected).abs().max() <= 2.0**-40
            assert row["gate"] == pytest.approx(float(found[traced.valid].mean()), rel=2.0**-40)


def test_no_bound_of_gated_heads(gated):
    """Values that are all alike come out different: no figure rests on rows that add up to 1."""
    for row in gated[2].layers:
        assert row["bound"] is None and row["threshold"] is None
        assert "what heads give is gated, token by token" in row["why_no_threshold"]
    assert "No threshold and no bound at" in str(gated[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_of_a_gate(dtype):
    """What torch computes is within the bound, where gates close as well; and not far below it.

    float32 is compared with float64. There z = k log 2 has two roundings, so that exp(-z) is 2^-k
    up to a relative 2^-52 |z|, and a gate 1 / (1 + 2^-k) up to no more.
    """
    assert GATED == 4 + 1 + 1 + 1, "exponential, sum, quotient, product"
    unit, tiny = torch.finfo(dtype).eps / 2, torch.finfo(dtype).tiny
    powers = torch.arange(-1000.0 if dtype == torch.float64 else -150.0, 150.0).double()
    z = (powers * torch.tensor(2.0).double().log()).to(dtype)
    y = torch.rand(len(z), generator=torch.Generator().manual_seed(0)).to(dtype)
    exact, off = z.double().sigmoid(), torch.zeros_like(powers)
    if dtype == torch.float64:
        t = torch.ldexp(torch.tensor(1.0).double(), -powers)
        exact, off = 1 / (1 + t), 2 * unit * z.abs()
    error = ((z.sigmoid() * y).double() - exact * y.double()).abs()
    bound = (gamma(GATED, unit) + off) * exact * y.double() + tiny
    assert (error <= bound).all()
    assert dtype == torch.float64 or (error / bound).max() >= 2.0**-5


def test_a_gate_is_seen():
    """Without a module that shows it, or what it gives, nothing could be compared."""
    part = named.linear(nn.Linear(2, 2))
    for gate, output in ((replace(part, module=None), part), (part, replace(part, module=None))):
        with pytest.raises(InputError, match="^gate: got a gate, and no module for it or for the"):
            named.Attention(nn.Identity(), part, part, part, output, 1, 1, 1.0, gate=gate)


def test_several_shared_experts_are_refused():
    """Their sum of 2 * 7 terms is one product in the model: its roundings would be too few."""
    said = "^model: got num_shared_experts 2{}, expected 1"
    with pytest.raises(InputError, match=said.format("")):
        av.trace(modelzoo.model(ROUTED, num_shared_experts=2), modelzoo.inputs(ROUTED))
    with pytest.raises(InputError, match=said.format(" in config.json")):
        configuration.checked({"model_type": "afmoe", "num_shared_experts": 2})
