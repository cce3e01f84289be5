"""Checks compute on the device of their instance, and gradients suit the Adam of CUDA.

A machine without a GPU shows it: PyTorch's fake tensors have a shape and a device and no numbers,
and an operation that mixes devices raises as it does there.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.check import Inequality

ELSEWHERE = "meta"  # any device other than the processor
#: They look at numbers, which fake tensors lack; by hand they ran on a CUDA device.
LOOKING = {
    "localization.gaussian",
    "localization.middle-token",
    "localization.edgeworth",
    "localization.near-middle",
    "training.covariance",
}


def sides(check: Inequality) -> None:
    """Both sides of a check at fake parameters on another device."""
    random = torch.Generator().manual_seed(0)
    free = sampling.parameters(check.sizes[0], 2, random, spread=True)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fake = {k: torch.empty(v.shape, dtype=v.dtype, device=ELSEWHERE) for k, v in free.items()}
        instance = check.build(**fake)
        sampling.ratios(check, instance)


@pytest.mark.full  # 10 s: every formula of the book that a run with --device cuda computes
def test_sides_stay_on_the_device_of_the_instance():
    looked = set()
    for claim in registry:
        for check in registry.checks_of(claim).values():
            if isinstance(check, Inequality):
                try:
                    sides(check)
                except (DataDependentOutputException, DynamicOutputShapeException):
                    looked.add(claim)
    assert looked == LOOKING


def test_an_array_made_on_the_processor_is_found():
    mixed = Inequality(lambda x: x * torch.ones(1, 3), lambda x: x, ({"x": (3,)},))
    with pytest.raises(RuntimeError, match="same device"):
        sides(mixed)
