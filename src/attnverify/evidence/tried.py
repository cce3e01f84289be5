"""Try the formulas of a check once, in every arithmetic they will meet, before any search.

What a formula raises, or a side that broadcasts over the batch, is then an error that names the
formula, in place of a traceback from the middle of a search, or of a wrong result in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from attnverify.errors import InputError, require
from attnverify.evidence import draw
from attnverify.evidence.exact import compare, compare_identity
from attnverify.evidence.forms import Form, Identity, Inequality, Instance
from attnverify.seeds import generator
from attnverify.tracing import Trial, ValueAskedError

SIZES = "shapes by name, as ({'u': (3,)}, {'u': (5,)})"


def require_formulas(where: str, check: Form) -> None:
    """Raise InputError that starts with ``where`` unless the formulas of a check can be used."""
    if isinstance(check, Inequality | Identity):
        require_sizes(where, check.sizes)
    if isinstance(check, Inequality):
        _require_inequality(where, check)
    for twin in check.twins:
        require_formulas(f"{where}false twin {twin.title!r}: ", twin.check)
    if isinstance(check, Identity):
        free = draw.exact_parameters(check, check.sizes[0], 0)
        _tried(f"{where}both sides", lambda: compare_identity(check, check.build(**free)))


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
        instance = _tried(f"{where}build", lambda free=free: check.build(**free))
        found = [_side(where, name, check, instance) for name in ("left", "right")]
        shapes = [tuple(value.shape) for value in found]
        same = found[0].numel() == found[1].numel()
        require(same, f"{where}right", f"shape {shapes[1]}", f"shape {shapes[0]}, as of left")
        _tried(f"{where}hypotheses", lambda i=instance: draw.ratios(check, i))
        words = f"{where}in ball arithmetic"
        _tried(words, lambda i=instance: compare(check, draw.single(i, 0)))
        _require_straight(where, check, draw.single(instance, 0))


def _require_straight(where: str, check: Inequality, instance: Instance) -> None:
    """Refuse a formula that asks for the value of a number: in balls it would enclose nothing."""
    for name in asking(check, instance):
        require(
            False,
            f"{where}{name}",
            "a formula that asks for the value of a number (a comparison, a midpoint, a float)",
            "the same operations for all numbers, as av.ops.maximum for a choice",
        )


def asking(check: Inequality, instance: Instance) -> list[str]:
    """Which formulas of a check ask for the value of a number, tried at one instance's shapes."""
    trial = Trial()
    probes = {name: _probes(trial, name, tuple(v.shape)) for name, v in instance.items()}
    found = []
    for name in ("left", "right", "hypotheses", "lower"):
        formula = getattr(check, name)
        try:
            _ = formula and formula(**probes)
        except ValueAskedError:
            found.append(name)
    return found


def _probes(trial: Trial, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that stand for any, with the batch axis that formulas see."""
    out = np.empty(shape, dtype=object)
    for place in range(out.size):
        out.flat[place] = trial.node("input", name, place)
    return out[None]


def _side(where: str, name: str, check: Inequality, instance: Instance) -> torch.Tensor:
    """One side at a batch of two: a tensor with the batch in front."""
    value = _tried(f"{where}{name}", lambda: getattr(check, name)(**instance))
    tensor = isinstance(value, torch.Tensor)
    given = f"shape {tuple(value.shape)}" if tensor else type(value).__name__
    batch = tensor and value.ndim > 0 and value.shape[0] == 2 and value.numel() > 0
    require(bool(batch), f"{where}{name}", given, "one value or more an instance")
    return value


def _tried(where: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # whatever a formula raises is what is wrong with it
        raise InputError(
            f"{where}: got {type(error).__name__}: {error}, expected a formula of the parameters, "
            "written with operators and av.ops"
        ) from error
