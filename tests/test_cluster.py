"""More than one machine: a dask scheduler gives the same evidence as local processes."""

from dataclasses import replace

import pytest

from attnverify.evidence.search import Settings
from attnverify.evidence.verify import verify

QUICK = Settings(samples=40, restarts=4, steps=20)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # distributed warns about ports and loops of its own
def test_a_scheduler_gives_the_same_report():
    from distributed import LocalCluster

    ids, kinds = ["paths.count", "norms.submultiplicative"], ["sampled", "certified", "attacked"]
    local = verify(ids, QUICK, kinds, jobs=1)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        remote = verify(ids, QUICK, kinds, scheduler=cluster.scheduler_address)
    for id in ids:
        same = [[replace(r, seconds=0.0) for r in report.records[id]] for report in (local, remote)]
        assert same[0] == same[1] and local.twins[id] == remote.twins[id]
