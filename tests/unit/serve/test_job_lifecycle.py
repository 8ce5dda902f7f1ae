"""Jobs: accepted once, paid before they draw, seen and cancelled by their own tenant alone."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import os
import stat

import numpy as np
import pytest
from job_service import (
    GAUSSIAN,
    Stopping,
    callers,
    claimed,
    ended,
    kinds,
    owner,
    running,
    service,
    upload,
    worked,
)
from PIL import Image

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused
from sfumato.release import ReleaseRequest, keyed, protect
from sfumato.serve.authentication import ledger_name
from sfumato.serve.refusals import Forbidden, NotFound, QuotaRefused
from sfumato.serve.tenant_registry import Quotas

_REFUSED = r"other content|used for another request"


def test_a_job_is_paid_for_released_and_forgets_its_file(service, owner, upload):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    assert (job.state, job.kind, job.dataset, job.result) == ("queued", "protect", "ward", None)
    assert kinds(service, owner) == ["hold"]
    assert service.budget(owner, "ward")["open_holds"] == 1
    with running(service):
        done = ended(service, owner, job)
    assert (done.state, done.share, done.problem) == ("done", 1.0, None)
    assert kinds(service, owner) == ["hold", "commit"]
    release = service.release(owner, done.result["release"])
    assert release.sha256 == done.result["sha256"]
    assert np.load(release.file)["X"].shape == (40, 4)
    certificate = service.certificate(owner, release.id)
    checks = service.verified(owner, release.file, certificate)["checks"]
    assert [check["outcome"] for check in checks] == ["holds"] * 4
    assert os.listdir(service.settings.data / "jobs") == []
    assert [one.id for one in service.releases(owner)] == [release.id]


def test_a_format_that_is_only_read_is_released_in_another_by_a_job_too(service, callers, upload):
    service.open_budget(callers["owner"], "photos", epsilon=8, delta=1e-5, unit="region:16")
    picture = upload().with_name("x.gif")
    Image.fromarray(np.arange(32 * 32, dtype=np.uint8).reshape(32, 32)).save(picture)
    asked = ReleaseRequest(None, {"epsilon": 4.0, "unit": "region:16"})
    direct = service.protect(callers["owner"], asked, picture, "photos")
    job = service.submit(callers["owner"], asked, picture, "photos")
    with running(service):
        done = ended(service, callers["owner"], job)
    assert done.state == "done"
    assert done.result["name"] == direct.name == "release.png"


def test_what_waits_is_private(service, owner, upload):
    service.submit(owner, GAUSSIAN, upload(), "ward")
    for folder, folders, files in os.walk(service.settings.data / "jobs"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert folders or files == ["x.npz"]


def test_a_request_is_one_job_and_draws_what_the_library_draws(service, owner, upload, tmp_path):
    first = service.submit(owner, GAUSSIAN, upload(), "ward", request="monday")
    assert service.submit(owner, GAUSSIAN, upload(), "ward", request="monday").id == first.id
    with running(service):
        done = ended(service, owner, first)
    again = service.submit(owner, GAUSSIAN, upload(), "ward", request="monday")
    assert (again.id, again.state) == (first.id, "done")
    assert kinds(service, owner) == ["hold", "commit"]
    noise = service.resources.noise(ledger_name(owner.tenant, "ward"), "request monday")
    out = tmp_path / "x.npz"
    protect(upload(), out, keyed(GAUSSIAN.make_mechanism("array"), noise), keys=service.keys)
    assert out.read_bytes() == service.release(owner, done.result["release"]).file.read_bytes()


@pytest.mark.parametrize("first", ["job", "spend"])
def test_other_content_never_meets_the_noise_of_a_request(service, owner, upload, first):
    ask = {"job": service.submit, "spend": service.protect}
    ask[first](owner, GAUSSIAN, upload(), "ward", request="monday")
    for seed in (0, 1):
        for way in ask:
            if way == first and seed == 0:
                continue
            with pytest.raises(BadInput, match=_REFUSED):
                ask[way](owner, GAUSSIAN, upload(seed), "ward", request="monday")
    other = ReleaseRequest("gaussian", {"epsilon": 2.0, "delta": 1e-6, "clip": 1.0})
    with pytest.raises(BadInput, match=_REFUSED):
        ask[first](owner, other, upload(), "ward", request="monday")
    assert len(kinds(service, owner)) == 1
    assert len(service.jobs(owner)) == (1 if first == "job" else 0)


def test_bad_input_is_refused_at_once_or_gives_its_price_back(service, owner, upload):
    with pytest.raises(BadInput):
        service.submit(owner, ReleaseRequest("no such"), upload(), "ward")
    with pytest.raises(NotFound):
        service.submit(owner, GAUSSIAN, upload(), "street")
    assert kinds(service, owner) == []
    values = np.zeros((40, 4))
    values[7, 2] = np.nan
    job = service.submit(owner, GAUSSIAN, upload(values=values), "ward")  # only reading all of it would tell
    with running(service):
        failed = ended(service, owner, job)
    assert failed.state == "failed"
    assert (failed.problem.type, failed.problem.retryable, failed.problem.spent) == (
        "bad-input",
        False,
        False,
    )
    assert kinds(service, owner) == ["hold", "release"]
    assert service.budget(owner, "ward")["used"] == 0.0
    assert service.releases(owner) == []
    assert os.listdir(service.settings.releases) == []


def test_what_a_budget_refuses_leaves_nothing_behind(service, owner, upload):
    service.registry.set_quotas(owner.tenant, Quotas(jobs_at_once=1))
    dear = ReleaseRequest("gaussian", {"epsilon": 7.9, "delta": 1e-6, "clip": 1.0})
    for _ in range(2):
        with pytest.raises(BudgetRefused):
            service.submit(
                owner, ReleaseRequest("gaussian", dict(dear.parameters) | {"epsilon": 50.0}), upload(), "ward"
            )
    assert service.jobs(owner) == []
    assert os.listdir(service.settings.data / "jobs") == []
    service.submit(owner, dear, upload(), "ward")  # the quota was given back too
    with pytest.raises(QuotaRefused) as refused:
        service.submit(owner, GAUSSIAN, upload(), "ward")
    assert refused.value.seconds == 10.0
    with running(service):
        ended(service, owner, service.jobs(owner)[0])
    with pytest.raises(BudgetRefused):
        service.submit(owner, dear, upload(), "ward")


def test_tenants_and_roles_keep_to_their_own(service, callers, owner, upload):
    job = service.submit(callers["publisher"], GAUSSIAN, upload(), "ward", request="k")
    with pytest.raises(Forbidden):
        service.submit(callers["auditor"], GAUSSIAN, upload(), "ward")
    with pytest.raises(Forbidden):
        service.cancel(callers["auditor"], job.id)
    assert service.job(callers["auditor"], job.id).state == "queued"
    stranger = callers["stranger"]
    unknown = "0" * 24
    for asks in (service.job, service.cancel, service.audit, service.report_page, service.release):
        sentences = []
        for id_ in (job.id, unknown, "../" + job.id, "x" * 500):
            with pytest.raises(NotFound) as refused:
                asks(stranger, id_)
            sentences.append(str(refused.value).replace(id_[:40], "ID"))
        assert len(set(sentences)) == 1
    with pytest.raises(NotFound):
        service.submit(stranger, GAUSSIAN, upload(), "ward", request="k")
    assert service.jobs(stranger) == []
    assert service.jobs(stranger, cursor=job.id) == []
    assert service.releases(stranger, cursor=job.id) == []
    service.open_budget(stranger, "ward", epsilon=8, delta=1e-5)
    own = service.submit(stranger, GAUSSIAN, upload(), "ward", request="k")
    assert own.id != job.id
    with running(service):
        files = [
            service.release(caller, ended(service, caller, one).result["release"]).file
            for caller, one in ((owner, job), (stranger, own))
        ]
    assert files[0].read_bytes() != files[1].read_bytes()
    assert kinds(service, owner) == kinds(service, stranger) == ["hold", "commit"]


def test_a_key_for_some_datasets_sees_their_jobs_alone(service, owner, upload):
    service.open_budget(owner, "street", epsilon=8, delta=1e-5)
    _, token = service.registry.create_key(owner.tenant, name="k", role="owner", datasets=["street"])
    narrow = service.registry.authenticate(token)
    jobs = [service.submit(owner, GAUSSIAN, upload(), name) for name in ("ward", "street", "ward", "street")]
    assert [one.id for one in service.jobs(narrow)] == [jobs[3].id, jobs[1].id]
    assert [one.id for one in service.jobs(narrow, limit=1, cursor=jobs[3].id)] == [jobs[1].id]
    with pytest.raises(NotFound):
        service.job(narrow, jobs[0].id)


def test_lists_are_paged_newest_first(service, owner, upload):
    jobs = [service.submit(owner, GAUSSIAN, upload(), "ward", request=f"r{n}") for n in range(5)]
    with running(service):
        for one in jobs:
            ended(service, owner, one)
    for asks, expected in (
        (service.jobs, [one.id for one in reversed(jobs)]),
        (service.releases, [one.id for one in service.releases(owner)]),
    ):
        found, cursor = [], None
        while page := asks(owner, limit=2, cursor=cursor):
            assert len(page) <= 2
            found += [one.id for one in page]
            cursor = page[-1].id
        assert found == expected
        assert len(found) == 5
    for limit in (0, 1001):
        with pytest.raises(BadInput, match="1 to 1,000"):
            service.jobs(owner, limit=limit)


def test_cancelling_before_work_gives_the_price_back(service, owner, upload):
    job = service.submit(owner, GAUSSIAN, upload(), "ward", request="k")
    cancelled = service.cancel(owner, job.id)
    assert (cancelled.state, cancelled.problem.spent) == ("cancelled", False)
    assert kinds(service, owner) == ["hold", "release"]
    assert service.cancel(owner, job.id) == cancelled
    with pytest.raises(BadInput, match="used for another request"):
        service.protect(owner, GAUSSIAN, upload(), "ward", request="k")
    with running(service) as runner:
        assert runner.alive
    assert not service.job_store.files.of(job.id)


def test_a_job_that_is_worked_on_says_that_it_is_being_cancelled(service, owner, upload):
    job = service.submit(owner, GAUSSIAN, upload(), "ward")
    record = claimed(service, seconds=60.0)
    assert not service.job(owner, job.id).cancelling
    answered = service.cancel(owner, job.id)
    assert (answered.state, answered.cancelling) == ("running", True)
    assert service.job(owner, job.id) == answered
    worked(service, record, Stopping("checking", lambda: None))
    ended = service.job(owner, job.id)
    assert (ended.state, ended.cancelling) == ("cancelled", False)


@pytest.mark.parametrize("stage", ["checking", "drawing"])
@pytest.mark.parametrize("request_", [None, "k"])
def test_cancelling_during_work_spends_only_what_drew(service, owner, upload, stage, request_):
    job = service.submit(owner, GAUSSIAN, upload(), "ward", request=request_)
    record = claimed(service, seconds=60.0)
    worked(service, record, Stopping(stage, lambda: service.cancel(owner, job.id)))
    found = service.job(owner, job.id)
    drew = stage == "drawing"
    assert (found.state, found.problem.type, found.problem.spent) == ("cancelled", "cancelled", drew)
    assert kinds(service, owner) == ["hold", "commit" if drew else "release"]
    assert service.releases(owner) == []
    assert os.listdir(service.settings.releases) == []


def test_jobs_of_the_busiest_tenant_are_not_all_before_those_of_others(service, callers, owner, upload):
    service.open_budget(callers["stranger"], "ward", epsilon=8, delta=1e-5)
    first = [service.submit(owner, GAUSSIAN, upload(), "ward").id for _ in range(3)]
    other = service.submit(callers["stranger"], GAUSSIAN, upload(), "ward").id
    assert [claimed(service, seconds=60).id for _ in range(4)] == [first[0], other, *first[1:]]
    assert service.job_store.table.counts() == {"queued": 0, "running": 4, "oldest_queued_seconds": 0.0}
