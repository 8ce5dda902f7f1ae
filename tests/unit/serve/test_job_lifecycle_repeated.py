"""Requests that come again after their job ended without a result: one job, another attempt, paid once."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import os

import numpy as np
import pytest
from job_service import (
    GAUSSIAN,
    Stopping,
    callers,
    claimed,
    dies,
    ended,
    kinds,
    owner,
    running,
    service,
    upload,
    worked,
)

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused
from sfumato.release import ReleaseRequest
from sfumato.serve.jobs.job_runner import Janitor
from sfumato.serve.refusals import Busy, QuotaRefused
from sfumato.serve.tenant_registry import Quotas


@pytest.fixture
def janitor(service):
    return Janitor(service.job_store, "janitor")


@pytest.fixture
def ask(service, owner, upload):
    """Asks for the same release under the same key."""
    return lambda seed=0: service.submit(owner, GAUSSIAN, upload(seed), "ward", request="k")


def cancelled(service, owner, job, stage):
    """The job, cancelled when a worker reaches ``stage``; before anybody works on it where that is None."""
    if stage is None:
        return service.cancel(owner, job.id)
    record = claimed(service, seconds=60.0)
    worked(service, record, Stopping(stage, lambda: service.cancel(owner, job.id)))
    return service.job(owner, job.id)


@pytest.mark.parametrize("stage", [None, "checking", "drawing"])
def test_a_cancelled_job_is_done_when_its_request_comes_again_and_paid_once(service, owner, ask, stage):
    first = ask()
    before = cancelled(service, owner, first, stage)
    drew = stage == "drawing"
    assert (before.state, before.problem.retryable, before.problem.spent) == ("cancelled", True, drew)
    again = ask()
    assert (again.id, again.state, again.problem, again.ended) == (first.id, "queued", None, None)
    assert ask() == again
    with running(service):
        done = ended(service, owner, again)
    assert (done.state, done.problem) == ("done", None)
    assert kinds(service, owner) == (["hold", "commit"] if drew else ["hold", "release", "hold", "commit"])
    assert service.budget(owner, "ward")["open_holds"] == 0
    assert ask() == done
    assert [one.id for one in service.releases(owner)] == [done.result["release"]]
    assert os.listdir(service.settings.data / "jobs") == []


def test_what_was_cancelled_while_it_drew_is_drawn_alike(service, owner, ask):
    """The noise is keyed by the request, so the payment of before is for these bytes and no others."""
    drawn, first = [], ask()
    releases, keep = service.job_store.releases, service.job_store.releases.keep

    def seen(tenant, id_, dataset, request, done, content=None):
        drawn.append(np.load(done.output)["X"])
        if len(drawn) == 1:
            service.cancel(owner, first.id)
        return keep(tenant, id_, dataset, request, done, content)

    releases.keep = seen
    worked(service, claimed(service, seconds=60.0))
    assert service.job(owner, first.id).problem.spent is True
    ask()
    with running(service):
        assert ended(service, owner, first).state == "done"
    assert np.array_equal(*drawn)
    assert kinds(service, owner) == ["hold", "commit"]


@pytest.mark.parametrize("stage", ["checking", "drawing"])
def test_a_job_that_was_given_up_is_tried_again(service, owner, ask, janitor, stage):
    first = ask()
    for _ in range(6):
        dies(service, claimed(service), stage)
        janitor.tidy()
    failed = service.job(owner, first.id)
    assert (failed.state, failed.problem.type) == ("failed", "interrupted")
    assert (failed.problem.retryable, failed.problem.spent) == (True, stage == "drawing")
    assert ask().id == first.id
    with running(service):
        assert ended(service, owner, first).state == "done"
    assert kinds(service, owner).count("commit") == 1
    assert service.budget(owner, "ward")["open_holds"] == 0


def test_what_may_not_be_repeated_stays_as_it_ended(service, owner, upload):
    laplace = ReleaseRequest("laplace", {"epsilon": 1.0, "clip": 1.0})
    values = np.full((40, 4), 0.5)
    values[30, 2] = np.nan

    def ask():
        return service.submit(owner, laplace, upload(values=values), "ward", request="k")

    first = ask()
    with running(service):
        failed = ended(service, owner, first)
    assert (failed.state, failed.problem.retryable) == ("failed", False)
    assert ask() == failed


def test_other_content_is_refused_after_the_end_too(service, owner, ask):
    service.cancel(owner, ask().id)
    with pytest.raises(BadInput, match="made from other content"):
        ask(seed=1)
    assert kinds(service, owner) == ["hold", "release"]


def test_where_the_budget_is_gone_meanwhile_the_job_stays_as_it_ended(service, owner, ask, upload):
    first = ask()
    service.cancel(owner, first.id)
    rest = ReleaseRequest("gaussian", {"epsilon": 7.9, "delta": 9e-6, "clip": 1.0})
    service.protect(owner, rest, upload(), "ward")
    with pytest.raises(BudgetRefused):
        ask()
    found = service.job(owner, first.id)
    assert (found.state, found.problem.type, found.problem.spent) == ("cancelled", "cancelled", False)
    assert os.listdir(service.settings.data / "jobs") == []
    with pytest.raises(BudgetRefused):
        ask()


def test_a_repeated_job_counts_among_those_at_once(service, owner, ask, upload):
    service.registry.set_quotas(owner.tenant, Quotas(jobs_at_once=1))
    first = ask()
    service.cancel(owner, first.id)
    other = service.submit(owner, GAUSSIAN, upload(), "ward")
    with pytest.raises(QuotaRefused):
        ask()
    service.cancel(owner, other.id)
    assert ask().state == "queued"
    with pytest.raises(QuotaRefused):
        service.submit(owner, GAUSSIAN, upload(), "ward")


@pytest.mark.parametrize("drew", [False, True])
@pytest.mark.parametrize("brought", [False, True])
def test_a_repetition_that_was_cut_off_is_completed_or_can_be_repeated(
    service, owner, ask, janitor, monkeypatch, drew, brought
):
    first = ask()
    cancelled(service, owner, first, "drawing" if drew else None)
    files, cut = service.job_store.files, KeyboardInterrupt

    def die(*_):
        raise cut

    with monkeypatch.context() as patched:
        patched.setattr(*((service.job_store, "held", die) if brought else (files, "store", die)))
        with pytest.raises(cut):
            ask()
    with pytest.raises(Busy):
        ask()
    record = service.job_store.table.get(first.id)
    service.job_store.table.renew(first.id, record.worker, -1.0)
    assert janitor.tidy() == 1
    found = service.job(owner, first.id)
    assert found.state == ("queued" if brought else "failed")
    if not brought:
        assert (found.problem.retryable, found.problem.spent) == (True, drew)
        assert ask().id == first.id
    with running(service):
        assert ended(service, owner, first).state == "done"
    assert kinds(service, owner).count("commit") == 1
    assert service.budget(owner, "ward")["open_holds"] == 0


def test_whoever_ended_a_job_does_not_take_the_files_of_its_repetition(service, owner, ask, monkeypatch):
    """The request comes again in the instant between the end in the record and the end of the files."""
    table, finish = service.job_store.table, service.job_store.table.finish
    first = ask()

    def finished(*rest, **words):
        done = finish(*rest, **words)
        monkeypatch.setattr(table, "finish", finish)
        assert ask().state == "queued"
        return done

    monkeypatch.setattr(table, "finish", finished)
    service.cancel(owner, first.id)
    with running(service):
        assert ended(service, owner, first).state == "done"
