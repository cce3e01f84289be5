"""Normalization in front of a layer, gated MLPs and streams, against torch and closed forms."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import INSIDE
from attnverify.chapters.lookup import checks_of
from attnverify.checking import sampling
from attnverify.checking.ball_comparison import compare
from attnverify.experiments.engine.agreement import share
from attnverify.mathematics import gated_mlp, layernorm
from attnverify.mathematics.decoder import Decoder, RMSNorm
from attnverify.support.seeds import generator


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


def test_streams_are_moved_until_the_updates_do_not_point_against_them():
    check = checks_of("modern.layer-share")["share above"]
    along = lambda x, F: check.hypotheses(x=x, F=F)[0][1]  # noqa: E731
    x, F = gaussian(200, 3), gaussian(200, 4, 3, seed=1)
    before, after = along(x, F), along(**check.build(x=x, F=F))
    assert (before < 0).any()
    assert (after > 0).all()
    assert torch.equal(after[before > 0], before[before > 0]), "nothing is to be moved there"
    at, known = x, torch.zeros(200, dtype=torch.float64)
    for i in range(3):
        known, at = known + (F[:, i] * at).sum(-1), at + F[:, i]
    # a summand has 2 roundings of the stream, 1 of the product, 2 of its own sum, 3 of the whole
    assert ((before - known).abs() <= 2 * 8 * 2.0**-53 * along(abs(x), abs(F))).all()


def test_value_maps_are_scaled_layer_by_layer():
    """To V, a little inside, up to two decompositions of 4 x 4 maps, backward stable to 10 * 4 u
    (LAPACK Users' Guide, section 4.9), and 10 roundings of sum, lambda and scaling."""
    shapes = {"X": (5, 3, 4), "W_QK": (5, 3, 2, 4, 4), "b_QK": (5, 3, 2, 4), "W": (5, 3, 2, 4, 4)}
    i = {name: gaussian(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}
    check = checks_of("modern.pre-norm-depth")["no collapse"]
    for value, most in check.hypotheses(**check.build(**i, g=gaussian(5, 4, seed=9))):
        assert ((value / (INSIDE * most) - 1).abs() <= (2 * 40 + 10) * 2.0**-53).all()


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


def test_the_stream_of_a_decoder_stays_between_its_bounds():
    """|x_L| <= |x_0| + L M, with M from the norms of attention and of the gated MLP."""
    net, X = Decoder.random(6, 2, 8, 12, key_heads=1, seed=2), gaussian(5, 8, seed=3)
    w, m, root = net.attention.weights, net.mlp, math.sqrt(8)
    norm = lambda A: torch.linalg.matrix_norm(A, ord=2)  # noqa: E731
    most = root * norm(w["W_V"] @ w["W_O"]).sum(-1)
    most = most + 8 * norm(m["W_G"]) * norm(m["W_U"]) * norm(m["W_D"])
    grown = net.hidden(X).norm(dim=-1).diff(dim=0).abs().amax(-1)
    assert (grown <= most).all()


def test_an_instance_with_a_negative_epsilon_refutes_nothing():
    """RMS norm with it has no bound on sizes; the claim supposes epsilon >= 0."""
    check = checks_of("modern.rms-lipschitz")["RMS norm"]
    X = torch.tensor([[-1.5, -0.75], [-1.25, -0.875]], dtype=torch.float64)
    g = torch.tensor([1.0, 0.875], dtype=torch.float64)
    e = torch.full((1, 1), -0.9375, dtype=torch.float64)
    seen = compare(check, {"X": X, "g": g, "e": e})
    assert (seen.outcome, seen.hypotheses) == ("unknown", "fail")
    without = compare(replace(check, hypotheses=None), {"X": X, "g": g, "e": e})
    assert without.outcome == "fail"
    assert compare(check, {"X": X, "g": g, "e": abs(e)}).outcome == "pass"


@pytest.mark.parametrize("name", ["RMS norm", "layer norm", "before attention"])
def test_the_bounds_of_norms_suppose_epsilon(name):
    check = checks_of("modern.rms-lipschitz")[name]
    free = sampling.parameters(check.sizes[0], 1, generator(0, "t"), spread=False)
    (one,) = (sampling.single(check.build(**free), 0),)
    assert compare(check, {**one, "e": -one["e"]}).hypotheses == "fail"
