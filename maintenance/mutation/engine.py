"""Errors to plant in the engine, by hand: (module, text, text in its place).

Each is a small slip with a consequence: unknown taken for pass, a hypothesis or an instance not
looked at, a tolerance too wide, a twin let through, a sign. Every text occurs in its module; where
it occurs more than once the error is planted everywhere.
"""

from __future__ import annotations

from pathlib import Path

from mutation.rules import Mutant, numbered

ERRORS: list[tuple[str, str, str]] = [
    ("checking.ball_comparison", '"pass" if a <= b else', '"pass" if a < b else'),
    (
        "checking.ball_comparison",
        'else "fail" if a > b else "unknown"',
        'else "unknown" if a > b else "unknown"',
    ),
    (
        "checking.ball_comparison",
        'else "fail" if a > b else "unknown"',
        'else "fail" if not a < b else "unknown"',
    ),
    ("checking.ball_comparison", 'if "fail" in outcomes', 'if outcomes[0] == "fail"'),
    (
        "checking.ball_comparison",
        'return "unknown" if "unknown" in outcomes else "pass"',
        'return "pass"',
    ),
    ("checking.records", "ATTAINED = 2.0**-40", "ATTAINED = 2.0**-4"),
    ("checking.records", "ATTAINED = 2.0**-40", "ATTAINED = 2.0**-60"),
    (
        "checking.ball_comparison",
        'return bool(near) and self.hypotheses == "pass"',
        "return bool(near)",
    ),
    ("checking.ball_comparison", 'if hypotheses != "pass":', 'if hypotheses == "fail":'),
    ("checking.ball_comparison", 'if hypotheses != "pass":', 'if hypotheses == "unknown":'),
    ("checking.ball_comparison", "for a, b in sides for", "for a, b in sides[:1] for"),
    ("checking.ball_comparison", "out = out.max(a / b)", "out = max(out, a / b)"),
    ("checking.ball_comparison", "elif not a <= b:", "elif False:"),
    ("checking.ball_comparison", "if b > 0:", "if not b <= 0:"),
    ("checking.ball_comparison", "out = flint.arb(0)", "out = flint.arb(1)"),
    ("checking.ball_comparison", "self.ratio.lower()", "self.ratio.mid()"),
    ("checking.ball_comparison", "self.ratio.lower()", "self.ratio.upper()"),
    (
        "checking.ball_comparison",
        "if any(d != 0 for d in difference)",
        "if all(d != 0 for d in difference)",
    ),
    ("checking.ball_comparison", '("pass" if near else "unknown")', '("pass")'),
    (
        "checking.ball_comparison",
        "limit = 2.0 ** (-flint.ctx.prec / 2)",
        "limit = 2.0 ** (-flint.ctx.prec / 4)",
    ),
    ("checking.ball_comparison", "near = all(size < limit", "near = any(size < limit"),
    (
        "checking.ball_comparison",
        'require(bool(left), "left", "no entries"',
        'require(True, "left", "no entries"',
    ),
    (
        "checking.ball_comparison",
        "require(np.size(left) > 0 and np.size(right) > 0,",
        "require(True,",
    ),
    (
        "checking.ball_comparison",
        "PRECISIONS[:-1]:",
        "PRECISIONS[:1]:\n        if bits > 128: continue",
    ),
    ("checking.ball_comparison", "require_instance(check, instance)", "pass"),
    (
        "checking.ball_comparison",
        "return _compare_at(check, instance, PRECISIONS[-1])",
        "last = _compare_at(check, instance, PRECISIONS[-1])\n"
        '    return Comparison("pass", last.ratio, last.bits, last.hypotheses)',
    ),
    (
        "checking.certify",
        'outcome = "fail" if failed else "unknown" if unknown else "pass"',
        'outcome = "fail" if failed else "pass"',
    ),
    (
        "checking.certify",
        "[*extremal, *found, *random_instances(check, settings, name)]",
        "[*extremal, *found]",
    ),
    ("checking.certify", "[*extremal, *found, *random_instances", "[*extremal, *random_instances"),
    ("checking.certify", "[*extremal, *found, *random_instances", "[*found, *random_instances"),
    ("checking.certify", "if _lower_above(check, instances):", "if False:"),
    ("checking.certify", "and not c.attained]", "and c.attained]"),
    ("checking.certify", "place = max(", "place = min("),
    (
        "checking.certify",
        '"fail" if "fail" in outcomes else "unknown" if',
        '"fail" if outcomes[0] == "fail" else "unknown" if',
    ),
    (
        "checking.certify",
        '"fail" if "fail" in outcomes else "unknown" if "unknown" in outcomes else "pass"',
        '"fail" if "fail" in outcomes else "pass"',
    ),
    (
        "checking.gather",
        'return found.outcome == "fail", None, found.detail',
        'return found.outcome != "pass", None, found.detail',
    ),
    (
        "checking.gather",
        '        if seen.outcome == "fail":\n            return True',
        '        if seen.outcome != "pass":\n            return True',
    ),
    (
        "checking.gather",
        '        if found.outcome == "fail":\n            return True',
        '        if found.outcome != "pass":\n            return True',
    ),
    ("checking.gather", "for search in (sample, attack)", "for search in ()"),
    (
        "checking.gather",
        "return verdict.holds is False, verdict.ratio, verdict.argument\n\n\ndef _decided(",
        "return not verdict.holds, verdict.ratio, verdict.argument\n\n\ndef _decided(",
    ),
    ("checking.gather", "verdict.holds is check.expected", "verdict.holds is True"),
    ("checking.gather", "asserted = None if verdict.holds is None else", "asserted ="),
    ("checking.gather", 'None: "unknown"', 'None: "pass"'),
    (
        "checking.gather",
        "decided = 0 if verdict.holds is None else verdict.cases",
        "decided = verdict.cases",
    ),
    ("checking.gather", "    require_kinds(wanted)\n", ""),
    ("checking.sampling", "(right > UNDERFLOW)", "(right > 0)"),
    (
        "checking.sampling",
        "torch.isfinite(left) & torch.isfinite(right) &",
        "torch.isfinite(left) &",
    ),
    (
        "checking.sampling",
        "torch.isfinite(left) & torch.isfinite(right) &",
        "torch.isfinite(right) &",
    ),
    ("checking.sampling", "decided.all(-1) &", "decided.any(-1) &"),
    ("checking.sampling", "return ~self.decided | (self.value > 1)", "return self.value > 1"),
    ("checking.sampling", "return ~self.decided | (self.value > 1)", "return ~self.decided"),
    ("checking.sampling", "-torch.inf).amax(-1)", "-torch.inf).amin(-1)"),
    ("checking.search", "[still_open[:RECHECKED], others[:BEST]", "[others[:BEST]"),
    ("checking.search", "others[:BEST], between", "between"),
    ("checking.search", "others[:BEST], between, others[-BEST:]", "others[:BEST]"),
    (
        "checking.search",
        'outcome: Outcome = "unknown" if above.any() else "pass"',
        'outcome: Outcome = "pass"',
    ),
    (
        "checking.search",
        "above[[i for i in looked if i not in unsettled]] = False",
        "above[looked] = False",
    ),
    (
        "checking.search",
        "undecided = len(unsettled) + max(0, left_open - RECHECKED)",
        "undecided = len(unsettled)",
    ),
    (
        "checking.search",
        "undecided = len(unsettled) + max(0, left_open - RECHECKED)",
        "undecided = max(0, left_open - RECHECKED)",
    ),
    ("checking.search", 'if seen.outcome == "unknown" and not seen.attained:', "if False:"),
    ("checking.search", "2 * found.decided >= found.instances", "found.decided >= 0"),
    ("checking.search", "2 * found.decided >= found.instances", "found.decided > 0"),
    (
        "checking.search",
        "rank = torch.where(~floats.decided, floats.value.clamp_min(just_above), floats.value)",
        "rank = floats.value",
    ),
    ("checking.search", "descending=True", "descending=False"),
    (
        "checking.search",
        "worse = b if (order[b.outcome], largest[1]) > (order[a.outcome], largest[0]) else a",
        "worse = b if largest[1] > largest[0] else a",
    ),
    (
        "checking.search",
        "worse = b if (order[b.outcome], largest[1]) > (order[a.outcome], largest[0]) else a",
        "worse = b",
    ),
    ("checking.search", 'if far and found.outcome == "unknown":', 'if found.outcome == "unknown":'),
    ("checking.search", "((p, True) for p in beyond)", "((p, False) for p in beyond)"),
    ("checking.search", "near = (found, below, still_open)", "near = (found, still_open)"),
    ("checking.records", "whole and value >= least", "whole"),
    (
        "checking.search",
        "            continue\n        seen = compare",
        "            pass\n        seen = compare",
    ),
    ("checking.ascent", "torch.autograd.grad(height", "torch.autograd.grad(-height"),
    (
        "checking.ascent",
        "torch.where(ratio > STEEP, torch.log(ratio.clamp_min(STEEP)), tangent)",
        "torch.log(ratio.clamp_min(1e-30))",
    ),
    (
        "checking.ascent",
        "better = offered & (value > self.ratio)",
        "better = offered & (value < self.ratio)",
    ),
    ("checking.ascent", "better = offered & (value > self.ratio)", "better = offered"),
    ("checking.ascent", "seen.decided & (value <= NEAR)", "seen.decided"),
    ("checking.ascent", "kept.best.put_back(moved)", "pass"),
    ("checking.ascent", "now - before <= GROWTH", "now - before <= 1e3"),
    ("checking.ascent", "then, adam = cooled, _Adam(moved)", "then = steps + 1"),
    ("checking.ascent", "clamp_(-FARTHEST, FARTHEST)", "clamp_(-1e9, 1e9)"),
    ("checking.ascent", "clamp_(-FARTHEST, FARTHEST)", "clamp_(0, 0)"),
    ("checking.ascent", "self.mean.lerp_(slope, 0.1)", "self.mean.sub_(slope)"),
    ("checking.ascent", "if not height.requires_grad", "if False"),
    ("checking.ascent", "torch.cat([v, screened[k]])", "v"),
    (
        "checking.ascent",
        "(~sampling.ratios(check, check.build(**free)).decided)",
        "(sampling.ratios(check, check.build(**free)).decided)",
    ),
    (
        "checking.ascent",
        "self.open.keep(moved, torch.zeros_like(value), ~seen.decided)",
        "pass",
    ),
    ("checking.sampling", "(abs(left) < UNDERFLOW).any(-1)", "(abs(left) < UNDERFLOW).all(-1)"),
    ("checking.sampling", "return self.not_below | self.lost", "return self.not_below"),
    ("checking.sampling", "& _supposed(check, instance, batch)", ""),
    ("checking.sampling", "met &= below", "met |= below"),
    ("checking.sampling", "below.all(-1) if", "below.any(-1) if"),
    ("checking.sampling", "value.reshape(batch if alone else 1, -1)", "value"),
    ("arithmetic.interval_cover", "or not parts else True", "else True"),
    ("verification.status", "if not t.rejected]", "if t.rejected]"),
    ("verification.status", 'if r.outcome == "fail"]', 'if r.outcome == "never"]'),
    ("verification.status", 'if r.outcome == "pass"}', "}"),
    ("verification.status", "missing = sorted(required(registry, claim) - passed)", "missing = []"),
    ("verification.status", "if check.twins and name not in", "if False and name not in"),
    ("verification.status", 'if status not in ("verified", "refuted"):', 'if status == "failed":'),
    (
        "verification.report",
        'return outcomes == {"pass"} and rejected',
        'return outcomes == {"pass"}',
    ),
    ("verification.report", 'return outcomes == {"pass"} and rejected', "return rejected"),
    ("verification.report", 'outcomes == {"pass"}', 'outcomes <= {"pass", "unknown"}'),
    ("verification.report", "rejected = all(", "rejected = any("),
    ("checking.instance_shapes", "require(len(shape) == len(lengths)", "require(True"),
    ("checking.instance_shapes", "require(given == before", "require(True"),
    (
        "checking.instance_shapes",
        "if length.fixed else given >= length.least",
        "if length.fixed else True",
    ),
    (
        "checking.instance_shapes",
        "given == length.least if length.fixed else",
        "True if length.fixed else",
    ),
    ("checking.instance_shapes", "require(name in expected", "require(True"),
    ("checking.instance_shapes", "require(name in instance", "require(True"),
    ("checking.instance_shapes", "require(m % n == 0", "require(True"),
    ("checking.instance_shapes", "require_finite(name, value)", "pass"),
    ("verification.replay", "require(fits", "require(True"),
    ("verification.report", "and not self.interrupted", ""),
]


def mutants(src: Path) -> list[Mutant]:
    """The errors as mutants; raises ValueError if a text is no longer in its module."""
    found = []
    for name, old, new in ERRORS:
        module = f"attnverify.{name.removeprefix('attnverify.')}"
        path = src.joinpath(*module.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(
                f"{module}: got no text {old!r}, expected it: adapt mutation/engine.py"
            )
        title = f"{module.partition('.')[2]}: {' '.join(old.split())} -> {' '.join(new.split())}"
        found.append(Mutant("engine", module, title, text.replace(old, new), 1, 1 << 30))
    return numbered(found)
