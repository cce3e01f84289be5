"""Checks of several heads or layers try some that are unlike, and their bounds see each of them."""

from fnmatch import fnmatch

import numpy as np
import pytest
import torch
from flint import arb

from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.check import Identity, Inequality
from attnverify.support.seeds import generator

#: Checks of one head, or of one layer: the axis of length 1. Their statements or titles say so.
ALONE = {
    "collapse.single-layer*": 0,
    "collapse.single-head*/* tokens": 0,
    "collapse.single-head*/depth": 1,
    "collapse.multi-head-sharpened/one head": 0,
    "collapse.global/*": 1,
    "collapse.threshold/*": 1,
    "skip.polynomial-rate/*": 1,
    "modern.positions-end-cubic/*": 0,
    "modern.causal-positions-rate/*": 0,
    "masks.local-slows/all keys": 0,
}
#: Bounds by the largest of all layers (axis 0), or of all experts, as their statements say.
LARGEST = ("*depth*", "collapse.global/*", "collapse.threshold*", "collapse.each-path/*")
LARGEST += ("collapse.causal-mask/*", "skip.equal-rates/*", "heads.experts/*")
CHECKS = {
    f"{id}/{name}": check
    for id in registry
    for name, check in registry.checks_of(id).items()
    if isinstance(check, Inequality | Identity)
}


def drawn(check):
    """An instance of each size, without batch axis, in floats."""
    for sizes in check.sizes:
        if isinstance(check, Inequality):
            free = sampling.parameters(sizes, 1, generator(0, "heads"), spread=False)
            yield sampling.single(check.build(**free), 0)
        else:
            exact = check.build(**sampling.exact_parameters(check, sizes, 1))
            number = np.vectorize(lambda x: float(arb(x)), otypes=[float])
            yield {name: torch.from_numpy(number(value)) for name, value in exact.items()}


def unlike(value, axis):
    """Whether there are several slices along the axis, no two of which have one norm."""
    norms = value.movedim(axis, 0).flatten(1).norm(dim=1).sort().values
    return len(norms) > 1 and bool((norms.diff() > 1e-9 * norms[1:]).all())


def stacks(instance):
    """(array, axis) of every axis along which matrices are stacked."""
    return [(name, axis) for name, v in instance.items() for axis in range(v.ndim - 2)]


@pytest.mark.parametrize("name", CHECKS)
def test_some_drawn_heads_and_layers_are_unlike(name):
    instances = list(drawn(CHECKS[name]))
    alone = {axis for pattern, axis in ALONE.items() if fnmatch(name, pattern)}
    for array, axis in stacks(instances[0]):
        if axis in alone:
            assert all(x[array].shape[axis] == 1 for x in instances)
        else:
            assert any(unlike(x[array], axis) for x in instances), (array, axis)


@pytest.mark.parametrize("name", [n for n, c in CHECKS.items() if isinstance(c, Inequality)])
def test_a_bound_sees_every_head(name):
    """What it depends on, it depends on in every head: the largest does not stand for all."""
    check, layers = CHECKS[name], any(fnmatch(name, pattern) for pattern in LARGEST)
    for instance in drawn(check):
        for array, axis in stacks(instance):
            heads = instance[array].shape[axis]
            if heads > 1 and not (layers and axis == 0):
                there = (k for k in range(heads) if whole(instance[array], axis, k))
                moved = [halved(check, instance, array, axis, k) for k in there]
                assert all(moved) or not any(moved), (array, axis, moved)


def whole(value, axis, head):
    """Whether a head has weights in every layer: where all are 0 there is none."""
    return bool((value.movedim(axis, 0)[head] != 0).flatten(-2).any(-1).all())


def halved(check, instance, array, axis, head):
    """Whether the right side changes where one head's weights are halved."""
    other = instance[array].clone()
    other.movedim(axis, 0)[head] /= 2
    one, two = (
        {k: v[None] for k, v in {**instance, array: w}.items()} for w in (instance[array], other)
    )
    return not torch.equal(check.right(**one), check.right(**two))
