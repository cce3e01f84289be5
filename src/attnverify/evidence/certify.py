"""Certified evidence: exact instances, settled in ball or rational arithmetic."""

from __future__ import annotations

import math

from attnverify import ops
from attnverify.evidence import draw
from attnverify.evidence.exact import Comparison, compare, compare_identity
from attnverify.evidence.forms import Identity, Inequality, Instance
from attnverify.evidence.search import Found, Settings
from attnverify.seeds import generator, seed_for

SAMPLED_INSTANCES = 4  # random instances certified a size, beside the extremal and attacked ones


def certify(check: Inequality, settings: Settings, name: str, found: list[Instance]) -> Found:
    """Certify the extremal instances, those that search found, and a few random ones.

    An instance at exact equality cannot be settled by balls; it passes as *attained* if its ratio
    is enclosed within 2^-40 of 1, which shows the constant sharp and says nothing more.
    """
    extremal = [compare(check, make()) for make in check.extremal]
    searched = [compare(check, instance) for instance in found]
    random = [compare(check, instance) for instance in random_instances(check, settings, name)]
    seen = [*extremal, *searched, *random]
    if not seen:
        return Found("unknown", None, None, 0, 0, "no instance to certify")
    failed = [c for c in seen if c.outcome == "fail"]
    unknown = [c for c in seen if c.outcome == "unknown" and not c.attained]
    outcome = "fail" if failed else "unknown" if unknown else "pass"
    best = max(seen, key=lambda c: -math.inf if c.ratio.is_nan() else c.midpoint)
    return Found(
        outcome,
        best.midpoint,
        None,
        len(seen),
        len(seen) - len(unknown),
        _words(seen, best, extremal),
    )


def random_instances(check: Inequality, settings: Settings, name: str) -> list[Instance]:
    """The random instances that :func:`certify` adds, equal for equal settings and names."""
    out = []
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, name, "certified", str(index))
        free = draw.parameters(sizes, SAMPLED_INSTANCES, random, spread=False)
        instance = check.build(**free)
        out += [draw.single(instance, i) for i in range(SAMPLED_INSTANCES)]
    return out


def _words(seen: list[Comparison], best: Comparison, extremal: list[Comparison]) -> str:
    attained = sum(c.attained for c in seen)
    bits = max(c.bits for c in seen)
    text = f"largest ratio {best.ratio.str(10)}, {bits} bits at most"
    unknown = sum(c.outcome == "unknown" and not c.attained for c in seen)
    text += f", {len(extremal)} extremal, {attained} at equality to within 2^-40"
    return text + (f", {unknown} unknown" if unknown else "")


def certify_identity(check: Identity, settings: Settings, name: str) -> Found:
    """Exact equality at random rational instances, or enclosures of a zero difference."""
    results = []
    with ops.precision(256):
        for index, sizes in enumerate(check.sizes):
            for k in range(check.exact_draws):
                seed = seed_for(settings.seed, name, "certified", str(index), str(k))
                instance = check.build(**draw.exact_parameters(check, sizes, seed))
                results.append(compare_identity(check, instance))
    outcomes = [outcome for outcome, _ in results]
    outcome = "fail" if "fail" in outcomes else "unknown" if "unknown" in outcomes else "pass"
    detail = next(words for o, words in results if o == outcome)
    return Found(outcome, 0.0, None, len(results), len(results) - outcomes.count("unknown"), detail)
