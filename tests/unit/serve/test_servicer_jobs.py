"""gRPC: jobs, audits and reports as over REST."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import json
import time

import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
import grpc
from grpc_service import (
    LARGEST,
    Code,
    channel,
    code_of,
    keys,
    listening,
    npz,
    parts,
    refused,
    service,
    stub,
    ward,
)
from job_service import ENDED, running

from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.stub import SfumatoStub
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings


def ended(stub, keys, job):
    until = time.monotonic() + 60
    while (found := stub.GetJob(pb.JobRequest(id=job.id), metadata=keys["owner"])).state not in ENDED:
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


def audit_parts(files, chunk=1000, **asked):
    """What is asked, then each file: its part, its name and its chunks."""
    yield pb.AuditPart(asked=pb.AskedAudit(**({"dataset": "ward"} | asked)))
    for part, (name, body) in files.items():
        yield pb.AuditPart(file=pb.AuditFile(part=part, name=name))
        for at in range(0, len(body), chunk):
            yield pb.AuditPart(chunk=body[at : at + chunk])


def test_jobs_audits_and_reports(stub, keys, ward, service):
    body = npz(rows=200)
    job = stub.Submit(parts(body), metadata=(*keys["publisher"], ("idempotency-key", "k")))
    assert (job.state, job.kind, job.HasField("result_json")) == ("queued", "protect", False)
    again = stub.Submit(parts(body), metadata=(*keys["publisher"], ("idempotency-key", "k")))
    assert again.id == job.id
    with running(service):
        done = ended(stub, keys, job)
        assert done.state == "done"
        release = json.loads(done.result_json)["release"]
        _, *others = stub.GetContent(pb.ReleaseRequest(id=release), metadata=keys["auditor"])
        released = b"".join(part.chunk for part in others)
        request = pb.ReleaseRequest(id=release)
        certificate = stub.GetCertificate(request, metadata=keys["auditor"]).json
        original = {"original": ("o.npz", body)}
        named = stub.SubmitAudit(audit_parts(original, release=release), metadata=keys["auditor"])
        files = original | {"released": ("x.npz", released), "nonmembers": ("n.npz", npz(5, rows=200))}
        sent = stub.SubmitAudit(
            audit_parts(files, certificate_json=certificate, seed=4), metadata=keys["auditor"]
        )
        for one in (named, sent):
            assert ended(stub, keys, one).state == "done"
    found = json.loads(stub.GetAudit(pb.AuditRequest(id=sent.id), metadata=keys["owner"]).json)
    assert found["statement"]["proven"]["theorem"] == "analytic Gaussian"
    for id_ in (release, named.id):
        page = stub.GetReport(pb.ReportRequest(id=id_), metadata=keys["auditor"])
        assert b"Gaussian" in b"".join(chunk.chunk for chunk in page)
    listed = [one.id for one in stub.ListJobs(pb.ListJobsRequest(), metadata=keys["owner"])]
    assert listed == [sent.id, named.id, job.id]
    page = stub.ListJobs(pb.ListJobsRequest(limit=1, cursor=sent.id), metadata=keys["owner"])
    assert [one.id for one in page] == [named.id]
    request = pb.ListReleasesRequest(limit=1, cursor=release)
    assert list(stub.ListReleases(request, metadata=keys["owner"])) == []


def test_cancelled_jobs_say_why(stub, keys, ward):
    job = stub.Submit(parts(), metadata=keys["publisher"])
    cancelled = stub.CancelJob(pb.JobRequest(id=job.id), metadata=keys["publisher"])
    assert cancelled.state == "cancelled"
    assert json.loads(cancelled.problem_json)["spent"] is False
    assert not cancelled.cancelling


def test_a_job_that_is_worked_on_says_that_it_is_being_cancelled(stub, keys, ward, service):
    job = stub.Submit(parts(), metadata=keys["publisher"])
    service.job_store.table.claim("somebody", 60.0)
    answered = stub.CancelJob(pb.JobRequest(id=job.id), metadata=keys["publisher"])
    assert (answered.state, answered.cancelling) == ("running", True)


def test_what_another_tenant_has_is_not_found(stub, keys, ward):
    job = stub.Submit(parts(), metadata=keys["owner"])
    for call, request in (
        (stub.GetJob, pb.JobRequest(id=job.id)),
        (stub.CancelJob, pb.JobRequest(id=job.id)),
        (stub.GetAudit, pb.AuditRequest(id=job.id)),
        (stub.GetReport, pb.ReportRequest(id=job.id)),
    ):
        refused(Code.NOT_FOUND, "not-found", call, request, metadata=keys["stranger"])
    assert list(stub.ListJobs(pb.ListJobsRequest(cursor=job.id), metadata=keys["stranger"])) == []
    assert stub.GetJob(pb.JobRequest(id=job.id), metadata=keys["owner"]).state == "queued"


def test_malformed_streams_of_files_are_refused(stub, keys, ward):
    original = {"original": ("o.npz", npz())}
    asked = pb.AuditPart(asked=pb.AskedAudit(dataset="ward"))
    file = pb.AuditPart(file=pb.AuditFile(part="original", name="o.npz"))
    chunk = pb.AuditPart(chunk=b"x")
    for stream in (
        [],
        [file],
        [asked],
        [asked, chunk],
        [asked, file],
        [asked, file, chunk, asked],
        [asked, file, chunk, file, chunk],
        [asked, pb.AuditPart(file=pb.AuditFile(part="other", name="o.npz")), chunk],
        [asked, pb.AuditPart(file=pb.AuditFile(part="original", name="../../.npz")), chunk],
        list(audit_parts(original)),
        list(audit_parts(original | {"released": ("x.npz", npz())}, release="0" * 24)),
        list(audit_parts(original | {"released": ("x.npz", npz())}, confidence=2.0)),
        list(audit_parts(original | {"released": ("x.npz", npz())}, columns_json="{")),
    ):
        refused(Code.INVALID_ARGUMENT, "bad-input", stub.SubmitAudit, iter(stream), metadata=keys["owner"])
    large = audit_parts(dict.fromkeys(("original", "released"), ("x.npz", b"x" * LARGEST)), chunk=64 << 10)
    refused(Code.RESOURCE_EXHAUSTED, "too-large", stub.SubmitAudit, large, metadata=keys["owner"])
    for limit in (0, -1, 1001):
        request = pb.ListJobsRequest(limit=limit)
        refused(Code.INVALID_ARGUMENT, "bad-input", stub.ListJobs, request, metadata=keys["owner"])


def test_of_several_forwarded_lines_the_last_is_the_proxys(tmp_path):
    """A client behind a trusted proxy cannot pass for another by a line that it made up."""
    made = Service(Settings(tmp_path / "service", trusted_proxies="127.0.0.1"))
    wrong = (("authorization", "Bearer sfu_no"),)
    lines = (("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "192.0.2.7"))
    with (
        listening(made) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        for _ in range(100):
            if (
                code_of(SfumatoStub(channel).Me, pb.MeRequest(), metadata=(*wrong, *lines))
                != Code.UNAUTHENTICATED
            ):
                break
    assert made.throttle.wait("192.0.2.7") > 0.0
    assert made.throttle.wait("198.51.100.1") == made.throttle.wait("127.0.0.1") == 0.0
    made.close()
