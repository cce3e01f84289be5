"""Claim files with anything in them: one line that says what is wrong, and no other end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnverify import InputError
from attnverify.checking.search import Settings
from attnverify.topics import registry as BOOK
from attnverify.verification import claim_files
from attnverify.verification.claim import Registry
from places import ROOT
from tiers import in_tiers

EXAMPLES = 200  # files of every kind
FEW = Settings(samples=4, restarts=1, steps=1)

pytestmark = pytest.mark.usefixtures("nothing_stays")

START = """
import attnverify as av
from attnverify import ops
"""
#: The fields of a claim and of the three forms, each with what is right.
CLAIM = {
    "id": "'mine.a'",
    "title": "'t'",
    "kind": "'lemma'",
    "statement": "'s'",
    "uses": "()",
    "sources": "()",
    "here": "''",
    "asserts": "'holds'",
    "corrected_by": "None",
    "sharpens": "None",
}
SIZES = "({'x': (2,)},)"
FORMS = {
    "Inequality": {
        "left": "lambda x: ops.sum(abs(x), -1)",
        "right": "lambda x: 2 * ops.sum(abs(x), -1)",
        "sizes": SIZES,
        "build": "lambda x: {'x': x}",
        "hypotheses": "lambda x: [(0 * x, ops.square(x))]",
        "extremal": "()",
        "lower": "None",
        "divides": "()",
    },
    "Identity": {
        "left": "lambda x: x + x",
        "right": "lambda x: 2 * x",
        "bound": "lambda x: 1e-15 * abs(x)",
        "sizes": SIZES,
        "build": "lambda x: {'x': x}",
        "shared": "()",
        "arithmetic": "'rational'",
        "exact_draws": "1",
    },
    "Decision": {
        "run": "lambda: av.Verdict(True, 'one case')",
        "limits": "'all others'",
        "kind": "'decided'",
    },
}
TWIN = {"Inequality": "left", "Identity": "right", "Decision": "run"}
FALSE = {
    "Inequality": "lambda x: 3 * ops.sum(abs(x), -1)",
    "Identity": "lambda x: 3 * x",
    "Decision": "lambda: av.Verdict(False, 'one case')",
}
VALUES = """None|0|3|-1|True|''|'a'|'a\\nb'|b'x'|'\\ud800'|()|[]|{}|(1,)|('x',)|(('x', 'x'),)
[None]|object()|float('nan')|1e400|10**30|lambda *a, **k: None|lambda: 1 / 0
print|type|av|{'x': (2,)}|({'x': (10**9,)},)|({'x': (10**30,)},)|({'x': (0,)},)
({'x': (2.5,)},)|({'x': (True,)},)|({3: (2,)},)|({'x y': (2,)},)|({'x': 2},)|({'y': (2,)},)
({'x': (1,) * 70},)|[{'x': [2]}]|iter(())|({'x': (2,)}, {'x': (2, 2)})|({'x': ()},)
(lambda: {},)|(lambda: None,)|('mine.a',)|range(3)|'mine.a'|'holds'
'softmax.total-variation'|('no.such',)|{'a': 1}|set()|1j|slice(1)|NotImplemented|..."""
FORMULAS = """None|1 / 0|x.nothing|'text'|x * float('nan')|x / 0|x[..., :0]|x.sum()|float(x)
x > 0|[x]|{}|(x, x)|[(x, x)]|[(x,)]|[(x, 0), 3]|((x, x),)|ops.log(4)|ops.exp(None)|x.flat[0]
x * 10**400|x**2.5|-x|x @ x|ops.sum(x, -1)|ops.sum(x, 0)|ops.stack([x, x], -1)
x.to('cuda')|x.numpy()|x * 'a'|x[5]|iter([x])|(y for y in x)|{'x': x[:1]}
{'x': x * 1e400}|{'x': x.float()}|{'y': x}|{'x': x, 3: x}|{'x': None}|ops.where(x > 0, x, -x)
ops.sqrt(-1 - x * x)|av.Verdict(True, 'a', 0)|x.requires_grad_()|x.mul_(0)|x.T|x.reshape(-1)
x * 1j|ops.amax(x, 7)|ops.softmax(x)[..., None]|x.detach()|abs|x if x else x
(lambda f: f(f))(lambda f: f(f))|av.number('x', x)|av.number('0.5', x)|abs(x) * 1e300"""
VALUE = st.sampled_from(VALUES.replace("\n", "|").split("|"))
FORMULA = st.sampled_from(FORMULAS.replace("\n", "|").split("|"))
FORM = st.sampled_from(list(FORMS))


def call(name: str, fields: dict[str, str]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in fields.items())})"


def written(form: str, claim: dict[str, str], fields: dict[str, str], end: str = "") -> str:
    check = call(f"av.{form}", fields) + f".but('twin', {TWIN[form]}={FALSE[form]})"
    lines = [
        START,
        f"CLAIMS = [{call('av.Claim', claim)}]",
        f"CHECKS = {{'mine.a': {{'c': {check}}}}}",
    ]
    return "\n".join([*lines, end, ""])


@st.composite
def missing(draw: st.DrawFn) -> str:
    """A field of the claim or of the check is left out, or a line of the file."""
    form = draw(FORM)
    claim, fields = dict(CLAIM), dict(FORMS[form])
    for some in (claim, fields):
        for name in draw(st.lists(st.sampled_from(list(some)), max_size=2, unique=True)):
            del some[name]
    lines = written(form, claim, fields).splitlines()
    left_out = draw(st.integers(0, 3 * len(lines)))
    return "\n".join(line for place, line in enumerate(lines) if place != left_out)


@st.composite
def values_of_the_claim(draw: st.DrawFn) -> str:
    form, name = draw(FORM), draw(st.sampled_from(list(CLAIM)))
    return written(form, {**CLAIM, name: draw(VALUE)}, FORMS[form])


@st.composite
def values_of_the_check(draw: st.DrawFn) -> str:
    form = draw(FORM)
    name = draw(st.sampled_from([*FORMS[form], "twins"]))
    return written(form, CLAIM, {**FORMS[form], name: draw(VALUE)})


@st.composite
def formulas(draw: st.DrawFn) -> str:
    form = draw(FORM)
    known = [name for name, value in FORMS[form].items() if value.startswith("lambda")]
    name, body = draw(st.sampled_from(known)), draw(FORMULA)
    start = "lambda x=0:" if form == "Decision" else "lambda x:"
    return written(form, CLAIM, {**FORMS[form], name: f"{start} {body}"})


KINDS = {f.__name__: f for f in (missing, values_of_the_claim, values_of_the_check, formulas)}


def outcome(text: str, path: Path) -> str:
    """What becomes of a file: "refused" by an error of the project's own, or "accepted"."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        file = claim_files.read(path)
        claims, described, derives = claim_files.examine(file)
        stated = Registry([*BOOK.values()], BOOK.home)
        stated.join(claims, file, described)
        for claim in claims:
            claim_files.gather(file, claim.id, FEW, ("sampled", "attacked", "certified", "decided"))
            if derives:
                claim_files.derive(file, stated)
    except InputError as error:
        assert "\n" not in str(error), str(error)
        return "refused"
    finally:
        claim_files._RAN.clear()
    return "accepted"


def counted(files: st.SearchStrategy[str], folder: Path) -> dict[str, int]:
    """How many files were accepted and refused; any other error is raised."""
    seen = {"accepted": 0, "refused": 0}

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(files)
    def run(text: str) -> None:
        seen[outcome(text, folder / "mine.py")] += 1

    run()
    return seen


@pytest.mark.parametrize("form", FORMS)
def test_what_is_right_is_accepted(form, tmp_path):
    assert outcome(written(form, CLAIM, FORMS[form]), tmp_path / "mine.py") == "accepted"


def test_a_file_is_accepted_or_refused_in_one_line(tmp_path):
    """Eight hundred files, in a plain process: here types in signatures would refuse many of them.

    Twelve seconds, which buy that no field, formula or class of a file ends in a traceback.
    """
    command = [sys.executable, "-W", "ignore", __file__, str(tmp_path)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert set(found) == set(KINDS)
    assert all(seen["refused"] > EXAMPLES / 4 and seen["accepted"] for seen in found.values())


#: By the command: what would end, hold or silence a process, and what is said of it.
BY_COMMAND = {
    "raise KeyboardInterrupt": "reading mine.py: got KeyboardInterrupt",
    "import os; os._exit(0)": "reading mine.py: the process that worked on it died",
    "while True: pass": "reading mine.py: got no end within 1 s",
    "(((": "mine.py: got SyntaxError",
}


@pytest.mark.parametrize("end", in_tiers(BY_COMMAND, ("while True: pass", "(((")))
def test_the_command_tells_one_line_and_ends(end, tmp_path):
    """Eight seconds for four commands: exit code 2, and one line on standard error alone."""
    text = written("Inequality", CLAIM, FORMS["Inequality"], end)
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "attnverify", "verify", "mine.py", "--limit", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("attnverify: " + BY_COMMAND[end])


if __name__ == "__main__":
    counts = {kind: counted(made(), Path(sys.argv[1])) for kind, made in KINDS.items()}
    print(json.dumps(counts))
