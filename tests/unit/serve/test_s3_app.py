"""The storage proxy in one process: tiers, payments, refusals, listings, and tenants that never meet."""

import base64
import html
import io
import itertools
import json
import os
import threading
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import quote, unquote

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("botocore", reason="botocore is not installed")
from dashboard_client import Person
from fastapi.testclient import TestClient
from s3_reader import Reader

from sfumato.serve.authentication import ledger_name
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Quotas

X = np.random.default_rng(1).uniform(-0.5, 0.5, size=(40, 3))
ARRAYS = {"array": {"parameters": {"epsilon": [1, 8], "delta": 1e-6, "clip": 1.0}}}
POLICY = {"rules": [{"readers": ["alice"], "distrust": 0.0}, {"readers": ["bob"], "distrust": 0.3}]}


def npz(values):
    out = io.BytesIO()
    np.savez(out, X=values)
    return out.getvalue()


def put(folder, key, content):
    """Let an object appear in a folder that is a bucket, as another file than before."""
    place = folder / key
    place.parent.mkdir(parents=True, exist_ok=True)
    place.with_name(place.name + ".new").write_bytes(content)
    os.replace(place.with_name(place.name + ".new"), place)


def code_of(answer):
    """The code of a refusal, which is S3's XML."""
    assert answer.headers["content-type"] == "application/xml"
    root = ET.fromstring(answer.content)
    assert root.tag == "Error"
    assert root.findtext("Message").endswith(".")
    assert root.findtext("RequestId") == answer.headers["x-amz-request-id"]
    return root.findtext("Code")


@pytest.fixture
def sources(tmp_path):
    """Two folders that are buckets: of the clinic and of somebody else."""
    made = SimpleNamespace(clinic=tmp_path / "clinic-files", other=tmp_path / "other-files")
    for folder in (made.clinic, made.other):
        folder.mkdir()
        put(folder, "X.npz", npz(X))
    return made


@pytest.fixture
def service(tmp_path, sources):
    allowed = (f"clinic=file://{sources.clinic}", f"other=file://{sources.other}")
    made = Service(Settings(tmp_path / "service", body_bytes=1 << 20, sources=allowed))
    yield made
    made.close()


@pytest.fixture
def client(service):
    with TestClient(make_app(service), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def clinic(service, client, sources):
    """A tenant with a budget of ε = 20, a bucket of arrays in three tiers, and readers of different trust."""
    return tenant_of(service, client, "clinic", sources.clinic)


def tenant_of(service, client, name, folder):
    tenant = service.registry.create_tenant(name)
    key, token = service.registry.create_key(tenant.id, name="owner", role="owner")
    headers = {"Authorization": f"Bearer {token}"}

    def ask(method, path, status, **body):
        answer = client.request(method, f"/v1{path}", headers=headers, json=body or None)
        assert answer.status_code == status, answer.text
        return answer.json()

    def reader(name=None, role="auditor", **given):
        made = ask("POST", "/keys", 201, name="reader", role=role, reader=name, **given)
        shown = ask("POST", f"/keys/{made['id']}/s3", 200)
        return Reader(client, shown["access_key_id"], shown["secret_access_key"])

    def declare(name="files", status=201, **given):
        new = {"name": name, "source": f"file://{folder}", "dataset": "ward", "tiers": [0, 0.5, 1]}
        new |= {"files": ARRAYS, "public_names": True}
        return ask("POST", "/proxies", status, **(new | given))

    ask("POST", "/budgets", 201, dataset="ward", epsilon=20, delta=1e-5)
    ask("PUT", "/policy", 200, policy=POLICY)
    declare()
    return SimpleNamespace(
        id=tenant.id,
        key=key,
        ask=ask,
        reader=reader,
        declare=declare,
        spends=lambda dataset="ward": [
            entry
            for entry in service.ledger.history(ledger_name(tenant.id, dataset))
            if entry.kind == "spend"
        ],
    )


def noise_of(answer):
    return float(np.std(np.load(io.BytesIO(answer.content))["X"] - X))


def test_a_key_of_one_tier_opens_that_tier_and_nothing_else(clinic, client):
    words = {"name": "b", "role": "auditor", "scopes": ["tier"], "datasets": ["ward"], "reader": "bob"}
    made = clinic.ask("POST", "/keys", 201, **words)
    shown = clinic.ask("POST", f"/keys/{made['id']}/s3", 200)
    reader = Reader(client, shown["access_key_id"], shown["secret_access_key"])
    answer = reader.ask("/files/X.npz")
    assert (answer.status_code, answer.headers["x-amz-meta-sfumato-tier"]) == (200, "0.5")
    assert [reader.ask(path).status_code for path in ("/", "/files", "/files/X.npz.cert.json")] == [200] * 3
    token = {"Authorization": f"Bearer {made['token']}"}
    assert client.get("/v1/proxies/files/tier", headers=token).json()["tier"] == 0.5
    assert client.get("/v1/proxies", headers=token).json() == []
    for path in (
        "/releases",
        "/budgets",
        "/budgets/ward",
        "/budgets/ward/history",
        "/jobs",
        "/keys",
        "/policy",
    ):
        assert client.get(f"/v1{path}", headers=token).status_code == 403, path
    assert client.get("/v1/proxies/files", headers=token).status_code == 404
    assert client.get("/v1/proxies/files/names", headers=token).status_code == 404
    asked = {"mechanism": "laplace", "parameters": {"bounds": [0, 1], "epsilon": 1}}
    query = {"name": "X.npz", "asked": json.dumps(asked)}
    spent = len(clinic.spends())
    for work in ("plan", "protect"):
        path = f"/v1/datasets/ward/{work}"
        refused = client.post(path, params=query, headers=token, content=npz(X))
        assert (refused.status_code, refused.json()["type"]) == (403, "forbidden"), refused.text
    new = {"dataset": "mine", "epsilon": 1, "delta": 1e-5}
    assert client.post("/v1/budgets", headers=token, json=new).status_code == 403
    assert len(clinic.spends()) == spent
    clinic.ask("POST", "/budgets", 201, dataset="other", epsilon=20, delta=1e-5)
    clinic.declare("elsewhere", dataset="other")
    assert reader.ask("/elsewhere/X.npz").status_code in (403, 404)
    assert reader.ask("/elsewhere").status_code in (403, 404)
    assert b"elsewhere" not in reader.ask("/").content


@pytest.mark.parametrize("offset", ["+9999", "+99999999999999999999", "-2359"])
def test_a_time_with_an_absurd_offset_is_as_none(clinic, offset):
    reader = clinic.reader("alice")
    for header in ("If-Modified-Since", "If-Unmodified-Since"):
        answer = reader.ask("/files/X.npz", **{header: f"Fri, 31 Dec 9999 23:59:59 {offset}"})
        assert answer.status_code in (200, 304)


def test_names_of_objects_are_made_up_unless_the_owner_declares_them_public(clinic, client, sources):
    secret = "anna_mueller_hiv_positive"
    put(sources.clinic, f"ward 7/{secret}.npz", npz(X + 0.1))
    clinic.declare("private", public_names=False)
    reader = clinic.reader("bob")
    listed = reader.ask("/private", "list-type=2")
    names = [one.text for one in ET.fromstring(listed.content).iter() if one.tag.endswith("}Key")]
    assert len(names) == 2
    assert names == sorted(names)
    told = clinic.ask("GET", "/proxies/private/names", 200)
    assert told == {name: told[name] for name in names}
    assert sorted(told.values()) == ["X.npz", f"ward 7/{secret}.npz"]
    seen = [listed.content]
    for name in names:
        answer = reader.ask(f"/private/{name}")
        assert answer.status_code == 200
        assert np.load(io.BytesIO(answer.content)).files == ["X"]
        certificate = reader.ask(f"/private/{name}.cert.json").content
        payload = base64.b64decode(json.loads(certificate)["payload"])
        assert json.loads(payload)["subject"][0]["name"] == name
        assert b"was made up" in payload
        seen += [answer.content, certificate, payload, str(dict(answer.headers)).encode()]
    seen += [repr(entry).encode() for entry in clinic.spends()]
    for private in (b"anna", b"ward 7", b"X.npz"):
        assert not any(private in one for one in seen), private
    for key in ("X.npz", f"ward 7/{secret}.npz", f"{'0' * 32}.npz"):
        assert code_of(reader.ask(f"/private/{key}")) == "NoSuchKey"
    for who in ("bob", None):
        given = {"name": "k", "role": "auditor", "scopes": ["read"], "reader": who}
        token = clinic.ask("POST", "/keys", 201, **given)["token"]
        asked = client.get("/v1/proxies/private/names", headers={"Authorization": f"Bearer {token}"})
        assert asked.status_code == 404
    assert b"declares public" in base64.b64decode(
        json.loads(clinic.reader("bob").ask("/files/X.npz.cert.json").content)["payload"]
    )


def test_readers_get_their_tier_the_same_bytes_every_time_and_all_tiers_cost_one_charge(clinic, service):
    answers = {name: clinic.reader(name).ask("/files/X.npz") for name in ("alice", "bob", "carol")}
    assert [one.status_code for one in answers.values()] == [200, 200, 200]
    tiers = [one.headers["x-amz-meta-sfumato-tier"] for one in answers.values()]
    assert tiers == ["0", "0.5", "1"]
    assert noise_of(answers["alice"]) < noise_of(answers["bob"]) < noise_of(answers["carol"])
    for name, answer in answers.items():
        again = clinic.reader(name).ask("/files/X.npz")
        assert again.content == answer.content
        assert again.headers["etag"] == answer.headers["etag"]
    assert len({one.headers["etag"] for one in answers.values()}) == 3
    (spend,) = clinic.spends()
    assert spend.purpose.startswith("files/X.npz (content ")


def test_each_reader_has_the_certificate_of_their_tier(clinic, service, tmp_path):
    for name, epsilon in (("alice", 8.0), ("bob", 4.5)):
        reader = clinic.reader(name)
        file, beside = reader.ask("/files/X.npz"), reader.ask("/files/X.npz.cert.json")
        assert beside.headers["etag"] != file.headers["etag"]
        stated = json.loads(base64.b64decode(beside.json()["payload"]))
        assert stated["subject"][0]["name"] == "X.npz"
        assert any("all 3 together: ε=8 " in note for note in stated["predicate"]["statement"]["notes"])
        (tmp_path / "X.npz").write_bytes(file.content)
        found = service.verified(service_caller(service, clinic), tmp_path / "X.npz", beside.content)
        assert found["holds"]
        assert {check["what"]: check["outcome"] for check in found["checks"]}["ledger"] == "holds"
        distrust = (8.0 - epsilon) / 7.0
        assert stated["predicate"]["statement"]["parameters"]["distrust"] == distrust


def service_caller(service, tenant):
    from sfumato.serve.authentication import ApiKey

    return ApiKey(tenant.id, tenant.key.id, "owner")


def test_what_was_paid_and_lost_is_drawn_again_for_nothing(clinic, service):
    reader = clinic.reader("bob")
    first = reader.ask("/files/X.npz").content
    for file in (service.settings.data / "proxy").rglob("*"):
        if file.is_file():
            folder = file.parent
            file.unlink()
    for name, age in ((".old", 90_000), (".new", 0)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age, time.time() - age))
    assert reader.ask("/files/X.npz").content == first
    assert len(clinic.spends()) == 1
    # What a process that was killed left half written is gone after a day, and not before.
    assert [file.name for file in folder.glob(".*")] == [".new"]


def test_many_who_ask_at_once_draw_once(clinic):
    readers = [clinic.reader(name) for name in ("alice", "bob", None)]
    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda number: readers[number % 3].ask("/files/X.npz"), range(18)))
    assert {one.status_code for one in answers} == {200}
    assert len({one.content for one in answers}) == 3
    assert len(clinic.spends()) == 1


def test_a_changed_object_is_charged_anew_or_refused_when_the_budget_is_gone(clinic, sources):
    reader, seen = clinic.reader("alice"), set()
    for number in range(20):
        put(sources.clinic, "X.npz", npz(X + number / 1000))
        answer = reader.ask("/files/X.npz")
        if answer.status_code != 200:
            break
        seen.add(answer.headers["etag"])
    assert (answer.status_code, code_of(answer)) == (403, "BudgetRefused")
    assert "ward" in answer.text
    assert len(seen) == len(clinic.spends()) == number
    # What was paid for is still there, under its own bytes: the version is what counts, not the time.
    assert reader.ask("/files/X.npz").status_code == 403


def test_heads_ranges_and_conditions(clinic):
    reader = clinic.reader("bob")
    head = reader.ask("/files/X.npz", method="HEAD")
    whole = reader.ask("/files/X.npz")
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-length", "etag", "last-modified", "content-type"):
        assert head.headers[name] == whole.headers[name]
    assert int(head.headers["content-length"]) == len(whole.content)
    etag, size = whole.headers["etag"], len(whole.content)
    for asked, part in (
        ("bytes=0-9", whole.content[:10]),
        ("bytes=10-", whole.content[10:]),
        ("bytes=-7", whole.content[-7:]),
        (f"bytes=5-{size + 100}", whole.content[5:]),
    ):
        answer = reader.ask("/files/X.npz", Range=asked)
        assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["content-range"].endswith(f"/{size}")
    for ignored in ("bytes=0-1,3-4", "bytes=-", "lines=1-2", "bytes=9-2"):
        assert reader.ask("/files/X.npz", Range=ignored).status_code == 200
    beyond = reader.ask("/files/X.npz", Range=f"bytes={size}-")
    assert (beyond.status_code, code_of(beyond)) == (416, "InvalidRange")
    assert reader.ask("/files/X.npz", If_None_Match=etag).status_code == 304
    assert reader.ask("/files/X.npz", If_None_Match='"other"').status_code == 200
    assert reader.ask("/files/X.npz", If_Match=etag).status_code == 200
    assert code_of(reader.ask("/files/X.npz", If_Match='"other"')) == "PreconditionFailed"
    modified = whole.headers["last-modified"]
    assert reader.ask("/files/X.npz", If_Modified_Since=modified).status_code == 304
    assert reader.ask("/files/X.npz", Range="bytes=0-1", If_Range='"other"').status_code == 200
    assert len(clinic.spends()) == 1


REFUSED = (
    ("secret.txt", "AccessDenied"),
    ("X", "AccessDenied"),
    ("X.npz.bak", "AccessDenied"),
    ("photo.png", "AccessDenied"),
    ("secret.txt.cert.json", "AccessDenied"),
    ("missing.npy", "NoSuchKey"),
    (".hidden.npy", "NoSuchKey"),
    ("folder.npy/inside.npy", "NoSuchKey"),
    ("folder.npy", "NoSuchKey"),
    ("link.npy", "NoSuchKey"),
    ("linked/X.npz", "NoSuchKey"),
    ("../other-files/X.npz", "NoSuchKey"),
    ("a/../../other-files/X.npz", "NoSuchKey"),
    ("./X.npz", "NoSuchKey"),
    ("a//X.npz", "NoSuchKey"),
    ("/X.npz", "NoSuchKey"),
    ("..\\X.npz", "NoSuchKey"),
    ("X\x00.npz", "NoSuchKey"),
    ("X\n.npz", "NoSuchKey"),
    ("*.npz", "NoSuchKey"),
    ("x" * 2000 + ".npy", "NoSuchKey"),
    ("empty.npy", "NoSuchKey"),
)


def test_what_cannot_be_released_is_refused_and_never_passed_through(clinic, sources):
    (sources.clinic / "folder.npy").mkdir()
    for name in ("secret.txt", "photo.png", ".hidden.npy"):
        (sources.clinic / name).write_bytes(b"private")
    (sources.clinic / "empty.npy").touch()
    (sources.clinic / "link.npy").symlink_to(sources.other / "X.npz")
    (sources.clinic / "linked").symlink_to(sources.other)
    reader = clinic.reader("alice")
    for key, code in REFUSED:
        answer = reader.ask_as_it_is(f"/files/{key}")
        assert (answer.status_code, code_of(answer)) == (403 if code == "AccessDenied" else 404, code), key
        assert b"private" not in answer.content
    assert clinic.spends() == []


def test_bad_objects_cost_nothing(clinic, sources, service):
    put(sources.clinic, "broken.npy", b"no array at all")
    bad = X.copy()
    bad[3, 1] = np.nan
    put(sources.clinic, "nan.npz", npz(bad))
    put(sources.clinic, "large.npy", b"\0" * ((1 << 20) + 1))
    reader, owner = clinic.reader("alice"), clinic.reader(role="owner")
    for key, why in (("broken.npy", "broken.npy"), ("nan.npz", "row 4")):
        answer = reader.ask(f"/files/{key}")
        assert (answer.status_code, code_of(answer)) == (403, "AccessDenied")
        # What is wrong inside a private file is for its owner to know.
        assert "cannot be released as it is" in answer.text
        told = owner.ask(f"/files/{key}").text
        assert why in told
        assert "object." not in told
    assert code_of(reader.ask("/files/large.npy")) == "EntityTooLarge"
    bomb = io.BytesIO()
    np.savez_compressed(bomb, X=np.zeros((2_000_000, 1)))
    put(sources.clinic, "bomb.npz", bomb.getvalue())
    assert code_of(reader.ask("/files/bomb.npz")) == "EntityTooLarge"
    assert clinic.spends() == []
    assert list(service.settings.work.rglob("object*")) == []


def test_whatever_is_no_read_is_refused(clinic):
    alice, methods = clinic.reader("alice"), ("PUT", "POST", "DELETE", "PATCH", "OPTIONS")
    for path, method in itertools.product(("/files/X.npz", "/files", "/new-bucket"), methods):
        answer = alice.ask(path, method=method)
        assert (answer.status_code, code_of(answer)) == (405, "MethodNotAllowed")
    assert clinic.spends() == []


def test_other_questions_are_not_answered(clinic):
    alice = clinic.reader("alice")
    for query in (
        "acl",
        "versions",
        "uploads",
        "policy",
        "list-type=1",
        "list-type=2&foo=1",
        "list-type=2&marker=a",
        "start-after=a",
    ):
        answer = alice.ask("/files", query)
        assert (answer.status_code, code_of(answer)) == (501, "NotImplemented")
    answer = alice.ask("/files/X.npz", "versionId=1")
    assert (answer.status_code, code_of(answer)) == (501, "NotImplemented")


def test_refusals_are_counted_by_their_words(clinic, service):
    with TestClient(make_app(service, metrics_token="0" * 32), raise_server_exceptions=False) as client:
        good = clinic.reader("alice").credentials
        alice, wrong = Reader(client, good.access_key, good.secret_key), Reader(client, "f" * 16, "0" * 64)
        for reader, path, word in (
            (alice, "/files/Y.npz", "not-found"),
            (alice, "/files/notes.txt", "bad-input"),
            (alice, "/nothing/X.npz", "not-found"),
            (wrong, "/files/X.npz", "unauthenticated"),
        ):
            before = refusals(client, word)
            assert reader.ask(path).status_code in (403, 404)
            assert refusals(client, word) == before + 1.0


def refusals(client, word):
    page = client.get("/metrics", headers={"Authorization": "Bearer " + "0" * 32}).text
    line = f'sfumato_refusals_total{{refusal="{word}"}} '
    return sum(float(one.removeprefix(line)) for one in page.splitlines() if one.startswith(line))


def test_no_tenant_takes_all_turns_to_draw(clinic, client, service, sources, monkeypatch):
    other = tenant_of(service, client, "other", sources.other)
    for number in range(4):
        put(sources.clinic, f"{number}.npz", npz(X))
    wait, draw = threading.Event(), Objects._draw

    def slow(self, source, one):
        if one.bucket.tenant == clinic.id:
            wait.wait(30.0)
        draw(self, source, one)

    monkeypatch.setattr(Objects, "_draw", slow)
    mine, theirs = clinic.reader("alice"), other.reader("alice")
    with ThreadPoolExecutor(4) as pool:
        large = [pool.submit(mine.ask, f"/files/{number}.npz") for number in range(4)]
        try:
            assert theirs.ask("/files/X.npz").status_code == 200  # while all of the clinic's are under way
            assert not any(one.done() for one in large)
        finally:
            wait.set()
    assert [one.result().status_code for one in large] == [200] * 4


def test_who_has_no_valid_signature_reads_nothing_and_cannot_try_for_long(clinic, client, service):
    good = clinic.reader("alice")
    assert code_of(client.get("/s3/files/X.npz")) == "AccessDenied"
    token = {"Authorization": "Bearer sfu_" + "0" * 16 + "_" + "0" * 64}
    assert code_of(client.get("/s3/files/X.npz", headers=token)) == "InvalidRequest"
    wrong = Reader(client, good.credentials.access_key, "0" * 64)
    unknown = Reader(client, "f" * 16, good.credentials.secret_key)
    first, second = wrong.ask("/files/X.npz"), unknown.ask("/files/X.npz")
    assert code_of(first) == code_of(second) == "SignatureDoesNotMatch"
    answers = [wrong.ask("/files/X.npz") for _ in range(12)]
    assert (answers[-1].status_code, code_of(answers[-1])) == (503, "SlowDown")
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert clinic.spends() == []


def test_signed_urls_are_answered_until_they_are_changed(clinic, client):
    reader = clinic.reader("bob")
    url = reader.presigned("/files/X.npz")
    assert client.get(url).content == reader.ask("/files/X.npz").content
    assert code_of(client.get(url.replace("X.npz", "Y.npz"))) == "SignatureDoesNotMatch"
    assert code_of(client.get(url.replace("Expires=60", "Expires=600"))) == "SignatureDoesNotMatch"


def test_a_key_reads_what_it_is_for_until_it_is_revoked(clinic):
    alice = clinic.reader("alice")
    assert alice.ask("/files/X.npz").status_code == 200
    clinic.ask("DELETE", f"/keys/{alice.credentials.access_key}", 200)
    assert code_of(alice.ask("/files/X.npz")) == "SignatureDoesNotMatch"
    elsewhere = clinic.reader("alice", datasets=["another"])
    assert code_of(elsewhere.ask("/files/X.npz")) == "NoSuchBucket"
    planner = clinic.reader("alice", scopes=["plan"])
    assert code_of(planner.ask("/files/X.npz")) == "NoSuchBucket"
    assert ET.fromstring(planner.ask("/").content).findall(".//{*}Bucket") == []


def test_quotas_are_those_of_every_request(clinic, service):
    reader = clinic.reader("alice")
    service.registry.set_quotas(clinic.id, Quotas(bytes_per_day=10))
    answer = reader.ask("/files/X.npz")
    assert (answer.status_code, code_of(answer)) == (503, "SlowDown")
    service.registry.set_quotas(clinic.id, Quotas(requests_per_minute=0))
    assert code_of(reader.ask("/")) == "SlowDown"
    assert clinic.spends() == []


def test_tenants_never_meet(clinic, service, client, sources):
    other = tenant_of(service, client, "other", sources.other)
    put(sources.other, "only.npy", npz(X))
    theirs, ours = other.reader("alice"), clinic.reader("alice")
    mine, yours = ours.ask("/files/X.npz"), theirs.ask("/files/X.npz")
    assert mine.status_code == yours.status_code == 200
    # The same name, bucket and content: other noise, other tags, files of their own.
    assert mine.content != yours.content
    assert mine.headers["etag"] != yours.headers["etag"]
    names = [file.name for file in (service.settings.data / "proxy").rglob("*.npz")]
    assert len(set(names)) == 2
    assert not any("X" in name for name in names)
    other.declare("theirs")
    assert code_of(ours.ask("/theirs/X.npz")) == code_of(ours.ask("/nobody/X.npz")) == "NoSuchBucket"
    shown = [one.text for one in ET.fromstring(ours.ask("/").content).findall(".//{*}Bucket/{*}Name")]
    assert shown == ["files"]
    clinic.ask("POST", f"/keys/{theirs.credentials.access_key}/s3", 404)
    clinic.ask("GET", "/proxies/theirs", 404)
    clinic.ask("DELETE", "/proxies/theirs", 404)


NOT_ALLOWED = (
    "http://169.254.169.254/latest/meta-data",
    "https://localhost/x",
    "ftp://localhost/x",
    "memory://x",
    "simplecache::file:///etc",
    "s3://another-bucket",
    "file:///etc",
    "file://{clinic}/..",
    "file://{clinic}-more",
    "file://{other}",
    "file://{clinic}/link",
    "s3://user:secret@bucket",
    "{clinic}",
    "",
)


def test_sources_that_are_not_allowed_to_the_tenant_are_refused(clinic, sources):
    (sources.clinic / "link").symlink_to(sources.other)
    (sources.clinic.parent / "clinic-files-more").mkdir()
    for source in NOT_ALLOWED:
        asked = source.format(clinic=sources.clinic, other=sources.other)
        refused = clinic.declare("more", status=422 if not asked else 400, source=asked)
        assert "secret" not in refused["detail"]


def test_the_folder_of_the_service_is_no_source(tmp_path):
    from sfumato.errors import BadInput
    from sfumato.serve.proxy.buckets import allowed_source

    data = tmp_path / "service"
    data.mkdir()
    for url in (f"file://{data}", f"file://{data}/keys", f"file://{tmp_path}"):
        with pytest.raises(BadInput, match="folder of the service"):
            allowed_source(url, "clinic", ["clinic=file:///"], data)
    assert allowed_source(f"file://{tmp_path}/x", "clinic", [f"clinic=file://{tmp_path}/x"], data)


def test_a_source_that_is_allowed_no_longer_is_read_no_longer(clinic, service, sources, tmp_path):
    again = Service(Settings(tmp_path / "service", sources=("clinic=s3://elsewhere",)))
    with TestClient(make_app(again), raise_server_exceptions=False) as client:
        alice = clinic.reader("alice")
        answer = Reader(client, alice.credentials.access_key, alice.credentials.secret_key).ask(
            "/files/X.npz"
        )
        assert code_of(answer) == "AccessDenied"
    again.close()


NONE = (
    ({"name": "Files"}, 422),
    ({"name": "a..b"}, 400),
    ({"name": "../x"}, 422),
    ({"tiers": []}, 422),
    ({"tiers": [0, 0]}, 400),
    ({"tiers": [2]}, 400),
    ({"files": {}}, 422),
    ({"files": {"text": ARRAYS["array"]}}, 422),
    ({"files": {"array": {"parameters": {"epsilon": [1, 8]}}}}, 400),
    ({"files": {"picture": {"parameters": {"epsilon": [1, 8], "delta": 1e-6}}}}, 400),
    ({"dataset": "nothing"}, 404),
    ({"dataset": "../x"}, 422),
    ({"collected": "yesterday"}, 422),
    ({"secret": 1}, 422),
)


def test_declarations_that_cannot_be_are_refused(clinic):
    for given, status in NONE:
        clinic.declare(**({"name": "more"} | given), status=status)


def test_a_declaration_stays_as_it_is_and_a_new_one_pays_anew(clinic, service):
    alice = clinic.reader("alice")
    first = alice.ask("/files/X.npz").content
    assert clinic.declare()["tiers"] == [0.0, 0.5, 1.0]
    clinic.declare(status=409, tiers=[0, 1])
    clinic.ask("DELETE", "/proxies/files", 200)
    assert code_of(alice.ask("/files/X.npz")) == "NoSuchBucket"
    assert list((service.settings.data / "proxy").rglob("*.npz")) == []
    clinic.declare(tiers=[0, 1])
    assert alice.ask("/files/X.npz").content != first
    assert len(clinic.spends()) == 2


def test_who_may_declare_and_who_is_told_what(clinic, client, service):
    token = service.registry.create_key(clinic.id, name="p", role="publisher")[1]
    headers = {"Authorization": f"Bearer {token}"}
    new = {"name": "more", "source": "file:///x", "dataset": "ward", "tiers": [0], "files": ARRAYS}
    assert client.post("/v1/proxies", headers=headers, json=new).status_code == 403
    assert client.delete("/v1/proxies/files", headers=headers).status_code == 404
    assert client.put("/v1/readers/bob", headers=headers, json={}).status_code == 403
    assert client.post(f"/v1/keys/{clinic.key.id}/s3", headers=headers).status_code == 403
    assert client.get("/v1/proxies/files", headers=headers).json()["source"] is None
    assert clinic.ask("GET", "/proxies/files", 200)["source"].startswith("file://")
    # A key that may make keys but not read gets no secret of one that may.
    narrow = service.registry.create_key(clinic.id, name="n", role="owner", scopes=["keys"])[1]
    asked = client.post(f"/v1/keys/{clinic.key.id}/s3", headers={"Authorization": f"Bearer {narrow}"})
    assert asked.status_code == 403


def test_a_policy_by_authorisation_network_and_age(clinic, client):
    rules = [
        {
            "authorisations": ["ethics"],
            "jurisdictions": ["DE"],
            "networks": ["192.0.2.0/24"],
            "distrust": 0.0,
        },
        {"authorisations": ["ethics"], "min_age_days": 365, "distrust": 0.5},
    ]
    clinic.ask("PUT", "/policy", 200, policy={"rules": rules})
    clinic.declare("old", collected="2020-01-01")
    dora = clinic.reader("dora")
    assert dora.ask("/old/X.npz").headers["x-amz-meta-sfumato-tier"] == "1"
    clinic.ask("PUT", "/readers/dora", 200, authorisations=["ethics"], jurisdiction="DE")
    assert clinic.ask("GET", "/readers", 200)["dora"] == {"authorisations": ["ethics"], "jurisdiction": "DE"}
    assert dora.ask("/old/X.npz").headers["x-amz-meta-sfumato-tier"] == "0.5"
    assert dora.ask("/files/X.npz").headers["x-amz-meta-sfumato-tier"] == "1"
    claimed = dora.ask("/old/X.npz", X_Forwarded_For="192.0.2.7")
    assert claimed.headers["x-amz-meta-sfumato-tier"] == "0.5"
    clinic.ask("DELETE", "/readers/dora", 200)
    assert dora.ask("/old/X.npz").headers["x-amz-meta-sfumato-tier"] == "1"
    assert clinic.ask("GET", "/proxies/old/tier", 200) == {"tier": 1.0, "tiers": [0.0, 0.5, 1.0]}
    clinic.declare("few", tiers=[0.2])
    assert code_of(dora.ask("/few/X.npz")) == "AccessDenied"


def keys_in(answer, what="Contents/{*}Key"):
    return [one.text for one in ET.fromstring(answer.content).findall(f"{{*}}{what}")]


def test_what_the_proxy_released_is_on_the_page_of_its_dataset_with_three_columns(clinic, client, service):
    _, token = service.registry.create_key(clinic.id, name="owner", role="owner")
    person = Person(client.app)
    person.sign_in(token)
    assert "Nothing was released of this dataset yet." in person.get("/datasets/ward").text
    for name in ("alice", "carol"):
        assert clinic.reader(name).ask("/files/X.npz").status_code == 200
    page = person.get("/datasets/ward").text
    table = page[page.index("Through buckets") :].partition("</table>")[0]
    assert table.count("files/X.npz") == 2  # two tiers, of one entry
    assert table.count("<td>entry 2</td>") == 2
    assert [table.count(f'<td class="{kind}">') for kind in ("claimed", "proven", "measured")] == [2, 2, 2]
    assert "ε = 8" in html.unescape(table).replace("\N{NO-BREAK SPACE}", " ")
    assert "Nothing was released" not in page
    assert "no release is shown here" not in page
    clinic.ask("DELETE", "/proxies/files", 200)
    page = person.get("/datasets/ward").text
    assert "No release of this dataset is kept here." in page
    assert "For 1 paid entry no release is shown here" in page


def test_the_page_of_a_dataset_shows_no_objects_of_others(clinic, client, service, sources):
    other = tenant_of(service, client, "other", sources.other)
    assert clinic.reader("alice").ask("/files/X.npz").status_code == 200
    _, token = service.registry.create_key(other.id, name="owner", role="owner")
    person = Person(client.app)
    person.sign_in(token)
    assert "Nothing was released of this dataset yet." in person.get("/datasets/ward").text


def test_listings_show_what_can_be_released_page_by_page(clinic, sources):
    names = [f"day{day}/{hour:02d}.npy" for day in (1, 2, 3) for hour in range(5)] + ["ä b+c.npy"]
    for name in names:
        put(sources.clinic, name, npz(X))
    for name in ("secret.txt", ".hidden.npy", "day1/notes.md", "photo.png"):
        put(sources.clinic, name, b"private")
    every = sorted([*names, "X.npz"], key=str.encode)
    reader = clinic.reader("alice")
    assert keys_in(reader.ask("/files", "list-type=2")) == every
    assert keys_in(reader.ask("/files/", "list-type=2&prefix=day2%2F")) == every[6:11]
    assert keys_in(reader.ask("/files", "list-type=2&start-after=day3%2F02.npy")) == every[14:]
    seen, token = [], ""
    while True:
        page = reader.ask("/files", f"list-type=2&max-keys=4{token}")
        seen += keys_in(page)
        root = ET.fromstring(page.content)
        assert int(root.findtext("{*}KeyCount")) <= 4
        if root.findtext("{*}IsTruncated") == "false":
            break
        token = f"&continuation-token={quote(root.findtext('{*}NextContinuationToken'))}"
    assert seen == every
    top = reader.ask("/files", "list-type=2&delimiter=%2F")
    assert keys_in(top) == ["X.npz", "ä b+c.npy"]
    assert keys_in(top, "CommonPrefixes/{*}Prefix") == ["day1/", "day2/", "day3/"]
    found, token = [], ""
    for _ in range(5):
        page = reader.ask("/files", f"list-type=2&delimiter=%2F&max-keys=1{token}")
        found += keys_in(page) + keys_in(page, "CommonPrefixes/{*}Prefix")
        told = ET.fromstring(page.content).findtext("{*}NextContinuationToken") or ""
        token = f"&continuation-token={quote(told)}"
    assert found == ["X.npz", "day1/", "day2/", "day3/", "ä b+c.npy"]
    inside = reader.ask("/files", "list-type=2&delimiter=%2F&prefix=day1%2F&start-after=day1%2F")
    assert keys_in(inside) == every[1:6]
    encoded = reader.ask("/files", "list-type=2&encoding-type=url&prefix=%C3%A4")
    assert keys_in(encoded) == ["%C3%A4%20b%2Bc.npy"]
    assert keys_in(reader.ask("/files", "list-type=2&max-keys=0")) == []
    for query in (
        "max-keys=-1",
        "max-keys=x",
        "encoding-type=xml",
        "continuation-token=%21",
        "prefix=%00",
    ):
        assert code_of(reader.ask("/files", f"list-type=2&{query}")) == "InvalidArgument"
    assert clinic.spends() == []


def test_listings_of_version_1_go_on_after_a_marker(clinic, sources):
    names = [f"day{day}/{hour:02d}.npy" for day in (1, 2) for hour in range(3)] + ["ä b+c.npy"]
    for name in names:
        put(sources.clinic, name, npz(X))
    every, reader = sorted([*names, "X.npz"], key=str.encode), clinic.reader("alice")

    def pages(query):
        """Everything, a page after the other, each asked for by the marker that the one before gave."""
        found, marker = [], ""
        while True:
            answer = reader.ask("/files", f"{query}&marker={quote(marker, safe='')}")
            root = ET.fromstring(answer.content)
            assert root.findtext("{*}KeyCount") is None
            assert root.findtext("{*}NextContinuationToken") is None
            assert unquote(root.findtext("{*}Marker")) == marker
            found.append(keys_in(answer) + keys_in(answer, "CommonPrefixes/{*}Prefix"))
            if root.findtext("{*}IsTruncated") == "false":
                assert root.findtext("{*}NextMarker") is None
                return found
            marker = unquote(root.findtext("{*}NextMarker"))

    assert keys_in(reader.ask("/files")) == keys_in(reader.ask("/files/")) == every
    assert pages("max-keys=3") == [every[:3], every[3:6], every[6:]]
    assert pages("delimiter=%2F&max-keys=1") == [["X.npz"], ["day1/"], ["day2/"], ["ä b+c.npy"]]
    assert pages("encoding-type=url&max-keys=7")[1] == ["%C3%A4%20b%2Bc.npy"]
    assert pages("prefix=day1%2F&delimiter=%2F") == [every[1:4]]
    assert keys_in(reader.ask("/files", "marker=day1%2F01.npy&prefix=day1")) == every[3:4]
    assert code_of(reader.ask("/files", "marker=%00")) == "InvalidArgument"
    assert clinic.spends() == []


def test_a_listing_knows_the_size_of_what_was_drawn_and_the_tag_before(clinic):
    reader = clinic.reader("alice")
    before = ET.fromstring(reader.ask("/files", "list-type=2").content)
    assert before.findtext("{*}Contents/{*}Size") == "0"
    # A reader who names the bytes, or others, is answered without drawing any.
    assert reader.ask("/files/X.npz", If_None_Match=before.findtext("{*}Contents/{*}ETag")).status_code == 304
    assert reader.ask("/files/X.npz", If_Match='"other"').status_code == 412
    assert clinic.spends() == []
    got = reader.ask("/files/X.npz")
    after = ET.fromstring(reader.ask("/files", "list-type=2").content)
    assert after.findtext("{*}Contents/{*}Size") == str(len(got.content))
    for listed in (before, after):
        assert listed.findtext("{*}Contents/{*}ETag") == got.headers["etag"]


def test_the_list_of_buckets_and_where_they_are(clinic):
    reader = clinic.reader("alice")
    for path in ("", "/"):
        assert "<Name>files</Name>" in reader.ask(path).text
    assert ET.fromstring(reader.ask("/files", "location").content).text is None
    assert reader.ask("/files", method="HEAD").status_code == 200
    assert reader.ask("/nothing", method="HEAD").status_code == 404


def test_tables_pictures_and_sounds(clinic, sources):
    cv2 = pytest.importorskip("cv2", reason="the extra media is not installed")
    soundfile = pytest.importorskip("soundfile", reason="the extra media is not installed")
    from skimage.data import cat

    put(sources.clinic, "t.csv", b"age,sex\n30,f\n40,m\n")
    put(sources.clinic, "cat.png", cv2.imencode(".png", cv2.resize(cat(), (60, 40)))[1].tobytes())
    soundfile.write(sources.clinic / "hum.wav", np.sin(np.arange(4000) / 9) / 2, 8000)
    clinic.ask("POST", "/budgets", 201, dataset="items", epsilon=1e5, delta=1e-4, unit="item")
    columns = {
        "age": {"kind": "numeric", "bounds": [0, 120]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
    }
    clinic.declare("tables", files={"table": {"parameters": {"epsilon": [1, 4]}, "columns": columns}})
    media = {
        "picture": {"parameters": {"epsilon": [2, 8], "delta": 1e-6, "unit": "region(8)"}},
        "sound": {"parameters": {"epsilon": [2, 8]}},
    }
    shown = clinic.declare("media", dataset="items", files=media)
    assert {kind: terms["nested"] for kind, terms in shown["files"].items()} == {
        "picture": True,
        "sound": False,
    }
    for name in ("alice", "bob"):
        reader = clinic.reader(name)
        for place in ("tables/t.csv", "media/cat.png", "media/hum.wav"):
            answer = reader.ask(f"/{place}")
            assert answer.status_code == 200, answer.text
            assert reader.ask(f"/{place}").content == answer.content
            notes = json.loads(base64.b64decode(reader.ask(f"/{place}.cert.json").json()["payload"]))
            (told,) = [note for note in notes["predicate"]["statement"]["notes"] if "nested" in note]
            assert ("not nested" in told) == (place == "media/hum.wav")
    # A sound pays for each tier, a table and a picture once for both.
    assert len(clinic.spends()) == 1
    assert sorted(one.purpose.partition(" ")[0] for one in clinic.spends("items")) == [
        "media/cat.png",
        "media/hum.wav",
        "media/hum.wav",
    ]
