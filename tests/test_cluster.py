"""More than one machine: a dask scheduler gives the evidence of local processes, or an error."""

import os
import signal
import time
from dataclasses import replace

import pytest

from attnverify.errors import InputError, RunError
from attnverify.evidence import cluster
from attnverify.evidence.search import Settings
from attnverify.evidence.verify import Report, verify
from attnverify.evidence.workers import Task

QUICK = Settings(samples=40, restarts=4, steps=20)
IDS = ["paths.count", "norms.submultiplicative"]
# distributed warns about ports and loops of its own
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def dask():
    """Two workers with two threads each, in processes that are replaced when they die."""
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


def test_another_code_is_refused_by_name(dask, monkeypatch):
    monkeypatch.setattr(cluster, "code_digest", lambda: "another")
    with pytest.raises(InputError, match="got code [0-9a-f]{64} on worker tcp://.*expected anoth"):
        list(cluster.run([Task("a", os.getpid, ())], dask.scheduler_address))


def test_another_version_is_refused_by_name(dask, monkeypatch):
    here = cluster.versions()
    monkeypatch.setattr(cluster, "versions", lambda: {**here, "torch": "1.0"})
    with pytest.raises(InputError, match="got torch [0-9][^ ]* on worker tcp://.*expected 1.0"):
        list(cluster.run([Task("a", os.getpid, ())], dask.scheduler_address))


def test_a_piece_that_fails_is_named(dask):
    with pytest.raises(RunError, match="^the piece: ValueError: invalid literal"):
        list(cluster.run([Task("the piece", int, ("x",))], dask.scheduler_address))


def test_a_piece_that_kills_every_worker_is_named(dask):
    with pytest.raises(RunError, match="^the piece: KilledWorker"):
        list(cluster.run([Task("the piece", os._exit, (1,))], dask.scheduler_address))


def test_a_scheduler_without_workers_is_an_error(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with LocalCluster(n_workers=0, dashboard_address=None) as empty:
        with pytest.raises(InputError, match="which has no worker .waited 1 s"):
            list(cluster.run([Task("a", os.getpid, ())], empty.scheduler_address))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense//x:y", "127.0.0.1"])
def test_an_address_without_a_scheduler_is_an_error(address, capfd):
    start = time.monotonic()
    with pytest.raises(InputError, match=f"^scheduler: got '{address}', where no dask scheduler"):
        list(cluster.run([Task("a", os.getpid, ())], address))
    assert time.monotonic() - start < 4 * cluster.CONNECT
    assert capfd.readouterr().err == "", "one line, that of the error, is all that is told"
