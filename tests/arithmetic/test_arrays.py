"""Tensors, numpy arrays and lists give the same; what is promoted is said, what is off is named."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import flint
import numpy as np
import pytest
import torch

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import PrecisionWarning, as_array, as_input

X = [[1, 2], [3, 5], [0, -1]]
TENSOR = torch.tensor(X, dtype=torch.float64)
NET = av.SelfAttentionNetwork.random(2, 1, 2, skip=True)

#: Functions of one matrix, each with a matrix that it takes.
OF_ONE = {
    "diameter": (av.norms.diameter, X),
    "composite": (av.norms.composite, X),
    "residual": (av.norms.residual, X),
    "contraction": (av.norms.contraction, [[0.5, 0.5], [1, 0]]),
    "oscillation": (av.softmax.oscillation, X),
    "entropy": (av.entropy.entropy, X),
    "xi": (av.spectrum.xi, [[2, 1], [1, 3]]),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_lists_and_arrays_give_what_a_tensor_gives(name):
    function, given = OF_ONE[name]
    expected = function(torch.tensor(given, dtype=torch.float64))
    for like in (given, tuple(map(tuple, given)), np.array(given)):
        found = function(like)
        assert found.dtype == torch.float64 and torch.equal(found, expected)
    parameter = next(iter(inspect.signature(function).parameters))
    assert torch.equal(function(**{parameter: given}), expected)


OF_NETWORK = {
    "output": lambda x: NET(x),
    "by keyword": lambda x: NET(X=x),
    "hidden": lambda x: NET.hidden(x),
    "attention": lambda x: NET.attention(x),
    "layers": lambda x: list(NET.layers(x))[-1][0],
    "by_length": lambda x: av.paths.by_length(NET, x),
    "bias": lambda x: av.paths.bias(NET, x),
    "term": lambda x: av.paths.term(NET, x, (1, 0)),
}


@pytest.mark.parametrize("name", OF_NETWORK)
def test_a_network_takes_lists_and_arrays(name):
    call = OF_NETWORK[name]
    for like in (X, np.array(X), np.array(X, dtype=np.float64)):
        assert torch.equal(call(like), call(TENSOR))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_coarser_dtype_is_promoted_and_said(dtype):
    """These entries are exact in every dtype, so nothing but the dtype changes."""
    words = re.escape(f"X: {str(dtype)[6:]} promoted to float64")
    with pytest.warns(PrecisionWarning, match=words):
        found = NET(TENSOR.to(dtype))
    assert torch.equal(found, NET(TENSOR))


def test_a_finer_dtype_is_refused_and_lists_take_the_networks():
    net = av.SelfAttentionNetwork.random(1, 1, 2, dtype=torch.float32)
    assert net(X).dtype == torch.float32
    for fine in (TENSOR, np.array(X, dtype=np.float64)):
        with pytest.raises(InputError, match="X: got dtype torch.float64, expected torch.float32"):
            net(fine)


def test_gradients_pass_a_promotion():
    x = TENSOR.float().requires_grad_()
    with pytest.warns(PrecisionWarning):
        NET(x).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32


def test_a_tensor_that_meets_no_network_keeps_its_dtype():
    assert av.norms.diameter(TENSOR.float()).dtype == torch.float32


def test_arrays_of_balls_and_rationals_pass_as_they_are():
    balls = ops.balls(TENSOR)
    assert as_array("X", balls) is balls
    assert isinstance(av.norms.max_row_sum(balls), flint.arb)
    nested = [[flint.fmpq(1, 3), flint.fmpq(2, 3)], [flint.fmpq(1), flint.fmpq(0)]]
    assert av.norms.max_column_sum(nested) == flint.fmpq(4, 3)


WRONG = {
    "rows of two lengths": ([[1, 2], [3]], r"1 entry at \[1\] and 2 entries at \[0\]"),
    "a number among rows": ([[1, 2], 3], r"a number at \[1\] and 2 entries at \[0\]"),
    "deep inside": ([[[1, 2], [3, 4]], [[1, 2], [3]]], r"1 entry at \[1\]\[1\]"),
    "text in it": ([[1, "2"]], r"'2' at \[0\]\[1\]"),
    "nothing in it": ([[1, None]], r"None at \[0\]\[1\]"),
    "a text": ("1 2", "got str, expected a tensor, a numpy array"),
    "none": (None, "got NoneType, expected a tensor"),
    "an array of texts": (np.array(["a"]), "got an array of <U1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_array_of_numbers_is_named(what):
    value, message = WRONG[what]
    for call in (lambda: av.norms.diameter(value), lambda: NET(value)):
        with pytest.raises(InputError, match=f"X: got .*{message}|X: {message}"):
            call()


def test_shapes_are_looked_at_after_the_lists():
    with pytest.raises(InputError, match="X: got width 3, expected width 2"):
        NET([[1, 2, 3]])
    with pytest.raises(InputError, match="an array of objects"):
        as_input("X", ops.balls(TENSOR), TENSOR)


def test_whole_numbers_in_a_tensor_become_float64():
    assert torch.equal(av.norms.diameter(torch.tensor(X)), av.norms.diameter(TENSOR))


PLAIN = """
import attnverify as av
import torch
for name, value in {arguments}:
    try:
        if name == "X":
            av.SelfAttentionNetwork.random(1, 1, 2)(value)
        elif name == "net":
            av.paths.by_length(torch.tensor(value), torch.tensor(value))
        elif name == "diameter":
            av.norms.diameter(torch.tensor(value))
        else:
            av.SelfAttentionNetwork.random(**{{"depth": 1, "heads": 1, "width": 2, name: value}})
        print("accepted", name, value)
    except av.InputError as error:
        print(error)
"""
MISTAKES = {
    "mask": "cauzal",
    "skip": "no",
    "key_width": 0,
    "depth": 2.5,
    "width": "3",
    "mlp_width": -1,
    "seed": "a",
    "scale": -1,
    "net": [[1.0, 2.0]],
    "diameter": [1.0, 2.0],
    "X": [1, 2],
}


def test_what_types_refuse_here_is_named_in_a_plain_process():
    """There no types in signatures are checked: the package has to look by itself."""
    code = PLAIN.format(arguments=repr(list(MISTAKES.items())))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    names = ["X" if name == "diameter" else name for name in MISTAKES]  # as in diameter(X)
    assert [line.split(": got ")[0] for line in lines] == names
    assert lines[-1] == "X: got shape (2,), expected shape (..., tokens, width)"
    with pytest.raises(InputError, match="dtype: got torch.int64, expected a floating dtype"):
        av.SelfAttentionNetwork.random(1, 1, 2, dtype=torch.int64)


def test_weights_by_hand_are_those_of_numpy():
    """Arrays and lists are taken, biases that are left out are 0; the network is its formula."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"W_Q": (1, 2, 6, 3), "W_K": (1, 2, 6, 3), "W_V": (1, 2, 6, 3), "W_O": (1, 2, 3, 6)}
    own = {
        name: torch.randn(*shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    X = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    for weights in (
        av.AttentionWeights(**{name: value.numpy() for name, value in own.items()}),
        av.AttentionWeights(**{name: value.tolist() for name, value in own.items()}),
    ):
        net = av.SelfAttentionNetwork(weights, mask=torch.ones(5, 5).tril().bool().numpy())
        expected = torch.zeros(5, 6, dtype=torch.float64)
        for h in range(2):
            W_Q, W_K, W_V, W_O = (own[name][0, h] for name in shapes)
            scores = (X @ W_Q @ (X @ W_K).mT / 3**0.5).masked_fill(~net.keep(5), -torch.inf)
            expected += scores.softmax(-1) @ X @ W_V @ W_O
        # Products of 6, 3, 5 and 3 terms and two sums, in another order: 24 roundings of parts
        # whose absolute values sum to at most 100 times the largest output here.
        assert (net(X) - expected).abs().max() <= 24 * 2.0**-53 * 100 * expected.abs().max()
        assert all(bool((net.weights[b] == 0).all()) for b in ("b_Q", "b_K", "b_V", "b_O"))
    with pytest.raises(InputError, match="^weights.W_K: got NoneType, expected a tensor, a numpy"):
        av.AttentionWeights(own["W_Q"])
    with pytest.raises(InputError, match="^weights: got torch.float32 and torch.float64"):
        mixed = av.AttentionWeights(**{**own, "W_O": own["W_O"].float()})
        av.SelfAttentionNetwork(mixed)
    for scale in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="^scale: got .*, expected a finite number"):
            av.SelfAttentionNetwork.random(1, 2, 6, scale=scale)
