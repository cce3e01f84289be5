"""Windows and padding in the network, and the shapes that masked tokens take."""

import numpy as np
import pytest
import torch
from flint import arb

import attnverify as av
from attnverify import Mask
from attnverify.arithmetic import ops
from attnverify.mathematics import mask_bounds
from attnverify.support.errors import InputError


def tokens(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def network(mask, **options):
    return av.SelfAttentionNetwork.random(3, 2, 4, seed=1, mask=mask, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_window_is_a_band_in_every_arithmetic(size):
    n, like = 5, torch.zeros(1)
    band = torch.tensor([[i - size < j <= i for j in range(n)] for i in range(n)])
    assert torch.equal(ops.causal(n, like, size), band)
    assert (ops.causal(n, ops.balls(np.zeros(1)), size) == band.numpy()).all()
    assert torch.equal(Mask(window=size).keep(n, like), band)


def test_no_restriction_and_causality():
    like = torch.zeros(1)
    assert Mask().keep(3, like).all()
    assert torch.equal(Mask(causal=True).keep(3, like), ops.causal(3, like))
    X = tokens(5, 4)
    assert torch.equal(network(Mask(causal=True))(X), network("causal")(X))
    assert torch.equal(network(Mask(window=5))(X), network("causal")(X))
    assert torch.equal(network(Mask())(X), network(None)(X))


def test_padding_is_seen_by_nobody_but_itself():
    real = torch.tensor([[True, False, True], [True, True, True]])
    seen = Mask(real=real).keep(3, torch.zeros(1))
    assert seen.shape == (2, 3, 3)
    assert seen[0].tolist() == [[True, False, True], [True, True, True], [True, False, True]]
    assert seen[1].all()
    P = network(Mask(causal=True, real=real)).layer_attention(0, tokens(2, 3, 4))
    assert (P[:, 0, 2, 1] == 0).all() and (P[:, 0, 1, 1] > 0).all()


@pytest.mark.parametrize("own", [{}, {"causal": True}, {"window": 2}], ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_of_texts_gives_what_each_gives_alone(own, side):
    """Layer norm keeps tokens of size 1, rounding of three layers is far below 2^-30 of it."""
    lengths, n = (2, 5, 4), 5
    texts = [tokens(k, 4, seed=k) for k in lengths]
    batch, real = tokens(3, n, 4, seed=9) * 50, torch.zeros(3, n, dtype=torch.bool)
    for b, k in enumerate(lengths):
        rows = slice(n - k, n) if side == "left" else slice(0, k)
        batch[b, rows], real[b, rows] = texts[b], True
    options = {"skip": True, "mlp_width": 6, "norm": True}
    out = network(Mask(**own, real=real), **options)(batch)
    for b, text in enumerate(texts):
        alone = network(Mask(**own), **options)(text)
        assert (out[b][real[b]] - alone).abs().max() < 2**-30
    seen = network(Mask(**own), **options)(batch)
    away = max((seen[b][real[b]] - out[b][real[b]]).abs().max() for b in range(3))
    assert (away > 0.01) == (
        side == "left" or own == {}
    )  # under a causal mask only the left counts


def test_bounds_do_not_see_padding():
    """The sharp bound of a padded batch is that of its texts, and holds for the real tokens."""
    real = torch.tensor([[False, True, True, True], [True, False, False, True]])
    X = tokens(2, 4, 4) * torch.where(real, 1, 1000)[..., None]
    net, alone = network(Mask(real=real), skip=True), network(None, skip=True)
    bound = av.collapse.sharp_bound(net, X)
    for b, rows in enumerate(real):
        # a distance of four coordinates: a few roundings, cubed in each of three layers at most
        wanted = av.collapse.sharp_bound(alone, X[b, rows])
        assert ((bound[:, b] / wanted - 1).abs() < 2**-40).all()
        assert av.norms.diameter(net(X)[b, rows]) <= bound[-1, b]
    with pytest.raises(
        InputError, match="^net: got a network with a mask, expected one of padding"
    ):
        av.collapse.sharp_bound(network(Mask(window=2, real=real)), X)


def test_bad_masks_are_refused():
    with pytest.raises(InputError, match=r"^mask\.window: got 0, expected a whole number >= 1"):
        network(Mask(window=0))(tokens(3, 4))
    with pytest.raises(
        InputError, match=r"^mask\.real: got shape \(4,\), expected shape \(\.\.\., 3"
    ):
        network(Mask(real=torch.ones(4, dtype=torch.bool)))(tokens(3, 4))
    with pytest.raises(InputError, match="^alike: got 3, expected a whole number from 1 to 2"):
        mask_bounds.shape(3, 3, torch.zeros(1))
    with pytest.raises(InputError, match="^window: got 3, expected at least 4"):
        mask_bounds.shape(6, 2, torch.zeros(1), 3)
    with pytest.raises(InputError, match="^window: got 2, expected at least 3"):
        mask_bounds.growth(2, 1, arb(1))
