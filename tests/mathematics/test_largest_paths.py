"""The largest paths against enumeration, with bounds that hold and searches that say they fail."""

import dataclasses
import itertools
import math
from fractions import Fraction

import pytest
import torch

import attnverify as av
import modelzoo
from attnverify.mathematics import largest_paths, maps
from attnverify.mathematics.energy import Envelope
from attnverify.mathematics.held import Held
from attnverify.mathematics.maps import Mix
from attnverify.mathematics.paths import FixedAttention
from attnverify.support.errors import InputError

MASK = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
CASES = {  # depth, heads, width, tokens, options
    "skip": (4, 2, 5, 3, {"skip": True}),
    "no skip": (3, 4, 7, 5, {}),
    "whole, causal": (3, 3, 6, 5, {"skip": True, "mlp_width": 9, "norm": True, "mask": "causal"}),
    "no skip, MLP, mask": (3, 3, 5, 4, {"mlp_width": 7, "mask": MASK}),
}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(case):
    depth, heads, width, tokens, options = CASES[case]
    net = av.SelfAttentionNetwork.random(depth, heads, width, 3, 4, seed=1, **options)
    return net, drawn(tokens, width, seed=2)


def enumerated(net, X, C):
    """Contributions of all paths one by one."""
    return {path: float((C * term).sum()) for path, term in av.paths.terms(net, X)}


def enumerated_trace(trace, C):
    """The same for a trace with as many key heads as heads, by its own steps."""
    found = {}
    depth, heads = len(trace.layers), trace.layers[0].heads.count
    for path in itertools.product(range(heads + 1), repeat=depth):
        Y = trace.input
        for layer, index in zip(trace.layers, path, strict=True):
            for block in layer.blocks:
                parts = [through(b, Y, index, heads) for b in block.branches]
                kept = Y if index == 0 or not any(b.attention for b in block.branches) else 0 * Y
                if index and any(b.attention for b in block.branches):  # the head alone
                    parts = [p for p, b in zip(parts, block.branches, strict=True) if b.attention]
                Y = sum(parts, kept)
                for step in block.after:
                    Y = step.linear(Y)
        for step in trace.final:
            Y = step.linear(Y)
        found[path] = float((C * Y[0]).sum())
    return found


def through(branch, Y, index, heads):
    """A branch at Y; of attention, one head, with zeros for what the others mixed."""
    for step in branch.steps:
        for map in step.maps:
            Y = map.linear(Y)
            if isinstance(map, Mix):
                size = Y.shape[-1] // heads
                kept = torch.zeros_like(Y)
                if index:
                    part = slice((index - 1) * size, index * size)
                    kept[..., part] = Y[..., part]
                Y = kept
    return Y


def agrees(found, every, k):
    """The list is the top of the enumeration, and its bounds hold there."""
    values = sorted(every.items(), key=lambda pair: -abs(pair[1]))
    listed = [every[path] for path in found.paths]
    assert found.certified and found.number == len(every) and len(set(found.paths)) == k
    assert 0 < found.error < 1e-6 * abs(values[0][1])
    for own, there, (_, largest) in zip(found.contributions, listed, values[:k], strict=True):
        assert abs(own - there) <= 2 * found.error  # the enumeration's own roundings too
        assert abs(abs(own) - abs(largest)) <= 4 * found.error
    rest = [abs(value) for path, value in every.items() if path not in found.paths]
    assert max(rest) <= found.unseen + 2 * found.error
    squares = [value * value for value in every.values()]
    whole = sum(squares)
    assert found.energy[0] <= whole * (1 + 1e-9) and whole <= found.energy[1] * (1 + 1e-9)
    effective = whole**2 / sum(s * s for s in squares)
    assert found.effective[0] * (1 - 1e-9) <= effective <= found.effective[1] * (1 + 1e-9)
    own = sum(c * c for c in found.contributions) / whole
    assert found.share[0] * (1 - 1e-9) <= own <= found.share[1] * (1 + 1e-9)
    assert abs(sum(every.values()) + found.biases - found.total) <= 1e-9 * max(map(abs, listed))


@pytest.mark.parametrize("columns", [None, 11])
@pytest.mark.parametrize("case", CASES)
def test_the_list_is_that_of_enumeration(case, columns):
    net, X = made(case)
    C = drawn(*X.shape, seed=3)
    agrees(av.paths.largest(net, C, 6, X=X, columns=columns), enumerated(net, X, C), 6)


@pytest.mark.parametrize("case", ["bert", "gpt2", "gpt_neox"])
def test_the_list_of_a_trace_is_that_of_enumeration(case):
    """Norms behind and before attention, branches one after the other and side by side."""
    model = modelzoo.model(case, num_hidden_layers=2)
    trace = av.trace(model, modelzoo.inputs(case, batch=1, tokens=5))
    C = drawn(*trace.input.shape[1:], seed=4)
    for columns in (None, 7):
        agrees(av.paths.largest(trace, C, 5, columns=columns), enumerated_trace(trace, C), 5)


def test_heads_that_share_values_are_paths_of_their_own():
    trace = av.trace(modelzoo.model("llama"), modelzoo.inputs("llama", batch=1))
    found = av.paths.largest(trace, (2, 5), 49)
    assert found.certified and found.number == 49 and found.unseen == 0
    listed = sum(found.contributions)
    assert abs(listed + found.biases - found.total) <= 1e-12 * max(map(abs, found.contributions))
    assert abs(found.total - float(trace.output[0, 2, 5])) == 0


def test_a_flat_network_is_refused():
    """Paths without end of nearly one size: the list says how little it knows."""
    net = av.SelfAttentionNetwork.random(9, 5, 10, skip=True, scale=3.0, seed=0)
    found = av.paths.largest(net, (1, 2), 4, X=drawn(3, 10), nodes=12)
    assert not found.certified and found.nodes == 12 and len(found.paths) == 4
    assert found.unseen > 2 * abs(found.contributions[0])
    assert "not certified" in repr(found) and "not certified" in found._repr_html_()


def test_few_paths_and_a_scalar_that_is_zero():
    net, X = made("skip")
    every = av.paths.largest(net, (0, 1), 100, X=X, columns=5)
    assert every.certified and len(every.paths) == 81 and every.unseen == 0
    assert abs(sum(every.contributions) + every.biases - every.total) <= 1e-12
    nothing = av.paths.largest(net, 0 * X, 3, X=X)
    assert nothing.certified and nothing.contributions == [0, 0, 0] and nothing.total == 0
    assert nothing.unseen == nothing.error == 0 and nothing.energy == (0, 0)
    empty = av.paths.largest(net, (0, 1), 3, X=0 * X)
    assert empty.certified and empty.contributions == [0, 0, 0] and empty.unseen == 0


def test_a_list_lost_in_rounding_is_not_certified():
    """A path of two numbers that cancel, larger in floats than the other, is not proved larger."""
    net = av.SelfAttentionNetwork.random(1, 2, 4, 1, 1, bias=False, seed=0)
    w = net.weights
    with torch.no_grad():
        w["W_V"].zero_()
        w["W_O"].zero_()
        w["W_O"][0, :, 0, 0] = 1
        w["W_V"][0, 0, :3, 0] = torch.tensor([0.3, 0.3, 0.1])
        w["W_V"][0, 1, 3, 0] = 0.25
    X = torch.tensor([[1e16 + 2, -1e16, 3.0, 1.0]], dtype=torch.float64)
    found = av.paths.largest(net, (0, 0), 1, X=X)
    assert found.error > 0.01 * abs(found.contributions[0]) and not found.certified
    assert "but rounding may exceed 1% of the smallest listed: not certified" in found.words
    assert f"off by at most {found.error:.2g} (rounding)" in found.words
    assert found.share[0] == 0 and found.share[1] == 1


def test_the_effective_number_is_the_least_over_all_energies():
    """E^2 / (f + (E - own) u^2) may be least between the bounds of the energy."""
    own, u = 16.0, 6.0
    found = largest_paths.LargestPaths(
        [(0,)] * 4, [2.0] * 4, 0.0, u, False, 1, (16.0, 60.0), 0.0, 0.0, 99
    )
    fourth = 4 * 16.0
    grid = torch.linspace(16, 60, 100_001, dtype=torch.float64)
    least = float((grid**2 / (fourth + (grid - own) * u * u)).min())
    assert least < 16**2 / fourth - 0.1 and abs(found.effective[0] - least) <= 1e-8 * least


def test_the_energy_of_many_heads_lies_between_its_bounds():
    """Orthonormal columns are so up to rounding, which counts in the lower bound as well."""
    net = av.SelfAttentionNetwork.random(3, 1000, 1, 1, 1, skip=True, seed=0)
    X = torch.tensor([[0.7]], dtype=torch.float64)
    found = av.paths.largest(net, (0, 0), 2, X=X, nodes=3, columns=1)
    fixed = FixedAttention.of(net, X)
    true = Fraction(float(X)) ** 2
    for layer in range(3):
        heads = range(fixed.heads)
        maps = [(fixed.W_V[layer, h], fixed.W_O[layer, h], fixed.P[layer, h]) for h in heads]
        true *= 1 + sum(math.prod(Fraction(float(part)) for part in each) ** 2 for each in maps)
    assert Fraction(found.energy[0]) <= true <= Fraction(found.energy[1])


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e160, 1e200, 1e307])
def test_what_leaves_the_range_of_floats_is_refused(size):
    net, X = made("skip")
    with pytest.raises(InputError, match="^scalar: got (squares|a bound).* near .* float64's"):
        av.paths.largest(net, size * drawn(*X.shape, seed=3), 5, X=X, columns=2)


@pytest.mark.parametrize("size", [1e-30, 1e-60])
def test_what_weights_lose_by_underflow_counts(size):
    """Contributions below what underflow may hide are listed with an error, not certified."""
    net = av.SelfAttentionNetwork.random(6, 2, 5, 2, 2, scale=size, seed=0)
    found = av.paths.largest(net, drawn(3, 5, seed=2), 2, X=drawn(3, 5, seed=1), columns=1)
    assert not found.certified and found.error > abs(found.contributions[0])


def test_large_weights_are_named():
    net, X = made("skip")
    with torch.no_grad():
        net.weights["W_V"][0, 0, 0, 0] = 1e12
    with pytest.raises(InputError, match=r"^subject: got a factor of 1e\+12, expected at most"):
        av.paths.largest(net, (0, 1), 3, X=X)
    with pytest.raises(InputError, match="^X: got"):
        av.paths.largest(net, (0, 1), 3, X=X * torch.nan)


def test_an_energy_that_overflows_on_the_way_is_named():
    """Nothing that is not finite is lost between the bounds."""
    net = av.SelfAttentionNetwork.random(16, 2, 5, 2, 2, seed=0)
    with torch.no_grad():
        for name, factor in (("W_Q", 0), ("W_K", 0), ("W_V", 1e6), ("W_O", 1e6)):
            net.weights[name].mul_(factor)
    with pytest.raises(InputError, match="^subject: got an energy of (inf|nan), expected"):
        av.paths.largest(net, (0, 1), 3, X=drawn(3, 5))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("columns", [4, 200])
@pytest.mark.parametrize("gated", [False, True])
def test_an_envelope_bounds_every_energy(case, columns, gated):
    """Against the energy of all paths through the layers, at random and at adverse covectors."""
    net, X = made(case)
    held, envelope, outputs = Held.of(net, X), Envelope.at(X), X[None]
    for layer in held.layers:
        if gated:
            layer = dataclasses.replace(
                layer, gates=drawn(*layer.P.shape[:2], layer.W_O.shape[1], seed=4)
            )
        envelope = envelope.after(layer, columns)
        outputs = torch.cat([layer.head(h, outputs) for h in layer.indices])
        outputs = maps.linear(layer.rows, outputs)
        C = torch.cat([drawn(20, *X.shape, seed=5), outputs[:20]])
        true = (C.flatten(1) @ outputs.flatten(1).mT).norm(dim=1)
        near, rest = envelope.bound(C)
        assert (true <= near + rest).all() and (rest > 0).all()
        assert (near - rest <= true).all()
        assert (outputs.norm(dim=0) <= envelope.entries * (1 + 1e-12)).all()
        assert columns < 200 or (rest <= 1e-9 * C.flatten(1).norm(dim=1) * outputs.norm()).all()


WHOLE = "a positive whole number"
BAD = {
    "k": (((0, 1), 0), {}, "^k: got 0, expected " + WHOLE),
    "nodes": (((0, 1), 2), {"nodes": 2}, "^nodes: got 2, expected at least the depth, 4"),
    "columns": (((0, 1), 2), {"columns": 0}, "^columns: got 0"),
    "token": (((3, 1), 2), {}, "^scalar: got token 3, expected one of 3 tokens"),
    "coordinate": (((0, 9), 2), {}, "^scalar: got coordinate 9, expected one of 5"),
    "weights": (((0, [1.0, 2.0]), 2), {}, r"^scalar: got shape \(2,\), expected \(5,\)"),
    "shape": ((torch.ones(2, 5), 2), {}, r"^scalar: got shape \(2, 5\), expected shape \(3, 5\)"),
    "finite": ((torch.full((3, 5), torch.nan), 2), {}, "^scalar: got 15 NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    net, X = made("skip")
    arguments, options, message = BAD[name]
    with pytest.raises(InputError, match=message):
        av.paths.largest(net, *arguments, X=X, **options)


def test_bad_subjects_are_named():
    net, X = made("skip")
    with pytest.raises(InputError, match="^X: got None, expected the network's input"):
        av.paths.largest(net, (0, 1))
    with pytest.raises(InputError, match="^X: got shape .2, 3, 5., expected one text"):
        av.paths.largest(net, (0, 1), X=X.expand(2, 3, 5))
    # the suite's shape checks may come first
    message = "^subject: got int, expected a network or a trace|Type-check error"
    with pytest.raises((InputError, TypeError), match=message):
        av.paths.largest(3, (0, 1))
    trace = av.trace(modelzoo.model("bert"), modelzoo.inputs("bert", batch=2))
    with pytest.raises(InputError, match="^subject: got a trace of 2 texts, expected"):
        av.paths.largest(trace, (0, 1))
    with pytest.raises(InputError, match="^X: got Tensor, expected None"):
        av.paths.largest(trace, (0, 1), X=X)
