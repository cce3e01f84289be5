"""Try the formulas of a check once, in every arithmetic they will meet, before any search.

What a formula raises, or a side that broadcasts over the batch, is then an error that names the
formula, in place of a traceback from the middle of a search. Whether its values are the same in
every arithmetic, :mod:`attnverify.checking.formula_agreement` looks, as for every claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from attnverify.arithmetic.tracing import Trial, ValueAskedError
from attnverify.checking import formula_agreement, sampling
from attnverify.checking.ball_comparison import compare, compare_identity
from attnverify.checking.check import Form, Identity, Inequality, Instance, Sizes
from attnverify.checking.check_fields import named, require_sizes
from attnverify.support.errors import InputError, as_given, in_words, require
from attnverify.support.seeds import generator

TRIED = 8  # instances of every size, half of them with scales of their own


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


def _require_inequality(where: str, check: Inequality) -> None:
    met, made = 0, []
    for sizes in check.sizes:
        free = {name: v.requires_grad_() for name, v in _free(sizes).items()}  # as in an attack
        instance = _tried(f"{where}build", lambda free=free: _built(check.build(**free)))
        found = [_side(where, name, check, instance) for name in ("left", "right")]
        shapes = [tuple(value.shape) for value in found]
        same = found[0].numel() == found[1].numel()
        require(same, f"{where}right", f"shape {shapes[1]}", f"shape {shapes[0]}, as of left")
        if check.lower is not None:
            _side(where, "lower", check, instance)
        _tried(f"{where}hypotheses", lambda i=instance: sampling.ratios(check, i))
        words, one = f"{where}in ball arithmetic", sampling.single(instance, 0)
        _tried(words, lambda one=one: compare(check, one))
        _require_straight(where, _tried(words, lambda one=one: asking(check, one)))
        singles = [sampling.single(instance, i) for i in range(TRIED)]
        finite = [one for one in singles if all(torch.isfinite(v).all() for v in one.values())]
        made += finite
        met += sum(compare(check, one).hypotheses != "fail" for one in finite)
    words = "instances that do, as build can make them of free parameters"
    require(met > 0, f"{where}hypotheses", f"none of {len(made)} instances that meets them", words)
    for make in check.extremal:
        _tried(f"{where}extremal", lambda make=make: compare(check, make()))
    _tried(where, lambda: formula_agreement.require_agreement(where, check))


def _free(sizes: Sizes) -> Instance:
    """TRIED free parameters, half of them with scales of their own."""
    random = generator(0, "tried")
    halves = [sampling.parameters(sizes, TRIED // 2, random, spread) for spread in (False, True)]
    return {name: torch.cat([half[name] for half in halves]) for name in sizes}


def _built(found: Any) -> Instance:
    """What build made: float64 tensors by name, the batch in front."""
    known = isinstance(found, dict) and bool(found) and named(found)
    require(known, "value", as_given(type(found).__name__), "a dict: name to array")
    for name, value in found.items():
        batch = isinstance(value, torch.Tensor) and value.ndim > 0 and len(value) == TRIED
        given = as_given(tuple(value.shape) if isinstance(value, torch.Tensor) else type(value))
        require(batch, name, given, "a tensor with the batch in front")
        require(value.dtype == torch.float64, name, f"{value.dtype}", "float64, as it came")
    return found


def _require_identity(where: str, check: Identity) -> None:
    for sizes in check.sizes:
        free = sampling.parameters(sizes, 1, generator(0, "tried"), spread=False)
        free = sampling.single(free, 0)
        instance = _tried(f"{where}build", lambda free=free: check.build(**free))
        left, right = (_floats(where, name, check, instance) for name in ("left", "right"))
        shape = tuple(left.shape)
        same = tuple(right.shape) == shape
        require(same, f"{where}right", f"shape {tuple(right.shape)}", f"shape {shape}, as of left")
        exact = sampling.exact_parameters(check, sizes, 0)
        words = f"{where}both sides"
        _tried(words, lambda exact=exact: compare_identity(check, check.build(**exact)))
        if check.arithmetic == "ball":
            _require_straight(where, _tried(words, lambda s=sizes: asking_identity(check, s)))
    _tried(where, lambda: formula_agreement.require_agreement(where, check))


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
    """Whether a formula asks."""
    try:
        found = formula and formula(**probes)
        _ = list(found) if isinstance(found, Iterator) else found  # what it yields is asked, too
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
    """One side at a batch: a tensor with the batch in front."""
    value = _tried(f"{where}{name}", lambda: getattr(check, name)(**instance))
    tensor = isinstance(value, torch.Tensor)
    given = f"shape {tuple(value.shape)}" if tensor else type(value).__name__
    batch = tensor and value.ndim > 0 and value.shape[0] == TRIED and value.numel() > 0
    require(bool(batch), f"{where}{name}", given, "one value or more an instance")
    require(value.dtype == torch.float64, f"{where}{name}", f"{value.dtype}", "float64, as it came")
    return value


def _floats(where: str, name: str, check: Identity, instance: Instance) -> torch.Tensor:
    """A side of an identity in floats: a tensor with entries."""
    value = _tried(f"{where}{name}", lambda: getattr(check, name)(**instance))
    tensor = isinstance(value, torch.Tensor) and value.numel() > 0
    require(tensor, f"{where}{name}", type(value).__name__, "a tensor of one value or more")
    return value


def _tried(where: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except InputError as error:
        said = " ".join(str(error).split())
        raise InputError(said if said.startswith(where) else f"{where}: {said}") from error
    except Exception as error:  # whatever a formula raises is what is wrong with it
        raise InputError(
            f"{where}: got {in_words(error)}, expected a formula of the parameters, "
            "written with operators and av.ops"
        ) from error
