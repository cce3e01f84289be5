"""Try the formulas of a check once, in every arithmetic they will meet, before any search.

What a formula raises, or a side that broadcasts over the batch, is then an error that names the
formula, in place of a traceback from the middle of a search, or of a wrong result in silence. Its
values must be the same in floats, balls and rationals
(:mod:`attnverify.checking.formula_agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic.tracing import Trial, ValueAskedError
from attnverify.checking import formula_agreement, sampling
from attnverify.checking.ball_comparison import compare, compare_identity
from attnverify.checking.check import Form, Identity, Inequality, Instance, Sizes
from attnverify.checking.check_fields import named, require_sizes
from attnverify.support.errors import InputError, as_given, in_words, require
from attnverify.support.seeds import generator, seed_for

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
        free = _free(sizes)
        free = {name: value.requires_grad_() for name, value in free.items()}  # as in an attack
        instance = _tried(f"{where}build", lambda free=free: _built(check.build(**free)))
        again = _tried(f"{where}build", lambda free=free: _built(check.build(**free)))
        formula_agreement.require_same(
            f"{where}build", *(list(i.values()) for i in (instance, again))
        )
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
        _require_agreement(where, check, instance, singles)
    words = "instances that do, as build can make them of free parameters"
    require(met > 0, f"{where}hypotheses", f"none of {len(made)} instances that meets them", words)
    for make in check.extremal:
        one = _tried(f"{where}extremal", make)
        _tried(f"{where}extremal", lambda one=one: compare(check, one))
        batch = {name: value[None].double() for name, value in one.items()}
        _require_agreement(where, check, batch, [one])


def _free(sizes: Sizes, shared: tuple[str, ...] = ()) -> Instance:
    """TRIED free parameters, half of them with scales of their own."""
    random = generator(0, "tried")
    halves = [
        sampling.parameters(sizes, TRIED // 2, random, spread, shared) for spread in (False, True)
    ]
    return {
        name: halves[0][name] if name in shared else torch.cat([half[name] for half in halves])
        for name in sizes
    }


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


def _require_agreement(
    where: str, check: Inequality, batch: Instance, singles: Sequence[Instance]
) -> None:
    """Every formula gives the same in floats and in balls, by the rules of ``agree``."""
    for name in ("left", "right", "lower", "hypotheses"):
        formula = getattr(check, name)
        if formula is None:
            continue

        def parts(instance: Instance, formula: Any = formula, name: str = name) -> list[Any]:
            found = formula(**instance)
            return [s for pair in found for s in pair] if name == "hypotheses" else [found]

        own = f"{where}{name}"
        _tried(own, lambda p=parts, o=own: _agreeing(o, p, batch, singles))


def _agreeing(
    where: str, formula: formula_agreement.Evaluate, batch: Instance, singles: Sequence[Instance]
) -> None:
    found = formula(batch)  # with gradients; a formula may go another way without, as searches do
    with torch.no_grad():
        alone = {name: value.detach() for name, value in batch.items()}
        still = formula(alone)
        formula_agreement.require_same(where, still, formula(alone))
    count, numbers = len(singles), 0
    for place, one in enumerate(singles):
        if not all(torch.isfinite(value).all() for value in one.values()):
            continue
        one = {name: value[None] for name, value in one.items()}
        coarse, again, fine = (
            formula_agreement.in_balls(where, formula, one, bits)
            for bits in (formula_agreement.COARSE, formula_agreement.COARSE, formula_agreement.FINE)
        )
        formula_agreement.require_same(where, coarse, again)
        for values in (found, still):
            formula_agreement.require_near(
                where, [_row(part, place, count) for part in values], coarse
            )
        formula_agreement.require_overlap(where, coarse, fine)
        numbers += sum(ball.is_finite() for ball in fine)
        if place in (0, count - 1):
            formula_agreement.require_enclosing(where, formula, one)
    require(numbers > 0, where, f"no number at {count} instances", "a number where it is defined")


def _row(part: Any, place: int, count: int) -> torch.Tensor:
    """What floats give at one instance of a batch; a number or array without batch is for all."""
    if not isinstance(part, torch.Tensor):
        return torch.as_tensor(np.asarray(part, dtype=float)).reshape(-1)
    alone = part.ndim > 0 and part.shape[0] == count
    return (part[place] if alone else part).double().reshape(-1)


def _require_identity(where: str, check: Identity) -> None:
    for sizes in check.sizes:
        free = _free(sizes, check.shared)
        instance = _tried(f"{where}build", lambda free=free: check.build(**free))
        left, right, bound = (
            _floats(where, name, check, instance) for name in ("left", "right", "bound")
        )
        shape = tuple(left.shape)
        same = tuple(right.shape) == shape
        require(same, f"{where}right", f"shape {tuple(right.shape)}", f"shape {shape}, as of left")
        _tried(f"{where}bound", lambda b=bound, s=shape: b.broadcast_to(s))
        exact = sampling.exact_parameters(check, sizes, 0)
        words = f"{where}both sides"
        _tried(words, lambda exact=exact: compare_identity(check, check.build(**exact)))
        if check.arithmetic == "ball":
            _require_straight(where, _tried(words, lambda s=sizes: asking_identity(check, s)))
        for name in ("left", "right"):
            _tried(f"{where}{name}", lambda n=name, s=sizes: _same_side(f"{where}{n}", n, check, s))


def _same_side(where: str, name: str, check: Identity, sizes: Sizes) -> None:
    """A side of an identity gives the same in floats, in balls and, if it meets them, rationals.

    At the exact instances of its certificate, which floats hold without rounding.
    """

    def side(instance: Instance) -> list[Any]:
        return [getattr(check, name)(**check.build(**instance))]

    exact = [sampling.exact_parameters(check, sizes, seed_for(k, "tried")) for k in range(TRIED)]
    floats = [{n: _as_floats(v) for n, v in one.items()} for one in exact]
    alone = [n for n in sizes if n not in check.shared]
    together = {n: torch.stack([one[n] for one in floats]) for n in alone}
    rows = [] if check.shared else _rows_of(where, side, together)
    for place, one in enumerate(floats):
        seen = side({n: v[None] if n in alone else v for n, v in one.items()})
        again = side({n: v[None] if n in alone else v for n, v in one.items()})
        formula_agreement.require_same(where, seen, again)
        coarse, fine = (
            formula_agreement.in_balls(where, side, one, b)
            for b in (formula_agreement.COARSE, formula_agreement.FINE)
        )
        formula_agreement.require_near(where, seen, coarse)
        formula_agreement.require_overlap(where, coarse, fine)
        if rows:
            formula_agreement.require_near(where, [rows[place]], coarse)
        if check.arithmetic == "rational":
            found = formula_agreement.balls_of(where, side(exact[place]))
            formula_agreement.require_overlap(where, found, coarse)
        elif place == 0:
            formula_agreement.require_enclosing(where, side, one)


def _rows_of(
    where: str, side: formula_agreement.Evaluate, together: Instance
) -> list[torch.Tensor]:
    (found,) = side(together)
    batch = isinstance(found, torch.Tensor) and found.ndim > 0 and len(found) == TRIED
    require(batch, where, "no batch axis in front", "one value or more an instance")
    return list(found)


def _as_floats(array: Any) -> torch.Tensor:
    values = np.asarray(array, dtype=object)
    numbers = [_float(v) for v in values.reshape(-1)]
    return torch.tensor(numbers, dtype=torch.float64).reshape(values.shape)


def _float(value: Any) -> float:
    return int(value.p) / int(value.q) if isinstance(value, flint.fmpq) else float(value.mid())


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
    return [name for name in names if _asks(trial, getattr(check, name), probes)]


def asking_identity(check: Identity, sizes: Sizes) -> list[str]:
    """The same of an identity, whose build and sides meet balls without a batch axis."""
    trial = Trial()
    free = {name: _probes(trial, name, size) for name, size in sizes.items()}
    if _asks(trial, check.build, free):
        return ["build"]
    instance = check.build(**free)
    return [name for name in ("left", "right") if _asks(trial, getattr(check, name), instance)]


def _asks(trial: Trial, formula: Callable[..., Any] | None, probes: Instance) -> bool:
    """Whether a formula asks: the trial knows, also of a question whose refusal was caught."""
    before = len(trial.asked)
    try:
        found = formula and formula(**probes)
        _ = list(found) if isinstance(found, Iterator) else found  # what it yields is asked, too
    except ValueAskedError:
        return True
    except Exception:
        if len(trial.asked) == before:
            raise
    return len(trial.asked) > before


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
    """A side of an identity, or its bound, in floats: a tensor with entries."""
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
