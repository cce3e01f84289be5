"""Runs in pieces: what is finished is kept, what is another campaign's is refused."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnverify import cli
from attnverify.checking import gather
from attnverify.checking.search import Settings
from attnverify.runtime import campaign, run_folder
from attnverify.runtime.campaign import Campaign, ran
from attnverify.runtime.tasks import Task
from attnverify.support.errors import InputError, RunError
from attnverify.topics import registry
from attnverify.verification import claim_files, long_sampling, replay
from attnverify.verification.long_sampling import Plan
from places import ROOT

CLAIM = "softmax.total-variation"


def toy(names: str = "abc", function=str, **settings) -> Campaign:
    """A piece a letter, which gives the letter."""
    return Campaign("toy", settings, [Task(name, function, (name,)) for name in names])


def done(made: Campaign, folder: Path, **options) -> list:
    with ran(made, folder, **options) as results:
        return list(results)


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != run_folder.LOCK)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


# ---------------------------------------------------------------- pieces


def test_results_come_in_the_order_of_the_pieces(tmp_path):
    """Two processes finish in any order: results and files are those of one."""
    names = [chr(ord("a") + i) for i in range(9)]
    assert done(toy(names), tmp_path / "one", jobs=1) == names
    assert done(toy(names), tmp_path / "two", jobs=2) == names
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(contents(tmp_path / "one")) == 10


def test_only_what_is_missing_is_done_again(tmp_path):
    """A piece that fails ends the run; the pieces before it are kept, whatever broke it."""
    with pytest.raises(InputError, match="^c: bad: got c"):
        done(toy(function=refuses("c")), tmp_path, jobs=1)
    called, told = [], []
    again = toy(function=lambda name: called.append(name) or name)
    found = done(again, tmp_path, jobs=1, finished=lambda name, result: told.append(name))
    assert called == ["c"] and told == ["a", "b", "c"] and found == ["a", "b", "c"]


def refuses(name: str):
    def function(given: str) -> str:
        if given == name:
            raise InputError(f"bad: got {given}, expected another")
        return given

    return function


@pytest.mark.parametrize("how", ["cut", "edited", "of another campaign", "another piece"])
def test_a_damaged_piece_is_made_again(tmp_path, how):
    done(toy(), tmp_path, jobs=1)
    before, file = contents(tmp_path), tmp_path / "000001.json"
    body = json.loads(file.read_text())
    changes = {"edited": {"result": "x"}, "of another campaign": {"campaign": "x"}}
    if how == "cut":
        file.write_text(file.read_text()[:40])
    elif how == "another piece":
        shutil.copy(tmp_path / "000000.json", file)
    else:
        file.write_text(json.dumps({**body, **changes[how]}))
    called = []
    done(toy(function=lambda name: called.append(name) or name), tmp_path, jobs=1)
    assert called == ["b"] and contents(tmp_path) == before


def test_a_piece_that_vanishes_during_the_run_is_told(tmp_path):
    with pytest.raises(RunError, match="^b: its file was changed or removed"):
        with ran(toy(), tmp_path, jobs=1) as results:
            (tmp_path / "000001.json").unlink()
            list(results)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (toy(seed=2), "with settings seed 1, expected settings seed 2, or a new folder"),
        (toy("abcd", seed=1), "with pieces of 3, expected pieces of 4"),
        (toy("abd", seed=1), "with pieces 3 c, expected pieces 3 d"),
        (toy(seed=1, more=[1]), "with settings more none, expected settings more of 1"),
        (toy(seed=1, more=None), "with settings more none, expected settings more null"),
        (toy(seed=None), "with settings seed 1, expected settings seed null, or a new folder"),
        (toy(), "with settings seed 1, expected settings seed none, or a new folder"),
    ],
)
def test_the_folder_of_another_campaign_is_refused_by_name(tmp_path, other, message):
    done(toy(seed=1), tmp_path, jobs=1)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"^out: got .* of another campaign, {message}"):
        done(other, tmp_path, jobs=1)
    assert contents(tmp_path) == before


def test_another_code_is_another_campaign(tmp_path, monkeypatch):
    done(toy(), tmp_path, jobs=1)
    here = campaign.cluster.identity()
    monkeypatch.setattr(campaign.cluster, "identity", lambda: {**here, "code": "another"})
    with pytest.raises(InputError, match="with environment code [0-9a-f]{64}, expected .* another"):
        done(toy(), tmp_path, jobs=1)


def test_a_folder_in_use_is_refused(tmp_path):
    with ran(toy(), tmp_path, jobs=1):
        with pytest.raises(InputError, match="which another run is using"):
            done(toy(), tmp_path, jobs=1)


def test_pieces_that_are_none(tmp_path):
    with pytest.raises(InputError, match="^pieces: got a 2 times, expected pieces of different"):
        toy("aba")
    with pytest.raises(InputError, match="^pieces: got 0, expected 1 to 100,000"):
        toy("")
    (tmp_path / campaign.NAME).write_text("{")
    with pytest.raises(InputError, match="^out: got campaign.json, which is truncated or no rec"):
        done(toy(), tmp_path, jobs=1)


# ---------------------------------------------------------------- samples


def test_a_piece_is_what_verify_finds():
    """By the command that the report names; twins, which it also runs, are cut short here."""
    plan = Plan(registry.home, CLAIM, 100, 40, seed=5)
    assert [plan.settings(k).samples for k in range(plan.pieces)] == [40, 40, 20]
    assert plan.command(2) == f"attnverify verify {CLAIM} --evidence sampled --samples 20 --seed 7"
    settings = Settings(samples=20, seed=7, restarts=1, steps=1)
    expected = gather.gather_from(registry.home, CLAIM, settings, ["sampled"]).records
    found = long_sampling.piece(registry.home, CLAIM, plan.settings(2))
    assert [(e["check"], e["outcome"], e["ratio"], e["cases"], e["detail"]) for e in found] == [
        (r.check, r.outcome, r.ratio, r.instances, r.detail) for r in expected
    ]


def test_a_piece_is_repeated_by_the_rule_that_the_texts_give():
    """Reports count pieces from 1, and so do the page and the help of the command."""
    page = (ROOT / "book" / "outside.md").read_text(encoding="utf-8")
    assert "counted from 1" in page and "plus *k* − 1" in page
    for text in (cli.sample.sample.__doc__, long_sampling.__doc__):
        told = " ".join(str(text).split())
        assert "Piece k, counted from 1," in told and re.search(r"--seed S(EED)?\+k-1", told)


def test_the_report_is_that_of_its_pieces(tmp_path):
    """Cases add up; the worst is the largest ratio of all pieces, and can be replayed."""
    plan = Plan(registry.home, CLAIM, 200, 40, seed=3)
    report = long_sampling.sample(plan, tmp_path, jobs=1)
    pieces = [long_sampling.piece(registry.home, CLAIM, plan.settings(k)) for k in range(5)]
    (row,) = report["checks"]
    ratios = [entries[0]["ratio"] for entries in pieces]
    assert row["ratio"] == max(ratios) and row["piece"] == ratios.index(max(ratios)) + 1
    assert row["cases"] == sum(entries[0]["cases"] for entries in pieces) >= 200
    assert row["repeat"].endswith(f"--samples 40 --seed {3 + row['piece'] - 1}")
    assert (report["outcome"], report["pieces"]) == ("pass", 5)
    claim, check, seen = replay.replay(registry, tmp_path / row["replay"])
    assert (claim, check, seen.outcome) == (CLAIM, row["check"], "pass")
    assert seen.midpoint == row["ratio"]


def test_the_worst_piece_has_the_worst_outcome_before_the_largest_ratio():
    def entry(outcome, ratio, undecided=0):
        return [{"check": "c", "outcome": outcome, "ratio": ratio, "undecided": undecided}]

    pieces = [entry("pass", 0.9), entry("unknown", None, 3), entry("pass", 0.95)]
    pieces = [[{**e[0], "cases": 4}] for e in pieces]
    worst = long_sampling.merged(pieces)["c"]
    assert (worst["outcome"], worst["number"], worst["undecided"]) == ("unknown", 1, 3)
    assert worst["cases"] == 12
    failed = [{**entry("fail", 0.5)[0], "cases": 4}]
    assert long_sampling.merged([*pieces, failed, pieces[0]])["c"]["number"] == 3
    more = [{**pieces[1][0], "undecided": 2}]
    assert long_sampling.merged([*pieces, more])["c"]["undecided"] == 5


@pytest.mark.usefixtures("nothing_stays")
def test_one_violation_fails_and_is_kept(tmp_path):
    """A false constant, from outside: a piece in another process brings its file in, too."""
    text = (ROOT / "book" / "examples" / "lipschitz.py").read_text(encoding="utf-8")
    file = tmp_path / "mine.py"
    file.write_text(text.replace("length(e) / 2,", "length(e) / 3,"))
    (claim,) = claim_files.join(registry, claim_files.read(file))
    report = long_sampling.sample(
        Plan(registry.origin_of(claim.id), claim.id, 400, 200), tmp_path / "out", jobs=1
    )
    (row,) = report["checks"]
    assert report["outcome"] == "fail" and row["outcome"] == "fail" and row["ratio"] > 1
    assert row["repeat"].startswith("attnverify verify mine.py --evidence sampled --samples 200")
    assert replay.replay(registry, tmp_path / "out" / row["replay"])[2].outcome == "fail"
    entries = long_sampling.piece(registry.origin_of(claim.id), claim.id, Settings(samples=200))
    assert long_sampling.violations(entries)


def test_bad_plans_are_named():
    with pytest.raises(InputError, match="^id: got 'paths.count', which has no check that samples"):
        Plan(registry.home, "paths.count", 10, 10)
    for numbers, message in (((0, 1, 0), "samples: got 0"), ((9, 0, 0), "piece: got 0")):
        with pytest.raises(InputError, match=f"^{message}, expected an integer >= 1"):
            Plan(registry.home, CLAIM, *numbers)


def command(folder: Path, *more: str) -> list[str]:
    code = "import sys; from attnverify.cli import main; sys.argv[0] = 'attnverify'; main()"
    numbers = ["--samples", "4000", "--piece", "20", "--jobs", "1"]
    return [sys.executable, "-c", code, "sample", CLAIM, "--out", str(folder), *numbers, *more]


@pytest.mark.slow  # two starts of the command: it buys that a killed campaign loses nothing
def test_a_killed_command_goes_on_and_gives_the_same_files(tmp_path):
    folder = tmp_path / "killed"
    with subprocess.Popen(command(folder), stderr=subprocess.DEVNULL) as process:
        last = folder / "pieces" / "000001.json"
        while not last.exists() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    left = len(list((folder / "pieces").glob("0*.json")))
    assert process.returncode == -signal.SIGKILL and 2 <= left < 200
    again = subprocess.run(command(folder, "--json"), capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    whole = long_sampling.sample(Plan(registry.home, CLAIM, 4000, 20), tmp_path / "whole", jobs=1)
    assert json.loads(again.stdout) == whole and "200 pieces" in again.stderr
    assert contents(folder) == contents(tmp_path / "whole")
