"""The table of jobs: one worker at a time, for as long as it gives signs, and counted until the end."""

import pytest

from sfumato.serve.jobs.job_store import JobRecord, JobTable
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.tenant_registry import Quotas


@pytest.fixture
def clinic(registry):
    return registry.create_tenant("clinic")


@pytest.fixture
def table(registry):
    return JobTable(registry)


@pytest.fixture
def add(table, clinic, clock):
    """Accepts a job, and queues it."""

    def added(number, *, request=None, queue=True):
        new = JobRecord(
            id=f"{number:024x}",
            tenant=clinic.id,
            kind="protect",
            dataset="ward",
            request=request,
            asked={"mechanism": "gaussian"},
            content="digest",
            created=clock.now.isoformat(timespec="microseconds"),
        )
        kept = table.add(new, "accepting", 5.0)
        return table.queue(kept.id, "accepting", hold=7) if queue else kept

    return added


def test_a_lease_holds_for_its_time_and_signs_put_it_off(table, add, clock):
    job = add(1)
    taken = table.claim("first", 20.0)
    assert (taken.id, taken.state, taken.worker, taken.tries, taken.hold) == (
        job.id,
        "running",
        "first",
        1,
        7,
    )
    assert table.claim("second", 20.0) is None
    clock.pass_by(seconds=15)
    assert table.keep("first", {job.id: ("drawing", 0.25)}, 20.0) == {job.id: False}
    clock.pass_by(seconds=15)
    assert table.seize("janitor", 20.0) is None
    assert (table.get(job.id).stage, table.get(job.id).share) == ("drawing", 0.25)
    clock.pass_by(seconds=5)
    assert table.seize("janitor", 20.0).worker == "janitor"
    assert table.seize("another", 20.0) is None
    # The first has it in hand no longer, whatever it tries.
    assert table.keep("first", {job.id: ("drawing", 0.5)}, 20.0) == {}
    assert table.renew(job.id, "first", 20.0) is None
    assert table.queue(job.id, "first") is None
    assert table.finish(job.id, "first", "done") is None
    assert not table.drop(job.id, "first")
    assert table.get(job.id).share == 0.25
    assert table.queue(job.id, "janitor", attempt=2, hold=9).state == "queued"
    again = table.claim("second", 20.0)
    assert (again.attempt, again.hold, again.tries, again.stage, again.share) == (2, 9, 2, None, None)
    assert table.finish(job.id, "second", "done", result={"release": "x"}).result == {"release": "x"}
    assert table.finish(job.id, "second", "failed") is None


def test_a_job_that_is_to_be_cancelled_is_not_done(table, add):
    job = add(1)
    table.claim("worker", 20.0)
    marked = table.cancel(job.id, "cancelling", 20.0)
    assert (marked.worker, marked.cancelled) == ("worker", True)
    assert table.keep("worker", {job.id: (None, None)}, 20.0) == {job.id: True}
    assert table.finish(job.id, "worker", "done", unless_cancelled=True) is None
    ended = table.finish(job.id, "worker", "cancelled", problem={"type": "cancelled"})
    assert table.cancel(job.id, "cancelling", 20.0) == ended
    assert table.cancel("0" * 24, "cancelling", 20.0) is None


def test_a_queued_job_is_in_the_hands_of_who_cancels_it(table, add):
    job = add(1)
    assert table.cancel(job.id, "cancelling", 20.0).worker == "cancelling"
    assert table.claim("worker", 20.0) is None


def test_jobs_count_until_they_end(registry, table, clinic, add, clock):
    registry.set_quotas(clinic.id, Quotas(jobs_at_once=2))
    first, _ = add(1), add(2)
    clock.pass_by(days=400)  # however long that takes
    with pytest.raises(QuotaRefused) as refused:
        add(3)
    assert refused.value.seconds == 10.0
    table.claim("worker", 20.0)
    table.finish(first.id, "worker", "failed")
    dropped = add(3, queue=False)
    assert table.drop(dropped.id, "accepting")
    assert table.get(dropped.id) is None
    add(4)


def test_a_request_is_kept_once(table, add):
    first = add(1, request="k")
    assert table.add(JobRecord(**(vars(first) | {"id": "f" * 24})), "other", 5.0) == first
    assert table.get("f" * 24) is None
    assert table.of_request(first) == first


def test_counts_and_lists_tell_how_it_stands(table, clinic, add, clock):
    assert table.counts() == {"queued": 0, "running": 0, "oldest_queued_seconds": 0.0}
    jobs = []
    for number in range(5):
        jobs.append(add(number).id)
        clock.pass_by(seconds=1)
    accepted = add(9, queue=False)
    table.claim("worker", 20.0)
    assert table.counts() == {"queued": 4, "running": 1, "oldest_queued_seconds": 4.0}
    assert [one.id for one in table.newest(clinic.id)] == jobs[::-1]
    assert [one.id for one in table.newest(clinic.id, jobs[2])] == jobs[1::-1]
    assert list(table.newest(clinic.id, "0" * 23 + "f")) == []
    assert table.get(accepted.id).state == "accepted"
