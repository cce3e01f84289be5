"""Gradients of attention in the query-key matrix against automatic differentiation, and v(H)."""

import pytest
import torch

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, entropy, gradients, initialization

UNIT = 2.0**-53


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_v_is_the_variance_of_two_weights_with_this_entropy():
    """Both sides are exact to some 20 roundings, and v' <= 1/2 passes the entropy's error on."""
    p = torch.tensor([0.5, 0.6, 0.75, 0.9, 0.999, 1 - 2.0**-40], dtype=torch.float64)
    logits = torch.stack([torch.log(p) - torch.log1p(-p), torch.zeros_like(p)], -1)
    v = gradients.entropy_variance(entropy.entropy(logits))
    assert (abs(v - p * (1 - p)) <= 20 * UNIT).all()


def test_v_keeps_its_digits_near_entropy_zero():
    """With p = 1 - q, v = q - q^2: the relative error stays small where 1 - p loses its digits.

    The entropy is q (1 - log q) to first order in q; dv/v is at most dH/H there.
    """
    q = torch.tensor([1e-5, 1e-12, 1e-60, 1e-200], dtype=torch.float64)
    H = -q * q.log() - (1 - q) * torch.log1p(-q)
    assert (abs(gradients.entropy_variance(H) / (q - q * q) - 1) <= 2.0**-40).all()


def test_v_refuses_a_negative_entropy():
    with pytest.raises(InputError, match=r"H: got 1 entry, the least -0.5, expected entropies"):
        gradients.entropy_variance(torch.tensor([0.1, -0.5], dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_a_loss_is_that_of_automatic_differentiation(causal):
    """Both are sums of some 10^3 products; 2^-40 of the largest entry leaves room for rounding."""
    n, d, key_width = 5, 4, 4
    X, W_QK, W, g = drawn(n, d), drawn(d, d, seed=1), drawn(d, d, seed=2), drawn(n, d, seed=3)
    W_QK.requires_grad_()
    scores = collapse.scores(X, W_QK, key_width)
    keep = ops.causal(n, X) if causal else torch.ones(n, n, dtype=torch.bool)
    (ops.softmax(scores, keep) @ X @ W * g).sum().backward()
    found = gradients.loss_gradient(scores.detach(), X, W, g, key_width, causal)
    assert (abs(found - W_QK.grad) <= 2.0**-40 * W_QK.grad.abs().max()).all()
    bound = gradients.gradient_bound(scores.detach(), X, X, X, g @ W.mT, key_width, causal)
    assert 0 < torch.linalg.matrix_norm(found, ord="nuc") <= bound


def test_queries_and_keys_with_biases():
    n, d, k, v = 4, 5, 3, 2
    X, V, g = drawn(n, d), drawn(n, v), drawn(n, v, seed=1)
    maps = [drawn(d, k, seed=2).requires_grad_(), drawn(d, k, seed=3).requires_grad_()]
    biases = [drawn(k, seed=4).requires_grad_(), drawn(k, seed=5).requires_grad_()]
    Q, K = (X @ W + b for W, b in zip(maps, biases, strict=True))
    scores = Q @ K.mT / k**0.5
    (torch.softmax(scores, -1) @ V * g).sum().backward()
    Q, K, scores = Q.detach(), K.detach(), scores.detach()
    found = gradients.query_gradient(scores, X, K, V, g, k)
    assert torch.allclose(found, maps[0].grad, rtol=0, atol=2.0**-40)
    found = gradients.key_gradient(scores, X, Q, V, g, k)
    assert torch.allclose(found, maps[1].grad, rtol=0, atol=2.0**-40)
    assert biases[1].grad.abs().max() <= 2.0**-45, "a key bias shifts all logits of a row alike"
    assert biases[0].grad.abs().max() > 0.01


def test_covariances_say_what_is_wrong():
    with pytest.raises(InputError, match="X: got"):
        av.gradients.covariance(torch.zeros(2), "tokens")


def test_the_expected_gram_matrix_is_the_average_of_networks():
    """4,000 Gaussian layers; within 5 standard errors of each entry."""
    n, d, heads, gain = 3, 4, 2, 0.7
    X, A = drawn(n, d), torch.softmax(drawn(heads, n, n), -1)
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(4000, heads, d, d, generator=generator, dtype=torch.float64)
    Y = X + (gain / (d * heads)) ** 0.5 * (A @ X @ W).sum(-3)
    grams = Y @ Y.mT
    expected = initialization.gram_step(X @ X.mT, A, gain)
    error = grams.std(0) / 4000**0.5
    assert (abs(grams.mean(0) - expected) <= 5 * error).all()
    assert (error < 0.1 * expected.abs().max()).all()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((1, 1.0, 3), "tokens"), ((4, -0.5, 3), "gain"), ((4, 1.0, -1), "layers")],
)
def test_a_cosine_is_refused_for(arguments, name):
    with pytest.raises(InputError, match=f"^{name}: got"):
        initialization.uniform_cosine(*arguments)
