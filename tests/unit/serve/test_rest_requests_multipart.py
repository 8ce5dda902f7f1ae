"""Forms: the same as a whole body, no larger, nowhere else, and refused where they are malformed."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import io
import json
import os
import re
import tempfile

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from job_service import callers, ended, owner, running, service

from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

ASKED = json.dumps({"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}})
LIMIT = 1 << 20
FORM = {"Content-Type": "multipart/form-data; boundary=cut"}


def npz(seed=0, rows=200):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(seed).normal(size=(rows, 4)))
    return out.getvalue()


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", body_bytes=LIMIT))
    yield made
    made.close()


@pytest.fixture
def client(service, owner, monkeypatch, tmp_path):
    """A client whose server has no other folder for temporary files than one that is looked at."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    _, token = service.registry.create_key(owner.tenant, name="k", role="owner")
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(make_app(service), raise_server_exceptions=False, headers=headers) as made:
        yield made
    assert os.listdir(spool) == []
    assert list(service.settings.work.rglob("*.*")) == []


def refused(answer, status, kind):
    assert (answer.status_code, answer.json()["type"]) == (status, kind), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["detail"]


def part(name, content, file=None):
    called = "" if file is None else f'; filename="{file}"'
    head = f'--cut\r\nContent-Disposition: form-data; name="{name}"{called}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def test_a_form_does_what_a_whole_body_does(client, service):
    files, words = {"file": ("x.npz", npz())}, {"asked": ASKED}
    planned = client.post("/v1/datasets/ward/plan", files=files, data=words).json()
    query = {"name": "x.npz", "asked": ASKED}
    assert planned == client.post("/v1/datasets/ward/plan", params=query, content=npz()).json()
    key = {"Idempotency-Key": "k"}
    done = client.post("/v1/datasets/ward/protect", files=files, data=words, headers=key)
    again = client.post("/v1/datasets/ward/protect", params=query, content=npz(), headers=key)
    assert done.status_code == 200
    assert done.content == again.content
    certificate = client.get(f"/v1/releases/{done.headers['sfumato-release']}/certificate").text
    for body, holds in ((done.content, True), (npz(), False)):
        form = {"files": {"file": ("x.npz", body)}, "data": {"certificate": certificate}}
        assert client.post("/v1/verify", **form).json()["holds"] is holds


def test_the_query_names_a_file_whose_part_does_not(client):
    form = {"files": {"file": ("blob", npz())}, "data": {"asked": ASKED}}
    assert client.post("/v1/datasets/ward/plan", params={"name": "x.npz"}, **form).status_code == 200
    refused(client.post("/v1/datasets/ward/plan", **form), 400, "bad-input")


def test_jobs_and_audits_by_forms(client, service, owner):
    files, words = {"file": ("x.npz", npz())}, {"asked": ASKED}
    accepted = client.post("/v1/datasets/ward/jobs", files=files, data=words)
    assert accepted.status_code == 202
    job = accepted.json()
    assert accepted.headers["location"] == f"/v1/jobs/{job['id']}"
    assert client.get("/v1/jobs").json() == [job]
    with running(service):
        done = ended(service, owner, service.job(owner, job["id"])).to_dict()
        assert client.get(f"/v1/jobs/{job['id']}").json() == done
        release = done["result"]["release"]
        by_name = client.post(
            "/v1/datasets/ward/audits", params={"release": release}, files={"original": ("o.npz", npz())}
        )
        content = client.get(f"/v1/releases/{release}/content").content
        certificate = client.get(f"/v1/releases/{release}/certificate").text
        sent = client.post(
            "/v1/datasets/ward/audits",
            files={"original": ("o.npz", npz()), "released": ("x.npz", content)},
            data={"certificate": certificate, "asked": '{"seed": 0}'},
        )
        audits = [ended(service, owner, service.job(owner, one.json()["id"])) for one in (by_name, sent)]
    first, second = (client.get(f"/v1/audits/{one.id}").json() for one in audits)
    assert first == second
    assert first["statement"]["proven"]["theorem"] == "analytic Gaussian"
    for place in (f"/v1/audits/{audits[0].id}/report", f"/v1/releases/{release}/report"):
        page = client.get(place)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "Gaussian" in page.text
    refused(client.get(f"/v1/releases/{audits[0].id}/report"), 404, "not-found")
    assert client.delete(f"/v1/jobs/{job['id']}").json() == done


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "cut off"),
        (part("file", npz(), "x.npz"), "cut off"),
        (b"no form at all", "malformed"),
        (part("asked", ASKED.encode()) + b"--cut--\r\n", "no part file"),
        (part("file", b"", "x.npz") + b"--cut--\r\n", "is empty"),
        (part("file", b"x", "x.exe") + b"--cut--\r\n", "supported suffixes"),
        (part("file", b"x", "../.npz") + b"--cut--\r\n", "name of the file"),
        (part("file", b"x") + b"--cut--\r\n", "name of the file"),
        (part("other", b"x") + b"--cut--\r\n", "its parts are file, asked"),
        (2 * part("file", b"x", "x.npz") + b"--cut--\r\n", "two parts file"),
        (2 * part("asked", b"{}") + b"--cut--\r\n", "two parts asked"),
        (part("asked", b"\xff") + b"--cut--\r\n", "UTF-8"),
        (part("asked", b"x" * 100_001) + b"--cut--\r\n", "100,000"),
        (b"--cut\r\n" + b"X-A: " + b"a" * 9000 + b"\r\n\r\n--cut--\r\n", "headers|malformed"),
        (b"--cut\r\n" + b"X-A: aaaaaaaa\r\n" * 900 + b"\r\n--cut--\r\n", "headers|malformed"),
        (b"--cut\r\nContent-Type: text/plain\r\n\r\nx\r\n--cut--\r\n", "does not say what it is"),
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_such_form_is_refused(client, service, owner, body, why):
    answer = client.post("/v1/datasets/ward/protect", content=body, headers=FORM)
    assert re.search(why, refused(answer, 400, "bad-input"))
    assert service.budget(owner, "ward")["spends"] == 0


@pytest.mark.parametrize("boundary", ["", "; boundary=", f"; boundary={'a' * 71}"])
def test_a_form_needs_a_boundary(client, boundary):
    headers = {"Content-Type": "multipart/form-data" + boundary}
    answer = client.post("/v1/datasets/ward/plan", content=b"--\r\n", headers=headers)
    assert "boundary" in refused(answer, 400, "bad-input")


def test_parts_and_their_sum_are_bounded(client):
    large = {"original": ("o.npz", b"x" * (LIMIT + 1))}
    refused(client.post("/v1/datasets/ward/audits", files=large), 413, "too-large")
    both = dict.fromkeys(("original", "released"), ("o.npz", b"x" * (LIMIT // 2 + 1)))
    refused(client.post("/v1/datasets/ward/audits", files=both), 413, "too-large")

    def endless():
        yield b'--cut\r\nContent-Disposition: form-data; name="file"; filename="x.npz"\r\n\r\n'
        for _ in range(40):
            yield b"x" * (64 << 10)

    refused(client.post("/v1/datasets/ward/protect", content=endless(), headers=FORM), 413, "too-large")


def test_a_form_is_not_looked_at_without_a_key(client):
    headers = FORM | {"Authorization": "Bearer no"}
    answer = client.post("/v1/datasets/ward/jobs", content=b"no form at all", headers=headers)
    refused(answer, 401, "unauthenticated")


def test_the_document_describes_all_ways(client):
    document = client.get("/v1/openapi.json").json()
    for path in ("plan", "protect", "jobs"):
        content = document["paths"][f"/v1/datasets/{{dataset}}/{path}"]["post"]["requestBody"]["content"]
        assert set(content) == {"application/octet-stream", "multipart/form-data", "application/json"}
        form = content["multipart/form-data"]["schema"]
        assert set(form["properties"]) == {"file", "asked"}
        assert form["required"] == ["file"]
    audits = document["paths"]["/v1/datasets/{dataset}/audits"]["post"]
    assert set(audits["requestBody"]["content"]) == {"multipart/form-data"}
    answers = document["paths"]["/v1/datasets/{dataset}/jobs"]["post"]["responses"]
    assert set(answers) >= {"202", "400", "401", "403", "404", "409", "413", "422", "429", "503"}
