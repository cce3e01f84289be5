"""Whole networks with attention, gates and norms held, summed by path length."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnverify as av
from attnverify.mathematics import paths, weights
from attnverify.mathematics.held import Held
from attnverify.support.errors import InputError


def network(depth=3, activation="gelu", dtype=torch.float64, **options):
    net = av.SelfAttentionNetwork.random(depth, 2, 6, 3, 4, seed=1, dtype=dtype, **options)
    if net.mlp is not None:
        net.mlp.options["activation"] = activation
    if net.norm is not None:  # random() has scale 1 and shift 0, which would hide mistakes
        draw = torch.Generator().manual_seed(2)
        for value in net.norm.values():
            value += torch.randn(value.shape, generator=draw).to(dtype) / 4
    return net


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def residual(net, X):
    output = net(X)
    total = paths.by_length(net, X).sum(0) + paths.bias(net, X)
    return float((total - output).abs().max() / output.abs().max())


def tolerance(double, X):
    """What rounding may leave in float64, from the same computation in float32.

    To first order a rounding error is proportional to the unit roundoff, 2^-24 in float32 and
    2^-53 in float64, so the float32 residual predicts the float64 one: 2^-29 of it. A factor 64
    covers that the errors, a few dozen pseudo-random numbers each, do not scale one by one.
    A wrong formula leaves a residual that does not shrink. The float32 residual itself must be
    small, or it would prove nothing.
    """
    single = residual(double.to(torch.float32), X.float())
    double.to(torch.float64)
    assert single < 1e-4
    return 64 * 2.0**-29 * max(single, 2.0**-24)


options = {
    "attention": {},
    "skip": {"skip": True},
    "mlp": {"mlp_width": 7},
    "norm": {"norm": True},
    "mlp and skip": {"mlp_width": 7, "skip": True},
    "norm and skip": {"norm": True, "skip": True},
    "mlp and norm": {"mlp_width": 7, "norm": True},
    "all": {"mlp_width": 7, "norm": True, "skip": True, "mask": "causal"},
}


def rounded_network(*, seed=1, **options):
    """A network whose weights float32 holds exactly, so that both precisions have the same."""
    return network(dtype=torch.float32, **options).to(torch.float64)


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("name", options)
def test_lengths_and_bias_are_the_network(name, batch):
    net, X = rounded_network(**options[name]), tokens(*batch, 5, 6).float().double()
    assert residual(net, X) <= tolerance(net, X)


@pytest.mark.parametrize("activation", sorted(weights.ACTIVATIONS))
def test_every_activation(activation):
    net = rounded_network(activation=activation, **options["all"])
    X = tokens(5, 6).float().double()
    assert residual(net, X) <= tolerance(net, X)


@pytest.mark.parametrize("activation", sorted(weights.ACTIVATIONS))
def test_gates_reproduce_the_activation(activation):
    """g z against the activation, also at 0 and where z / z would overflow or vanish.

    Both take a few roundings of numbers of at most max(|z|, 1): 8 units in the last place.
    """
    z = torch.tensor([-30.0, -1.5, -1e-300, -0.0, 0.0, 5e-324, 1e-9, 0.7, 30.0]).double()
    gate = weights.GATES[activation](z)
    assert torch.isfinite(gate).all() and ((gate >= 0) & (gate <= 1)).all()
    error = (gate * z - weights.ACTIVATIONS[activation](z)).abs()
    assert (error <= 8 * torch.finfo(z.dtype).eps * z.abs()).all()


def test_the_biases_of_attention_alone_are_one_row():
    net, X = network(skip=True), tokens(2, 4, 6)
    bound = paths.FixedAttention.of(net, X).rounding_bound(X, net.depth + 1)
    assert ((Held.of(net, X).forward(0 * X) - paths.bias(net, X)).abs() <= bound).all()


@pytest.mark.parametrize("name", options)
def test_all_terms_are_the_sums_by_length(name):
    """Paths one by one; each of the few hundred roundings is relative to the largest sum."""
    net, X = network(**options[name]), tokens(4, 6)
    sums = X.new_zeros(net.depth + 1, *X.shape)
    for path, term in paths.terms(net, X):
        sums[net.depth - path.count(0)] += term
    found = paths.by_length(net, X)
    assert (found - sums).abs().max() <= 1e-12 * sums.abs().max()
    held = Held.of(net, X)
    assert torch.equal(held.output, net(X))
    assert (held.linear(X) - found.sum(0)).abs().max() <= 1e-12 * sums.abs().max()


def scaled(held, t):
    """The same held network with every attention matrix multiplied by t."""
    return replace(held, layers=[replace(layer, P=t * layer.P) for layer in held.layers])


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(sorted(options)), st.sampled_from([0.0, 0.5, -1.0, 2.0]), st.integers(0, 99))
def test_length_counts_attention(name, t, seed):
    """With attention scaled by t the linear part is sum_l t^l lengths[l]: lengths are powers of t.

    This separates the lengths by another route. Rounding as in ``tolerance``: relative to the
    largest intermediate, 3 layers of chains with fewer than 100 roundings, whose absolute values
    exceed the sums by the condition of the maps; 2^-53 * 300 * 2^12 leaves 1.4e-10.
    """
    net, X = network(**options[name]), tokens(4, 6, seed=seed)
    held = Held.of(net, X)
    lengths, map_t = held.by_length(X), scaled(held, t)
    linear = map_t.forward(X) - map_t.forward(torch.zeros_like(X))
    powers = torch.tensor([t**k for k in range(net.depth + 1)]).double()
    expected = torch.einsum("l,lnd->nd", powers, lengths)
    size = torch.einsum("l,lnd->nd", powers.abs(), lengths.abs()).max()
    size = size + map_t.forward(X).abs().max()
    assert (linear - expected).abs().max() <= 2.0**-53 * 300 * 2**12 * size


def test_bad_tokens():
    with pytest.raises(InputError, match="^X: got width 5, expected width 6"):
        paths.by_length(network(), tokens(4, 5))
    with pytest.raises(InputError, match=r"^X: got shape \(0, 6\), expected at least one token"):
        paths.by_length(network(), tokens(0, 6))
