"""The second program on what is false, incomplete or hostile: never approved, never a traceback.

Every body is judged in the process of the test; a few folders go through the command line.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest

import recheck
from attnverify.arithmetic import ops
from attnverify.chapters import Registry, registry
from attnverify.verification import certificate_export

TOOL = Path(recheck.__file__)
iv = recheck.iv


def tiny(**changed):
    """A certificate of 1/3 <= X, with X = 1 <= 2 for a hypothesis."""
    program = [["input", "X", 0], ["const", "1/3"], ["const", "2"]]
    body = {"format": recheck.FORMAT, "claim": "a.claim", "check": "bound", "false twin": None}
    body |= {"statement": "", "instance": "random", "expected": "pass", "meaning": ""}
    body |= {"inputs": {"X": {"shape": [1], "values": ["0x1p0"]}}, "program": program}
    return {**body, "left": [1, 1], "right": [0, 0], "hypotheses": [[0, 2]], **changed}


def verdict(program, left, right, hypotheses=()):
    body = {"inputs": {}, "program": program, "left": left, "right": right}
    return recheck.verdict({**body, "hypotheses": list(hypotheses)}, 200)


ZERO_OR_ABOVE = [["const", "3"], ["sqrt", 0], ["mul", 1, 1], ["sub", 2, 0]]  # of open sign


def test_an_unknown_hypothesis_is_not_met():
    """A difference that is 0 and whose interval has both signs: 0 <= it is unknown."""
    program = [*ZERO_OR_ABOVE, ["const", "0"], ["const", "1"]]
    assert verdict(program, [4], [5], [[4, 5]])[0] == "pass"
    for pair in ([4, 3], [3, 4], [5, 4]):
        assert verdict(program, [4], [5], [pair])[0] == "unknown"
        assert verdict(program, [5], [4], [pair])[0] == "unknown"  # nor is it refuted
        assert verdict(program, [4], [4], [pair])[0] == "unknown"


def test_a_right_side_of_open_sign_has_no_ratio():
    """What is left of 0 * x / y may be anything; it is never equality."""
    program = [*ZERO_OR_ABOVE, ["const", "1"], ["const", "-1"]]
    found, ratio = verdict(program, [4, 3], [4, 3])
    assert (found, ratio) == ("unknown", None)
    assert verdict(program, [5], [3]) == ("pass", 0)  # below it for certain
    assert verdict(program, [4], [3])[0] == "fail"


def test_one_entry_decides_and_all_must_pass():
    program = [["const", str(k)] for k in range(3)]
    assert verdict(program, [0, 1], [1, 2])[0] == "pass"
    assert verdict(program, [0, 2], [1, 1])[0] == "fail"
    found, ratio = verdict(program, [1, 2], [2, 2])
    assert found == "pass" and ratio == 1


@pytest.mark.parametrize("gap", [39, 41])
def test_equality_is_within_its_limit(gap):
    """sqrt(x)^2 against x (1 + 2^-gap): passes for certain, and is near 1 from 2^-40 on."""
    program = [["const", str(Fraction(3) * (1 + Fraction(1, 2**gap)))], ["const", "3"]]
    ratio = verdict(program, [1], [0])[1]
    assert recheck.is_near(ratio) == (gap > 40)
    assert recheck.agrees("attained", "pass", ratio) == (gap > 40)
    assert not recheck.agrees("attained", "fail", ratio)
    assert not recheck.agrees("attained", "pass", None)


def exact(x) -> flint.arb:
    """An end of an interval, as it is."""
    (sign, mantissa, exponent, _), _ = x._mpi_
    return flint.arb((int(mantissa), int(exponent))) * (-1) ** sign


@pytest.mark.parametrize("bits", [20, 60, 200])
@pytest.mark.parametrize("name", sorted(recheck.UNARY))
def test_the_true_value_lies_in_every_interval(name, bits):
    """Also where an interval has but a few bits: a remainder that is left out would show."""
    rng = np.random.default_rng(7)
    low, high = {
        "log": (0.01, 9),
        "log1p": (-0.9, 9),
        "sqrt": (0, 9),
        "lambertw-1": (-0.36, -1e-3),
    }.get(name, (-6, 6))
    for _ in range(12):
        a, b = sorted(float(v) for v in rng.uniform(low, high, 2))
        for ends in ((a, a), (a, b)):
            iv.prec = bits
            found = recheck.UNARY[name](iv.mpf(list(ends)))
            with ops.precision(400):
                for point in np.linspace(*ends, 5):
                    value = TRUE[name](flint.arb(min(max(float(point), ends[0]), ends[1])))
                    assert not value < exact(found.a) and not value > exact(found.b)
                if ends[0] == ends[1]:  # and it is as narrow as its bits allow
                    width = exact(found.b) - exact(found.a)
                    assert width <= (1 + abs(value)) * 2.0 ** (LOST.get(name, 12) - bits)


#: Bits that an interval may lose, where not 12: erf ends its sum 20 bits above the precision, and
#: the remainder, at most 2^(20 - bits) times a value below 1, comes on top of the rounding.
LOST = {"erf": 21}
TRUE = {name: lambda x, name=name: getattr(x, name)() for name in recheck.UNARY}
TRUE |= {"abs": abs, "neg": lambda x: -x, "lambertw-1": lambda x: x.lambertw(-1)}


def test_beyond_the_range_of_arguments_nothing_is_shown():
    iv.prec = 60
    for value in (2**30 + 1, 2**60):
        for function in (recheck.exponential, recheck.sine, recheck.cosine, recheck.tanh):
            with pytest.raises(recheck.OpenError):
                function(iv.mpf(value))
    for value in (-(2**30) - 1, -(2**60)):
        small = recheck.exponential(iv.mpf(value))
        assert small.a == 0 < small.b <= iv.exp(iv.mpf(-(2**30))).b
    wide = recheck.exponential(iv.mpf([-(2**40), 1]))
    assert wide.a == 0 and wide.b >= iv.exp(iv.mpf(1)).a
    assert recheck.error_function(iv.mpf(31)).a < 1
    squares = [["const", "2"], *(["mul", k, k] for k in range(200))]
    assert verdict(squares, [0], [0]) == ("unknown", None)


def test_what_may_be_zero_or_less_has_no_logarithm_and_is_no_pivot():
    iv.prec = 60
    with pytest.raises(recheck.OpenError, match="logarithm"):
        recheck.logarithm(iv.mpf([0, 1]))
    assert not recheck._definite(iv.mpf([1, 3]), [[iv.mpf(2)]])


def test_the_norm_above_is_shown_whatever_vector_is_found(monkeypatch):
    """The largest eigenvector is a guess: with any other one the interval is wide, and right."""
    iv.prec = 80
    A = np.diag([4.0, 1.0, 0.25])
    entries = [iv.mpf(float(v)) for v in A.flat]
    for axis in range(3):
        vector = [iv.mpf(float(k == axis)) for k in range(3)]
        monkeypatch.setattr(recheck, "_top_vector", lambda gram, v=vector: v)
        found = recheck.spectral_norm(3, 3, entries)
        assert found.a <= 4 <= found.b
    monkeypatch.setattr(recheck, "_top_vector", lambda gram: [iv.mpf(0)] * 3)
    with pytest.raises(recheck.OpenError):
        recheck.spectral_norm(3, 3, entries)


def test_only_a_positive_definite_matrix_is_called_so():
    iv.prec = 80

    def definite(shift, rows):
        return recheck._definite(iv.mpf(shift), [[iv.mpf(v) for v in row] for row in rows])

    assert definite(2.01, [[1, 1], [1, 1]])
    for shift in (2, 1.99, 1, 0):
        assert not definite(shift, [[1, 1], [1, 1]])
    assert not definite(3, [[2, 0.5, 0.5], [0.5, 2, 0.5], [0.5, 0.5, 2]])  # its largest is 3
    assert definite(3.001, [[2, 0.5, 0.5], [0.5, 2, 0.5], [0.5, 0.5, 2]])


CHANGES = {
    "format": [{"format": "attnverify program 2"}, {"format": None}],
    "fields": [{"more": 1}, {"claim": 3}, {"check": ""}, {"false twin": 1}, {"claim": "a\nb"}],
    "expected": [{"expected": v} for v in ("unknown", "certainly", None, ["pass"], True)],
    "program": [
        {"program": p}
        for p in (
            None, {}, [[]], [3], [["cosh", 0]], [[["neg"], 0]], [["const", "1"], ["neg", 1]],
            [["const", "1"], ["neg", -1]], [["const", "1"], ["neg", True]],
            [["const", "1"], ["add", 0]],
            [["const", "1"], ["neg", 0.0]], [["pi", 0]], [["input", "X", 99]], [["input", [], 0]],
            [["input", "X", False]], [["const", 1]], [["const", "1/0"]], [["const", "1e9"]],
            [["const", "٣"]], [["const", "9" * 1001]], [["const", " 1"]], [["const", "1_0"]],
            [["const", "2"], ["pow", 0, 10_000_000]], [["const", "2"], ["pow", 0, 0]],
            [["const", "2"], ["pow", 0, True]], [["const", "2"], ["pow", 0, "2"]],
            [["const", "2"], ["spectral", 1, 2, 0]], [["const", "2"], ["spectral", 0, 0]],
            [["const", "2"], ["spectral", 1, 33, *[0] * 33]], [["const", "2"], ["spectral", 1]],
            [["const", "-1/4"], *[["lambertw-1", 0]] * 100], [["pi"]] * (recheck.MOST_LINES + 1),
        )
    ],
    "sides": [
        {"left": [], "right": []}, {"left": [0]}, {"left": [-1, -1]}, {"left": [3, 3]},
        {"right": None},
        {"left": ["0", 0]}, {"left": [True, True]}, {"hypotheses": None}, {"hypotheses": [[0]]},
        {"hypotheses": [[0, 1, 2]]}, {"hypotheses": [0]}, {"hypotheses": [[0, 9]]},
    ],
    "inputs": [
        {"inputs": i}
        for i in (
            [], {"X": 1}, {"X": {"shape": [1]}}, {"X": {"shape": [2], "values": ["0x1p0"]}},
            *({"X": {"shape": [1], "values": [v]}} for v in ("inf", "nan", "x", "", "0x1p9999", 1)),
            *({"X": {"shape": s, "values": ["0x1p0"]}} for s in ([True], [1.0], "1", [1] * 9)),
            *({"X": {"shape": s, "values": ["0x1p0"]}} for s in ([-1, -1], None)),
            {"X": {"shape": [0], "values": []}}, {"X": {"shape": [1], "values": "1"}},
            {"X": {"shape": [1], "values": ["0x1p0"], "more": 1}},
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("change", [c for changes in CHANGES.values() for c in changes])
def test_what_is_no_program_is_refused(change):
    assert recheck.judge(tiny()).wrong == ""
    with pytest.raises(recheck.RefusedError):
        recheck.judge(tiny(**change))


def test_every_field_is_needed():
    for field in tiny():
        body = tiny()
        del body[field]
        with pytest.raises(recheck.RefusedError):
            recheck.judge(body)


def test_a_claim_must_hold_and_a_false_twin_must_not():
    refuting = {"left": [2, 1], "right": [0, 0], "expected": "fail"}
    assert recheck.judge(tiny(**refuting)).wrong == "REFUTES a.claim (bound): "
    assert recheck.judge(tiny(**refuting, **{"false twin": "t"})).wrong == ""
    words = recheck.judge(tiny(**{"false twin": "t"})).wrong
    assert words == "DOES NOT REFUTE the false twin 't' of a.claim: "
    unmet = {**refuting, "false twin": "t", "hypotheses": [[2, 0]]}
    assert recheck.judge(tiny(**unmet)).wrong.startswith("DOES NOT REFUTE")
    assert recheck.judge(tiny(hypotheses=[[2, 0]])).wrong == "DISAGREES, expected pass: "


def sealed(folder: Path, bodies, **changed) -> Path:
    """A folder with an index that fits its files, but for what is changed."""
    folder.mkdir(parents=True)
    files, count = {}, Counter()
    for k, body in enumerate(bodies):
        text = json.dumps(body)
        (folder / f"c-{k}.json").write_text(text)
        files[f"c-{k}.json"] = hashlib.sha256(text.encode()).hexdigest()
        count[body["claim"], body["check"], body["false twin"]] += 1
    entries = [
        {"claim": c, "check": n, "false twin": t, "instances": k} for (c, n, t), k in count.items()
    ]
    index = {"format": recheck.INDEX_FORMAT, "files": files, "inequalities": entries}
    index |= {"not exported": []}
    (folder / "index.json").write_text(json.dumps({**index, **changed}))
    return folder


TWIN = {"false twin": "t", "left": [2, 1], "expected": "fail"}


def outcome(folder, capsys) -> tuple[int, str]:
    code = recheck.main([str(folder)])
    return code, capsys.readouterr().err


def test_a_whole_folder_passes(tmp_path, capsys):
    folder = sealed(tmp_path / "f", [tiny(), tiny(), tiny(**TWIN)])
    assert recheck.main([str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == "1 of 1 inequalities and 1 of 1 false twins have certificates"
    assert said[-1] == "3 certificates rechecked, 0 do not come out as expected"


def test_a_folder_is_taken_whole(tmp_path, capsys):
    """Files that are missing, added or altered, or no index: exit code 2 and one line."""
    changes = {
        "does not list other.json": lambda f: (f / "other.json").write_text("{}"),
        "does not list .hidden": lambda f: (f / ".hidden").mkdir(),
        "lists c-1.json, which is not there": lambda f: (f / "c-1.json").unlink(),
        "index.json: No such file": lambda f: (f / "index.json").unlink(),
        "its SHA-256 is not the one": lambda f: (f / "c-0.json").write_text(
            json.dumps(tiny()) + " "
        ),
        "c-0.json: no regular file": lambda f: (
            (f / "c-0.json").unlink(),
            os.mkfifo(f / "c-0.json"),
        ),
    }
    for k, (words, change) in enumerate(changes.items()):
        folder = sealed(tmp_path / str(k), [tiny(), tiny(**TWIN)])
        change(folder)
        code, said = outcome(folder, capsys)
        assert code == 2 and words in said and len(said.splitlines()) == 1, said
    assert outcome(tmp_path / "nothing", capsys)[0] == recheck.main([]) == 2


def test_a_promise_of_the_index_is_kept(tmp_path, capsys):
    """What is listed has its files or a reason; what the engine found false is told."""
    key = {"claim": "a.claim", "check": "bound", "false twin": None}
    twin = {**key, "false twin": "t"}
    why = {"reason": "branches"}
    cases = [
        ([{**key, "instances": 2}], [], "MISSING a.claim (bound): 2 instances, of which 1"),
        ([], [], "MISSING a.claim (bound): None instances, of which 1"),
        ([{**key, "instances": 1}, {**twin, "instances": 1}], [], "false twin 't'): 1 instances"),
        (
            [{**key, "instances": 2}],
            [{**key, **why, "engine": "unknown"}],
            "OPEN a.claim (bound): the",
        ),
        ([{**key, "instances": 2}], [{**key, **why, "engine": "fail"}], "the engine says fail"),
        ([{**key, "instances": 2}], [{**key, **why, "engine": "pass"}], ""),
        (
            [{**key, "instances": 1}, {**twin, "instances": 1}],
            [{**twin, **why, "engine": "pass"}],
            "",
        ),
        ([{**key, "instances": 1}], [{**key, **why, "check": "other", "engine": None}], ""),
    ]
    for k, (entries, left_out, words) in enumerate(cases):
        changed = {"inequalities": entries, "not exported": left_out}
        code, said = outcome(sealed(tmp_path / str(k), [tiny()], **changed), capsys)
        assert code == (1 if words else 0) and words in said
    near = tiny(program=[["const", "3"], ["sqrt", 0], ["mul", 1, 1]], left=[0], right=[2])
    near |= {"expected": "attained", "hypotheses": []}
    code, said = outcome(sealed(tmp_path / "near", [near]), capsys)
    assert code == 1 and said == "OPEN a.claim: no certificate passes for certain\n"
    assert outcome(sealed(tmp_path / "both", [near, tiny()]), capsys) == (0, "")


ENTRY = {"claim": "a.claim", "check": "bound", "false twin": None, "instances": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "attnverify program 1, index"}, {"files": {}}, {"files": []}, {"more": 1},
        {"files": {"../c-0.json": "0" * 64}}, {"files": {"c-0.json": 1}},
        {"files": {"c-0.json": "0"}},
        {"files": {"index.json": "0" * 64}}, {"inequalities": {}}, {"inequalities": [1]},
        {"inequalities": [ENTRY, ENTRY]}, {"inequalities": [{**ENTRY, "instances": True}]},
        {"inequalities": [{**ENTRY, "claim": None}]}, {"not exported": [ENTRY]},
        {"not exported": None},
        {"not exported": [{**ENTRY, "reason": "", "engine": None}]},
    ],
)  # fmt: skip
def test_a_wrong_index_is_refused(change, tmp_path, capsys):
    code, said = outcome(sealed(tmp_path / "f", [tiny()], **change), capsys)
    assert code == 2 and len(said.splitlines()) == 1 and said.startswith("recheck: REFUSED f/index")


def test_work_is_bounded_before_it_begins(tmp_path, capsys, monkeypatch):
    """One file over the limit, and files that are over it together."""
    folder = sealed(tmp_path / "f", [tiny(), tiny()])
    monkeypatch.setattr(recheck, "MOST_WORK", 2)
    assert "3 steps, more than 2" in outcome(folder, capsys)[1]
    monkeypatch.setattr(recheck, "MOST_WORK", 3)
    monkeypatch.setattr(recheck, "MOST_OVERALL", 5)
    assert "more than 5 steps" in outcome(folder, capsys)[1]
    monkeypatch.setattr(recheck, "LARGEST", 10)
    code, said = outcome(folder, capsys)
    assert code == 2 and "bytes, more than 10" in said


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"", b"NaN", b'"\\ud800"', b"9" * 5000]
    + [b'{"format": 1, "format": 2}', b"[1, 2", b"null", b"{}", b"\x00" * 10],
)
def test_no_json_is_refused(content, tmp_path):
    """Through the command line, alone and as an index: one line, exit code 2."""
    path = tmp_path / "index.json"
    path.write_bytes(content)
    for place in (path, tmp_path):
        with pytest.raises(recheck.RefusedError):
            recheck.run([str(place)])


def test_the_command_line(tmp_path):
    """A few of all cases in a process of its own: whatever is wrong, no traceback."""
    good, bad = tiny(), tiny(left=[2, 1])
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 10**6)
    surrogate = tiny(**{"false twin": "\ud800\u2603"})
    cases = {0: [sealed(tmp_path / "good", [good])], 1: [sealed(tmp_path / "bad", [good, bad])]}
    cases[1].append(sealed(tmp_path / "surrogate", [good, surrogate]))
    cases[2] = [deep, tmp_path / "none", sealed(tmp_path / "late", [good, tiny(left=[])])]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for code, places in cases.items():
        for place in places:
            command = [sys.executable, str(TOOL), str(place)]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=500, check=False, env=environment
            )
            assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
            assert len(done.stderr.splitlines()) == (1 if code else 0)


def test_the_exporter_refuses_to_hide_a_refuted_claim(tmp_path, monkeypatch, capsys):
    """A quarter of the right side: its certificates are written, and the second program says so."""
    claim, name = "softmax.total-variation", "variation"
    false = registry.checks_of(claim)[name].times(0.25).twins[-1].check
    monkeypatch.setattr(Registry, "checks_of", lambda self, id: {name: false})
    certificate_export.write(registry, [claim], tmp_path / "f")
    code, said = outcome(tmp_path / "f", capsys)
    assert code == 1 and f"REFUTES {claim} ({name}): fail" in said
    monkeypatch.setattr(certificate_export, "outcome", lambda certificate: "unknown")
    (tmp_path / "g").mkdir()
    certificate_export.write(registry, [claim], tmp_path / "g")
    assert outcome(tmp_path / "g", capsys)[0] == 2  # nothing was exported
