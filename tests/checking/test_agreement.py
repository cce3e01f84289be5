"""Floats count only where they are the formula: the trial that every claim passes in ``verify``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from attnverify.arithmetic import ops
from attnverify.chapters import registry
from attnverify.checking.check import Identity, Inequality
from attnverify.checking.formula_agreement import require_agreement
from attnverify.checking.gather import gather
from attnverify.checking.search import Settings
from attnverify.support.errors import InputError

FEW = Settings(samples=8, restarts=2, steps=2)


def operations() -> list[str]:
    """The functions of ``ops`` that compute something of floats."""
    others = {"is_torch", "precision", "balls", "rationals", "causal"}
    made = [n for n, f in vars(ops).items() if getattr(f, "__module__", "") == ops.__name__]
    return [name for name in made if not name.startswith("_") and name not in others]


def floating(value) -> bool:
    return isinstance(value, float) or torch.is_tensor(value) and value.is_floating_point()


def planted(name: str) -> Any:
    """The operation, off by a factor 1.001 where it computes with floats."""
    true = getattr(ops, name)

    def wrong(*given: Any, **options: Any):
        found = true(*given, **options)
        parts = given[0] if isinstance(given[0], list) else [*given, *options.values()]
        if any(map(torch.is_tensor, parts)) and (floating(found) or found is None):
            return ops.torch.Tensor.mul_(given[0], 1.001) if found is None else found * 1.001
        return found

    return wrong


def differs(claim: str) -> bool:
    """Whether some check of a claim is refused."""
    try:
        for check in registry.checks_of(claim).values():
            if isinstance(check, Inequality | Identity):
                require_agreement("", check)
    except InputError:
        return True
    return False


@pytest.mark.full  # a minute of one processor: every operation with every claim that reaches it
def test_a_factor_in_the_floats_of_any_operation_is_caught(monkeypatch):
    caught = {}
    for name in operations():
        with monkeypatch.context() as patch:
            patch.setattr(ops, name, planted(name))
            caught[name] = next((claim for claim in registry if differs(claim)), None)
    assert [name for name, claim in caught.items() if claim is None] == []


def test_a_wrong_softmax_fails_the_claims_of_the_book(monkeypatch):
    monkeypatch.setattr(ops, "softmax", planted("softmax"))
    found = gather("softmax.total-variation", registry.checks_of("softmax.total-variation"), FEW)
    outcomes = {(r.check, r.kind): r.outcome for r in found.records}
    assert outcomes["variation", "sampled"] == outcomes["variation", "attacked"] == "fail"


SIX = Inequality(
    left=lambda x: ops.sum(abs(x), -1),
    right=lambda x: 2.5 * ops.sqrt(ops.sum(ops.square(x), -1)),
    sizes=({"x": (6,)},),
)


@pytest.mark.parametrize(
    "left",
    [
        lambda x: ops.sum(abs(x.detach() if torch.is_tensor(x) else x), -1),
        lambda x: (
            ops.sum(abs(x[..., :5]), -1) + abs(x.detach() if torch.is_tensor(x) else x)[..., 5]
        ),
    ],
    ids=["all", "a part"],
)
def test_a_formula_without_its_gradient_is_no_evidence(left):
    """Of 2.44 in place of sqrt(6) no attack along such a gradient finds a counterexample."""
    require_agreement("", SIX)
    blind = replace(SIX, left=left)
    with pytest.raises(InputError, match="left: got a slope of .*, expected gradients that reach"):
        require_agreement("", blind)
    found = gather("t", {"six": blind.times(0.5)}, FEW, ["sampled", "attacked"])
    assert [record.outcome for record in found.records] == ["fail", "fail"]


def test_an_attack_that_cannot_climb_is_no_evidence():
    """Signs stay the same for small changes: nothing is seen wrong, and nothing was attacked."""
    sign = replace(SIX, left=lambda x: ops.sum(x / abs(x), -1), right=lambda x: 7 + 0 * x[..., 0])
    found = gather("t", {"signs": sign.times(0.1)}, FEW)
    outcomes = {record.kind: (record.outcome, record.detail) for record in found.records}
    assert outcomes["sampled"][0] == outcomes["certified"][0] == "pass"
    assert outcomes["attacked"][0] == "unknown" and "no attack" in outcomes["attacked"][1]
