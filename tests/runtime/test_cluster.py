"""More than one machine: a dask scheduler gives the evidence of local processes, or an error."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import modelzoo
from attnverify.checking.search import Settings
from attnverify.inspection import texts
from attnverify.inspection.texts import Look, inspect_texts
from attnverify.runtime import cluster
from attnverify.runtime.tasks import Task
from attnverify.support.environment import kind_of_machine
from attnverify.support.errors import InputError, RunError
from attnverify.topics.verify import verify
from attnverify.verification.report import Report

QUICK = Settings(samples=40, restarts=4, steps=20)
IDS = ["paths.count", "norms.submultiplicative"]
# distributed warns about ports and loops of its own
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def dask():
    """Two workers with two threads each, in processes that are replaced when they die.

    Each test has its own: a worker may not have come back when the next test begins.
    """
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as made:
        yield made


def evidence(report: Report) -> dict:
    """What must not depend on where it was computed."""
    return {
        id: ([replace(r, seconds=0.0) for r in report.records[id]], report.twins[id])
        for id in report.records
    }


def test_a_killed_worker_changes_nothing(dask):
    """Two minutes on two busy cores: it buys that no evidence is lost, doubled or changed."""
    killed = []

    def kill_one(name: str) -> None:
        if not killed:
            killed.append(dask.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    local = verify(IDS, QUICK, jobs=1)
    remote = verify(IDS, QUICK, scheduler=dask.scheduler_address, progress=kill_one)
    assert killed and evidence(remote) == evidence(local)
    assert remote.standing == local.standing


def kill_once(dask) -> tuple[list[int], Callable]:
    """What to call as pieces are finished: the first time, it kills a worker."""
    killed: list[int] = []

    def finished(name: str, result: object) -> None:
        if not killed:
            killed.append(dask.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    return killed, finished


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.rglob("*.json")}


@pytest.mark.full
def test_texts_with_a_killed_worker_give_what_one_machine_gives(dask, tmp_path):
    """Workers start anew and read a model: it buys that many reports are one machine's."""
    modelzoo.model("bert").save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").write_text("\n".join(modelzoo.MORE_WORDS) + "\n")
    made = texts.campaign(
        Look(tmp_path / "model"), {f"text {k}": "the path . " * k for k in (1, 2, 3)}
    )
    killed, finished = kill_once(dask)
    inspect_texts(made, tmp_path / "here", jobs=1)
    inspect_texts(made, tmp_path / "there", scheduler=dask.scheduler_address, finished=finished)
    assert killed and len(contents(tmp_path / "here")) == 5
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_another_code_is_refused_by_name(dask, monkeypatch):
    monkeypatch.setattr(cluster, "code_digest", lambda: "another")
    with pytest.raises(InputError, match="got code [0-9a-f]{64} on worker tcp://.*expected anoth"):
        list(cluster.run([Task("a", os.getpid, ())], dask.scheduler_address))


def test_another_version_is_refused_by_name(dask, monkeypatch):
    here = cluster.versions()
    monkeypatch.setattr(cluster, "versions", lambda: {**here, "torch": "1.0"})
    with pytest.raises(InputError, match="got torch [0-9][^ ]* on worker tcp://.*expected 1.0"):
        list(cluster.run([Task("a", os.getpid, ())], dask.scheduler_address))


def test_a_worker_with_other_instructions_is_refused_by_name(monkeypatch):
    """Set for the worker alone: torch takes its plainest kernels there, with other last digits."""
    from distributed import LocalCluster

    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as plain:
        monkeypatch.delenv("ATEN_CPU_CAPABILITY")
        here = torch.backends.cpu.get_cpu_capability()
        name, expected = (
            ("ATEN_CPU_CAPABILITY", "unset") if here == "DEFAULT" else ("instructions", here)
        )
        with pytest.raises(InputError, match=f"got {name} .* on worker tcp.*expected {expected} "):
            list(cluster.run([Task("a", os.getpid, ())], plain.scheduler_address))


def test_a_piece_that_fails_is_named(dask):
    with pytest.raises(RunError, match="^the piece: ValueError: invalid literal"):
        list(cluster.run([Task("the piece", int, ("x",))], dask.scheduler_address))


@pytest.mark.parametrize(
    ("name", "value"), [("MKL_CBWR", "COMPATIBLE"), ("GLIBC_TUNABLES", "glibc.cpu.x86_isa_level=1")]
)
def test_a_setting_of_one_side_is_another_identity(monkeypatch, name, value):
    monkeypatch.delenv(name, raising=False)
    before = cluster.identity()
    monkeypatch.setenv(name, value)
    assert cluster.identity() == {**before, name: value}


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED"])
def test_what_dask_sets_for_its_workers_is_no_difference(monkeypatch, name):
    before = cluster.identity()
    monkeypatch.setenv(name, "3")
    assert cluster.identity() == before


def test_all_of_the_machine_that_keys_hold_is_in_the_identity(monkeypatch):
    """But for cores and free variables, what makes another key is another identity."""
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    held = kind_of_machine()
    held |= {k: v for k, v in held.pop("variables").items() if not cluster.FREE.fullmatch(k)}
    del held["cores"]
    assert held.items() <= cluster.identity().items()


def test_a_piece_that_kills_every_worker_is_named(dask):
    with pytest.raises(RunError, match="^the piece: KilledWorker"):
        list(cluster.run([Task("the piece", os._exit, (1,))], dask.scheduler_address))


def test_a_scheduler_without_workers_is_an_error(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with LocalCluster(n_workers=0, dashboard_address=None) as empty:
        with pytest.raises(InputError, match="which has no worker .waited 1 s"):
            list(cluster.run([Task("a", os.getpid, ())], empty.scheduler_address))


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1", "nonsense//x:y", "127.0.0.1", "ucx://127.0.0.1:1", "tls://127.0.0.1:1"],
)
def test_an_address_without_a_scheduler_is_an_error(address, capfd):
    start = time.monotonic()
    with pytest.raises(InputError, match=f"^scheduler: got '{address}', where no dask scheduler"):
        list(cluster.run([Task("a", os.getpid, ())], address))
    assert time.monotonic() - start < 4 * cluster.CONNECT
    assert capfd.readouterr().err == "", "one line, that of the error, is all that is told"
