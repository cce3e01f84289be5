"""The engine's named constants: a case just inside and a case just outside of each."""

from __future__ import annotations

import pytest
import torch

from attnverify.checking import check_fields
from attnverify.checking.check import Inequality
from attnverify.checking.formula_agreement import require_agreement
from attnverify.checking.gather import gather
from attnverify.checking.search import Settings
from attnverify.support.errors import InputError
from attnverify.verification import claim_files

FEW = Settings(samples=8, restarts=2, steps=2)
SIZES = ({"x": (3,)},)


@pytest.mark.parametrize(
    ("ratio", "factor"), [(0.7 + 2.0**-40, 0.7), (0.7 - 2.0**-40, 0.6999), (0.07 + 2.0**-40, 0.07)]
)
def test_a_refuted_factor_is_the_largest_of_four_digits_below_the_ratio(ratio, factor):
    square = lambda x: (x * x).sum(-1)  # noqa: E731
    check = Inequality(lambda x: ratio * square(x), square, SIZES, extremal=(_ones,))
    (record,) = gather("t", {"c": check.times(0.06)}, FEW, ["certified"]).records
    assert record.refuted_at == factor


def _ones() -> dict[str, torch.Tensor]:
    return {"x": torch.ones(3, dtype=torch.float64)}


@pytest.mark.parametrize(("off", "same"), [(2.0**-45, True), (2.0**-36, False)])
def test_floats_lie_within_some_roundings_of_40_bits(off, same):
    left = lambda x: (x * x).sum(-1) * (1 + off * torch.is_tensor(x))  # noqa: E731
    check = Inequality(left, lambda x: 2 * (x * x).sum(-1), SIZES)
    if same:
        return require_agreement("", check)
    with pytest.raises(InputError, match="left: got .* in floats and .* in balls"):
        require_agreement("", check)


@pytest.mark.parametrize(("accuracy", "same"), [(1.01e-4, True), (0.99e-4, False)])
def test_floats_are_as_near_as_they_claim(accuracy, same):
    left = lambda x: (x * x).sum(-1) + 1e-4 * torch.is_tensor(x)  # noqa: E731
    check = Inequality(left, lambda x: 2 * (x * x).sum(-1), SIZES, accuracy=accuracy)
    if same:
        return require_agreement("", check)
    with pytest.raises(InputError, match="left: got"):
        require_agreement("", check)


def test_sizes_accuracies_and_files_end_where_their_limits_say(tmp_path):
    check_fields.require_sizes("", [{"x": (check_fields.LARGEST,)}])
    with pytest.raises(InputError, match="100001 numbers"):
        check_fields.require_sizes("", [{"x": (check_fields.LARGEST,), "y": (1,)}])
    known = check_fields.FIELDS["accuracy"][0]
    assert known(1e-3) and not known(1.001e-3) and not known(-1e-9)
    file = tmp_path / "mine.py"
    file.write_text("#" * claim_files.LARGEST)
    assert claim_files.read(file).text
    file.write_text("#" * (claim_files.LARGEST + 1))
    with pytest.raises(InputError, match="at most 1048576 bytes"):
        claim_files.read(file)
