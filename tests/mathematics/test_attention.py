"""The network against torch's own attention, and the wording of its errors."""

import copy
import inspect
import pkgutil
import re
from importlib import import_module

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

import attnverify as av
from attnverify import mathematics
from attnverify.arithmetic import ops
from attnverify.mathematics import attention, random_weights
from attnverify.support.errors import InputError, require_stochastic, require_tokens

MASKS = {
    "none": None,
    "causal": "causal",
    "tensor": torch.tensor(
        [[1, 0, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]],
        dtype=torch.bool,
    ),
}


def network(depth=1, heads=3, width=6, **options):
    return av.SelfAttentionNetwork.random(depth, heads, width, 4, 5, seed=1, **options)


def tokens(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def layer_bound(net, X):
    """Bound on the difference of two float evaluations of the first layer at X, entrywise.

    u: unit roundoff, gamma_m = m u / (1 - m u); a sum of products with m roundings a chain is off
    by at most gamma_m times the same expression in absolute values (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1).

    * Logits: chains of 2 (width + 1) + key_width + 2 roundings. Two evaluations differ by at most
      delta = 2 gamma |logits|, with |logits| from absolute values.
    * Softmax: logits that move by at most delta move every weight by a factor within
      exp(+-2 delta). Its own roundings: subtraction of the maximum (at most u |logits| each,
      inside delta), the exponential (2 u), the sum (tokens u), the division (u).
      Together a factor within 1 +- rho, rho = exp(2 delta) (1 + 2 gamma_{tokens + 3}) - 1.
    * Values: chains of width + tokens + heads * value_width + 4 roundings on |P| |V| |W_O| + |b|.
      The P used here is itself a float, off by rho.
    """
    w = {name: value[0].abs() for name, value in net.weights.items()}
    H, n, d = net.heads, X.shape[-2], net.width
    u = torch.finfo(X.dtype).eps / 2

    def gamma(m):
        return m * u / (1 - m * u)

    sizes = attention.logits(X.abs(), w["W_Q"], w["b_Q"], w["W_K"], w["b_K"]).max().item()
    delta = 2 * gamma(2 * (d + 1) + net.key_width + 3) * sizes
    rho = np.exp(2 * delta) * (1 + 2 * gamma(n + 3)) - 1
    absolute = attention.mix(net.layer_attention(0, X), X.abs(), w["W_V"], w["W_O"])
    absolute = absolute + attention.layer_bias(w["b_V"], w["W_O"], w["b_O"])
    factor = (1 + rho) ** 2 * (1 + 2 * gamma(d + n + H * net.value_width + 4)) - 1
    return factor * absolute


def torch_layer(net, X):
    """One layer by torch's scaled_dot_product_attention."""
    w = {name: value[0] for name, value in net.weights.items()}
    outputs = []
    for h in range(net.heads):
        q, k, v = (X @ w["W_" + s][h] + w["b_" + s][h] for s in "QKV")
        kept = net.keep(X.shape[-2])
        outputs.append(scaled_dot_product_attention(q, k, v, attn_mask=kept) @ w["W_O"][h])
    return torch.stack(outputs).sum(0) + w["b_O"] + (X if net.skip else 0)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("mask", MASKS)
def test_agrees_with_torch_attention(mask, batch, skip):
    net, X = network(mask=MASKS[mask], skip=skip), tokens(*batch, 5, 6)
    difference = (net(X) - torch_layer(net, X)).abs()
    extra = X.abs() * torch.finfo(X.dtype).eps if skip else 0  # one more addition on each side
    assert (difference <= layer_bound(net, X) + extra).all()


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_mlp_and_norms_stand_where_torch_puts_them(skip, norm):
    """Norms behind each sum; without skip connections nothing is added to either sublayer."""
    net, X = network(skip=skip, norm=norm, mlp_width=7), tokens(2, 5, 6)
    mlp = net.mlp.at(0)

    def normed(x, k):
        at = net.norm.at(0, k) if norm else None
        return layer_norm(x, (6,), at.scale, at.shift, at.epsilon) if norm else x

    Y = normed(torch_layer(net, X), 0)
    Z = linear(gelu(linear(Y, mlp.W_1.mT, mlp.b_1)), mlp.W_2.mT, mlp.b_2)
    assert torch.allclose(net(X), normed(Z + Y * skip, 1), rtol=1e-12, atol=1e-12)


def test_bound_rejects_a_network_without_key_bias():
    """Query biases matter; if the bound let them go it would be no test."""
    net, X = network(), tokens(5, 6)
    other = copy.deepcopy(net)
    other.weights["b_Q"].zero_()
    assert ((net(X) - torch_layer(other, X)).abs() > layer_bound(net, X)).any()


@pytest.mark.parametrize("mask", MASKS)
def test_attention_is_stochastic_and_masked(mask):
    net, X = network(depth=2, mask=MASKS[mask]), tokens(2, 5, 6)
    P = net.attention(X)
    assert P.shape == (2, 3, 2, 5, 5)
    require_stochastic("P", P)
    if (kept := net.keep(5)) is not None:
        assert (P[..., ~kept] == 0).all() and (P[..., kept] > 0).all()


def test_hidden_states_end_in_the_output():
    net, X = network(depth=3, skip=True, mlp_width=7, norm=True), tokens(2, 5, 6)
    states = net.hidden(X)
    assert torch.equal(states[0], X) and torch.equal(states[-1], net(X))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_tokens_in_another_order(heads, n, width, seed):
    """Without a mask the layer does not see the order of the tokens."""
    net = av.SelfAttentionNetwork.random(1, heads, width, 2, 3, seed=seed)
    X, order = tokens(n, width, seed=seed), torch.randperm(n)
    assert ((net(X[order]) - net(X)[order]).abs() <= layer_bound(net, X)[order]).all()


def test_a_batch_is_its_parts():
    net, X = network(), tokens(2, 3, 5, 6)
    parts = torch.stack([torch.stack([net(x) for x in row]) for row in X])
    assert ((net(X) - parts).abs() <= layer_bound(net, X)).all()


def drawn():
    """Of every module of mathematics what draws random weights, and what takes a dtype."""
    found, take = {}, set()
    for each in pkgutil.iter_modules(mathematics.__path__):
        module = import_module(f"{mathematics.__name__}.{each.name}")
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and name[0] != "_":
                public = {name: value, f"{name}.random": getattr(value, "random", None)}
                found |= {k: v for k, v in public.items() if k.endswith(".random") and v}
                take |= {k for k, v in public.items() if v and "dtype" in parameters(v)}
    return found, take


def parameters(value):
    known = inspect.isfunction(value) or inspect.ismethod(value)
    return inspect.signature(value).parameters if known else {}


def test_every_random_network_has_the_dtype_that_was_asked_for():
    """All its parts: the numbers of float64, rounded; and it runs."""
    found, take = drawn()
    assert take <= set(found) and {"SelfAttentionNetwork.random"} < set(found)
    sizes = {"depth": 2, "heads": 2, "width": 4, "hidden": 3, "mlp_width": 3, "norm": True}
    for random in found.values():
        given = {name: size for name, size in sizes.items() if name in parameters(random)}
        fine, coarse = (random(**given, dtype=t) for t in (torch.float64, torch.float32))
        X = tokens(5, 4, dtype=torch.float32)
        assert coarse(X).dtype == torch.float32 and fine(X.double()).dtype == torch.float64
        rounded = {name: value.float() for name, value in fine.state_dict().items()}
        assert rounded and rounded.keys() == coarse.state_dict().keys()
        for name, value in coarse.state_dict().items():
            assert value.dtype == torch.float32 and torch.equal(value, rounded[name]), name


def test_one_seed_one_network():
    first, again, other = (
        av.SelfAttentionNetwork.random(2, 2, 4, seed=s).state_dict() for s in (3, 3, 4)
    )
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_gradients_pass_the_attention_matrices():
    """attention() writes into one tensor; its gradients must survive that."""
    net, X = network(depth=3), tokens(3, 6).requires_grad_()
    assert torch.autograd.gradcheck(net.attention, X)


def rational(*shape):
    values = np.random.default_rng(0).integers(-9, 9, shape)
    return ops.rationals(values)


def test_formulas_work_on_rationals():
    """head_values, mix and layer_bias against sums over heads, exactly, with a batch axis."""
    H, B, n, d, v = 2, 3, 4, 5, 2
    P, X = rational(H, B, n, n), rational(B, n, d)
    W_V, W_O, b_V, b_O = rational(H, d, v), rational(H, v, d), rational(H, v), rational(d)
    heads = [P[h] @ X @ W_V[h] for h in range(H)]
    assert (attention.head_values(P, X, W_V) == np.concatenate(heads, -1)).all()
    assert (attention.mix(P, X, W_V, W_O) == sum(heads[h] @ W_O[h] for h in range(H))).all()
    expected = sum(b_V[h] @ W_O[h] for h in range(H)) + b_O
    assert (attention.layer_bias(b_V, W_O, b_O) == expected).all()


def test_logits_in_balls_enclose_rationals():
    """4 is a square, so the logits are rational: balls must contain the exact values."""
    H, n, d, k = 2, 3, 5, 4
    X, W_Q, W_K = rational(n, d), rational(H, d, k), rational(H, d, k)
    b_Q, b_K = rational(H, k), rational(H, k)
    found = attention.logits(*map(ops.balls, (X, W_Q, b_Q, W_K, b_K)))
    for h in range(H):
        exact = (X @ W_Q[h] + b_Q[h]) @ (X @ W_K[h] + b_K[h]).T / flint.fmpq(2)
        pairs = zip(found[h].flat, exact.flat, strict=True)
        assert all(ball.contains(flint.arb(value)) for ball, value in pairs)


def test_width_that_heads_do_not_fit():
    message = "^width: got 10 with 3 heads, expected a multiple of heads"
    with pytest.raises(InputError, match=message):
        av.SelfAttentionNetwork.random(1, 3, 10)


@pytest.mark.parametrize("name", ["depth", "heads", "width"])
def test_sizes_are_positive(name):
    sizes = {"depth": 1, "heads": 1, "width": 2, name: 0}
    with pytest.raises(InputError, match=f"^{name}: got 0, expected a positive whole number"):
        av.SelfAttentionNetwork.random(**sizes)


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "2"])
@pytest.mark.parametrize("name", [*inspect.signature(random_weights.Sizes.of).parameters])
def test_every_size_is_a_positive_whole_number(name, size):
    """Asked of what checks them: here the types of a signature are checked before."""
    sizes = {"depth": 2, "heads": 2, "width": 2, name: size}
    message = f"^{name}: got {re.escape(repr(size))}, expected a positive whole number"
    with pytest.raises(InputError, match=message):
        random_weights.Sizes.of(**sizes)
    if type(size) in (int, bool):
        with pytest.raises(InputError, match=message):
            av.SelfAttentionNetwork.random(**sizes)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.zeros(0, 6).double(), r"^X: got shape \(0, 6\), expected at least one token"),
        (torch.zeros(5, 7).double(), "^X: got width 7, expected width 6"),
        (torch.full((5, 6), torch.nan).double(), "^X: got 30 NaN or infinite entries"),
        (torch.tensor([[0.0] * 5 + [torch.inf]]).double(), "^X: got 1 NaN or infinite entries"),
    ],
)
def test_bad_tokens(X, message):
    net = network()
    for call in (net, net.attention, net.hidden):
        with pytest.raises(InputError, match=message):
            call(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.zeros(6), r"^X: got shape \(6,\), expected shape \(..., tokens, width\)"),
        (
            torch.zeros(5, 6, dtype=torch.long),
            "^X: got dtype torch.int64, expected a floating dtype",
        ),
    ],
)
def test_what_is_no_token_matrix(X, message):
    with pytest.raises(InputError, match=message):
        require_tokens("X", X)


def weights_of(net, **changed):
    """The weights of a network with some tensors replaced, past the checks of the dataclass."""
    weights = attention.AttentionWeights(**net.weights)
    for name, value in changed.items():
        object.__setattr__(weights, name, value)
    return weights


@pytest.mark.parametrize("name", ["W_K", "b_Q", "b_K", "W_V", "b_V", "W_O", "b_O"])
def test_mismatched_weights(name):
    net = network(depth=2)
    wrong = net.weights[name][:1]
    message = rf"^weights\.{name}: got shape \(1, .*expected shape \(2, "
    with pytest.raises(InputError, match=message):
        av.SelfAttentionNetwork(weights_of(net, **{name: wrong}))


def test_weights_that_are_not_finite():
    net = network()
    wrong = torch.full_like(net.weights["W_V"], torch.nan)
    with pytest.raises(InputError, match=r"^weights\.W_V: got 90 NaN or infinite entries"):
        av.SelfAttentionNetwork(weights_of(net, W_V=wrong))


def test_mismatched_mlp_and_norm():
    net, other = network(depth=2), network(depth=1, mlp_width=7, norm=True)
    mlp, norm = attention.MLP(**other.mlp), attention.LayerNorm(**other.norm)
    with pytest.raises(InputError, match=r"^mlp\.W_1: got shape \(1, 6, 7\)"):
        av.SelfAttentionNetwork(weights_of(net), mlp=mlp)
    with pytest.raises(InputError, match=r"^norm\.scale: got shape \(1, 2, 6\)"):
        av.SelfAttentionNetwork(weights_of(net), norm=norm)
    odd = attention.MLP(**other.mlp, activation="swish")
    with pytest.raises(InputError, match=r"^mlp\.activation: got 'swish', expected one of"):
        av.SelfAttentionNetwork(weights_of(network()), mlp=odd)


def test_bad_masks():
    with pytest.raises(InputError, match=r"^mask: got shape \(5, 5\), expected shape \(4, 4\)"):
        network(mask=MASKS["tensor"])(tokens(4, 6))
    with pytest.raises(InputError, match="^mask: got a row without keys, expected a key in every"):
        network(mask=torch.zeros(4, 4, dtype=torch.bool))(tokens(4, 6))


def test_stochastic_check_names_its_fault():
    with pytest.raises(InputError, match="^P: got a negative entry -0.5"):
        require_stochastic("P", torch.tensor([[1.5, -0.5]]))
    with pytest.raises(InputError, match="^P: got a row sum off by 0.1, expected rows that sum"):
        require_stochastic("P", torch.tensor([[0.5, 0.6]]))
