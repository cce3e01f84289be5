"""Try the formulas of a check once, in every arithmetic they will meet, before any search.

What a formula raises, or a side that broadcasts over the batch, is then an error that names the
formula, in place of a traceback from the middle of a search, or of a wrong result in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from attnverify.errors import InputError, require
from attnverify.evidence import draw
from attnverify.evidence.exact import compare, compare_identity
from attnverify.evidence.forms import Form, Identity, Inequality, Instance, Sizes
from attnverify.seeds import generator
from attnverify.tracing import Trial, ValueAskedError

SIZES = "shapes by name, as ({'u': (3,)}, {'u': (5,)})"


def require_formulas(where: str, check: Form) -> None:
    """Raise InputError that starts with ``where`` unless the formulas of a check can be used."""
    if isinstance(check, Inequality | Identity):
        require_sizes(where, check.sizes)
    if isinstance(check, Inequality):
        _require_inequality(where, check)
    elif isinstance(check, Identity):
        _require_identity(where, check)
    for twin in check.twins:
        require_formulas(f"{where}false twin {twin.title!r}: ", twin.check)


def require_sizes(where: str, sizes: Any) -> None:
    """A list or tuple, not empty, of shapes by name."""
    listed = isinstance(sizes, list | tuple) and bool(sizes)
    known = listed and all(isinstance(s, dict) and s and _shapes(s.values()) for s in sizes)
    require(bool(known), f"{where}sizes", repr(sizes), SIZES)


def _shapes(values: Any) -> bool:
    return all(
        isinstance(shape, list | tuple) and all(isinstance(n, int) and n > 0 for n in shape)
        for shape in values
    )


def _require_inequality(where: str, check: Inequality) -> None:
    for sizes in check.sizes:
        free = draw.parameters(sizes, 2, generator(0, "tried"), spread=False)
        free = {name: value.requires_grad_() for name, value in free.items()}  # as in an attack
        instance = _tried(f"{where}build", lambda free=free: check.build(**free))
        found = [_side(where, name, check, instance) for name in ("left", "right")]
        shapes = [tuple(value.shape) for value in found]
        same = found[0].numel() == found[1].numel()
        require(same, f"{where}right", f"shape {shapes[1]}", f"shape {shapes[0]}, as of left")
        _tried(f"{where}hypotheses", lambda i=instance: draw.ratios(check, i))
        words, one = f"{where}in ball arithmetic", draw.single(instance, 0)
        _tried(words, lambda one=one: compare(check, one))
        _require_straight(where, _tried(words, lambda one=one: asking(check, one)))


def _require_identity(where: str, check: Identity) -> None:
    for sizes in check.sizes:
        free = draw.parameters(sizes, 2, generator(0, "tried"), spread=False, shared=check.shared)
        instance = _tried(f"{where}build", lambda free=free: check.build(**free))
        left, right, bound = (
            _floats(where, name, check, instance) for name in ("left", "right", "bound")
        )
        shape = tuple(left.shape)
        same = tuple(right.shape) == shape
        require(same, f"{where}right", f"shape {tuple(right.shape)}", f"shape {shape}, as of left")
        _tried(f"{where}bound", lambda b=bound, s=shape: b.broadcast_to(s))
        exact = draw.exact_parameters(check, sizes, 0)
        words = f"{where}both sides"
        _tried(words, lambda exact=exact: compare_identity(check, check.build(**exact)))
        if check.arithmetic == "ball":
            _require_straight(where, _tried(words, lambda s=sizes: asking_identity(check, s)))


def _require_straight(where: str, names: list[str]) -> None:
    """Refuse formulas that ask for the value of a number: in balls they would enclose nothing."""
    for name in names:
        require(
            False,
            f"{where}{name}",
            "a formula that asks for the value of a number (a comparison, a midpoint, a float)",
            "the same operations for all numbers, as av.ops.maximum for a choice",
        )


def asking(check: Inequality, instance: Instance) -> list[str]:
    """Which formulas of a check ask for the value of a number, tried at one instance's shapes."""
    trial = Trial()
    probes = {name: _probes(trial, name, value.shape)[None] for name, value in instance.items()}
    names = ("left", "right", "hypotheses", "lower")
    return [name for name in names if _asks(getattr(check, name), probes)]


def asking_identity(check: Identity, sizes: Sizes) -> list[str]:
    """The same of an identity, whose build and sides meet balls without a batch axis."""
    trial = Trial()
    free = {name: _probes(trial, name, size) for name, size in sizes.items()}
    if _asks(check.build, free):
        return ["build"]
    instance = check.build(**free)
    return [name for name in ("left", "right") if _asks(getattr(check, name), instance)]


def _asks(formula: Callable[..., Any] | None, probes: Instance) -> bool:
    try:
        _ = formula and formula(**probes)
    except ValueAskedError:
        return True
    return False


def _probes(trial: Trial, name: str, shape: Sequence[int]) -> np.ndarray:
    """Numbers that stand for any."""
    out = np.empty(tuple(shape), dtype=object)
    for place in range(out.size):
        out.flat[place] = trial.node("input", name, place)
    return out


def _side(where: str, name: str, check: Inequality, instance: Instance) -> torch.Tensor:
    """One side at a batch of two: a tensor with the batch in front."""
    value = _tried(f"{where}{name}", lambda: getattr(check, name)(**instance))
    tensor = isinstance(value, torch.Tensor)
    given = f"shape {tuple(value.shape)}" if tensor else type(value).__name__
    batch = tensor and value.ndim > 0 and value.shape[0] == 2 and value.numel() > 0
    require(bool(batch), f"{where}{name}", given, "one value or more an instance")
    return value


def _floats(where: str, name: str, check: Identity, instance: Instance) -> torch.Tensor:
    """A side of an identity, or its bound, in floats: a tensor with entries."""
    value = _tried(f"{where}{name}", lambda: getattr(check, name)(**instance))
    tensor = isinstance(value, torch.Tensor) and value.numel() > 0
    require(tensor, f"{where}{name}", type(value).__name__, "a tensor of one value or more")
    return value


def _tried(where: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # whatever a formula raises is what is wrong with it
        raise InputError(
            f"{where}: got {type(error).__name__}: {error}, expected a formula of the parameters, "
            "written with operators and av.ops"
        ) from error
