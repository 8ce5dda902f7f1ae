"""Room on the disk: full disks, what a tenant may keep, and releases that are deleted."""

import io
import json
import os
import sqlite3
import subprocess
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from fastapi.testclient import TestClient
from grpc_service import listening, parts, refused
from job_service import GAUSSIAN, claimed, kinds, worked

import sfumato as sf
from sfumato.errors import StorageFull
from sfumato.ledger import Ledger
from sfumato.release import protect
from sfumato.reports import KeyRing
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.stub import SfumatoStub
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Quotas, Registry

ASKED = {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}}
PATH, QUERY = "/v1/datasets/ward/protect", {"name": "x.npz", "asked": json.dumps(ASKED)}


@pytest.fixture
def disk(tmp_path):
    """A disk of twelve megabytes."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted for this, which only root may do")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk, left):
    """Take all of the disk but ``left`` bytes."""
    room = os.statvfs(disk)
    with open(disk / "ballast", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - left)


def body():
    """A file that is eight times as large when it is released: 6.4 MB."""
    out = io.BytesIO()
    np.savez_compressed(out, X=np.random.default_rng(0).integers(0, 2, (200, 4000), np.uint8))
    return out.getvalue()


@pytest.fixture
def served(disk):
    """A service on the disk, its owner, and a client of it."""
    service = Service(Settings(disk / "service"))
    clinic = service.registry.create_tenant("clinic")
    token = service.registry.create_key(clinic.id, name="owner", role="owner")[1]
    owner = service.registry.authenticate(token)
    service.open_budget(owner, "ward", epsilon=8, delta=1e-5)
    with TestClient(make_app(service), raise_server_exceptions=False) as client:
        headers = {"Authorization": f"Bearer {token}"}
        yield SimpleNamespace(
            service=service, owner=owner, client=client, headers=headers, disk=disk, token=token
        )
    service.close()


def test_a_disk_without_room_for_the_release_answers_507_and_spends_nothing(served):
    fill(served.disk, 3 << 20)
    for words in ({}, {"Idempotency-Key": "one"}):
        answer = served.client.post(PATH, params=QUERY, headers=served.headers | words, content=body())
        assert (answer.status_code, answer.json()["type"]) == (507, "storage-full"), answer.text
        assert answer.json()["detail"] == "release.npz cannot be written: No space left on device."
        assert "Retry-After" in answer.headers
    assert kinds(served.service, served.owner) == []
    (served.disk / "ballast").unlink()
    answer = served.client.post(PATH, params=QUERY, headers=served.headers, content=body())
    assert answer.status_code == 200
    assert kinds(served.service, served.owner) == ["spend"]


def test_a_disk_without_room_for_the_body_answers_507(served):
    fill(served.disk, 100_000)
    answer = served.client.post(PATH, params=QUERY, headers=served.headers, content=bytes(1 << 20))
    assert (answer.status_code, answer.json()["type"]) == (507, "storage-full")


def test_a_disk_that_fills_up_after_the_payment_is_no_bad_input(served, monkeypatch):
    """Where a disk keeps no room for a file it may be full when the noise is drawn."""
    monkeypatch.setattr("sfumato.release.record_files.reserved", lambda *_: nullcontext())
    fill(served.disk, 3 << 20)
    answer = served.client.post(
        PATH, params=QUERY, headers=served.headers | {"Idempotency-Key": "one"}, content=body()
    )
    assert (answer.status_code, answer.json()["type"]) == (507, "storage-full")
    (served.disk / "ballast").unlink()
    for _ in range(2):  # paid once, whatever happened
        answer = served.client.post(
            PATH, params=QUERY, headers=served.headers | {"Idempotency-Key": "one"}, content=body()
        )
        assert answer.status_code == 200
    assert kinds(served.service, served.owner) == ["spend"]


def test_a_disk_that_fails_answers_503(served, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sfumato.serve.rest.rest_requests.private_file", broken)
    answer = served.client.post(PATH, params=QUERY, headers=served.headers, content=body())
    assert (answer.status_code, answer.json()["type"]) == (503, "storage-failed")
    assert answer.json()["detail"] == "a file of the service cannot be written: Input/output error."


def test_grpc_says_that_its_disk_is_full(served):
    fill(served.disk, 3 << 20)
    metadata = (("authorization", f"Bearer {served.token}"),)
    with (
        listening(served.service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = SfumatoStub(channel)
        refused(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "storage-full",
            stub.Protect,
            parts(body(), chunk=1 << 20),
            metadata=metadata,
        )
    assert kinds(served.service, served.owner) == []


def test_a_job_without_room_for_its_release_spends_nothing_and_may_be_repeated(served, tmp_path):
    service, owner = served.service, served.owner
    file = tmp_path / "x.npz"
    file.write_bytes(body())
    job = service.submit(owner, GAUSSIAN, file, "ward", request="one")
    fill(served.disk, 3 << 20)
    worked(service, claimed(service))
    ended = service.job(owner, job.id)
    assert (ended.state, ended.problem.type) == ("failed", "storage-full")
    assert ended.problem.retryable
    assert not ended.problem.spent
    (served.disk / "ballast").unlink()
    assert service.submit(owner, GAUSSIAN, file, "ward", request="one").id == job.id
    worked(service, claimed(service))
    assert service.job(owner, job.id).state == "done"


@pytest.mark.parametrize("folder", [False, True])
def test_the_pipeline_finds_a_full_disk_before_it_pays(disk, tmp_path, folder):
    source = tmp_path / "in"
    source.mkdir()
    (source / "x.npz").write_bytes(body())
    mechanism, keys = sf.Gaussian(1.0, 1e-6, clip=1.0), KeyRing(tmp_path / "keys")
    fill(disk, 3 << 20)
    with Ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.open("ward", 8.0, 1e-5)

        def release():
            given, output = (source, disk / "out") if folder else (source / "x.npz", disk / "out.npz")
            protect(given, output, mechanism, dataset="ward", ledger=ledger, keys=keys)

        with pytest.raises(StorageFull) as full:
            release()
        assert full.value.exit_code == 6
        assert [entry.kind for entry in ledger.history("ward")] == ["open"]
        (disk / "ballast").unlink()
        release()
        assert [entry.kind for entry in ledger.history("ward")] == ["open", "spend"]


# What a tenant keeps


@pytest.fixture
def tenant(tmp_path):
    """A service whose tenants may keep a megabyte, an owner with a budget, and a client."""
    service = Service(Settings(tmp_path / "service", tenant_bytes=1 << 20))
    clinic = service.registry.create_tenant("clinic")
    token = service.registry.create_key(clinic.id, name="owner", role="owner")[1]
    owner = service.registry.authenticate(token)
    service.open_budget(owner, "ward", epsilon=8, delta=1e-5)
    with TestClient(make_app(service), raise_server_exceptions=False) as client:
        headers = {"Authorization": f"Bearer {token}"}
        yield SimpleNamespace(service=service, owner=owner, client=client, headers=headers, token=token)
    service.close()


def rows(count, seed=0):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(seed).normal(size=(count, 100)))
    return out.getvalue()


def released(tenant, content, **headers):
    return tenant.client.post(PATH, params=QUERY, headers=tenant.headers | headers, content=content)


def test_what_a_tenant_keeps_has_a_quota_and_room_is_made_by_deleting(tenant):
    service, client = tenant.service, tenant.client
    first = released(tenant, rows(800))  # 640 KB
    assert first.status_code == 200
    id_ = first.headers["sfumato-release"]
    full = released(tenant, rows(800))
    assert (full.status_code, full.json()["type"]) == (507, "storage-full")
    assert "at most 1,048,576" in full.json()["detail"]
    assert "delete releases" in full.json()["detail"]
    assert kinds(service, tenant.owner) == ["spend"]
    where = f"/v1/releases/{id_}"
    for _ in range(2):
        gone = client.delete(where, headers=tenant.headers)
        assert gone.status_code == 200
        assert gone.json()["deleted"]
    assert client.get(f"{where}/content", headers=tenant.headers).status_code == 404
    assert client.get(where, headers=tenant.headers).json() == gone.json()
    assert client.get("/v1/releases", headers=tenant.headers).json() == [gone.json()]
    assert client.get(f"{where}/certificate", headers=tenant.headers).status_code == 200
    assert client.get(f"{where}/report", headers=tenant.headers).status_code == 200
    assert not list(service.settings.releases.rglob("*.npz"))
    assert kinds(service, tenant.owner) == ["spend"]
    assert released(tenant, rows(800)).status_code == 200


def test_a_tenant_may_have_a_quota_of_its_own_and_jobs_count(tenant, tmp_path):
    service, owner = tenant.service, tenant.owner
    service.registry.set_quotas(owner.tenant, Quotas(bytes_kept=1_900_000))
    file = tmp_path / "x.npz"
    file.write_bytes(rows(800))
    job = service.submit(owner, GAUSSIAN, file, "ward")
    assert service.storage.stored(owner.tenant) > 640_000
    assert released(tenant, rows(800)).status_code == 200
    worked(service, claimed(service))
    ended = service.job(owner, job.id)
    assert (ended.state, ended.problem.type, ended.problem.spent) == ("failed", "storage-full", False)
    service.registry.set_quotas(owner.tenant, Quotas(bytes_kept=0))
    with pytest.raises(StorageFull):
        service.submit(owner, GAUSSIAN, file, "ward")


def test_the_key_of_a_deleted_release_is_used_up(tenant):
    first = released(tenant, rows(10), **{"Idempotency-Key": "one"})
    tenant.client.delete(f"/v1/releases/{first.headers['sfumato-release']}", headers=tenant.headers)
    again = released(tenant, rows(10), **{"Idempotency-Key": "one"})
    assert (again.status_code, again.json()["type"]) == (409, "conflict")
    assert "was deleted" in again.json()["detail"]
    assert kinds(tenant.service, tenant.owner) == ["spend"]


def test_only_who_may_release_deletes(tenant):
    service = tenant.service
    id_ = released(tenant, rows(10)).headers["sfumato-release"]
    auditor = service.registry.create_key(tenant.owner.tenant, name="a", role="auditor")[1]
    other = service.registry.create_tenant("other")
    stranger = service.registry.create_key(other.id, name="s", role="owner")[1]
    for token, status in ((auditor, 403), (stranger, 404)):
        answer = tenant.client.delete(f"/v1/releases/{id_}", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status
    assert tenant.client.get(f"/v1/releases/{id_}/content", headers=tenant.headers).status_code == 200


def test_releases_are_deleted_over_grpc(tenant):
    id_ = released(tenant, rows(10)).headers["sfumato-release"]
    metadata = (("authorization", f"Bearer {tenant.token}"),)
    with (
        listening(tenant.service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = SfumatoStub(channel)
        assert stub.DeleteRelease(pb.ReleaseRequest(id=id_), metadata=metadata).deleted
        assert stub.GetRelease(pb.ReleaseRequest(id=id_), metadata=metadata).deleted
        asked = pb.ReleaseRequest(id=id_)
        refused(grpc.StatusCode.NOT_FOUND, "not-found", stub.GetContent, asked, metadata=metadata)


def test_a_registry_of_before_quotas_of_storage_is_taken(tmp_path):
    place = tmp_path / "service.db"
    with Registry(f"sqlite:///{place}") as registry:
        id_ = registry.create_tenant("clinic").id
        registry.set_quotas(id_, Quotas(jobs_at_once=3))
    with sqlite3.connect(place) as older:
        older.execute("ALTER TABLE serve_quotas DROP COLUMN bytes_kept")
        older.execute("UPDATE serve_versions SET version = 3")
    with Registry(f"sqlite:///{place}") as registry:
        assert registry.quotas(id_) == Quotas(jobs_at_once=3)
        registry.set_quotas(id_, Quotas(bytes_kept=5))
        assert registry.quotas(id_) == Quotas(bytes_kept=5)
