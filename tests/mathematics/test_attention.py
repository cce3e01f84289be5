"""The network against torch's own attention, and the wording of its errors."""

import inspect
import pkgutil
import re
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

import attnverify as av
from attnverify import mathematics
from attnverify.mathematics import attention, random_weights
from attnverify.support.errors import InputError, require_stochastic

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


def test_hidden_states_end_in_the_output():
    net, X = network(depth=3, skip=True, mlp_width=7, norm=True), tokens(2, 5, 6)
    states = net.hidden(X)
    assert torch.equal(states[0], X) and torch.equal(states[-1], net(X))


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


def test_width_that_heads_do_not_fit():
    message = "^width: got 10 with 3 heads, expected a multiple of heads"
    with pytest.raises(InputError, match=message):
        av.SelfAttentionNetwork.random(1, 3, 10)


@pytest.mark.parametrize("size", [0, True, 2.0])
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
    ],
)
def test_bad_tokens(X, message):
    net = network()
    for call in (net, net.attention, net.hidden):
        with pytest.raises(InputError, match=message):
            call(X)


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
