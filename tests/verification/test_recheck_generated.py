"""Generated certificates, indexes, replay files and records of proofs: none is believed wrongly.

What is approved is evaluated once more, in balls. Anything else ends in the error of its reader.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
from collections import Counter
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import recheck
from attnverify.arithmetic import ops
from attnverify.chapters import registry
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.errors import InputError
from attnverify.verification import replay

SEEDS = st.integers(0, 2**64).map(random.Random)
#: What stands in the place of anything: other types, huge and tiny numbers, hostile texts.
JUNK = (
    None, True, False, 0, 1, -1, 2, 3, 5, 10**7, -(10**7), 10**30, 0.5, float("nan"), "",
    float("inf"), "0", "1/3", "-7/5", "1/0", "nan", "pow", "neg", "fail", "pass", "\ud800",
    "\x1b[2J\n", "../x",
    "9" * 3000,
    [], {}, [[]], [0], [[0, 1]], ["const", "2"], ["pow", 0, 10**7], ["exp", 0], {"a": 1},
)  # fmt: skip
DEEP: list = []
for _ in range(50):
    DEEP = [DEEP]


def cases(count):
    """Settings of a test with so many examples, the same ones on every machine."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


TEMPLATE = {
    "format": recheck.FORMAT, "claim": "a.claim", "check": "bound", "false twin": None,
    "statement": "", "instance": "random", "expected": "pass", "meaning": "",
    "inputs": {"X": {"shape": [2, 2], "values": ["0x1p0", "0x1p-1", "-0x1.8p0", "0x1p-2"]}},
    "program": [
        *(["input", "X", k] for k in range(4)), ["const", "1/3"], ["spectral", 2, 2, 0, 1, 2, 3],
        ["pow", 2, 2], ["abs", 3], ["max", 6, 7], ["exp", 1], ["div", 8, 9], ["erf", 4],
        ["const", "-1/4"], ["lambertw-1", 12], ["neg", 13], ["add", 10, 14], ["sub", 15, 11],
        ["pi"],
    ],
    "left": [5, 11], "right": [16, 4], "hypotheses": [[4, 0], [12, 4]],
}  # fmt: skip
TEMPLATE["right"] = [16, 14]


def in_balls(body) -> bool | None:
    """Whether every left <= right where the hypotheses hold, by the arithmetic of the engine."""
    values: list = []
    with ops.precision(300):
        for op, *rest in body["program"]:
            values.append(ball(op, rest, values, body["inputs"]))
        if not all(values[a] <= values[b] for a, b in body["hypotheses"]):
            return None
        pairs = [(values[a], values[b]) for a, b in zip(body["left"], body["right"], strict=True)]
        if any(a > b for a, b in pairs):
            return False
        return True if all(a <= b for a, b in pairs) else None


def ball(op, rest, values, inputs):
    if op == "input":
        return flint.arb(float.fromhex(inputs[rest[0]]["values"][rest[1]]))
    if op == "const":
        value = Fraction(rest[0])
        return flint.arb(value.numerator) / value.denominator
    if op == "pow":
        return values[rest[0]] ** rest[1]
    if op == "spectral":
        entries = np.array([values[k] for k in rest[2:]], dtype=object)
        return spectral_norm(entries.reshape(rest[:2]))
    if op == "pi":
        return flint.arb.pi()
    x = [values[k] for k in rest]
    known = {"abs": abs, "neg": lambda v: -v, "lambertw-1": lambda v: v.lambertw(-1)}
    known |= {"add": lambda a, b: a + b, "sub": lambda a, b: a - b}
    known |= {"mul": lambda a, b: a * b, "div": lambda a, b: a / b, "max": lambda a, b: a.max(b)}
    return known[op](*x) if op in known else getattr(x[0], op)()


def judged(body) -> str:
    """What the second program says; what it approves must not be false in balls."""
    try:
        result = recheck.judge(body)
    except recheck.RefusedError:
        return "refused"
    if result.wrong:
        return "told"
    assert in_balls(body) in ((True, None) if body["false twin"] is None else (False,)), body
    if result.verdict == "pass":
        assert in_balls(body) is not False
    return "approved"


def places(value, path=()):
    """Every place in a body: what leads there."""
    yield path
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from places(value[key], (*path, key))


def mutated(body, draw):
    """A copy in which one to three places are removed, exchanged, repeated or replaced."""
    body = copy.deepcopy(body)
    for _ in range(draw.choice((1, 1, 2, 3))):
        options = [path for path in places(body) if path]
        if not options:
            return body
        *lead, last = draw.choice(options)
        at = functools.reduce(lambda value, key: value[key], lead, body)
        old, kind = at[last], draw.randrange(7)
        if kind == 0:
            del at[last]
        elif kind == 1 and type(old) is int:
            at[last] = old + draw.choice((-2, -1, 1, 2))
        elif kind == 2 and isinstance(old, list):
            draw.shuffle(old)
        elif kind == 3 and isinstance(old, list) and old:
            old.append(copy.deepcopy(draw.choice(old)))
        elif kind == 4 and isinstance(old, dict):
            old["more"] = 1
        elif kind == 5 and draw.random() < 0.1:
            at[last] = copy.deepcopy(DEEP)
        else:
            at[last] = copy.deepcopy(draw.choice(JUNK))
    return body


def generated(draw):
    """A certificate of any program of a few lines, with any sides, verdict and hypotheses."""
    lines: list = [["const", f"{draw.randint(-9, 9)}/{draw.randint(1, 5)}"] for _ in range(3)]
    unary, binary = sorted(recheck.UNARY), sorted(recheck.BINARY)
    for _ in range(draw.randint(1, 7)):
        pick = [draw.randrange(len(lines)) for _ in range(4)]
        lines.append(
            draw.choice(
                (
                    [draw.choice(unary), pick[0]],
                    [draw.choice(binary), *pick[:2]],
                    ["pow", pick[0], draw.randint(1, 64)],
                    ["spectral", 2, 2, *pick] if draw.random() < 0.3 else ["pi"],
                )
            )
        )
    sides = [[draw.randrange(len(lines)) for _ in range(2)] for _ in range(2)]
    pairs = [[draw.randrange(len(lines)) for _ in range(2)]] if draw.random() < 0.3 else []
    twin, expected = draw.choice((None, "t")), draw.choice(recheck.VERDICTS)
    body = {**TEMPLATE, "program": lines, "left": sides[0], "right": sides[1]}
    return {**body, "hypotheses": pairs, "false twin": twin, "expected": expected, "inputs": {}}


def test_the_certificate_that_is_changed_is_true():
    assert judged(copy.deepcopy(TEMPLATE)) == "approved" and in_balls(TEMPLATE)
    twin = {**TEMPLATE, "false twin": "t", "expected": "fail"}
    assert judged({**twin, "left": TEMPLATE["right"], "right": TEMPLATE["left"]}) == "approved"


def test_no_generated_program_is_approved_wrongly():
    """600 programs: pass, fail and unknown occur, and each is what balls say or leave open."""
    found = Counter()

    @cases(600)
    @given(SEEDS)
    def run(draw):
        found[judged(generated(draw))] += 1

    run()
    assert min(found["approved"], found["told"]) > 50 and not found["refused"], found


def test_no_changed_certificate_is_approved_wrongly():
    """1,500 changes of one certificate, of the claim and of a false twin."""
    found = Counter()

    @cases(1500)
    @given(SEEDS)
    def run(draw):
        body = mutated(TEMPLATE, draw)
        if draw.random() < 0.3 and isinstance(body, dict):
            body |= {"false twin": "t", "expected": "fail"}
        found[judged(body)] += 1

    run()
    assert min(found.values()) > 30 and len(found) == 3, found


def test_no_changed_folder_is_approved_wrongly(tmp_path, capsys):
    """300 changes of an index beside three files, one of a twin; only what says the same passes."""
    folder = tmp_path / "f"
    folder.mkdir()
    twin = {**TEMPLATE, "false twin": "t", "expected": "fail"}
    twin |= {"left": TEMPLATE["right"], "right": TEMPLATE["left"]}
    files = {}
    for k, body in enumerate((TEMPLATE, TEMPLATE, twin)):
        text = json.dumps(body)
        (folder / f"{k}.json").write_text(text)
        files[f"{k}.json"] = hashlib.sha256(text.encode()).hexdigest()
    key = {"claim": "a.claim", "check": "bound", "false twin": None}
    index = {"format": recheck.INDEX_FORMAT, "files": files, "not exported": [
        {**key, "check": "other", "reason": "branches", "engine": None},
        {**key, "reason": "branches", "engine": "pass"},
    ], "inequalities": [{**key, "instances": 3}, {**key, "false twin": "t",
    "instances": 1}]}  # fmt: skip
    found = Counter()

    @cases(300)
    @given(SEEDS)
    def run(draw):
        body = mutated(index, draw) if found else copy.deepcopy(index)
        (folder / "index.json").write_text(json.dumps(body))
        code = recheck.main([str(folder)])
        said = capsys.readouterr().err.splitlines()
        assert (code == 0) == (not said) and (code != 2 or len(said) == 1)
        found[code] += 1
        if code == 0:  # every file was listed, and every instance counted
            told = Counter(
                (e["check"], e["false twin"]) for e in body["not exported"] if e["engine"]
            )
            told += Counter({("bound", None): 2, ("bound", "t"): 1})
            wanted = {(e["check"], e["false twin"]): e["instances"] for e in body["inequalities"]}
            assert body["files"] == files and told == Counter(wanted)

    run()
    assert set(found) == {0, 1, 2} and found[0] < 60, found


def test_no_changed_replay_file_ends_otherwise_than_it_should(tmp_path):
    """600 files with a digest that fits: an error of the project, or a comparison in balls."""
    import torch

    instance = {name: torch.tensor([1.0, -0.5], dtype=torch.float64) for name in ("u", "e")}
    found, path = Counter(), tmp_path / "worst.json"
    replay.save(registry.home, path, "softmax.total-variation", "variation", instance)
    whole = json.loads(path.read_text())
    assert replay.replay(registry, path)[2].outcome == "pass"

    @cases(600)
    @given(SEEDS)
    def run(draw):
        body = mutated(whole, draw)
        if draw.random() < 0.9 and isinstance(body, dict):
            body.pop("sha256", None)
            body["sha256"] = replay._digest(body)
        path.write_text(json.dumps(body))
        try:
            seen = replay.replay(registry, path)[2]
        except InputError as error:
            found["refused"] += 1
            assert len(str(error).splitlines()) == 1
        else:
            found[seen.outcome] += 1

    run()
    assert found["fail"] == 0 and min(found["refused"], found["pass"] + found["unknown"]) > 20, (
        found
    )


@pytest.mark.parametrize("values", ["1234", {"0x1p0": 1}, [1.0], ["0x1p0", None]])
def test_values_of_a_replay_file_are_a_list_of_texts(values, tmp_path):
    path = tmp_path / "worst.json"
    arrays = {name: {"shape": [2], "values": ["0x1p0", "0x1p1"]} for name in ("u", "e")}
    body = {"format": replay.FORMAT, "claim": "softmax.total-variation", "check": "variation"}
    body["arrays"] = {**arrays, "e": {"shape": [len(values)], "values": values}}
    path.write_text(json.dumps({**body, "sha256": replay._digest(body)}))
    with pytest.raises(InputError, match="hexadecimal floats"):
        replay.replay(registry, path)


def test_an_instance_far_larger_than_any_of_the_check_is_refused(tmp_path):
    """It would be compared for hours."""
    path = tmp_path / "worst.json"
    long = {"shape": [4000], "values": ["0x1p0"] * 4000}
    body = {"format": replay.FORMAT, "claim": "softmax.total-variation", "check": "variation"}
    body["arrays"] = {"u": long, "e": long}
    path.write_text(json.dumps({**body, "sha256": replay._digest(body)}))
    with pytest.raises(InputError, match="an instance of 8000 numbers, expected at most"):
        replay.replay(registry, path)
