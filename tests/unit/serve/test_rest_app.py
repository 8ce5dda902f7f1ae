"""REST: releases that are paid for, tenants that never meet, and refusals as problem details."""

import base64
import io
import json
import sqlite3

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient

from sfumato.mechanisms import Gaussian
from sfumato.release import protect
from sfumato.reports import PublicKey, file_digest
from sfumato.serve.release_store import Releases
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Quotas

ASKED = {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}}


def npz(seed=0, rows=30):
    values = np.random.default_rng(seed).normal(size=(rows, 4))
    out = io.BytesIO()
    np.savez(out, X=values)
    return out.getvalue()


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", body_bytes=1 << 20))
    yield made
    made.close()


@pytest.fixture
def client(service):
    with TestClient(make_app(service), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def keys(service):
    """The headers of an owner, a publisher and an auditor of one tenant, and of the owner of another."""
    clinic, other = (service.registry.create_tenant(name) for name in ("clinic", "other"))
    made = {
        role: service.registry.create_key(clinic.id, name=role, role=role)[1]
        for role in ("owner", "publisher", "auditor")
    }
    made["stranger"] = service.registry.create_key(other.id, name="owner", role="owner")[1]
    return {name: {"Authorization": f"Bearer {token}"} for name, token in made.items()}


@pytest.fixture
def ward(client, keys):
    """A budget of ε = 8 of the clinic."""
    made = client.post(
        "/v1/budgets", headers=keys["owner"], json={"dataset": "ward", "epsilon": 8, "delta": 1e-5}
    )
    assert made.status_code == 201
    return made.json()


def asked(dataset="ward", operation="protect", name="x.npz", description=None):
    return (
        f"/v1/datasets/{dataset}/{operation}",
        {"name": name, "asked": json.dumps(ASKED if description is None else description)},
    )


def released(client, headers, body=None, **words):
    path, query = asked(**words)
    return client.post(path, params=query, headers=headers, content=npz() if body is None else body)


def problem(answer, status, kind):
    """A problem with this status and type; returns its sentence."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (found["status"], found["type"]) == (status, kind)
    assert found["detail"].endswith((".", "?"))
    return found["detail"]


def test_a_file_is_released_paid_for_certified_and_found_again(client, keys, ward):
    planned = released(client, keys["publisher"], operation="plan").json()
    assert planned["cost"]["fits"]
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["used"] == 0.0
    done = released(client, keys["publisher"])
    assert done.status_code == 200
    values = np.load(io.BytesIO(done.content))["X"]
    assert values.shape == (30, 4)
    budget = client.get("/v1/budgets/ward", headers=keys["auditor"]).json()
    assert budget["used"] == pytest.approx(planned["cost"]["balance"]["used"])
    id_ = done.headers["sfumato-release"]
    (listed,) = client.get("/v1/releases", headers=keys["auditor"]).json()
    assert listed["id"] == id_
    assert listed["statement"]["mechanism"] == "Gaussian"
    assert client.get(f"/v1/releases/{id_}/content", headers=keys["auditor"]).content == done.content
    certificate = client.get(f"/v1/releases/{id_}/certificate", headers=keys["auditor"])
    query = {"name": "x.npz", "certificate": certificate.text}
    for body, holds in ((done.content, True), (npz(5), False)):
        answer = client.post("/v1/verify", params=query, headers=keys["auditor"], content=body).json()
        assert answer["holds"] is holds
    kinds = [entry["kind"] for entry in client.get("/v1/budgets/ward/history", headers=keys["owner"]).json()]
    assert kinds == ["open", "spend"]


def test_the_name_of_an_uploaded_file_travels_with_no_release(client, keys, ward, service):
    done = released(client, keys["publisher"], name="anna_mueller_hiv_positive.npz")
    assert done.headers["content-disposition"] == 'attachment; filename="release.npz"'
    of = f"/v1/releases/{done.headers['sfumato-release']}"
    answers = [
        client.get(path, headers=keys["auditor"]) for path in (of, f"{of}/certificate", f"{of}/content")
    ]
    answers.append(client.get("/v1/budgets/ward/history", headers=keys["auditor"]))
    payload = base64.b64decode(answers[1].json()["payload"]).decode()
    assert json.loads(payload)["subject"][0]["name"] == "release.npz"
    seen = [done, *answers]
    assert not any("anna" in one.text + str(one.headers) for one in seen)
    assert "anna" not in payload
    assert "anna" not in str(list(service.settings.releases.rglob("*")))


def test_a_key_that_expires_makes_none_that_outlasts_it(client, keys):
    until = "2999-01-31T12:00:00+00:00"

    def made(headers, **new):
        return client.post("/v1/keys", headers=headers, json={"name": "n", "role": "owner"} | new)

    token = made(keys["owner"], expires=until).json()["token"]
    owner = {"Authorization": f"Bearer {token}"}
    assert made(owner).json()["expires"] == until
    assert made(owner, expires="2030-01-31T12:00:00+00:00").status_code == 201
    for later in ("2999-01-31T12:00:01+00:00", "2999-01-31T11:00:00-02:00"):
        problem(made(owner, expires=later), 403, "forbidden")
    problem(made(owner, expires="2030-01-31T12:00:00"), 400, "bad-input")
    lasting = client.get("/v1/keys", headers=owner).json()[0]
    assert lasting["expires"] is None
    problem(client.post(f"/v1/keys/{lasting['id']}/s3", headers=owner), 403, "forbidden")


def test_a_key_of_one_dataset_learns_nothing_of_the_payments_of_another(client, keys, ward):
    done = released(client, keys["publisher"])
    id_ = done.headers["Sfumato-Release"]
    certificate = client.get(f"/v1/releases/{id_}/certificate", headers=keys["owner"]).text
    query = {"name": "x.npz", "certificate": certificate}

    def outcomes(headers):
        found = client.post("/v1/verify", params=query, headers=headers, content=done.content).json()
        return {check["what"]: check["outcome"] for check in found["checks"]}

    narrowed = {"name": "n", "role": "auditor", "datasets": ["other"]}
    token = client.post("/v1/keys", headers=keys["owner"], json=narrowed).json()["token"]
    assert outcomes(keys["auditor"])["ledger"] == "holds"
    assert outcomes({"Authorization": f"Bearer {token}"})["ledger"] == "not checked"


def test_a_repeated_request_is_charged_once_and_gives_the_same_bytes(client, keys, ward):
    headers = keys["publisher"] | {"Idempotency-Key": "monday"}
    first, again = (released(client, headers) for _ in range(2))
    assert first.status_code == 200
    assert first.content == again.content
    assert first.headers["sfumato-release"] == again.headers["sfumato-release"]
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["spends"] == 1
    assert "other content" in problem(released(client, headers, npz(1)), 409, "conflict")
    fresh = released(client, keys["publisher"])
    assert fresh.content != first.content
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["spends"] == 2


def test_a_release_takes_the_place_of_one_that_was_cut_off(client, keys, ward, service):
    headers = keys["publisher"] | {"Idempotency-Key": "monday"}
    first = released(client, headers)
    (folder,) = service.settings.releases.glob(f"*/{first.headers['sfumato-release']}")
    (folder / "release.json").unlink()  # as by who was killed while discarding it
    (folder / "x.npz").write_bytes(b"half")
    again = released(client, headers)
    assert again.content == first.content
    assert {file.name for file in folder.iterdir()} == {
        "release.npz",
        "release.npz.cert.json",
        "release.json",
    }


def test_of_two_that_make_one_release_at_once_the_first_stays(service, tmp_path, monkeypatch):
    made = Releases(service.resources)
    add_row = made._add_row
    tenant, id_ = service.registry.create_tenant("clinic").id, "0" * 24
    source = tmp_path / "x.npz"
    source.write_bytes(npz())
    with made.drawing() as one, made.drawing() as other:
        first, second = (protect(source, at / "x.npz", Gaussian(1.0, 1e-5, clip=1.0)) for at in (one, other))

        digest = file_digest(first.output)
        assert digest != file_digest(second.output)

        def meanwhile(*row):
            monkeypatch.undo()
            made.keep(tenant, id_, "ward", None, first, None)
            add_row(*row)

        monkeypatch.setattr(made, "_add_row", meanwhile)
        kept = made.keep(tenant, id_, "ward", None, second, None)
    assert kept.sha256 == file_digest(kept.file) == digest


def test_of_two_that_find_a_release_cut_off_neither_removes_what_the_other_made(
    service, tmp_path, monkeypatch
):
    made = Releases(service.resources)
    tenant, id_ = service.registry.create_tenant("clinic").id, "0" * 24
    half = made.folder(tenant, id_)
    half.mkdir(parents=True)
    (half / "x.npz").write_bytes(b"half")
    source = tmp_path / "x.npz"
    source.write_bytes(npz())
    with made.drawing() as one, made.drawing() as other:
        first, second = (protect(source, at / "x.npz", Gaussian(1.0, 1e-5, clip=1.0)) for at in (one, other))
        digest, remove = file_digest(first.output), made._remove_incomplete

        def meanwhile(folder):
            monkeypatch.undo()
            made.keep(tenant, id_, "ward", None, first, None)
            remove(folder)

        monkeypatch.setattr(made, "_remove_incomplete", meanwhile)
        kept = made.keep(tenant, id_, "ward", None, second, None)
    assert kept.sha256 == file_digest(kept.file) == digest
    assert {file.name for file in half.iterdir()} == {"x.npz", "x.npz.cert.json", "release.json"}


def test_releases_that_the_index_lost_are_noted_again(client, keys, ward, service):
    first, second = (released(client, keys["publisher"]).headers["sfumato-release"] for _ in range(2))
    listed = client.get("/v1/releases", headers=keys["owner"]).json()
    with sqlite3.connect(service.settings.data / "service.db") as database:  # as a power cut or a backup
        database.execute("DELETE FROM serve_releases WHERE id = ?", [first])
    assert [one["id"] for one in client.get("/v1/releases", headers=keys["owner"]).json()] == [second]
    assert service.release_store.index_all() == 1
    assert client.get("/v1/releases", headers=keys["owner"]).json() == listed
    assert service.release_store.index_all() == 0


def test_datasets_have_their_tenants_own_names_in_plans_and_refusals(client, keys, ward, service):
    (tenant,) = {one.id for one in service.registry.tenants() if one.name == "clinic"}
    query = {"name": "x.npz", "asked": json.dumps({"parameters": {"epsilon": 900, "clip": 1}})}
    for operation, status in (("plan", 200), ("protect", 409), ("jobs", 409)):
        answer = client.post(
            f"/v1/datasets/ward/{operation}", params=query, headers=keys["publisher"], content=npz()
        )
        assert answer.status_code == status, answer.text
        assert tenant not in answer.text
        assert "ward" in answer.text


def test_a_tenant_neither_sees_nor_spends_what_another_has(client, keys, ward):
    done = released(client, keys["publisher"])
    id_, stranger = done.headers["sfumato-release"], keys["stranger"]
    assert client.get("/v1/budgets", headers=stranger).json() == []
    assert client.get("/v1/releases", headers=stranger).json() == []
    for path in ("/v1/budgets/ward", "/v1/budgets/ward/history"):
        own = problem(client.get(path.replace("ward", "none"), headers=stranger), 404, "not-found")
        assert problem(client.get(path, headers=stranger), 404, "not-found") == own.replace("none", "ward")
    for path in (f"/v1/releases/{id_}", f"/v1/releases/{id_}/content", f"/v1/releases/{id_}/certificate"):
        problem(client.get(path, headers=stranger), 404, "not-found")
    problem(released(client, stranger), 404, "not-found")
    opened = client.post("/v1/budgets", headers=stranger, json={"dataset": "ward", "epsilon": 1, "delta": 0})
    assert opened.status_code == 201
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["epsilon"] == 8.0


def test_roles_allow_what_they_say(client, keys, ward):
    problem(released(client, keys["auditor"]), 403, "forbidden")
    new = {"dataset": "x", "epsilon": 1, "delta": 0}
    problem(client.post("/v1/budgets", headers=keys["publisher"], json=new), 403, "forbidden")
    for role in ("publisher", "auditor"):
        problem(client.get("/v1/keys", headers=keys[role]), 403, "forbidden")
        problem(client.get("/v1/policy", headers=keys[role]), 403, "forbidden")


def test_keys_are_made_narrowed_and_revoked(client, keys, ward):
    made = client.post(
        "/v1/keys",
        headers=keys["owner"],
        json={"name": "robot", "role": "publisher", "scopes": ["plan", "protect"], "datasets": ["ward"]},
    )
    assert made.status_code == 201
    robot = {"Authorization": f"Bearer {made.json()['token']}"}
    assert released(client, robot).status_code == 200
    problem(client.get("/v1/releases", headers=robot), 403, "forbidden")
    listed = client.get("/v1/keys", headers=keys["owner"]).text
    assert made.json()["token"] not in listed
    assert client.delete(f"/v1/keys/{made.json()['id']}", headers=keys["owner"]).status_code == 200
    problem(released(client, robot), 401, "unauthenticated")
    problem(client.delete("/v1/keys/0123456789abcdef", headers=keys["owner"]), 404, "not-found")


def test_a_narrowed_key_revokes_only_what_it_could_have_made(client, keys):
    def key(**given):
        made = client.post("/v1/keys", headers=keys["owner"], json={"role": "owner"} | given).json()
        return made["id"], {"Authorization": f"Bearer {made['token']}"}

    _, keeper = key(name="keeper", scopes=["keys", "read"])
    owner = client.get("/v1/me", headers=keys["owner"]).json()["key"]
    reader, _ = key(name="reader", role="auditor", scopes=["read"])
    named, _ = key(name="named", role="auditor", scopes=["read"], reader="anna")
    for other in (owner, named):
        problem(client.delete(f"/v1/keys/{other}", headers=keeper), 403, "forbidden")
    assert client.get("/v1/me", headers=keys["owner"]).status_code == 200
    assert client.delete(f"/v1/keys/{reader}", headers=keeper).status_code == 200
    _, brief = key(name="brief", expires="2100-01-01T00:00:00+00:00")
    problem(client.delete(f"/v1/keys/{owner}", headers=brief), 403, "forbidden")
    problem(client.delete("/v1/keys/0123456789abcdef", headers=keeper), 404, "not-found")
    itself = client.get("/v1/me", headers=keeper).json()["key"]
    assert client.delete(f"/v1/keys/{itself}", headers=keeper).status_code == 200


def test_a_time_that_no_calendar_has_is_refused(client, keys):
    late = {"name": "late", "role": "auditor", "expires": "9999-12-31T23:59:59-23:59"}
    problem(client.post("/v1/keys", headers=keys["owner"], json=late), 400, "bad-input")


def test_options_and_refusals_name_every_method_of_a_path(client, keys):
    for path, methods in (
        ("/v1/keys", "GET, POST, OPTIONS"),
        ("/v1/policy", "GET, PUT, OPTIONS"),
        ("/v1/proxies/files", "DELETE, GET, OPTIONS"),
        ("/v1/datasets/ward/protect", "POST, OPTIONS"),
        ("/ui", "GET, HEAD, OPTIONS"),
        ("/ui/sign-in", "GET, HEAD, POST, OPTIONS"),
    ):
        asked_for = client.options(path)
        assert (asked_for.status_code, asked_for.headers["allow"]) == (204, methods)
        refused = client.request("PATCH", path, headers=keys["owner"])
        assert (refused.status_code, refused.headers["allow"]) == (405, methods)
    led = client.get("/ui", follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (307, "/ui/")


def test_what_a_key_does_not_allow_is_named_in_english(client, keys):
    said = problem(client.get("/v1/keys", headers=keys["auditor"]), 403, "forbidden")
    assert said.startswith("this key does not allow the operation 'keys' here; ask")


def test_answers_are_kept_by_nobody_and_browsers_stay_with_tls(client, keys, ward):
    release = released(client, keys["publisher"]).headers["sfumato-release"]
    for path in ("/v1/me", "/v1/budgets", f"/v1/releases/{release}/content", "/v1/nowhere", "/s3/files"):
        answer = client.get(path, headers=keys["owner"])
        assert answer.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in answer.headers
    for answer in (
        client.get("https://testserver/v1/me", headers=keys["owner"]),
        client.get("/ui/sign-in", headers={"X-Forwarded-Proto": "https"}),
    ):
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert client.get("/ui/static/dashboard.css").headers["cache-control"] == "public, max-age=3600"


def test_a_policy_is_replaced_only_by_who_has_seen_it(client, keys):
    before = client.get("/v1/policy", headers=keys["owner"]).json()
    new = {"policy": before["policy"], "after": before["version"]}
    after = client.put("/v1/policy", headers=keys["owner"], json=new)
    assert after.json()["version"] == before["version"] + 1
    problem(client.put("/v1/policy", headers=keys["owner"], json=new), 409, "conflict")


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer sfu_1_2", "Basic eDp5", "Bearer " + "x" * 500]
)
def test_without_a_valid_key_nothing_is_answered(client, header):
    given = {} if header is None else {"Authorization": header}
    for path in ("/v1/budgets", "/v1/releases", "/v1/me", "/v1/keys"):
        problem(client.get(path, headers=given), 401, "unauthenticated")


def test_a_tenant_brings_no_more_than_its_quota(client, keys, ward, service):
    (clinic,) = [tenant for tenant in service.registry.tenants() if tenant.name == "clinic"]
    service.registry.set_quotas(clinic.id, Quotas(None, 2 * len(npz()) + 10, None))
    answers = [released(client, keys["publisher"]) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    problem(answers[-1], 429, "quota")
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["spends"] == 2


def test_guessing_keys_is_slowed_down(client, keys):
    wrong = {"Authorization": "Bearer sfu_" + "0" * 16 + "_" + "0" * 64}
    statuses = [client.get("/v1/me", headers=wrong).status_code for _ in range(60)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    answer = client.get("/v1/me", headers=wrong)
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("words", "body", "status", "kind"),
    [
        ({"name": "x.exe"}, None, 400, "bad-input"),
        ({"name": "../../x.npz"}, b"PK\x03\x04", 400, "bad-input"),
        ({"name": "x\ny.npz"}, None, 400, "bad-input"),
        ({"name": ".npz"}, None, 400, "bad-input"),
        ({}, b"", 400, "bad-input"),
        ({}, b"no archive", 400, "bad-input"),
        ({}, npz()[:200], 400, "bad-input"),
        ({"description": {"mechanism": "gausian", "parameters": {"epsilon": 1}}}, None, 400, "bad-input"),
        ({"description": {"parameters": {"epsilon": 1}, "file": "/etc/passwd"}}, None, 400, "bad-input"),
        ({"description": {"parameters": {"epsilon": -1, "clip": 1}}}, None, 400, "bad-input"),
        ({"description": {"mechanism": "personalised", "parameters": {"epsilon_file": "/etc/hosts"}}}, None,
         400, "bad-input"),
        ({"description": {"parameters": {"epsilon": 100.0, "clip": 1.0}}}, None, 409, "budget-refused"),
        ({}, b"x" * (2 << 20), 413, "too-large"),
        ({"dataset": "none"}, None, 404, "not-found"),
        ({"dataset": "a b"}, None, 422, "malformed"),
    ],
)  # fmt: skip
def test_bad_input_is_a_problem_and_spends_nothing(client, keys, ward, service, words, body, status, kind):
    sentence = problem(released(client, keys["owner"], body, **words), status, kind)
    assert str(service.settings.data) not in sentence
    assert client.get("/v1/budgets/ward", headers=keys["owner"]).json()["spends"] == 0
    assert client.get("/v1/releases", headers=keys["owner"]).json() == []
    assert list(service.settings.work.rglob("*.*")) == []


def test_what_is_kept_is_for_its_owner_alone(client, keys, ward, service):
    released(client, keys["publisher"])
    for place in (service.settings.data, service.settings.releases, service.settings.work):
        assert place.stat().st_mode & 0o077 == 0
    assert list(service.settings.work.rglob("*.*")) == []


def test_tables_and_pictures_go_the_same_way(client, keys):
    for dataset, unit in (("people", "record"), ("photos", "region:16")):
        new = {"dataset": dataset, "epsilon": 20, "delta": 1e-5, "unit": unit}
        assert client.post("/v1/budgets", headers=keys["owner"], json=new).status_code == 201
    table = {
        "mechanism": "laplace",
        "parameters": {"epsilon": 2},
        "columns": {"age": {"kind": "numeric", "bounds": [0, 100]}},
    }
    done = released(
        client, keys["owner"], b"age\n31\n64\n", dataset="people", name="p.csv", description=table
    )
    assert done.status_code == 200
    assert done.text.splitlines()[0] == "age"
    pytest.importorskip("cv2")
    from sfumato.io import encode_picture

    picture = encode_picture(np.full((32, 32, 3), 90, np.uint8), ".png")
    words = {
        "dataset": "photos",
        "name": "a.png",
        "description": {"parameters": {"epsilon": 4, "unit": "region:16"}},
    }
    done = released(client, keys["owner"], picture, **words)
    assert done.status_code == 200
    assert done.content[:4] == b"\x89PNG"


def test_the_document_is_openapi_31_and_problems_are_in_it(client):
    document = client.get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert {"/v1/datasets/{dataset}/protect", "/v1/budgets", "/v1/verify"} <= set(document["paths"])
    assert {"Problem", "Description"} <= set(document["components"]["schemas"])
    ((scheme, kind),) = document["components"]["securitySchemes"].items()
    assert (kind["type"], kind["scheme"]) == ("http", "bearer")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    open_ones = [one["operationId"] for one in operations if one["security"] != [{scheme: []}]]
    assert [name.partition("_v1_")[0] for name in open_ones] == ["signing_key"]


def test_anybody_may_know_the_key_that_certificates_are_verified_with(client, service, tmp_path):
    answer = client.get("/v1/signing-key")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-pem-file")
    (tmp_path / "service.pem").write_bytes(answer.content)
    assert PublicKey.read(tmp_path / "service.pem").id == service.keys.signing().public.id
    assert b"PRIVATE" not in answer.content


def test_alive_and_ready(client, service):
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}
    problem(client.get("/nothing/here"), 404, "not-found")
