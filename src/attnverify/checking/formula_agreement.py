"""Whether a formula is the same in every arithmetic, and its gradient its slope, at few instances.

Every claim passes this trial before floats count as evidence (:mod:`attnverify.checking.gather`):

* **Floats lie at the ball.** Evaluated in balls of 40 bits, each operation adds a radius of about
  2^-40 of its value, and radii are passed on. One in floats is off by 2^-53 of its value, by a few
  units more for exp and its like, sums in another order and a softmax that is shifted first: less
  than the 2^13 units that lie between. So the float is off by less than the radius E, and lies
  within 2 E of the center, which the exact value is within E of. Where an operation is exact in
  balls by chance, there is no radius: 2^-40 of the value is allowed too. A float that overflowed or
  came near underflow is not compared: no search believes it.
* **Gradients are slopes.** A difference quotient in a random direction, where it is the same at two
  steps, is what gradients say. An attack climbs by gradients, so a ``detach`` would blind it.

The trial finds mistakes. A formula can see in which arithmetic it is asked, and so lie later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking import sampling
from attnverify.checking.check import Identity, Inequality, Instance, Sizes
from attnverify.checking.sampling import UNDERFLOW
from attnverify.support.errors import require
from attnverify.support.seeds import generator, seed_for

COARSE = 40  # bits
FEW = 4  # instances a size that have slopes; balls look at the last
STEP = 2.0**-16  # of a difference quotient: its error is about the square, relatively
NOISE = 2.0**-20  # share of the summands that rounding may move a quotient by; it is 2^-37 of one


def require_agreement(where: str, check: Inequality | Identity) -> None:
    """Raise InputError that starts with ``where`` unless floats say what balls say of a check."""
    ends = check.sizes[:1] + check.sizes[1:][-1:]  # the first and the last are enough
    if isinstance(check, Identity):
        for sizes in ends:
            _require_identity(where, check, sizes)
        return
    numbers = dict.fromkeys(_formulas(check), 0)
    for index, sizes in enumerate(ends):
        random = generator(0, "agreement", str(index))
        free = sampling.parameters(sizes, FEW, random, spread=False)
        free = {name: value.requires_grad_() for name, value in free.items()}
        batch = check.build(**free)
        _require_inequality(where, check, batch, numbers)
        if sizes is ends[-1]:  # gradients of one formula, whatever the size
            _require_slopes(where, check, free, batch, random)
    made = [make() for make in check.extremal]
    if made:  # the smallest one
        one = min(made, key=lambda instance: sum(v.numel() for v in instance.values()))
        batch = {name: value[None].double() for name, value in one.items()}
        _require_inequality(where, check, batch, numbers)
    for name, seen in numbers.items():
        require(seen > 0, f"{where}{name}", "no number anywhere", "a number where it is defined")


def _formulas(check: Inequality) -> list[str]:
    names = ("left", "right", "lower", "hypotheses")
    return [name for name in names if getattr(check, name) is not None]


def _require_inequality(
    where: str, check: Inequality, batch: Instance, numbers: dict[str, int]
) -> None:
    """Every formula at a batch in floats, and in balls at its last instance."""
    batch = {name: value.detach() for name, value in batch.items()}
    if not all(torch.isfinite(value[-1]).all() for value in batch.values()):
        return
    count = len(next(iter(batch.values())))
    for name in _formulas(check):
        formula, own = getattr(check, name), f"{where}{name}"
        with torch.no_grad():
            found = _parts(formula(**batch))
        balls = _in_balls(own, formula, {key: value[-1:] for key, value in batch.items()})
        _require_near(own, [_last(part, count) for part in found], balls, check.accuracy)
        numbers[name] += sum(ball.is_finite() for ball in balls)


def _require_identity(where: str, check: Identity, sizes: Sizes) -> None:
    """Both sides at an exact instance of the certificate, which floats hold without rounding."""
    exact = sampling.exact_parameters(check, sizes, seed_for(0, "agreement"))
    floats = {name: _as_floats(value) for name, value in exact.items()}
    for name in ("left", "right"):
        own = f"{where}{name}"
        side = partial(_built_side, check, name)
        with torch.no_grad():
            found = side(**floats)
        balls = _in_balls(own, side, floats)
        _require_near(own, [found.reshape(-1)], balls)
        if check.arithmetic == "rational":
            _require_overlap(own, _numbers(own, side(**exact)), balls)


def _built_side(check: Identity, side: str, /, **free: Any) -> Any:
    return getattr(check, side)(**check.build(**free))


def _require_slopes(
    where: str, check: Inequality, free: Instance, batch: Instance, random: torch.Generator
) -> None:
    """The gradients of both sides give their difference quotients, at most of the instances."""
    along = {k: torch.randn(v.shape, generator=random, dtype=v.dtype) for k, v in free.items()}

    def moved(step: float) -> Instance:
        return check.build(**{k: v.detach() + step * along[k] for k, v in free.items()})

    with torch.no_grad():
        ends = [(moved(-k * STEP), moved(k * STEP)) for k in (1, 2)]
    for name in ("left", "right"):
        side = getattr(check, name)
        value = side(**batch).reshape(FEW, -1)
        weights = torch.randn(value.shape, generator=random, dtype=value.dtype)

        def summed(instance: Instance, side: Any = side, weights: Any = weights) -> torch.Tensor:
            return (weights * side(**instance).reshape(FEW, -1)).sum(-1)

        total, along_gradients = (weights * value).sum(), torch.zeros(FEW, dtype=value.dtype)
        if total.requires_grad:
            free_arrays = list(free.values())
            grads = torch.autograd.grad(total, free_arrays, retain_graph=True, allow_unused=True)
            for grad, direction in zip(grads, along.values(), strict=True):
                if grad is not None:
                    along_gradients += (grad * direction).reshape(FEW, -1).sum(-1)
        with torch.no_grad():
            near, far = (
                (summed(b) - summed(a)) / (2 * k * STEP) for k, (a, b) in enumerate(ends, 1)
            )
            noise = NOISE * (weights * value).abs().sum(-1)
        steady = abs(far - near) <= 1e-3 * abs(near) + noise  # no kink there, nor rounding alone
        off = steady & (abs(along_gradients - near) > 1e-2 * abs(near) + 8 * noise)
        k = int(off.int().argmax())
        given = f"a slope of {near[k]:.3g} and of {along_gradients[k]:.3g} by gradients"
        words = "gradients that reach every array, without detach, item or torch.no_grad"
        require(2 * int(off.sum()) <= FEW, f"{where}{name}", given, words)


def _in_balls(where: str, formula: Callable[..., Any], instance: Instance) -> list[flint.arb]:
    """The values of a formula at one instance, in balls of few bits."""
    with ops.precision(COARSE):
        exact = {name: ops.balls(value) for name, value in instance.items()}
        return _numbers(where, formula(**exact))


def _numbers(where: str, found: Any) -> list[flint.arb]:
    """The numbers that a formula gave in ball arithmetic; whole numbers may stand in hypotheses."""
    out = []
    for part in _parts(found):
        for value in np.asarray(part, dtype=object).reshape(-1):
            number = isinstance(value, flint.arb | flint.fmpq)
            plain = isinstance(found, list | tuple) and type(value) in (int, float)
            given = type(value).__name__
            require(number or plain, f"{where} in ball arithmetic", given, "balls, by av.ops")
            out.append(flint.arb(value))
    return out


def _parts(found: Any) -> list[Any]:
    """The arrays that a formula gives: of a side the one, of hypotheses both of every pair."""
    pairs = isinstance(found, list | tuple)
    return [side for pair in found for side in pair] if pairs else [found]


def _last(part: Any, count: int) -> torch.Tensor:
    """What floats give at the last of a batch; a number or array without batch is for all."""
    if not isinstance(part, torch.Tensor):
        return torch.as_tensor(np.asarray(part, dtype=float)).reshape(-1)
    alone = part.ndim > 0 and part.shape[0] == count
    return (part[-1] if alone else part).double().reshape(-1)


def _require_near(
    where: str, floats: Sequence[torch.Tensor], balls: Sequence[flint.arb], accuracy: float = 0.0
) -> None:
    """The floats of one instance lie at the balls of few bits, or as near as they claim to."""
    numbers = [v for part in floats for v in part.detach().tolist()]
    counts = f"{len(numbers)} values in floats and {len(balls)} in balls"
    require(len(numbers) == len(balls), where, counts, "as many")
    with ops.precision(128):
        for value, ball in zip(numbers, balls, strict=True):
            if not np.isfinite(value) or abs(value) < UNDERFLOW or not ball.is_finite():
                continue
            room = 2 * ball.rad() + abs(ball.mid()) * 2.0**-COARSE + accuracy
            if abs(flint.arb(value) - ball.mid()) > room:
                given = f"{value!r} in floats and {ball.str(17)} in balls at one instance"
                require(False, where, given, "one formula for both, by operators and av.ops")


def _require_overlap(where: str, first: Sequence[Any], second: Sequence[flint.arb]) -> None:
    """Two enclosures of the same numbers meet."""
    for a, b in zip(first, second, strict=True):
        if a.is_finite() and b.is_finite() and not a.overlaps(b):
            given = f"{a.str(9)} and {b.str(9)}"
            require(False, where, given, "enclosures of one number, which meet")


def _as_floats(array: Any) -> torch.Tensor:
    values = np.asarray(array, dtype=object)
    numbers = [_float(v) for v in values.reshape(-1)]
    return torch.tensor(numbers, dtype=torch.float64).reshape(values.shape)


def _float(value: Any) -> float:
    return int(value.p) / int(value.q) if isinstance(value, flint.fmpq) else float(value.mid())
