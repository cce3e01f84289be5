"""The console command, run as a user runs it."""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import attnverify
from attnverify import cli
from attnverify.chapters import registry
from attnverify.experiments import EXPERIMENTS, committed
from attnverify.experiments.engine import results
from attnverify.support.verdict import Verdict
from attnverify.verification import replay
from places import ROOT
from toy_experiment import TOY, at_most, register

QUICK = ["--samples", "40", "--restarts", "4", "--steps", "40", "--jobs", "1"]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    """The command in this process: what it prints and the exit code."""

    def command(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["attnverify", *arguments])
        with pytest.raises(SystemExit) as exit:
            cli.main()
            raise SystemExit(0)
        printed = capsys.readouterr()
        return Done(exit.value.code or 0, printed.out, printed.err)

    return command


def test_the_console_command_is_installed():
    command = [str(Path(sys.executable).parent / "attnverify"), "show", "paths.count"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "paths.count" in done.stdout


def test_the_version_is_that_of_the_package(run):
    done = run("--version")
    assert done.returncode == 0 and done.stdout.strip() == attnverify.__version__


def without_seconds(x):
    if isinstance(x, dict):
        return {k: without_seconds(v) for k, v in x.items() if k != "seconds"}
    return [without_seconds(v) for v in x] if isinstance(x, list) else x


def test_list_names_every_claim(run):
    done = run("list", "--json")
    assert [c["id"] for c in json.loads(done.stdout)] == list(registry)
    assert "softmax.linearization-sharp" in run("list").stdout, "ids are never cut"


@pytest.mark.parametrize("chapter", ["norms", str(ROOT / "notebooks" / "norms.md")])
def test_a_chapter_stands_for_its_claims(run, chapter):
    listed = [claim["id"] for claim in json.loads(run("list", chapter, "--json").stdout)]
    assert listed == [claim.id for claim in registry.values() if claim.notebook == "norms"]
    done = run("verify", chapter, "--evidence", "formal", "--jobs", "1")
    assert all(id in done.stdout for id in listed)


def test_two_runs_with_one_seed_write_the_same_report(run, tmp_path):
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    kinds = ["--evidence", "sampled", "--evidence", "attacked", "--evidence", "certified"]
    for file, jobs in zip(files, ("1", "2"), strict=True):
        done = run(
            "verify", "norms.sub*", "paths.count", *kinds, *QUICK[:-1], jobs, "--json", str(file)
        )
        assert done.returncode == 0, done.stderr
    a, b = (without_seconds(json.loads(f.read_text())) for f in files)
    assert a == b
    assert {"version", "environment", "settings", "interrupted", "claims"} <= set(a)
    assert a["interrupted"] is False
    claim = a["claims"][1]
    assert {
        "id",
        "kind",
        "title",
        "source",
        "status",
        "uses",
        "evidence",
        "twins",
        "reasons",
    } == set(claim)
    assert {"kind", "outcome", "ratio", "instances", "limits"} <= set(claim["evidence"][0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "missing.json"], "expected an existing replay file"),
        (
            ["verify", "paths.count", "--evidence", "certified", "--notebooks", "missing"],
            "notebooks: got missing, expected a folder of notebooks",
        ),
        (["experiment", "toy", "--model", "."], "expected no model"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(run, monkeypatch, arguments, message):
    register(monkeypatch)
    done = run(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_check_that_stays_unknown_exits_with_1(run, tmp_path, monkeypatch):
    """No notebooks, so nothing is derived."""
    monkeypatch.setenv("ATTNVERIFY_NOTEBOOKS", str(tmp_path))
    done = run("verify", "paths.count", "--evidence", "derived")
    assert done.returncode == 1 and "ATTNVERIFY_NOTEBOOKS" in done.stdout


def test_attack_saves_and_replay_rechecks(run, tmp_path):
    file = tmp_path / "the $(touch worst).json"
    done = run(
        "attack", "softmax.total-variation", "--restarts", "4", "--steps", "60", "--save", str(file)
    )
    assert done.returncode == 0, done.stderr
    name, *command = shlex.split(done.stdout.partition("recheck with: ")[2])
    assert (name, command) == ("attnverify", ["replay", str(file)])
    again = run(*command)
    assert again.returncode == 0 and "left/right = [" in again.stdout


@pytest.fixture
def saved(tmp_path):
    file = tmp_path / "instance.json"
    rows = {"u": torch.tensor([0.1, 0.0]).double(), "e": torch.tensor([0.3, 0.0]).double()}
    replay.save(registry.home, file, "softmax.total-variation", "variation", rows)
    return file


def test_replay_is_exact(saved):
    claim, check, instance = replay.load(registry, saved)
    assert (claim, check) == ("softmax.total-variation", "variation")
    assert instance["u"][0] == torch.tensor(0.1).double()


def spoil(file, how):
    text = file.read_text()
    if how == "truncated":
        file.write_text(text[: len(text) // 2])
    elif how == "edited":
        file.write_text(text.replace("0x0.0p+0", "0x1.0p+0", 1))
    elif how == "too large":
        file.write_text(text + " " * replay.LARGEST)
    elif how == "foreign":
        file.write_text("[1, 2]")
    elif how == "not finite":
        body = json.loads(text)
        body["arrays"]["u"]["values"][0] = "inf"
        del body["sha256"]
        file.write_text(json.dumps({**body, "sha256": replay._digest(body)}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", "truncated or no replay file"),
        ("edited", "do not match the digest"),
        ("too large", "expected at most"),
        ("foreign", "truncated or no replay file"),
        ("not finite", "u: got 1 NaN or infinite entries"),
    ],
)
def test_a_spoiled_file_is_refused(saved, how, message):
    spoil(saved, how)
    with pytest.raises(ValueError, match=message):
        replay.load(registry, saved)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "report.json"
    replay.write_text(file, "old")
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        replay.write_text(file, "new")
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_an_experiment_prints_its_table_and_writes_it(run, monkeypatch, tmp_path):
    register(monkeypatch)
    done = run("experiment", "toy", "--quick", "--seed", "3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "criterion met: largest value 3" in done.stdout and "as the book says" in done.stdout
    result = results.load(tmp_path / "toy.json")
    assert result.rows == [{"value": 1}, {"value": 2}, {"value": 3}]
    assert result.command == "attnverify experiment toy --quick --seed 3 --device cpu"
    monkeypatch.chdir(tmp_path)
    assert run("experiment", "toy").returncode == 0
    assert results.load(tmp_path / "attnverify-toy" / "toy.json").settings["quick"] is False


@pytest.mark.parametrize(("asserts", "code"), [("holds", 1), ("fails", 0)])
def test_an_experiment_that_comes_out_otherwise_exits_with_1(
    run, monkeypatch, tmp_path, asserts, code
):
    register(monkeypatch, judge=at_most(2), asserts=asserts)
    done = run("experiment", "toy", "--out", str(tmp_path))
    assert done.returncode == code and "criterion not met" in done.stdout


@pytest.mark.parametrize("holds", [None, False])
@pytest.mark.parametrize(
    ("decides", "more", "code"), [(False, ["--quick"], 0), (False, [], 1), (True, ["--quick"], 1)]
)
def test_what_the_quick_setting_does_not_judge_is_measured(
    run, monkeypatch, tmp_path, decides, more, code, holds
):
    """A criterion that is not met is no success but where the experiment says so beforehand."""
    few = Verdict(holds, "too few rows", cases=0)
    register(monkeypatch, judge=lambda rows: few, quick_decides=decides)
    done = run("experiment", "toy", *more, "--out", str(tmp_path))
    assert done.returncode == code, done.stdout
    words = "criterion judged in the full setting only, without --quick; here: too few rows"
    assert (words in done.stdout) is (code == 0)
    assert ("not as the book says" in done.stdout) is (code == 1)
    assert results.load(tmp_path / "toy.json").verdict["holds"] is (holds if code else None)


@pytest.mark.parametrize("name", ["locater", "small-decoder"])
def test_experiments_that_ask_for_more_say_so(name):
    """Their criteria are undecided on fewer rows than those of the full setting."""
    experiment, rows = EXPERIMENTS[name], committed(name).rows
    few = [{**row, "loss": row["loss"][:2]} for row in rows if "loss" in row]
    few += [row for row in rows if row.get("kind") in ("decoder", "training")]
    assert few and experiment.judge(few).holds is None
    assert not experiment.quick_decides


def test_verify_and_show_know_measured_evidence(run, monkeypatch):
    register(monkeypatch)
    done = run("verify", TOY.claim, "--jobs", "1")
    assert done.returncode == 0 and "1 criterion met; 1 of 1 twins rejected" in done.stdout
    done = run("show", TOY.claim, "--checks")
    assert "measured here: the toy" in done.stdout and "at most 2" in done.stdout
