"""Every option of every command arrives where the command hands its work over, and exit codes.

The functions that do the work are replaced at the border of the command, which is run in whole.
"""

import inspect
import sys
from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import flint
import pytest
import sympy as sp
import torch
import typer

from attnverify import cli
from attnverify.chapters import registry
from attnverify.checking.ball_comparison import Comparison
from attnverify.checking.records import Record, TwinRecord
from attnverify.checking.search import Found
from attnverify.checking.search import Settings as Search
from attnverify.support.errors import InputError, RunError
from attnverify.verification.conjecture import Constant, Proposal
from attnverify.verification.conjecture_file import Answer
from attnverify.verification.report import Interrupted, Report
from attnverify.verification.status import Standing
from toy_experiment import register

COMMANDS = typer.main.get_command(cli.app).commands
TV, INSTANCE = "softmax.total-variation", {n: torch.zeros(2).double() for n in "ue"}
PARTS = {"_lines": ["a line"], "as_json": lambda: {"found": 1}, "lines": lambda: ["a line"]}
CONSTANT = Constant(0.5, 0.6, {}, 7, 0.1, None, None)
FOUND = replace(CONSTANT, proposal=Proposal(sp.Rational(1, 3), "a/b", 1e-9, 1e-6), twin=0.99)
WRITTEN = "2 certificates in new; 1 not exported: see index.json"


def verified(outcome="pass", rejected=True, interrupted=False, gathered=True) -> Report:
    """A report on one claim, with a record and a twin."""
    claim, records = registry["paths.count"], [Record("certified", "n", outcome, None, 1, 0.0, "")]
    twins = {claim.id: [TwinRecord("n", "a twin", rejected, None, "")]}
    done = Report(registry, [claim], {claim.id: records * gathered}, twins, Search())
    done.standing, done.interrupted = {claim.id: Standing("partial")}, interrupted
    return done


def searched(outcome="pass", ratio: float | None = 0.5) -> Found:
    return Found(outcome, ratio, INSTANCE, 3, 2)


def replayed(outcome="pass", ratio="0.5", hypotheses="pass"):
    return TV, "variation", Comparison(outcome, flint.arb(ratio), 64, hypotheses)


V, N = "attnverify.verification", "attninspect"
ASK = {f"{V}.claim_files.ask": ["norms.diameter"]}
#: For each command what does its work, with what it answers here.
ENGINE = {
    "list": {},
    "show": ASK,
    "verify": {f"{V}.verify.verify": verified()} | ASK,
    "attack": {"attnverify.checking.search.attack": searched()} | ASK,
    "replay": {f"{V}.replay.replay": replayed(), f"{V}.certificate_export.write_saved": None} | ASK,
    "conjecture": {f"{V}.conjecture_file.answer": Answer(CONSTANT, "CLAIMS = []\n")},
    "derivations": {"attnverify.derivation.record_review.run": True},
    "certificates": {f"{V}.certificate_export.write": {"files": [], "not exported": []}},
    "experiment": {"attnverify.experiments.engine.command.run": True},
    "inspect": {
        f"{N}.inspect_model.inspect": SimpleNamespace(**PARTS),
        f"{N}.load.text_of": "a text",
        f"{N}.command.ids_from": [1],
        f"{N}.command.write": None,
        f"{N}.words.summary": ["a line"],
        f"{N}.texts.read": {},
        f"{N}.texts.campaign": SimpleNamespace(tasks=[]),
        f"{N}.texts.inspect_texts": {"found": 1},
        f"{N}.texts.lines": ["a line"],
    },
    "compare": {f"{N}.compare.compare": SimpleNamespace(**PARTS), f"{N}.compare.write": None},
    "watch": {
        f"{N}.watch_page.html": "a page",
        f"{N}.watch_page.summary": ["a line"],
    },
}
#: What a command is run with where an option is tried, its arguments last.
PLAIN = {
    "list": ["paths.*"],
    "show": [TV],
    "verify": ["paths.count"],
    "attack": ["norms.diameter"],
    "replay": ["a.json"],
    "conjecture": ["a.py"],
    "derivations": ["mlp"],
    "certificates": ["--out", "new"],
    "experiment": ["toy"],
    "inspect": ["model"],
    "compare": ["a", "b"],
    "watch": ["watch.jsonl"],
}
OTHER = Path("other")
LOG = '{"format": "attnverify watch 1", "class": "M", "parameters": 1, "layers": 1, "heads": [1]}\n'
#: For each option what is added, for an argument what is written in place of the plain ones; and
#: where it arrives: as an argument of the engine, or as words in a file or in what is printed.
OPTIONS = {
    "list": {
        "ids": (["norms.*"], "out", "norms.diameter"),
        "as_json": (["--json"], "out", '"id": "paths.'),
    },
    "show": {
        "id": (["paths.count"], "out", "paths.count"),
        "checks": (["--checks"], "out", "0.9999 times the right side"),
        "claims": (["--claims", "mine.py"], "argument", "mine.py"),
    },
    "verify": {
        "ids": (["norms.diameter"], "patterns", ["norms.diameter"]),
        "evidence": (["--evidence", "certified"], "kinds", ["certified"]),
        "samples": (["--samples", "41"], "samples", 41),
        "restarts": (["--restarts", "42"], "restarts", 42),
        "steps": (["--steps", "43"], "steps", 43),
        "seed": (["--seed", "44"], "seed", 44),
        "device": (["--device", "cuda"], "device", "cuda"),
        "jobs": (["--jobs", "3"], "jobs", 3),
        "json_file": (["--json", "report.json"], "report.json", '"version"'),
        "notebooks": (["--notebooks", "."], "notebooks_folder", Path()),
        "fresh": (["--fresh"], "store", None),
        "limit": (["--limit", "99"], "limit", 99),
    },
    "attack": {
        "id": ([TV], "name", f"{TV}/variation"),
        "check": (["--check", "left factor"], "name", "norms.diameter/left factor"),
        "restarts": (["--restarts", "42"], "restarts", 42),
        "steps": (["--steps", "43"], "steps", 43),
        "seed": (["--seed", "44"], "seed", 44),
        "device": (["--device", "cuda"], "device", "cuda"),
        "save": (["--save", "worst.json"], "worst.json", '"arrays"'),
        "claims": (["--claims", "mine.py"], "argument", "mine.py"),
    },
    "replay": {
        "file": (["b.json"], "path", Path("b.json")),
        "export": (["--export", "c.json"], "target", Path("c.json")),
        "claims": (["--claims", "mine.py"], "argument", "mine.py"),
    },
    "conjecture": {
        "file": (["b.py"], "path", Path("b.py")),
        "restarts": (["--restarts", "42"], "restarts", 42),
        "steps": (["--steps", "43"], "steps", 43),
        "seed": (["--seed", "44"], "seed", 44),
        "save": (["--out", "claim.py"], "claim.py", "CLAIMS"),
        "as_json": (["--json"], "out", '"instances": 7'),
        "limit": (["--limit", "99"], "limit", 99),
    },
    "derivations": {
        "names": (["skip"], "names", ["skip"]),
        "write": (["--write"], "write", True),
    },
    "certificates": {
        "folder": (["--out", "other"], "folder", OTHER),
        "ids": (["--out", "new", "paths.*"], "ids", ["paths.*"]),
    },
    "experiment": {
        "name": (["circle"], "name", "circle"),
        "quick": (["--quick"], "quick", True),
        "device": (["--device", "cuda"], "device", "cuda"),
        "seed": (["--seed", "44"], "seed", 44),
        "folder": (["--out", "other"], "folder", OTHER),
        "model": (["--model", "other"], "model", OTHER),
        "text": (["--text", "other"], "text", OTHER),
    },
    "inspect": {
        "model": (["other"], "model", OTHER),
        "text": (["--text", "other"], "file", OTHER),
        "tokens": (["--tokens", "other"], "file", OTHER),
        "texts": (["--texts", "other"], "paths", [OTHER]),
        "folder": (["--out", "other"], "folder", OTHER),
        "as_json": (["--json"], "out", '"found": 1'),
        "layers": (["--layers", "1,3-5"], "layers", [1, 3, 4, 5]),
        "dtype": (["--dtype", "float32"], "dtype", "float32"),
        "device": (["--device", "cuda"], "device", "cuda"),
        "brief": (["--brief"], "brief", True),
        "logit": (["--logit", "a"], "logit", "a"),
        "label": (["--class", "a"], "class", "a"),
        "coordinate": (["--coordinate", "2"], "coordinate", 2),
        "against": (["--against", "5"], "against", "5"),
        "at": (["--at", "3"], "at", 3),
        "paths": (["--paths", "4"], "paths", 4),
        "nodes": (["--nodes", "5"], "nodes", 5),
        "ablate": (["--ablate", "mean"], "ablate", "mean"),
        "seed": (["--seed", "44"], "seed", 44),
        "patterns": (["--patterns", "3,5.2"], "patterns", "3,5.2"),
        "jobs": (["--jobs", "3"], "jobs", 3),
        "book": (["--book", "https://b.org"], "book", "https://b.org"),
    },
    "compare": {
        "reports": (["c", "d"], "reports", [Path("c"), Path("d")]),
        "labels": (["--labels", " step 0 ,the last"], "labels", ["step 0", "the last"]),
        "out": (["--out", "other"], "folder", OTHER),
        "as_json": (["--json"], "out", '"found": 1'),
    },
    "watch": {
        "log": (["second.jsonl"], "second.html", "a page"),
        "out": (["--out", "page.html"], "page.html", "a page"),
        "as_json": (["--json"], "out", '"records"'),
    },
}

#: The modes of each command: its arguments, the options that it refuses there, and how one arrives
#: in another form. All other options are given at once.
ONE, MANY_TEXTS = (
    {"texts", "jobs"},
    {"text", "tokens", "paths", "nodes", "ablate", "seed", "patterns"},
)
OF_TEXTS = {"layers": (1, 3, 4, 5)}
MODES = [
    *((command, plain, set(), {}) for command, plain in PLAIN.items() if command != "inspect"),
    ("verify", ["mine.py"], set(), {}),
    ("inspect", ["model"], ONE | {"tokens", "label", "coordinate"}, {}),
    ("inspect", ["model"], ONE | {"text", "logit", "coordinate"}, {}),
    ("inspect", ["model"], ONE | {"tokens", "logit", "label"}, {"against": 5}),
    ("inspect", ["model"], MANY_TEXTS | {"label", "coordinate"}, OF_TEXTS),
    ("inspect", ["model"], MANY_TEXTS | {"logit", "label"}, OF_TEXTS | {"against": 5}),
]


def options(command: str) -> dict[str, bool]:
    """The parameters of a command by name, and whether each is an argument, from its parser."""
    found = {p.name: p.param_type_name == "argument" for p in COMMANDS[command].params}
    return {name: argument for name, argument in found.items() if name != "help"}


def test_every_command_and_every_option_is_tried():
    assert set(COMMANDS) == set(ENGINE) == set(PLAIN) == set(OPTIONS)
    for command, tried in OPTIONS.items():
        assert set(tried) == set(options(command)), command


def by_name(found: inspect.BoundArguments) -> dict:
    """Arguments by name; settings and tables are taken apart."""
    parts = {}
    for name, value in found.arguments.items():
        if is_dataclass(value) and not isinstance(value, type):
            parts |= {field.name: getattr(value, field.name) for field in fields(value)}
        parts |= value if isinstance(value, dict) else {name: value}
    return parts | dict(parts.get("scalar") or {})  # over texts a tuple of pairs


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command with its engine replaced: exit code, all that arrived by name, both outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("ATTNVERIFY_STORE", str(tmp_path / "store"))
    for name in ("watch.jsonl", "second.jsonl"):
        (tmp_path / name).write_text(LOG)

    def command(name: str, *arguments: str, **answers) -> tuple[int, dict, str, str]:
        arrived = defaultdict(list)
        for place, answer in (ENGINE[name] | answers).items():
            module, _, function = place.rpartition(".")
            signature = inspect.signature(getattr(import_module(module), function))

            def engine(*given, _signature=signature, _answer=answer, **named):
                for key, value in by_name(_signature.bind(*given, **named)).items():
                    arrived[key].append(value)
                if isinstance(_answer, BaseException):
                    raise _answer
                return _answer

            engine.__signature__ = signature
            monkeypatch.setattr(import_module(module), function, engine)
        monkeypatch.setattr(sys, "argv", ["attnverify", name, *arguments])
        with pytest.raises(SystemExit) as exit:
            cli.main()
            raise SystemExit(0)
        return exit.value.code or 0, arrived, *capsys.readouterr()

    return command


@pytest.fixture
def seen(run, monkeypatch, tmp_path):
    """Run a command; what is seen at a place of OPTIONS, all at once where it arrives often."""
    register(monkeypatch)

    def found(command: str, *arguments: str):
        for page in tmp_path.glob("*.html"):
            page.unlink()
        code, arrived, out, err = run(command, *arguments)
        assert code in (0, 1), err

        def at(place: str) -> list:
            if "." in place:
                return [file.read_text() for file in tmp_path.glob(place)]
            return {"out": [out]}.get(place) or arrived[place]

        return at

    return found


def arrives(place: str, value: object, values: list) -> bool:
    if place == "out" or "." in place:
        return any(value in text for text in values)
    return bool(values) and all(each == value for each in values)


ARGUMENTS = [(c, name) for c in COMMANDS for name, argument in options(c).items() if argument]


@pytest.mark.parametrize(("command", "argument"), ARGUMENTS)
def test_an_argument_arrives(seen, command, argument):
    given, place, value = OPTIONS[command][argument]
    before, after = seen(command, *PLAIN[command])(place), seen(command, *given)(place)
    assert not arrives(place, value, before) and arrives(place, value, after)


@pytest.mark.parametrize(("command", "plain", "refused", "otherwise"), MODES)
def test_options_arrive_in_every_mode(run, seen, command, plain, refused, otherwise):
    """All at once, each with a value of its own, and none without it."""
    mine = {name: OPTIONS[command][name] for name, fixed in options(command).items() if not fixed}
    tried = {name: each[1:] for name, each in mine.items() if name not in refused}
    given = [each for name in tried for each in mine[name][0]]
    at = seen(command, *PLAIN[command])
    before = {name: at(place) for name, (place, _) in tried.items()}
    at = seen(command, *plain, *given)
    for name, (place, value) in tried.items():
        value = otherwise.get(name, value)
        assert not arrives(place, value, before[name]), name
        assert arrives(place, value, at(place)), name
    for name in refused:
        code, _, _, err = run(command, *plain, *given, *mine[name][0])
        assert code == 2 and "got" in err, name


WRONG, STOPPED = InputError("x: got y, expected z"), RunError("workers: one ended")
COMPLETE = "paths.count"
#: What each command does on each outcome: arguments, the engine's answer, exit code, words printed.
OUTCOMES = [
    ("list", [], None, 0, COMPLETE),
    ("list", ["path.*"], None, 2, "expected a claim id or a glob"),
    ("list", ["norm"], None, 2, "a chapter or a file (did you mean 'norms'?)"),
    ("list", ["collapse"], None, 2, "did you mean 'collapse.*'?"),
    ("list", ["norms.md"], None, 2, "which is not there, expected norms, the chapter"),
    ("show", [TV], None, 0, "the statement holds"),
    ("show", ["norms"], None, 2, "claims, expected one of norms.submultiplicative, norms."),
    ("show", ["paths.cuont"], None, 2, "did you mean 'paths.count'?"),
    ("verify", [COMPLETE], verified(), 0, "1 claim: 1 partial; 1 of 1 twins rejected"),
    ("verify", [COMPLETE], verified("fail"), 1, "fail: paths.count, certified (n)"),
    ("verify", [COMPLETE], verified("unknown"), 1, "unknown: paths.count, certified (n)"),
    ("verify", [COMPLETE], verified(rejected=False), 1, "0 of 1 twins rejected"),
    ("verify", [COMPLETE], verified(gathered=False), 1, "1 partial; 1 of 1 twins rejected"),
    ("verify", [COMPLETE], Interrupted(verified(interrupted=True)), 130, "interrupted: what was"),
    ("verify", [COMPLETE], STOPPED, 2, "workers: one ended"),
    ("verify", ["--samples", "0"], verified(), 2, "Invalid value"),
    ("verify", ["--evidence", "believed"], verified(), 2, "Invalid value"),
    ("attack", [TV], searched(), 0, "pass, largest left/right 0.5000000000 in 2 decided"),
    ("attack", [TV], searched("fail", 1.5), 1, "fail, largest left/right 1.5000000000 in 2"),
    ("attack", [TV], searched("unknown", None), 1, "unknown, largest left/right none decided in 2"),
    ("attack", [COMPLETE], searched(), 2, "which has no inequality to attack"),
    ("attack", [TV, "--check", "x"], searched(), 2, "check: got 'x'"),
    ("attack", [TV, "--save", "-"], searched(), 2, "save: got -, expected the name of a file"),
    ("replay", ["a"], replayed(), 0, "left <= right; hypotheses: pass"),
    ("replay", ["a"], replayed("fail", "1.5"), 1, "left > right: a counterexample"),
    ("replay", ["a"], replayed("unknown"), 1, ": unknown; hypotheses: pass"),
    ("replay", ["a"], replayed("unknown", "1"), 0, "equality to within 2^-40"),
    ("replay", ["a"], replayed("unknown", "1", "unknown"), 1, ": unknown; hypotheses: unknown"),
    ("replay", ["a"], WRONG, 2, "x: got y"),
    ("conjecture", ["a"], Answer(CONSTANT, ""), 1, "no number of simple form is near"),
    ("conjecture", ["a"], Answer(FOUND, ""), 0, "probably C = 1/3 (a/b), 1.0e-09 above"),
    ("conjecture", ["a", "--out", "b.py"], Answer(FOUND, ""), 2, "a proposal to be written"),
    ("conjecture", ["a"], STOPPED, 2, "workers: one ended"),
    ("derivations", [], True, 0, ""),
    ("derivations", [], False, 1, ""),
    ("derivations", [], WRONG, 2, "x: got y"),
    ("certificates", ["--out", "new"], {"files": [1, 2], "not exported": [3]}, 0, WRITTEN),
    ("certificates", [], None, 2, "Missing option"),
    ("experiment", ["toy"], True, 0, ""),
    ("experiment", ["toy"], False, 1, ""),
    ("experiment", [], True, 0, "notebooks/softmax.md"),
    ("experiment", ["toi"], True, 2, "did you mean 'toy'?"),
    ("experiment", ["toy", "--device", "tpu"], True, 2, "Invalid value"),
    ("experiment", ["toy", "--out", "/dev/null"], True, 2, "out: got /dev/null/toy.json, which"),
    ("inspect", ["model"], None, 0, "a line"),
    ("inspect", ["model"], WRONG, 2, "x: got y"),
    ("inspect", ["model", "--jobs", "2"], None, 2, "jobs: got 2"),
    ("inspect", ["model", "--paths", "2"], None, 2, "paths: got 2 without a number"),
    ("compare", ["a", "b"], None, 0, "a line"),
    ("compare", ["a", "b"], WRONG, 2, "x: got y"),
    ("watch", ["watch.jsonl"], None, 0, "a line"),
    ("watch", ["missing"], None, 2, "log: got missing"),
]


def test_every_command_has_its_exit_codes():
    assert {command for command, *_ in OUTCOMES} == set(COMMANDS)
    assert all({0, 2} <= {o[3] for o in OUTCOMES if o[0] == command} for command in COMMANDS)


@pytest.mark.parametrize(("command", "arguments", "answer", "code", "words"), OUTCOMES)
def test_the_exit_code_follows_the_outcome(
    run, monkeypatch, command, arguments, answer, code, words
):
    register(monkeypatch)
    first = next(iter(ENGINE[command]), None)
    answers = {} if answer is None or first is None else {first: answer}
    found, _, out, err = run(command, *arguments, **answers)
    said = " ".join((out + err).replace("│", " ").split())
    assert found == code and words in said and "Traceback" not in said
