"""The path decomposition: terms, sums by length and the bias against the forward pass."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnverify as av
from attnverify.mathematics import paths
from attnverify.support.errors import InputError

MASK = torch.tensor([[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)


def network(depth=3, heads=2, width=5, **options):
    return av.SelfAttentionNetwork.random(depth, heads, width, 3, 4, seed=1, **options)


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sum_of_terms(net, X):
    return sum(term for _, term in paths.terms(net, X))


def rounding_bound(net, X):
    number = (net.heads + net.skip) ** net.depth
    return paths.FixedAttention.of(net, X).rounding_bound(X, number)


def rounding_bounds(net, X):
    number = (net.heads + net.skip) ** net.depth
    return paths.FixedAttention.of(net, X).rounding_bounds(X, number)


def grouped(net, X):
    """Sums of enumerated terms by length, (depth + 1, ..., tokens, width)."""
    sums = X.new_zeros(net.depth + 1, *X.shape)
    for path, term in paths.terms(net, X):
        sums[len(path) - path.count(0)] += term
    return sums


options = {
    "plain": {},
    "skip": {"skip": True},
    "causal": {"mask": "causal"},
    "mask and skip": {"mask": MASK, "skip": True},
    "no bias": {"bias": False},
}


@pytest.mark.parametrize("name", options)
def test_the_bounds_by_length_add_up_to_the_whole(name):
    """Without biases the absolute network is the sum of its lengths: each bound is a share of it.

    Both are floats of one exact value, each off by a few thousand roundings at most, far below
    1e-9 of it.
    """
    net, X = network(**options[name]), tokens(4, 5)
    fixed = replace(paths.FixedAttention.of(net, X), b=torch.zeros_like(net.weights["b_O"]))
    whole, parts = fixed.rounding_bound(X, 9), fixed.rounding_bounds(X, 9)
    assert ((parts.sum(0) - whole).abs() <= 1e-9 * whole).all()
    assert (parts[: net.depth if not net.skip else 0] == 0).all()


@settings(deadline=None, max_examples=60)
@given(
    depth=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 3, 7]),
    width=st.integers(1, 5),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    n=st.integers(1, 5),
    batch=st.lists(st.integers(1, 3), max_size=2),
    skip=st.booleans(),
    bias=st.booleans(),
    causal=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_any_shape(depth, heads, width, sizes, n, batch, skip, bias, causal, seed):
    net = av.SelfAttentionNetwork.random(
        depth,
        heads,
        width,
        *sizes,
        skip=skip,
        bias=bias,
        mask="causal" if causal else None,
        scale=2.0,
        seed=seed,
    )
    X = tokens(*batch, n, width, seed=seed)
    bound, bias_part = rounding_bound(net, X), paths.bias(net, X)
    sums = paths.by_length(net, X)
    assert ((sums.sum(0) + bias_part - net(X)).abs() <= bound).all()
    assert ((sum_of_terms(net, X) + bias_part - net(X)).abs() <= bound).all()
    assert ((sums - grouped(net, X)).abs() <= rounding_bounds(net, X)).all()


@pytest.mark.parametrize(("depth", "heads", "name"), [(-1, 2, "depth"), (2, 0, "heads")])
def test_count_of_nothing(depth, heads, name):
    with pytest.raises(InputError, match=f"^{name}: got "):
        paths.count(depth, heads, 1)


def test_paths_come_in_order_and_terms_agree():
    net, X = network(depth=2, skip=True), tokens(4, 5)
    found = list(paths.terms(net, X))
    assert [p for p, _ in found] == list(itertools.product(range(3), repeat=2))
    assert all(torch.equal(term, paths.term(net, X, p)) for p, term in found)
    assert torch.equal(dict(found)[0, 0], X)


@pytest.mark.parametrize(
    ("skip", "path", "allowed"),
    [
        (True, (0, 3, 0), r"indices in 0\.\.2"),
        (False, (0, 1, 1), r"indices in 1\.\.2"),
    ],
)
def test_path_index_out_of_range(skip, path, allowed):
    with pytest.raises(InputError, match=rf"^path: got \({path[0]}, .*expected {allowed}"):
        paths.term(network(skip=skip), tokens(4, 5), path)


def test_path_of_another_length():
    with pytest.raises(InputError, match="^path: got 2 indices, expected 3, one a layer"):
        paths.term(network(), tokens(4, 5), (1, 1))


def test_too_many_paths_advises_the_recursion():
    net = network(depth=12, heads=12, width=2, skip=True)
    message = f"^net: got {13**12:,} paths, expected at most 1,000,000 .use by_length"
    with pytest.raises(InputError, match=message):
        paths.terms(net, tokens(4, 2))
    few = network(depth=2)
    with pytest.raises(InputError, match="^net: got 4 paths, expected at most 3"):
        paths.terms(few, tokens(4, 5), limit=3)
    assert len(list(paths.terms(few, tokens(4, 5), limit=4))) == 4


def test_networks_with_other_parts_are_no_fixed_attention():
    message = "^net: got a network with MLPs or layer norm, expected attention and skip"
    for other in ({"mlp_width": 3}, {"norm": True}):
        with pytest.raises(InputError, match=message):
            paths.FixedAttention.of(network(**other), tokens(4, 5))


@pytest.mark.parametrize("call", [paths.by_length, paths.terms, paths.bias])
def test_bad_tokens(call):
    bad = tokens(4, 5)
    bad[0, 0] = torch.nan
    with pytest.raises(InputError, match="^X: got 1 NaN or infinite entries"):
        call(network(), bad)
    with pytest.raises(InputError, match="^X: got width 6, expected width 5"):
        call(network(), tokens(4, 6))
    with pytest.raises(InputError, match=r"^X: got shape \(0, 5\), expected at least one token"):
        call(network(), tokens(0, 5))
