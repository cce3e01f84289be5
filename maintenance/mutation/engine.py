"""Errors to plant in the engine, by hand: (module, text, text in its place).

Each is a small slip with a consequence: unknown taken for pass, a hypothesis or an instance not
looked at, a tolerance too wide, a twin let through, a sign. Every text occurs in its module; where
it occurs more than once the error is planted everywhere.
"""

from __future__ import annotations

from pathlib import Path

from mutation.rules import Mutant, numbered

ERRORS: list[tuple[str, str, str]] = [
    ("exact", '"pass" if a <= b else', '"pass" if a < b else'),
    ("exact", 'else "fail" if a > b else "unknown"', 'else "unknown" if a > b else "unknown"'),
    ("exact", 'else "fail" if a > b else "unknown"', 'else "fail" if not a < b else "unknown"'),
    ("exact", 'if "fail" in outcomes', 'if outcomes[0] == "fail"'),
    ("exact", 'return "unknown" if "unknown" in outcomes else "pass"', 'return "pass"'),
    ("exact", "ATTAINED = 2.0**-40", "ATTAINED = 2.0**-4"),
    ("exact", "ATTAINED = 2.0**-40", "ATTAINED = 2.0**-60"),
    ("exact", 'return bool(near) and self.hypotheses == "pass"', "return bool(near)"),
    ("exact", 'if hypotheses != "pass":', 'if hypotheses == "fail":'),
    ("exact", 'if hypotheses != "pass":', 'if hypotheses == "unknown":'),
    ("exact", "for a, b in sides for", "for a, b in sides[:1] for"),
    ("exact", "out = out.max(a / b)", "out = max(out, a / b)"),
    ("exact", "elif not a <= b:", "elif False:"),
    ("exact", "if b > 0:", "if not b <= 0:"),
    ("exact", "out = flint.arb(0)", "out = flint.arb(1)"),
    ("exact", "if any(d != 0 for d in difference)", "if all(d != 0 for d in difference)"),
    ("exact", '("pass" if near else "unknown")', '("pass")'),
    ("exact", "limit = 2.0 ** (-flint.ctx.prec / 2)", "limit = 2.0 ** (-flint.ctx.prec / 4)"),
    ("exact", "near = all(size < limit", "near = any(size < limit"),
    ("exact", 'require(bool(left), "left", "no entries"', 'require(True, "left", "no entries"'),
    ("exact", "require(np.size(left) > 0 and np.size(right) > 0,", "require(True,"),
    ("exact", "PRECISIONS[:-1]:", "PRECISIONS[:1]:\n        if bits > 128: continue"),
    ("exact", "require_instance(check, instance)", "pass"),
    (
        "exact",
        "return _compare_at(check, instance, PRECISIONS[-1])",
        "last = _compare_at(check, instance, PRECISIONS[-1])\n"
        '    return Comparison("pass", last.ratio, last.bits, last.hypotheses)',
    ),
    (
        "certify",
        'outcome = "fail" if failed else "unknown" if unknown else "pass"',
        'outcome = "fail" if failed else "pass"',
    ),
    (
        "certify",
        "[*extremal, *found, *random_instances(check, settings, name)]",
        "[*extremal, *found]",
    ),
    ("certify", "[*extremal, *found, *random_instances", "[*extremal, *random_instances"),
    ("certify", "[*extremal, *found, *random_instances", "[*found, *random_instances"),
    ("certify", "if _lower_above(check, instances):", "if False:"),
    ("certify", "and not c.attained]", "and c.attained]"),
    ("certify", "place = max(", "place = min("),
    (
        "certify",
        '"fail" if "fail" in outcomes else "unknown" if',
        '"fail" if outcomes[0] == "fail" else "unknown" if',
    ),
    (
        "certify",
        '"fail" if "fail" in outcomes else "unknown" if "unknown" in outcomes else "pass"',
        '"fail" if "fail" in outcomes else "pass"',
    ),
    (
        "run",
        'return found.outcome == "fail", None, found.detail',
        'return found.outcome != "pass", None, found.detail',
    ),
    (
        "run",
        '        if seen.outcome == "fail":\n            return True',
        '        if seen.outcome != "pass":\n            return True',
    ),
    (
        "run",
        '        if found.outcome == "fail":\n            return True',
        '        if found.outcome != "pass":\n            return True',
    ),
    ("run", "for search in (attack, sample)", "for search in ()"),
    (
        "run",
        "return verdict.holds is False, verdict.ratio, verdict.argument\n\n\ndef _decided(",
        "return not verdict.holds, verdict.ratio, verdict.argument\n\n\ndef _decided(",
    ),
    ("run", "verdict.holds is check.expected", "verdict.holds is True"),
    ("run", "asserted = None if verdict.holds is None else", "asserted ="),
    ("run", 'None: "unknown"', 'None: "pass"'),
    ("run", "decided = 0 if verdict.holds is None else verdict.cases", "decided = verdict.cases"),
    ("run", "    require_kinds(wanted)\n", ""),
    ("draw", "(right > UNDERFLOW)", "(right > 0)"),
    ("draw", "torch.isfinite(left) & torch.isfinite(right) &", "torch.isfinite(left) &"),
    ("draw", "torch.isfinite(left) & torch.isfinite(right) &", "torch.isfinite(right) &"),
    ("draw", "decided.all(-1) &", "decided.any(-1) &"),
    ("draw", "return ~self.decided | (self.value > 1)", "return self.value > 1"),
    ("draw", "return ~self.decided | (self.value > 1)", "return ~self.decided"),
    ("draw", "-torch.inf).amax(-1)", "-torch.inf).amin(-1)"),
    ("search", "[still_open[:RECHECKED], others[:BEST]", "[others[:BEST]"),
    ("search", "others[:BEST], between", "between"),
    ("search", "others[:BEST], between, others[-BEST:]", "others[:BEST]"),
    (
        "search",
        'outcome: Outcome = "unknown" if above.any() else "pass"',
        'outcome: Outcome = "pass"',
    ),
    ("search", "above[[i for i in looked if i not in unsettled]] = False", "above[looked] = False"),
    (
        "search",
        "undecided = len(unsettled) + max(0, left_open - RECHECKED)",
        "undecided = len(unsettled)",
    ),
    (
        "search",
        "undecided = len(unsettled) + max(0, left_open - RECHECKED)",
        "undecided = max(0, left_open - RECHECKED)",
    ),
    ("search", 'if seen.outcome == "unknown" and not seen.attained:', "if False:"),
    ("search", "2 * found.decided >= found.instances", "found.decided >= 0"),
    ("search", "2 * found.decided >= found.instances", "found.decided > 0"),
    (
        "search",
        "rank = torch.where(~floats.decided, floats.value.clamp_min(just_above), floats.value)",
        "rank = floats.value",
    ),
    ("search", "descending=True", "descending=False"),
    (
        "search",
        "worse = b if (order[b.outcome], largest[1]) > (order[a.outcome], largest[0]) else a",
        "worse = b if largest[1] > largest[0] else a",
    ),
    (
        "search",
        "worse = b if (order[b.outcome], largest[1]) > (order[a.outcome], largest[0]) else a",
        "worse = b",
    ),
    ("search", "whole and value >= least", "whole"),
    (
        "search",
        "            continue\n        seen = compare",
        "            pass\n        seen = compare",
    ),
    ("ascent", "torch.autograd.grad(-height", "torch.autograd.grad(height"),
    (
        "ascent",
        "torch.where(ratio > STEEP, torch.log(ratio.clamp_min(STEEP)), tangent)",
        "torch.log(ratio.clamp_min(1e-30))",
    ),
    (
        "ascent",
        "better = seen.decided & (value > self.ratio)",
        "better = seen.decided & (value < self.ratio)",
    ),
    ("ascent", "better = seen.decided & (value > self.ratio)", "better = seen.decided"),
    ("ascent", "clamp_(-FARTHEST, FARTHEST)", "clamp_(-1e9, 1e9)"),
    ("ascent", "clamp_(-FARTHEST, FARTHEST)", "clamp_(0, 0)"),
    ("ascent", "if grad is None else", "if False else"),
    ("ascent", "if height.requires_grad", "if True"),
    ("ascent", "torch.cat([v[kept.has_open], screened[k]])", "v[kept.has_open]"),
    (
        "ascent",
        "(~draw.ratios(check, check.build(**free)).decided)",
        "(draw.ratios(check, check.build(**free)).decided)",
    ),
    ("ascent", "new = ~seen.decided & ~self.has_open", "new = seen.decided & ~seen.decided"),
    ("floats", "if worst > 1:", "if worst > 1e3:"),
    ("floats", "max(s.worst for s in seen)", "min(s.worst for s in seen)"),
    ("floats", "torch.where(bound >= 0, bound, 0.0)", "bound"),
    ("floats", "nan_to_num(ratio, nan=torch.inf)", "nan_to_num(ratio, nan=0.0)"),
    ("floats", "finite | torch.isnan(error)", "finite"),
    ("floats", "any(2 * s.decided < s.instances for s in seen)", "False"),
    ("floats", "any(2 * s.decided < s", "all(2 * s.decided < s"),
    ("floats", "(2 * self.noticed < self.planted) |", "(self.planted < 0) |"),
    ("floats", "(2 * self.noticed < self.planted)", "(20 * self.noticed < self.planted)"),
    ("floats", "| (self.planted == 0)", "| (self.planted < 0)"),
    ("floats", "if few.any():", "if few.all():"),
    ("floats", "0 < self.worst < IDLE", "False"),
    ("floats", "torch.where(right == 0, largest, abs(right))", "abs(right)"),
    ("floats", "PLANTED = 2.0**-26", "PLANTED = 2.0**-6"),
    ("floats", "max(self.worst, other.worst)", "other.worst"),
    ("floats", ".all(-1).sum()) if alone", ".any(-1).sum()) if alone"),
    ("draw", "(abs(left) < UNDERFLOW).any(-1)", "(abs(left) < UNDERFLOW).all(-1)"),
    ("draw", "return self.not_below | self.lost", "return self.not_below"),
    ("draw", "& _supposed(check, instance, batch)", ""),
    ("draw", "met &= below", "met |= below"),
    ("draw", "below.all(-1) if", "below.any(-1) if"),
    ("draw", "value.reshape(batch if alone else 1, -1)", "value"),
    ("cover", "or not parts else True", "else True"),
    ("status", "if not t.rejected]", "if t.rejected]"),
    ("status", 'if r.outcome == "fail"]', 'if r.outcome == "never"]'),
    ("status", 'if r.outcome == "pass"}', "}"),
    ("status", "missing = sorted(required(claim) - passed)", "missing = []"),
    ("status", "if c.twins and n not in", "if False and n not in"),
    ("status", 'if status not in ("verified", "refuted"):', 'if status == "failed":'),
    ("verify", 'return outcomes == {"pass"} and rejected', 'return outcomes == {"pass"}'),
    ("verify", 'return outcomes == {"pass"} and rejected', "return rejected"),
    ("verify", 'outcomes == {"pass"}', 'outcomes <= {"pass", "unknown"}'),
    ("verify", "rejected = all(", "rejected = any("),
    ("shapes", "require(len(shape) == len(lengths)", "require(True"),
    ("shapes", "require(given == before", "require(True"),
    ("shapes", "if length.fixed else given >= length.least", "if length.fixed else True"),
    ("shapes", "given == length.least if length.fixed else", "True if length.fixed else"),
    ("shapes", "require(name in expected", "require(True"),
    ("shapes", "require(name in instance", "require(True"),
    ("shapes", "require(m % n == 0", "require(True"),
    ("shapes", "require_finite(name, value)", "pass"),
    ("replay", "require(fits", "require(True"),
    ("verify", "and not self.interrupted", ""),
]


def mutants(src: Path) -> list[Mutant]:
    """The errors as mutants; raises ValueError if a text is no longer in its module."""
    found = []
    for name, old, new in ERRORS:
        module = name if name.startswith("attnverify.") else f"attnverify.verification.{name}"
        path = src.joinpath(*module.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(
                f"{module}: got no text {old!r}, expected it: adapt mutation/engine.py"
            )
        title = f"{module.partition('.')[2]}: {' '.join(old.split())} -> {' '.join(new.split())}"
        found.append(Mutant("engine", module, title, text.replace(old, new), 1, 1 << 30))
    return numbered(found)
