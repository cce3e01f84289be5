"""Claims from outside the book: brought in, checked like its own, refused by name if spoiled."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import nbformat
import pytest

import attnverify as av
from attnverify import InputError, cli
from attnverify.arithmetic import ops
from attnverify.chapters import Registry, registry
from attnverify.chapters.verify import verify
from attnverify.checking.check_fields import require_sizes
from attnverify.checking.search import Settings, attack
from attnverify.runtime.workers import Task, run_all
from attnverify.support.errors import RunError
from attnverify.verification import claim_files, replay
from attnverify.verification import verify as running
from places import ROOT

MINE = (ROOT / "book" / "examples" / "lipschitz.py").read_text(encoding="utf-8")
DERIVE = """
import sympy as sp
def derive():
    p, q = sp.symbols("p q", positive=True)
    av.ledger.derived("mine.lipschitz", {"square": ((p + q) ** 2, p**2 + 2 * p * q + q**2)})
    av.ledger.rejected("mine.lipschitz", {"square": ((p + q) ** 2, p**2 + q**2)})
"""
CELL = """
import attnverify as av
import sympy as sp

p, q = sp.symbols("p q", positive=True)
av.ledger.derived("mine.lipschitz", {"square": ((p + q) ** 2, p**2 + 2 * p * q + q**2)})
av.ledger.rejected("mine.lipschitz", {"square": ((p + q) ** 2, p**2 + q**2)})
"""
QUICK = Settings(samples=100, restarts=4, steps=60)


pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.fixture
def in_this_process(monkeypatch):
    """A file is examined and checked here, without the seconds that processes of its own take."""
    for module in claim_files, running:
        monkeypatch.setattr(module, "run_all", lambda tasks, *_: (task() for task in tasks))


def written(folder: Path, text: str = MINE, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_is_markdown_or_a_notebook(tmp_path, in_this_process):
    """The same claim with its derivation; a slip in a cell is told with the name of the file."""
    _, statement, code = MINE.split('"""')
    cells = [("check", code), ("derivation", CELL)]
    fences = [f"```{{code-cell}}\n:tags: [{tag}]\n\n{source}\n```" for tag, source in cells]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(f"# Mine\n\n{statement}")]
    notebook.cells += [
        nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}) for tag, source in cells
    ]
    texts = {"mine.md": "\n\n".join([statement, *fences]), "mine.ipynb": nbformat.writes(notebook)}
    for name, text in texts.items():
        report = verify([written(tmp_path, text, name)], QUICK, jobs=1)
        assert report.standing["mine.lipschitz"].status == "verified", name
        for old, new, message in (
            ("/ 2", "/ e.no", "right: got AttributeError|left: got AttributeError"),
            ("check", "checks", r"got @av.inequality in .*\['checks'\], expected the tag 'check'"),
            ("derivation", "proof", "got av.ledger.derived.*, expected the tag 'derivation'"),
            ("(u, e):", "((u, e):", r"SyntaxError.*(md, line 21|, code cell 1, line 9)\)"),
            ("tight=0.99", "tihgt=1", r"TypeError.* \((line 20|code cell 1, line 8)\)"),
        ):
            slip = claim_files.read(Path(written(tmp_path, text.replace(old, new), name)))
            with pytest.raises(InputError, match=message):
                claim_files.join(registry, slip)
        registry.join([], registry.home, instead_of=["mine.lipschitz"])
    spoiled = written(tmp_path, texts["mine.ipynb"][:-20], "mine.ipynb")
    with pytest.raises(InputError, match="mine.ipynb: got JSONDecodeError.*a Jupyter notebook"):
        claim_files.ask(registry, spoiled)


def test_a_report_shows_itself(tmp_path, in_this_process):
    """As a table in a notebook, and as lines where it is printed; a claim and the registry too."""
    report = av.verify([written(tmp_path)], QUICK, ["sampled"], jobs=1)
    shown, lines = report._repr_html_(), str(report).splitlines()
    assert '<th scope="row">mine.lipschitz</th><td>partial</td><td>sam</td>' in shown
    assert "1 claim: 1 partial" in lines[0] and lines[-1].startswith("mine.lipschitz  partial")
    claim = report.claims[0]
    assert "**Softmax is 1/2-Lipschitz** (`mine.lipschitz`, lemma)" in claim._repr_markdown_()
    assert claim.statement in claim._repr_markdown_()
    assert '<th scope="row">mine.lipschitz</th>' in registry._repr_html_()


def test_without_settings_it_searches_as_the_command_does(tmp_path, in_this_process):
    """What README and the page "Check a claim of your own" write is all that is needed."""
    report = av.verify([written(tmp_path)], kinds=["sampled"], jobs=1)
    stated = inspect.signature(cli.verify.verify).parameters
    shared = ("samples", "restarts", "steps", "seed")
    assert report.settings == Settings(**{name: stated[name].default for name in shared})
    assert report.records["mine.lipschitz"][0].outcome == "pass"


def test_an_edited_file_takes_the_place_of_what_it_stated(tmp_path, in_this_process):
    """In one session, as in a notebook: the old text is not checked under the new one's name."""

    def joined(text: str, folder: Path = tmp_path) -> list[str]:
        file = claim_files.read(Path(written(folder, text)))
        return [claim.id for claim in claim_files.join(registry, file)]

    assert joined(MINE) == joined(MINE) == ["mine.lipschitz"]
    first = registry.origin_of("mine.lipschitz")
    assert joined(MINE.replace("is 1/2-Lipschitz", "is Lipschitz")) == ["mine.lipschitz"]
    assert registry["mine.lipschitz"].title == "Softmax is Lipschitz"
    assert registry.origin_of("mine.lipschitz") != first
    assert joined(MINE.replace("mine.lipschitz", "mine.other")) == ["mine.other"]
    assert "mine.lipschitz" not in registry
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(InputError, match="got two files mine.py, expected files of different"):
        joined(MINE, tmp_path / "elsewhere")


@pytest.mark.parametrize("sizes", [{"u": (2,)}, (), [3], [{}], [{"u": 2}], [{"u": (0,)}]])
def test_sizes_are_shapes_by_name(sizes):
    with pytest.raises(InputError, match=r"mine: sizes: got .*, expected shapes by name, as \("):
        require_sizes("mine: ", sizes)


def test_a_file_may_hold_dataclasses(tmp_path):
    """These look for the module of a class by its name."""
    start = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text = start + MINE + "\n@dataclass\nclass Size:\n    n: int = 2\n"
    assert claim_files.stated(claim_files.read(Path(written(tmp_path, text)))).claims


def test_a_claim_gets_every_kind_of_evidence_and_loses_its_twin(tmp_path):
    report = verify([written(tmp_path)], QUICK, jobs=1)
    (claim,) = report.claims
    assert claim.id == "mine.lipschitz" and report.as_claimed
    found = {record.kind: record for record in report.records[claim.id]}
    assert set(found) == {"sampled", "attacked", "certified"}
    assert 0.99 < found["attacked"].ratio < 1
    assert [twin.rejected for twin in report.twins[claim.id]] == [True]
    standing = report.standing[claim.id]
    assert standing.status == "partial" and "no passing derived evidence" in standing.reasons[0]
    stated = next(c for c in report.as_json()["claims"] if c["id"] == claim.id)["file"]
    assert stated["name"] == "mine.py" and len(stated["sha256"]) == 64


def test_with_a_derivation_it_is_verified_and_says_who_read_it(tmp_path, in_this_process):
    report = verify([written(tmp_path, MINE + DERIVE)], QUICK, jobs=1)
    assert report.standing["mine.lipschitz"].status == "verified"
    derived = next(r for r in report.records["mine.lipschitz"] if r.kind == "derived")
    assert "not reviewed" in derived.limits and derived.instances == 1
    assert any(twin.check == "mine.py" for twin in report.twins["mine.lipschitz"])


def test_a_derivation_rejects_a_false_neighbor(tmp_path, in_this_process):
    text = MINE + DERIVE.partition("    av.ledger.rejected")[0]
    report = verify([written(tmp_path, text)], QUICK, jobs=1)
    standing = report.standing["mine.lipschitz"]
    assert standing.status == "partial" and report.as_claimed
    assert "no false neighbor, expected av.ledger.rejected" in standing.reasons[0]


def test_a_loose_constant_is_told_with_the_twin_to_write(
    tmp_path, monkeypatch, capsys, in_this_process
):
    """The claim holds with twice the constant; a false one shows where, and how to get it whole."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, MINE.replace("length(e) / 2", "length(e)"))
    lines = " ".join(printed("mine.py", monkeypatch, capsys)[1])
    said = "The claim itself held, but its constant is loose: no instance has left/right above 0.49"
    assert said in lines and re.search(r"Lower .* about 0\.49.*, say tight=0\.49", lines)
    written(tmp_path, MINE.replace("length(e) / 2", "length(e) * 2.0**-1050"))
    lines = " ".join(printed("mine.py", monkeypatch, capsys)[1])
    assert "> 1.798e+308" in lines
    written(tmp_path, MINE.replace("length(e) / 2", "length(e) / 3"))
    lines = " ".join(printed("mine.py", monkeypatch, capsys)[1])
    assert re.search(r"fail: mine.lipschitz, attacked .*, at u \(\d,\) = .*; e \(\d,\) = ", lines)
    assert "attnverify attack mine.lipschitz --save FILE --claims mine.py" in lines


def test_what_it_rests_on_is_checked_with_it(tmp_path, in_this_process):
    text = MINE.replace(": lemma", ": lemma\n:uses: norms.square-variant")
    report = verify([written(tmp_path, text)], QUICK, ["sampled"], jobs=2)
    assert {c.id for c in report.claims} >= {"mine.lipschitz", "norms.square-variant"}


def test_an_instance_is_replayed_against_the_text_that_states_the_claim(tmp_path):
    path = written(tmp_path)
    claim_files.ask(registry, path)
    origin, worst = registry.origin_of("mine.lipschitz"), tmp_path / "worst.json"
    found = attack(origin.checks_of("mine.lipschitz")["lipschitz"], QUICK, "mine.lipschitz")
    replay.save(origin, worst, "mine.lipschitz", "lipschitz", found.instance)
    claim, name, seen = replay.replay(registry, worst)
    assert (claim, name, seen.outcome) == ("mine.lipschitz", "lipschitz", "pass")
    assert json.loads(worst.read_text())["stated in"]["file"] == "mine.py"
    other = claim_files.ClaimFile("mine.py", "other", "0" * 64)
    registry.join([registry[claim]], other, instead_of=[claim])
    with pytest.raises(InputError, match="SHA-256 0000.*--claims mine.py"):
        replay.replay(registry, worst)


IDENTITY = '''
r"""
```{claim} mine.same
:title: The same
:kind: lemma

$x^2 = x^2$.
```
"""
import attnverify as av
from attnverify import ops

@av.identity("mine.same", "x[n]", 3, exact="ball")
def same(x, factor=1):
    left = x * x
    right = x * x
    return left, factor * right

same.false("twice", factor=2)
'''


MOVED, BOUND = "length(av.ops.softmax(u + e) - av.ops.softmax(u))", "length(e) / 2"
HEAD = '@av.inequality("mine.lipschitz", "u[n] e[n]", 2, 5, tight=0.99'
SIDES = "left: got .* in floats and .* in balls at one instance"


def _where(pairs: str) -> str:
    return MINE.replace(HEAD, f"{HEAD}, where=lambda u, e: {pairs}")


SPOILED = {
    "nothing stated": ("x = 1\n", "got no claims, expected statements in fences"),
    "no import": (MINE.replace("import attnverify as av\n", ""), "name 'av' is not defined"),
    "a slip": (
        MINE.replace("def lipschitz(u, e):", "def lipschitz((u, e):"),
        r"SyntaxError[^(]*\(mine.py, line 16\), expected",
    ),
    "no checks": (MINE.split("import")[0], "got no check, expected @av.inequality"),
    "no twin": (MINE.replace("0.99", "None"), "got no false neighbor, expected"),
    "a book's prefix": (MINE.replace("mine.lip", "softmax.lip"), "prefix other than 'softmax'"),
    "no dot": (MINE.replace("mine.lip", "lip"), "expected an id as 'mine.lipschitz'"),
    "no statement": (re.sub(r"\$.*\$\.", "", MINE), "got no text, expected the statement"),
    "an experiment": (MINE.replace(": lemma", ": experiment"), "kind: got 'experiment'"),
    "a field of nothing": (MINE.replace(":kind:", ":kinds:"), "got :kinds:.*did you mean.*kind"),
    "uses unknown": (
        MINE.replace(": lemma", ": lemma\n:uses: norms.diametre"),
        "unknown claim 'norms.diametre'.*norms.diameter",
    ),
    "a check of nothing": (
        MINE.replace('@av.inequality("mine.lip', '@av.inequality("mine.lop'),
        "got 'mine.lopschitz', expected the id of a claim of this file.*mine.lipschitz",
    ),
    "other arrays": (
        MINE.replace("def lipschitz(u, e)", "def lipschitz(u, x)"),
        r"parameters: got \['u', 'x'\], expected those of 'u\[n\] e\[n\]'",
    ),
    "no formula": (
        MINE.replace(BOUND, "length(e) / 'two'"),
        "'lipschitz': left: got TypeError.*expected a formula of the parameters",
    ),
    "sides that broadcast": (
        MINE.replace(BOUND, "length(e)[..., None] * e"),
        r"right: got shape \(8, 2\), expected shape \(8,\), as of left",
    ),
    "a choice by value": (
        MINE.replace(BOUND, "av.ops.where(length(e) > 0, length(e) / 2, length(u))"),
        "got a formula that asks for the value of a number.*as av.ops.maximum for a choice",
    ),
    "a twin's choice by value": (
        MINE.replace("(u, e):", "(u, e, one=0):").replace(
            BOUND, "av.ops.where(length(e) == 0, length(u), length(e)) if one else " + BOUND
        )
        + "\nlipschitz.false('one', one=1)\n",
        "false twin 'one': .*got a formula that asks for the value of a number",
    ),
    "a knob of nothing": (
        MINE + "\nlipschitz.false('one', ones=1)\n",
        "got ones=, expected a parameter with a default",
    ),
    "an identity that branches": (
        IDENTITY.replace("left = x * x", "left = ops.where(x == 1, 1 + 0 * x, x * x)"),
        "left: got a formula that asks for the value of a number",
    ),
    "an identity whose sides broadcast": (
        IDENTITY.replace("right = x * x", "right = ops.sum(x * x, -1)"),
        r"right: got shape \(\), expected shape \(3,\), as of left",
    ),
    "numpy on floats": (
        "import numpy as np\n" + MINE.replace(BOUND, "np.sqrt((e * e).sum(-1)) / 2"),
        "got RuntimeError: Can't call numpy",
    ),
    "no entries": (
        MINE.replace(MOVED, "u[..., 5:]"),
        r"left: got shape \(8, 0\), expected one value or more an instance",
    ),
    "a hypothesis in balls alone": (
        _where("[(u, u[0, 0].pi())]"),
        "hypotheses: got AttributeError.*av.ops",
    ),
    "another formula in floats": (
        MINE.replace(BOUND, "length(e) * (3 if av.ops.is_torch(e) else 0.5)"),
        "right: got .* in floats and .* in balls at one instance",
    ),
    "a bound from below in floats alone": (
        MINE.replace(HEAD, f"{HEAD}, lower=dict(part=1)")
        .replace("(u, e):", "(u, e, part=0):")
        .replace(MOVED, f"{MOVED} / (1 + part * av.ops.is_torch(e))"),
        "lower: got .* in floats and .* in balls at one instance",
    ),
    "another hypothesis in balls": (
        _where("[(length(e), length(e) * (2 if av.ops.is_torch(e) else 3))]"),
        "hypotheses: got .* in floats and .* in balls at one instance",
    ),
    "other instances of the batch": (
        MINE.replace(BOUND, f"{BOUND} * (length(e) / length(e)[:1])"),
        "right: got .* in floats and .* in balls at one instance",
    ),
    "hypotheses that nothing meets": (
        _where("[(1 + length(e), length(e))]"),
        "hypotheses: got none of 16 instances that meets them",
    ),
    "a number of nothing": (
        MINE.replace(BOUND, "length(e) * float('nan')"),
        "right: got no number anywhere",
    ),
    "another identity in floats": (
        IDENTITY.replace("left = x * x", "left = x * x * (2 - ops.is_torch(x))"),
        SIDES,
    ),
    "another identity in rationals": (
        "import flint\n"
        + IDENTITY.replace(', exact="ball"', "").replace(
            "left = x * x", "left = x * x * (2 if isinstance(x.flatten()[0], flint.fmpq) else 1)"
        ),
        "left: got .* and .*, expected enclosures of one number",
    ),
    "a size beyond memory": (
        MINE.replace("2, 5,", "2, 10**9,"),
        "sizes: got 2000000000 numbers in one instance, expected 100000 at most",
    ),
    "torch alone": (
        MINE.replace(MOVED, f"{MOVED}.abs()"),
        "in ball arithmetic: got AttributeError.*av.ops",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_file_that_is_no_claim_is_refused_by_name(tmp_path, in_this_process, what):
    text, message = SPOILED[what]
    before = list(registry)
    with pytest.raises(InputError, match=message):
        claim_files.ask(registry, written(tmp_path, text))
    assert list(registry) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("mine.txt", "expected a file of claims, .py, .md"), ("none.py", "which is not there")],
)
def test_no_file_is_named(tmp_path, name, message):
    (tmp_path / "mine.txt").write_text(MINE)
    with pytest.raises(InputError, match=message):
        claim_files.read(tmp_path / name)


def test_a_file_that_never_ends_is_ended(tmp_path):
    path = written(tmp_path, MINE + "while True:\n    pass\n")
    with pytest.raises(RunError, match=r"reading mine.py: got no end within 1 s"):
        claim_files.ask(registry, path, limit=1)


def test_a_piece_that_never_ends_is_ended(tmp_path):
    """What is tried before has few instances and ends; the search has more."""
    endless = MINE.replace("(u, e):\n", "(u, e):\n    while len(u) > 10: pass\n")
    file = claim_files.read(Path(written(tmp_path, endless)))
    given = ("mine.lipschitz", QUICK, ["sampled"])
    with pytest.raises(RunError, match=r"mine.lipschitz: got no end within 1 s.*--limit"):
        list(run_all([Task("mine.lipschitz", file.gather, given, 1)], 2))


def test_a_file_changes_nothing_but_its_own_process(tmp_path):
    """Its text runs here when a check of it is asked for, and not for a report."""
    text = "from attnverify import ops\nops.changed = True\n" + MINE
    report = verify([written(tmp_path, text)], QUICK, ["sampled"], jobs=1)
    assert report.standing["mine.lipschitz"].status == "partial" and not hasattr(ops, "changed")
    try:
        assert list(registry.checks_of("mine.lipschitz")) == ["lipschitz"] and ops.changed
    finally:
        del ops.changed


def test_a_module_with_the_name_of_a_notebook_gives_no_evidence_to_the_book(tmp_path, monkeypatch):
    (tmp_path / "softmax.py").write_text(MINE + DERIVE)
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("mine", "softmax", claim_files.GROUP)
    monkeypatch.setattr(claim_files, "_points", lambda: [point])
    report = verify("mine.*", QUICK, ["derived"], jobs=1)
    assert report.records["mine.lipschitz"][0].outcome == "pass"
    assert report.claims[0].notebook == "module softmax"
    book = [claim for id, claim in registry.items() if id not in report.records]
    assert "module softmax" not in {claim.notebook for claim in book}
    assert "softmax" not in sys.modules


@pytest.mark.parametrize("value", ["no.such.module", "sys", "a b:c"])
def test_an_entry_point_without_a_module_is_refused(monkeypatch, value):
    point = EntryPoint("mine", value, claim_files.GROUP)
    monkeypatch.setattr(claim_files, "_points", lambda: [point])
    with pytest.raises(InputError, match="^id: got"):
        claim_files.installed("mine")


def test_two_claims_of_one_id_are_refused_and_none_is_added(tmp_path, in_this_process):
    registry_before = set(registry)
    claim_files.ask(registry, written(tmp_path))
    other = claim_files.read(Path(written(tmp_path, MINE + "# more\n", "other.py")))
    with pytest.raises(InputError, match="got 'mine.lipschitz' twice"):
        claim_files.join(registry, other)
    assert set(registry) - registry_before == {"mine.lipschitz"}


def test_a_registry_takes_all_or_nothing():
    some = Registry([registry["norms.diameter"]])
    with pytest.raises(InputError, match="twice"):
        some.join([registry["norms.square-variant"], registry["norms.diameter"]], registry.home)
    assert list(some) == ["norms.diameter"]


def installed_package(folder: Path, name: str = "mine") -> None:
    """A package as pip leaves it, with an entry point."""
    package = folder / "minepackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "bounds.py").write_text(MINE)
    info = folder / "minepackage-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: minepackage\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{claim_files.GROUP}]\n{name} = minepackage.bounds\n")


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(folder)])
    return subprocess.run(
        [sys.executable, "-m", "attnverify", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def said(monkeypatch, capsys, *arguments: str) -> tuple[int | str | None, str, str]:
    """Exit code, output and errors of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["attnverify", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return done.value.code, *capsys.readouterr()


def printed(name: str, monkeypatch, capsys) -> tuple[int | str | None, list[str]]:
    """What the command prints on a file of this folder, and its exit code; in this process."""
    code, text, _ = said(monkeypatch, capsys, "verify", name)
    return code, [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("own", "told"), [("[1, 4]", 1), ("[2, 2]", 0)])
def test_a_search_that_finds_more_than_the_own_instances_says_so(
    tmp_path, monkeypatch, capsys, in_this_process, own, told
):
    text = (ROOT / "book" / "examples" / "inequality.py").read_text(encoding="utf-8")
    text = text.replace("draw=", "tight=0.6, draw=").replace("[2, 2]", own)
    code, lines = printed(written(tmp_path, text, "means.py"), monkeypatch, capsys)
    found = [line for line in lines if "mine.means (means)" in line]
    assert code == 0 and len(found) == told
    assert all(line.endswith("0.64") for line in found)  # 8/5 over 5/2


@pytest.mark.full
def test_an_installed_package_offers_claims(tmp_path):
    """Found by the prefix of their ids, in the processes that check them too.

    Fifteen seconds for a command and two workers: nothing that this process knows helps them.
    """
    installed_package(tmp_path)
    few = ("--samples", "50", "--restarts", "2", "--steps", "20", "--jobs", "2")
    done = run_command(tmp_path, "verify", "mine.*", *few, "--json", "report.json")
    assert done.returncode == 0, done.stderr
    (claim,) = json.loads((tmp_path / "report.json").read_text())["claims"]
    assert claim["file"]["name"] == "module minepackage.bounds"
    assert claim["twins"][0]["rejected"] and claim["status"] == "partial"


def test_the_command_takes_a_file_everywhere(tmp_path, monkeypatch, capsys, in_this_process):
    """List, show, attack, save and replay, from a folder that is not the repository.

    The attack is a process of its own, with the file in another one: nothing that this process
    knows helps it.
    """
    monkeypatch.chdir(tmp_path)
    path, known = written(tmp_path), dict(registry._entries)

    def command(*arguments: str) -> tuple[int | str | None, str, str]:
        """Without what an earlier command has brought in."""
        monkeypatch.setattr(registry, "_entries", dict(known))
        monkeypatch.setattr(claim_files, "_RAN", {})
        return said(monkeypatch, capsys, *arguments)

    code, _, unknown = command("show", "mine.lipschitz")
    assert code == 2 and "--claims" in unknown
    assert "mine.lipschitz" in command("list", path)[1]
    shown = command("show", "mine.lipschitz", "--claims", path, "--checks")[1]
    assert "stated in  mine.py" in shown and "0.99 times the right side" in shown
    few = ("--restarts", "4", "--steps", "40", "--save", "worst.json")
    done = run_command(tmp_path, "attack", "mine.lipschitz", "--claims", path, *few)
    assert done.returncode == 0 and f"replay worst.json --claims {path}" in " ".join(
        done.stdout.split()
    )
    assert "left <= right" in command("replay", "worst.json", "--claims", path)[1]


DECISION = '''"""```{{claim}} mine.odd
:title: Odd
:kind: lemma

All of them.
```"""
import attnverify as av
@av.decision("mine.odd", limits="these")
def odd(yes=True):
    return {verdict}
odd.false("no", yes=False)
'''


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ("None", "run: got NoneType, expected av.Verdict"),
        ("1 / 0", r"got ZeroDivisionError: division by zero \(line 10\)"),
        ("av.Verdict(True, 'all', cases=0)", "run: cases: got 0, expected how many"),
        ("av.Verdict(True, '')", "run: argument: got '', expected which cases"),
    ],
)
def test_a_decision_says_for_which_cases(tmp_path, verdict, message):
    file = claim_files.read(Path(written(tmp_path, DECISION.format(verdict=verdict))))
    with pytest.raises(InputError, match=f"^mine.odd: {message}.*in a check of mine.py$"):
        file.gather("mine.odd", QUICK, ["decided"])


PAGE = (ROOT / "book" / "outside.md").read_text(encoding="utf-8")
#: Name and output of each recipe, what makes its statement false (new, old), and what is said then.
RECIPES = re.findall(
    r"```text\n\$ attnverify verify (\w+)\.py\n(.*?)\n```\n\n"
    r"With `([^`]+)` in place of `([^`]+)` the statement is false:\n`([^`]+)`",
    PAGE,
    re.S,
)


@pytest.mark.parametrize("recipe", RECIPES, ids=[name for name, *_ in RECIPES])
def test_a_recipe_prints_what_the_page_shows(
    tmp_path, monkeypatch, capsys, in_this_process, recipe
):
    """As it stands on the page, in a folder without anything else, true and false."""
    name, shown, new, old, message = recipe
    text = (ROOT / "book" / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert f"{{literalinclude}} examples/{name}.py" in PAGE and len(text.splitlines()) <= 30
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text, f"{name}.py")
    assert printed(f"{name}.py", monkeypatch, capsys) == (0, shown.splitlines())
    assert text.count(old) == 1
    written(tmp_path, text.replace(old, new), f"{name}.py")
    code, lines = printed(f"{name}.py", monkeypatch, capsys)
    assert code == 1 and message in " ".join(lines)


def test_there_are_five_recipes():
    assert len(RECIPES) == 5 == PAGE.count("```text\n$ attnverify verify")
