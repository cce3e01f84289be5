"""Runs in pieces: what is finished is kept, what is another campaign's is refused."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnverify.runtime import campaign, run_folder
from attnverify.runtime.campaign import Campaign, ran
from attnverify.runtime.tasks import Task
from attnverify.support import environment
from attnverify.support.errors import InputError, RunError


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


@pytest.mark.parametrize("how", ["cut", "edited", "another piece"])
def test_a_damaged_piece_is_made_again(tmp_path, how):
    done(toy(), tmp_path, jobs=1)
    before, file = contents(tmp_path), tmp_path / "000001.json"
    if how == "cut":
        file.write_text(file.read_text()[:40])
    elif how == "another piece":
        shutil.copy(tmp_path / "000000.json", file)
    else:
        file.write_text(file.read_text().replace('"result": "b"', '"result": "x"'))
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
        (toy(seed=1, more=None), "with settings more none, expected settings more null"),
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
    here = environment.identity()
    monkeypatch.setattr(environment, "identity", lambda: {**here, "code": "another"})
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


SLOW = """
import sys, time
from pathlib import Path
from attnverify.runtime.campaign import Campaign, ran
from attnverify.runtime.tasks import Task

def piece(name):
    time.sleep(0.01)
    return name

made = Campaign("toy", {}, [Task(str(k), piece, (str(k),)) for k in range(200)])
with ran(made, Path(sys.argv[1]), jobs=1) as results:
    print(*results)
"""


@pytest.mark.slow  # two starts of Python: it buys that a killed campaign loses nothing
def test_a_killed_run_goes_on_and_gives_the_same_files(tmp_path):
    def command(name: str) -> list[str]:
        return [sys.executable, "-c", SLOW, str(tmp_path / name)]

    with subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL) as process:
        last = tmp_path / "killed" / "000001.json"
        while not last.exists() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    left = len(list((tmp_path / "killed").glob("0*.json")))
    assert process.returncode == -signal.SIGKILL and 2 <= left < 200
    for name in ("killed", "whole"):
        told = subprocess.run(command(name), capture_output=True, text=True, timeout=300)
        assert told.stdout.split() == [str(k) for k in range(200)], told.stderr
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("name", "value"), [("MKL_CBWR", "COMPATIBLE"), ("GLIBC_TUNABLES", "glibc.cpu.x86_isa_level=1")]
)
def test_a_setting_of_a_numerical_library_is_another_identity(monkeypatch, name, value):
    monkeypatch.delenv(name, raising=False)
    before = environment.identity()
    monkeypatch.setenv(name, value)
    assert environment.identity() == {**before, name: value}


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED"])
def test_what_no_piece_follows_is_no_difference(monkeypatch, name):
    before = environment.identity()
    monkeypatch.setenv(name, "3")
    assert environment.identity() == before


def test_all_of_the_machine_that_keys_hold_is_in_the_identity(monkeypatch):
    """But for cores and free variables, what makes another key is another identity."""
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    held = environment.kind_of_machine()
    free = environment.FREE.fullmatch
    held |= {name: value for name, value in held.pop("variables").items() if not free(name)}
    del held["cores"]
    assert held.items() <= environment.identity().items()
