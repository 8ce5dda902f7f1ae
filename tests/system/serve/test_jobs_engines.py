"""Jobs on SQLite and on a real PostgreSQL, worked on by several runners at once."""

import time
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from ledger_server import postgresql  # noqa: F401 (a fixture)

from sfumato.release import ReleaseRequest
from sfumato.serve import Service, Settings
from sfumato.serve.jobs.job_runner import Janitor, Runner
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.tenant_registry import Quotas

ASKED = ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0})
JOBS = 24


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def settings(request, tmp_path):
    if request.param == "SQLite":
        return Settings(tmp_path / "service")
    make = request.getfixturevalue("postgresql")
    return Settings(tmp_path / "service", database=make(), ledger=make())


def test_every_job_is_done_once_whoever_works(settings, tmp_path):
    """Three services with two threads each, a worker that died before it drew and one that died after."""
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(50, 4)))
    with ExitStack() as open_:
        services = [Service(settings) for _ in range(3)]
        for one in services:
            open_.callback(one.close)
        first = services[0]
        tenant = first.registry.create_tenant("clinic")
        token = first.registry.create_key(tenant.id, name="owner", role="owner")[1]
        caller = first.registry.authenticate(token)
        first.registry.set_quotas(tenant.id, Quotas(jobs_at_once=JOBS))
        first.open_budget(caller, "ward", epsilon=200, delta=1e-3)
        jobs = [
            services[n % 3].submit(
                caller, ASKED, tmp_path / "x.npz", "ward", request=f"r{n}" if n % 2 else None
            )
            for n in range(JOBS)
        ]
        with pytest.raises(QuotaRefused):
            first.submit(caller, ASKED, tmp_path / "x.npz", "ward")
        dead = [first.job_store.table.claim("dead", 0.0) for _ in range(2)]
        first.ledger.commit(f"{tenant.id}:ward", dead[1].hold)
        assert first.job_store.table.counts()["running"] == 2
        runners = [Runner(one, lease=5.0, beat=0.1, tick=0.1, poll=0.05) for one in services]
        for runner in runners:
            runner.start()
        until = time.monotonic() + 60
        while any(first.job_store.table.counts()[state] for state in ("queued", "running")):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert all(runner.alive for runner in runners)
        for runner in runners:
            runner.stop(5.0)
        states = [first.job(caller, job.id).state for job in jobs]
        assert states == ["done"] * JOBS  # the one that had drawn was keyed
        releases = first.releases(caller, limit=1000)
        assert len({one.paid.number for one in releases}) == len(releases) == JOBS
        kinds = [entry["kind"] for entry in first.history(caller, "ward")]
        assert (kinds.count("hold"), kinds.count("release"), kinds.count("commit")) == (JOBS + 1, 1, JOBS)
        assert first.budget(caller, "ward")["open_holds"] == 0
        assert first.ledger.check() == []
        job = services[1].submit(caller, ASKED, tmp_path / "x.npz", "ward")
        assert services[2].cancel(caller, job.id).state == "cancelled"
        assert Janitor(first.job_store, "janitor").tidy() == 0
        assert [one.id for one in first.jobs(caller, limit=1)] == [job.id]
