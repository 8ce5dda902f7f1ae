"""A service with tenants and a budget, files to release, and workers that stop where a test wants them to."""

import time
from contextlib import contextmanager

import numpy as np
import pytest

from sfumato.release import ReleaseRequest
from sfumato.serve.jobs.job_runner import Runner, Watch, Work
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

GAUSSIAN = ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0})
ENDED = ("done", "failed", "cancelled")


class Died(BaseException):
    """What ends a worker in the middle of its work, as far as one process can."""


class Stopping(Watch):
    """Calls ``then`` when the work reaches ``stage``."""

    def __init__(self, stage, then):
        super().__init__(600.0)
        self._stage, self._then = stage, then

    def report(self, stage, share):
        super().report(stage, share)
        if stage == self._stage:
            self._then()
            self.check()


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", body_bytes=32 << 20))
    yield made
    made.close()


@pytest.fixture
def callers(service):
    """An owner, a publisher and an auditor of one tenant, and the owner of another."""
    clinic, other = (service.registry.create_tenant(name) for name in ("clinic", "other"))
    made = {
        role: service.registry.authenticate(service.registry.create_key(clinic.id, name=role, role=role)[1])
        for role in ("owner", "publisher", "auditor")
    }
    token = service.registry.create_key(other.id, name="owner", role="owner")[1]
    made["stranger"] = service.registry.authenticate(token)
    return made


@pytest.fixture
def owner(service, callers):
    """The owner of a tenant that has a budget of ε = 8."""
    service.open_budget(callers["owner"], "ward", epsilon=8, delta=1e-5)
    return callers["owner"]


@pytest.fixture
def upload(service):
    """A file in the work folder, as a request brings it."""
    with service.folder() as folder:
        numbers = iter(range(1000))

        def made(seed=0, rows=40, values=None):
            place = folder / str(next(numbers))
            place.mkdir()
            if values is None:
                values = np.random.default_rng(seed).normal(size=(rows, 4))
            np.savez(place / "x.npz", X=values)
            return place / "x.npz"

        yield made


@contextmanager
def running(service, **words):
    """A runner that is quick to notice everything."""
    runner = Runner(service, **({"lease": 5.0, "beat": 0.05, "tick": 0.1, "poll": 0.05} | words))
    runner.start()
    try:
        yield runner
    finally:
        runner.stop(5.0)


def ended(service, caller, job, seconds=60.0):
    """The job once it has ended."""
    until = time.monotonic() + seconds
    while (now := service.job(caller, job.id)).state not in ENDED:
        assert time.monotonic() < until, now
        time.sleep(0.02)
    return now


def kinds(service, caller, dataset="ward"):
    """What happened to the budget, in words."""
    return [entry["kind"] for entry in service.history(caller, dataset)][1:]


def claimed(service, worker="victim", seconds=0.0):
    """The next job, in the hands of a worker whose lease lapses at once."""
    found = service.job_store.table.claim(worker, seconds)
    assert found is not None
    return found


def worked(service, record, watch=None, worker="victim"):
    """What a worker does that has ``record`` in hand."""
    Work(service, worker).do(record, watch or Watch(600.0))


def dies(service, record, stage, worker="victim"):
    """A worker that works on ``record`` until it reaches ``stage``, and then ends."""

    def die():
        raise Died

    with pytest.raises(Died):
        worked(service, record, Stopping(stage, die), worker)
    lapse(service, record, worker)


def lapse(service, record, worker="victim"):
    """Let the lease of ``worker`` end now."""
    service.job_store.table.keep(worker, {record.id: (None, None)}, 0.0)
