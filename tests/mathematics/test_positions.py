"""Positions in the network: against rotation by complex numbers, in balls, and the errors."""

import numpy as np
import pytest
import torch

import attnverify as av
from attnverify.arithmetic import ops
from attnverify.mathematics import position_bounds as formulas
from attnverify.mathematics import positions
from attnverify.mathematics.positions import Positions
from attnverify.support.errors import InputError

DEPTH, HEADS, WIDTH, KEY_WIDTH, REACH = 2, 3, 6, 4, 7


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def drawn(angles=True, bias=True):
    return Positions(
        angles=randn(DEPTH, HEADS, KEY_WIDTH // 2, seed=3) if angles else None,
        bias=randn(DEPTH, HEADS, 2 * REACH - 1, seed=4) if bias else None,
    )


def network(places, **options):
    return av.SelfAttentionNetwork.random(
        DEPTH, HEADS, WIDTH, KEY_WIDTH, 5, positions=places, seed=1, **options
    )


def expected(net, X, layer):
    """The attention of one layer at one input; planes as complex numbers, loops over tokens."""
    w, n = net.weights.at(layer), X.shape[-2]
    planes, out = KEY_WIDTH // 2, torch.empty(HEADS, n, n, dtype=X.dtype)
    places = net.positions.at(layer)
    for h in range(HEADS):
        query, key = (
            torch.complex(v[:, :planes].contiguous(), v[:, planes:].contiguous())
            for v in (X @ w.W_Q[h] + w.b_Q[h], X @ w.W_K[h] + w.b_K[h])
        )
        for i in range(n):
            for j in range(n):
                angle = torch.zeros(planes) if places.angles is None else places.angles[h] * (i - j)
                turn = torch.polar(torch.ones(planes, dtype=X.dtype), angle.to(X.dtype))
                z = (query[i] * turn * key[j].conj()).real.sum() / KEY_WIDTH**0.5
                bias = 0 if places.bias is None else places.bias[h, REACH - 1 + i - j]
                out[h, i, j] = z + bias
    return torch.softmax(out, -1)


@pytest.mark.parametrize(("angles", "bias"), [(True, False), (False, True), (True, True)])
def test_attention_with_positions(angles, bias):
    """Chains of at most 40 roundings on logits below 20, whose error moves weights twice."""
    net, X = network(drawn(angles, bias)), randn(2, 5, WIDTH)
    for layer in range(DEPTH):
        P = net.layer_attention(layer, X)
        for number in range(2):
            known = expected(net, X[number], layer)
            assert ((P[:, number] - known).abs() <= 2 * 40 * 20 * 2.0**-53).all()
    assert net(X).shape == X.shape and torch.equal(net(X)[1], net(X[1:])[0])


def test_known_positions():
    rotary = Positions.rotary(DEPTH, HEADS, 4, base=4.0).angles
    assert rotary is not None
    assert torch.equal(rotary, torch.tensor([1.0, 0.5]).double().expand(DEPTH, HEADS, 2))
    alibi = positions.by_distance(Positions.alibi(1, 8, 3).bias, 3)
    assert torch.equal(alibi[0, 0], -torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]).double() / 2)
    assert torch.equal(alibi[0, 7] * 2**7, alibi[0, 0])


def test_gradients_reach_the_positions():
    net = network(drawn()).requires_grad_()
    net(randn(5, WIDTH)).sum().backward()
    for name in ("positions.angles", "positions.bias"):
        grad = net.get_parameter(name).grad
        assert grad is not None and grad.abs().max() > 0


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (Positions(angles=randn(DEPTH, HEADS, 3)), r"positions.angles: got shape \(2, 3, 3\)"),
        (Positions(bias=randn(DEPTH, HEADS, 6)), r"positions.bias: got shape \(2, 3, 6\)"),
        (Positions(bias=randn(1, HEADS, 7)), "positions.bias: got shape"),
        (Positions(bias=randn(DEPTH, HEADS, 7) / 0), "positions.bias: got"),
    ],
)
def test_wrong_positions_are_refused(places, message):
    with pytest.raises(InputError, match=message):
        network(places)


def test_odd_keys_cannot_be_turned():
    with pytest.raises(InputError, match="key_width 3, expected an even"):
        av.SelfAttentionNetwork.random(1, 1, 3, positions=Positions(angles=randn(1, 1, 1)))


def test_more_tokens_than_the_biases_reach():
    with pytest.raises(InputError, match="X: got 8 tokens, expected at most 7"):
        network(drawn())(randn(8, WIDTH))


def test_the_sharp_bound_refuses_positions():
    with pytest.raises(InputError, match="a network with positions"):
        av.collapse.sharp_bound(network(drawn()), randn(5, WIDTH))


def test_moduli_in_balls_and_floats():
    P = torch.softmax(randn(4, 4), -1)
    exact = formulas.moduli(ops.softmax(ops.balls(randn(4, 4))))
    assert len(exact) == 3
    near = np.array([float(a) for a in exact]) - np.array(formulas.moduli(P).tolist())
    # Bauer and Fike: an eigenvalue moves by at most the condition of the eigenvectors times the
    # error of the matrix. The float softmax has 4 + 9 roundings of exponentials, their sum and the
    # quotient, and its shifted logits, up to 2 * 2.5 in size, count twice: 10; the decomposition is
    # backward stable to 10 * 4 u (LAPACK Users' Guide, section 4.8).
    condition = float(torch.linalg.cond(torch.linalg.eig(P).eigenvectors))
    assert (abs(near) <= condition * (13 + 10 + 40) * 2.0**-53 * float(P.norm())).all()
