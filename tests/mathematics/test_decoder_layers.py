"""Normalization in front of a layer, gated MLPs and streams, against torch and closed forms."""

import copy
import math

import pytest
import torch
from torch.nn import functional

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.experiments.engine.agreement import share
from attnverify.mathematics import gated_mlp, layernorm
from attnverify.mathematics.decoder import Decoder, RMSNorm


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_norms_are_those_of_torch(epsilon):
    """Widths below 100 and sizes near 1: relative errors of a few dozen units of 2^-53."""
    X, g = gaussian(4, 5), gaussian(5, seed=1)
    known = functional.rms_norm(X, (5,), g, epsilon)
    torch.testing.assert_close(layernorm.rms_norm(X, g, epsilon), known, rtol=1e-13, atol=1e-13)
    known = functional.layer_norm(X, (5,), g, None, epsilon)
    torch.testing.assert_close(layernorm.layer_norm(X, g, epsilon), known, rtol=1e-13, atol=1e-13)


def test_a_gated_map_is_the_one_of_llama():
    X, W_G, W_U, W_D = gaussian(4, 5), gaussian(5, 7), gaussian(5, 7, seed=1), gaussian(7, 5)
    known = (functional.silu(X @ W_G) * (X @ W_U)) @ W_D
    torch.testing.assert_close(gated_mlp.gated(X, W_G, W_U, W_D), known, rtol=1e-13, atol=1e-13)


def test_the_constant_of_the_gate_is_rounded_up_and_its_place_is_enclosed():
    low, high = (float(a) for a in gated_mlp.GATE_AT)
    assert low * math.tanh(low / 2) < 3 < high * math.tanh(high / 2)
    found = max(1 + a / 4 + 3 / (4 * a) for a in (low, high))  # increases from sqrt(3) on
    assert found - 5e-5 < float(gated_mlp.GATE) < found
    one = torch.ones(1, 1, dtype=torch.float64)
    assert float(gated_mlp.gated_lipschitz(2.0, one, one, one)) == 2 * float(gated_mlp.GATE)


def test_the_scale_behind_the_mean_counts_on_the_rest_only():
    """One large entry of g among d: (I - 11^T/d) leaves sqrt(1 - 1/d) of it."""
    g = torch.tensor([3.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(
        layernorm.centered_size(g), torch.tensor(3 * math.sqrt(3 / 4)).double()
    )
    assert float(ops.amax(abs(g), -1)) == 3


@pytest.mark.parametrize("norms", ["before", "after"])
@pytest.mark.parametrize("mask", [None, "causal"])
def test_a_decoder_is_its_layers_written_out(norms, mask):
    """Head by head with torch's functions; 2 layers of width 8.

    Up to the share of float32's own error that attnverify.experiments.engine.agreement derives. A
    layer's chain: two norms of 8 + 5 roundings, products over width 8 (queries or keys, values,
    output, gate), key width 2, 5 tokens and 12 units, a softmax of 5 + 9, silu 5, 4 more: 98.
    """
    net = Decoder.random(2, 4, 8, 12, key_heads=2, norms=norms, mask=mask, seed=5)
    net.norm["scale"].mul_(1 + gaussian(2, 2, 8).abs())
    X, epsilon = gaussian(3, 5, 8, seed=6), net.norm.options["epsilon"]
    known = X
    for i in range(2):
        w, m = net.attention.weights.at(i), net.mlp.at(i)

        def norm(k, x, i=i):
            return functional.rms_norm(x, (8,), net.norm["scale"][i, k], epsilon)

        def attend(x, w=w):
            heads = [
                functional.scaled_dot_product_attention(
                    x @ w.W_Q[h], x @ w.W_K[h], x @ w.W_V[h], is_causal=mask == "causal"
                )
                @ w.W_O[h]
                for h in range(4)
            ]
            return sum(heads)

        def gate(x, m=m):
            return (functional.silu(x @ m.W_G) * (x @ m.W_U)) @ m.W_D

        if norms == "before":
            known = known + attend(norm(0, known))
            known = known + gate(norm(1, known))
        else:
            known = norm(0, known + attend(known))
            known = norm(1, known + gate(known))
    narrow = copy.deepcopy(net).float()(X.float())
    limit = share(2 * 98) * float((narrow - known).abs().max())
    assert (net(X) - known).abs().max() <= limit < 1e-11


def test_epsilon_is_that_of_llama_unless_told_otherwise():
    from transformers import LlamaConfig

    norm, x = RMSNorm(torch.full((4,), 2.0)), torch.full((1, 3, 4), 1e-3)
    assert norm.epsilon == LlamaConfig().rms_norm_eps
    assert torch.allclose(norm(x), 2 * x / (1e-6 + 1e-6) ** 0.5, rtol=1e-6, atol=0)


def test_a_decoder_takes_bare_attention_and_shapes_that_fit():
    good = Decoder.random(1, 2, 4, 6)
    parts = {"mlp": good.mlp.at(), "norm": good.norm.at()}
    with pytest.raises(InputError, match="attention: got a network with one of these"):
        Decoder(av.SelfAttentionNetwork.random(1, 2, 4, skip=True), **parts)
    with pytest.raises(InputError, match=r"norm.scale: got shape \(1, 1, 4\), expected shape"):
        Decoder(good.attention, parts["mlp"], RMSNorm(torch.ones(1, 1, 4, dtype=torch.float64)))
    with pytest.raises(InputError, match=r"mlp.W_G: got shape"):
        Decoder(av.SelfAttentionNetwork.random(2, 2, 4), **parts)
