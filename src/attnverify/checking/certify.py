"""Certified evidence: exact instances, settled in ball or rational arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

from attnverify.arithmetic import ops
from attnverify.checking import sampling
from attnverify.checking.ball_comparison import Comparison, compare, compare_identity
from attnverify.checking.check import Identity, Inequality, Instance
from attnverify.checking.records import BEYOND
from attnverify.checking.search import Found, Settings
from attnverify.support.seeds import generator, seed_for

TOLD = 1e-4  # step in which refuted factors of a right side are told, for those above 1/10
NEWS = 0.01  # share by which a search has to find more than an inequality's own instances have
DRAWS = 32  # random rational instances of an identity a size
SAMPLED_INSTANCES = 4  # random instances certified a size, beside the extremal and attacked ones


def certify(check: Inequality, settings: Settings, name: str, found: list[Instance]) -> Found:
    """Certify the extremal instances, those that search found, and a few random ones.

    An instance at exact equality cannot be settled by balls; it passes as *attained* if its ratio
    is enclosed within 2^-40 of 1, which shows the constant sharp and says nothing more.
    """
    extremal = [make() for make in check.extremal]
    instances = [*extremal, *found, *random_instances(check, settings, name)]
    seen = [compare(check, instance) for instance in instances]
    if not seen:
        return Found("unknown", None, None, 0, 0, "no instance to certify")
    if _lower_above(check, instances):
        words = "the lower bound of the left side is above it"
        return Found("fail", None, None, len(seen), len(seen), words)
    failed = [i for c, i in zip(seen, instances, strict=True) if c.outcome == "fail"]
    unknown = [c for c in seen if c.outcome == "unknown" and not c.attained]
    outcome = "fail" if failed else "unknown" if unknown else "pass"
    judged = seen if check.lower is None else [compare(check.tight, i) for i in instances]
    place = max(range(len(seen)), key=lambda k: _order(judged[k]))
    return Found(
        outcome,
        None if judged[place].hypotheses == "fail" else judged[place].certain_ratio,
        failed[0] if failed else None,
        len(seen),
        len(seen) - len(unknown),
        ("left side from below: " if check.lower else "")
        + _words(judged, judged[place], len(extremal)),
        nearest_rejected(check.tight, instances[place], judged[place]),
    )


def _lower_above(check: Inequality, instances: list[Instance]) -> bool:
    """Whether the lower bound of the left side is certainly above the left side somewhere."""
    if check.lower is None:
        return False
    ordered = replace(check, left=check.lower, right=check.left, lower=None)
    return any(compare(ordered, instance).outcome == "fail" for instance in instances)


def _order(seen: Comparison) -> float:
    unusable = seen.ratio.is_nan() or seen.hypotheses == "fail"
    return -math.inf if unusable else seen.certain_ratio


def nearest_rejected(check: Inequality, instance: Instance, seen: Comparison) -> float | None:
    """The largest factor of the right side, of four digits, that this instance refutes.

    The factor is read off the ratio, and the statement with it is then compared anew. None if no
    factor is refuted, and where the statement itself is.
    """
    lower = float(seen.ratio.lower())
    if not 0 < lower < 1 + TOLD:
        return None
    step = TOLD * 10.0 ** min(0, 1 + math.floor(math.log10(lower)))
    factor = round((min(math.ceil(lower / step), round(1 / step)) - 1) * step, 12)
    if factor <= 0:
        return None
    return factor if compare(check.scaled(factor), instance).outcome == "fail" else None


def random_instances(check: Inequality, settings: Settings, name: str) -> list[Instance]:
    """The random instances that :func:`certify` adds, equal for equal settings and names."""
    out = []
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, name, "certified", str(index))
        free = sampling.parameters(sizes, SAMPLED_INSTANCES, random, spread=False)
        instance = check.build(**free)
        out += [sampling.single(instance, i) for i in range(SAMPLED_INSTANCES)]
    return out


def _words(seen: list[Comparison], best: Comparison, extremal: int) -> str:
    attained = sum(c.attained for c in seen)
    bits = max(c.bits for c in seen)
    text = f"largest ratio {best.ratio.str(10)}, {bits} bits at most"
    unknown = sum(c.outcome == "unknown" and not c.attained for c in seen)
    text += f", {extremal} extremal, {attained} at equality to within 2^-40"
    given = max(map(_order, seen[:extremal]), default=math.inf)
    if given < (1 - NEWS) * best.certain_ratio:
        text += f"; {BEYOND} {given:.4g}"
    return text + (f", {unknown} unknown" if unknown else "")


def certify_identity(check: Identity, settings: Settings, name: str) -> Found:
    """Exact equality at random rational instances, or enclosures of a zero difference."""
    results = []
    with ops.precision(256):
        for index, sizes in enumerate(check.sizes):
            for k in range(DRAWS):
                seed = seed_for(settings.seed, name, "certified", str(index), str(k))
                instance = check.build(**sampling.exact_parameters(check, sizes, seed))
                results.append(compare_identity(check, instance))
    outcomes = [outcome for outcome, _ in results]
    outcome = "fail" if "fail" in outcomes else "unknown" if "unknown" in outcomes else "pass"
    detail = next(words for o, words in results if o == outcome)
    return Found(
        outcome, None, None, len(results), len(results) - outcomes.count("unknown"), detail
    )
