"""Workers that die, stall or are told to end: what the ledger says decides, and nothing is drawn unpaid."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from job_service import (
    GAUSSIAN,
    Died,
    Stopping,
    callers,
    claimed,
    dies,
    ended,
    kinds,
    lapse,
    owner,
    running,
    service,
    upload,
    worked,
)

from sfumato.errors import BadInput, SfumatoError
from sfumato.release import keyed
from sfumato.serve.authentication import ledger_name
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_runner import Janitor, Runner
from sfumato.serve.refusals import Busy
from sfumato.serve.service import Service

HERE = Path(__file__).parent


@pytest.fixture
def janitor(service):
    return Janitor(service.job_store, "janitor")


def test_a_job_that_lost_its_worker_before_it_drew_gets_a_new_hold(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    dies(service, claimed(service), "checking")
    assert janitor.tidy() == 1
    assert service.job(owner, job.id).state == "queued"
    assert kinds(service, owner) == ["hold", "release", "hold"]
    worked(service, claimed(service, seconds=60))
    assert service.job(owner, job.id).state == "done"
    assert kinds(service, owner) == ["hold", "release", "hold", "commit"]


def test_a_job_that_lost_its_worker_while_it_drew_fresh_noise_fails_and_is_spent(
    service, owner, upload, janitor
):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    dies(service, claimed(service), "drawing")
    assert janitor.tidy() == 1
    failed = service.job(owner, job.id)
    assert (failed.state, failed.problem.type) == ("failed", "interrupted")
    assert failed.problem.spent is failed.problem.retryable is True
    assert kinds(service, owner) == ["hold", "commit"]
    assert service.releases(owner) == []
    assert not service.job_store.files.of(job.id)


def test_keyed_noise_is_drawn_again_for_nothing(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward", request="k")
    for _ in range(2):
        dies(service, claimed(service), "drawing")
        assert janitor.tidy() == 1
    worked(service, claimed(service, seconds=60))
    done = service.job(owner, job.id)
    assert done.state == "done"
    assert kinds(service, owner) == ["hold", "commit"]
    noise = service.resources.noise(ledger_name(owner.tenant, "ward"), "request k")
    values = np.load(upload())["X"]
    expected = keyed(GAUSSIAN.make_mechanism("array"), noise).perturb(values)
    assert np.array_equal(np.load(service.release(owner, done.result["release"]).file)["X"], expected)


def test_a_job_that_ends_every_worker_is_given_up(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    for _ in range(6):
        dies(service, claimed(service), "checking")
        janitor.tidy()
    failed = service.job(owner, job.id)
    assert (failed.state, failed.problem.spent) == ("failed", False)
    assert service.budget(owner, "ward")["used"] == 0.0


def test_a_worker_that_stalled_draws_nothing_after_its_job_was_given_away(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    stalled = claimed(service)
    janitor.tidy()
    worked(service, claimed(service, "second", 60), worker="second")
    done = service.job(owner, job.id)
    before = service.release(owner, done.result["release"]).file.read_bytes()
    worked(service, stalled)  # it wakes up and knows of nothing
    assert kinds(service, owner) == ["hold", "release", "hold", "commit"]
    assert service.job(owner, job.id) == done
    assert service.release(owner, done.result["release"]).file.read_bytes() == before
    with pytest.raises(BadInput, match="by a release"):
        service.ledger.commit(ledger_name(owner.tenant, "ward"), stalled.hold)


def test_a_worker_that_stalled_just_before_it_commits_is_refused(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    worked(service, claimed(service), Stopping("checking", janitor.tidy))
    assert kinds(service, owner) == ["hold", "release", "hold"]
    assert service.job(owner, job.id).state == "queued"
    assert service.releases(owner) == []


def test_a_worker_that_stalled_while_it_drew_publishes_nothing_that_failed(service, owner, upload, janitor):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    record = claimed(service, seconds=60)

    def given_away():
        lapse(service, record)
        janitor.tidy()

    worked(service, record, Stopping("drawing", given_away))
    assert service.job(owner, job.id).problem.type == "interrupted"
    assert service.releases(owner) == []
    assert kinds(service, owner) == ["hold", "commit"]


def test_a_job_cancelled_in_the_hands_of_the_dead_is_cancelled(service, owner, upload, janitor):
    for stage, spent in (("checking", False), ("drawing", True)):
        job = service.submit(owner, GAUSSIAN, upload(), "ward")
        dies(service, claimed(service), stage)
        assert service.cancel(owner, job.id).state == "running"
        janitor.tidy()
        found = service.job(owner, job.id)
        assert (found.state, found.problem.spent) == ("cancelled", spent)
    assert kinds(service, owner) == ["hold", "release", "hold", "commit"]


@pytest.mark.parametrize("request_", [None, "k"])
@pytest.mark.parametrize("held", [False, True])
def test_an_acceptance_that_was_cut_off_is_completed_or_undone(
    service, owner, upload, janitor, request_, held
):
    """Who repeats a request finds the job; without one, nobody knows of it and its price is given back."""
    jobs, file = service.job_store, upload()
    new = jobs.new(owner, "protect", "ward", request_, vars(GAUSSIAN), [file])
    jobs.files.store(new.id, {"file": [file]})
    kept = jobs.table.add(new, "accepting", 0.0)
    if held:
        jobs.held(kept)
    if request_ is not None:
        with pytest.raises(Busy):
            service.submit(owner, GAUSSIAN, upload(), "ward", request=request_)
    assert janitor.tidy() == 1
    if request_ is None:
        assert service.jobs(owner) == []
        assert kinds(service, owner) == ["hold", "release"]
        assert not jobs.files.of(new.id)
    else:
        again = service.submit(owner, GAUSSIAN, upload(), "ward", request="k")
        assert (again.id, again.state) == (new.id, "queued")
        assert kinds(service, owner) == ["hold"]


@pytest.mark.parametrize("stage", ["checking", "drawing"])
@pytest.mark.parametrize("request_", [None, "k"])
def test_a_killed_process_is_noticed(service, owner, upload, stage, request_):
    """kill -9 before the commit and after it; another process finds the job, and the ledger is right."""
    job = service.submit(owner, GAUSSIAN, upload(), "ward", request=request_)
    command = [sys.executable, str(HERE / "job_victim.py"), str(service.settings.data), stage]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout.readline().strip() == stage
        victim.kill()
    assert service.job(owner, job.id).state == "running"
    assert kinds(service, owner) == (["hold"] if stage == "checking" else ["hold", "commit"])
    with running(service):
        found = ended(service, owner, job)
    if stage == "checking":
        assert kinds(service, owner) == ["hold", "release", "hold", "commit"]
    else:
        assert kinds(service, owner) == ["hold", "commit"]
    assert found.state == ("failed" if stage == "drawing" and request_ is None else "done")
    assert len(service.releases(owner)) == (found.state == "done")
    assert service.ledger.check() == []
    assert service.budget(owner, "ward")["open_holds"] == 0


def test_queued_jobs_outlive_the_service(service, owner, upload):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    with running(Service(service.settings)):
        assert ended(service, owner, job).state == "done"


def test_what_has_not_drawn_goes_back_to_the_queue_when_the_process_ends(service, owner, upload):
    files = {"original": upload(rows=20_000), "released": upload(seed=1, rows=20_000)}
    job = service.submit_audit(owner, AuditDescription(), files, "ward")
    runner = Runner(service, beat=0.1, poll=0.05)
    runner.start()
    until = time.monotonic() + 30
    while service.job(owner, job.id).state != "running":
        assert time.monotonic() < until
        time.sleep(0.01)
    begun = time.monotonic()
    runner.stop(0.0)
    assert time.monotonic() - begun < 5.0
    found = service.job_store.table.get(job.id)
    assert (found.state, found.worker, found.tries) in {("queued", None, 0), ("running", found.worker, 1)}
    service.cancel(owner, job.id)


def test_a_running_job_is_cancelled_by_its_keeper(service, owner, upload):
    files = {"original": upload(rows=20_000), "released": upload(seed=1, rows=20_000)}
    job = service.submit_audit(owner, AuditDescription(), files, "ward")
    with running(service):
        until = time.monotonic() + 30
        while service.job(owner, job.id).stage is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        service.cancel(owner, job.id)
        assert ended(service, owner, job).state == "cancelled"
    with pytest.raises(SfumatoError):
        service.audit(owner, job.id)


def test_a_job_that_takes_too_long_fails(service, owner, upload):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    with running(service, longest=0.0):
        failed = ended(service, owner, job)
    assert (failed.state, failed.problem.type, failed.problem.spent) == ("failed", "too-slow", False)
    assert kinds(service, owner) == ["hold", "release"]


def test_bodies_of_the_dead_are_swept_and_those_of_the_living_are_not(service):
    script = (
        "import sys, time; from pathlib import Path; from sfumato.serve.uploads import WorkFolders\n"
        "with WorkFolders(Path(sys.argv[1])).folder() as folder:\n"
        "    (folder / 'x.npz').write_bytes(b'private'); print('there', flush=True); time.sleep(600)\n"
    )
    work = service.settings.work
    with subprocess.Popen(
        [sys.executable, "-c", script, str(work)], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout.readline().strip() == "there"
        with service.folder() as own:
            (own / "y.npz").write_bytes(b"private")
            service.resources.work.sweep()
            assert sorted(file.name for file in work.rglob("*.*")) == ["x.npz", "y.npz"]
            victim.kill()
            victim.wait()
            service.resources.work.sweep()
            assert [file.name for file in work.rglob("*.*")] == ["y.npz"]
    assert list(work.rglob("*.*")) == []
    service.close()
    assert os.listdir(work) == []


def test_folders_are_used_again_but_never_by_two_and_never_full(service):
    """Eight threads use a folder twenty times each; in each of them they find nothing and nobody."""
    seen = set()

    def use(number):
        for _ in range(20):
            with service.folder() as folder:
                assert os.listdir(folder) == []
                (folder / f"{number}.npy").write_bytes(b"private")
                (folder / "inside").mkdir()
                (folder / "inside" / "a.npy").write_bytes(b"private")
                assert sorted(os.listdir(folder)) == [f"{number}.npy", "inside"]
                seen.add(folder)
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(8)))
    assert len(seen) <= 8


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_every_release_is_paid_and_nothing_stays_held(service, owner, upload, janitor, seed):
    """Forty random steps of clients, workers that die anywhere, and the janitor; then all is settled."""
    chance = random.Random(seed)
    service.open_budget(owner, "big", epsilon=500, delta=1e-3)
    submitted = []
    for step in range(40):
        match chance.randrange(6):
            case 0 | 1:
                key = chance.choice([None, f"k{step}"])
                submitted.append(
                    service.submit(owner, GAUSSIAN, upload(chance.randrange(3)), "big", request=key)
                )
            case 2 | 3:
                record = service.job_store.table.claim("victim", chance.choice([0.0, 60.0]))
                if record is not None:
                    stage = chance.choice(["checking", "drawing", "never"])
                    try:
                        worked(service, record, Stopping(stage, lambda: (_ for _ in ()).throw(Died())))
                    except Died:
                        lapse(service, record)
            case 4:
                if submitted:
                    service.cancel(owner, chance.choice(submitted).id)
            case 5:
                janitor.tidy()
    janitor.tidy()
    while (record := service.job_store.table.claim("victim", 60.0)) is not None:
        worked(service, record)
    _require_settled(service, owner, submitted)


def _require_settled(service, owner, submitted):
    history = service.history(owner, "big")
    settled = {entry["refers_to"]: entry["kind"] for entry in history if entry["refers_to"] is not None}
    holds = [entry["number"] for entry in history if entry["kind"] == "hold"]
    assert sorted(settled) == holds  # none is held any more, and none was settled twice
    releases = service.releases(owner, limit=1000)
    paid = [one.paid.number for one in releases]
    assert len(set(paid)) == len(paid)
    assert all(settled[number] == "commit" for number in paid)
    found = {one.id: service.job(owner, one.id) for one in submitted}
    assert {one.state for one in found.values()} <= {"done", "failed", "cancelled"}
    made = [one.result["release"] for one in found.values() if one.state == "done"]
    assert sorted(made) == sorted(one.id for one in releases)
    spent = sum(bool(one.problem and one.problem.spent) for one in found.values())
    assert list(settled.values()).count("commit") == len(made) + spent
    assert service.ledger.check() == []
    assert os.listdir(service.settings.data / "jobs") == []
    assert json.dumps([one.to_dict() for one in found.values()])
