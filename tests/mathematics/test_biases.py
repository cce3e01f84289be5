"""The layer with all four biases that checks use, against the package's network."""

import torch

from attnverify import SelfAttentionNetwork
from attnverify.chapters import full_layer

NAMES = ("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O")


def test_full_layer_is_a_layer_of_the_network():
    net = SelfAttentionNetwork.random(depth=1, heads=3, width=6, seed=0)
    random = torch.Generator().manual_seed(1)
    draw = lambda like: torch.randn(like.shape, dtype=like.dtype, generator=random)  # noqa: E731
    with torch.no_grad():
        for name in NAMES:  # biases too: drawn ones may be zero
            net.weights[name].copy_(draw(net.weights[name]))
    X = torch.randn(5, 6, dtype=torch.float64, generator=random)
    layer = full_layer.full_layer(X, *(net.weights[name][0] for name in NAMES))
    # logits below 100 with fewer than 64 roundings: weights off by 6,400 u, values below 100
    torch.testing.assert_close(layer, net(X), rtol=0, atol=64 * 100 * 100 * 2.0**-52)
