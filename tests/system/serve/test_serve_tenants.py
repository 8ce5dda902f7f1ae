"""Tenants who try each other's everything: every operation of the document, found there and not listed here.

A new operation with a new kind of name in its path, or one that changes something without naming it, fails
these tests until somebody has thought about it.
"""

import io
import json
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving

PLANTED = "zzclinic"  # in every name that the clinic chose
# Operations that change something and name nothing in their path: what they make is the caller's own, which
# the tests below see from what the clinic has afterwards.
MAKING = {
    ("post", "/v1/budgets"),
    ("post", "/v1/keys"),
    ("post", "/v1/proxies"),
    ("post", "/v1/verify"),
    ("put", "/v1/policy"),
}
# A reader is a name that a tenant gives to somebody: saying something of one's own reader of the same name
# is no trespass, and the clinic's stays as it is.
OWN_BY_NAME = {("put", "/v1/readers/{reader}"), ("delete", "/v1/readers/{reader}")}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "bucket").mkdir()
    (folder / "bucket" / "a.npy").write_bytes(npy())
    with serving(folder, "--source", f"clinic=file://{folder / 'bucket'}") as made:
        yield made


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(200, 3)))
    return out.getvalue()


def npy():
    out = io.BytesIO()
    np.save(out, np.random.default_rng(0).normal(size=(20, 3)))
    return out.getvalue()


def multipart(**parts):
    """A form of files, each part (name, bytes), and its content type."""
    boundary = "----------------------------0123456789"
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{part}"; filename="{name}"\r\n\r\n'.encode()
        + body
        + b"\r\n"
        for part, (name, body) in parts.items()
    ]
    return b"".join(lines) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def ended(served, answer):
    """The job of an answer, when it has ended."""
    assert answer.status == 202, answer.body
    job = answer.json["id"]
    end = time.monotonic() + 30.0
    while time.monotonic() < end:
        found = served.ask("GET", f"/v1/jobs/{job}").json
        if found["state"] in ("done", "failed", "cancelled"):
            assert found["state"] == "done", found
            return found
        time.sleep(0.1)
    raise AssertionError("the job did not end")


def bucket(name, source, dataset):
    """A bucket of arrays that is to be declared."""
    terms = {"parameters": {"epsilon": [0.1, 0.2], "delta": 1e-9, "clip": 1.0}}
    return {
        "name": name,
        "source": source,
        "dataset": dataset,
        "tiers": [0.0, 1.0],
        "files": {"array": terms},
        "public_names": True,
    }


@pytest.fixture(scope="module")
def named(served):
    """One of everything that the clinic has, by what paths call it."""
    dataset = f"{PLANTED}-ward"
    served.open_budget(dataset)
    served.open_budget("second")
    released = served.protect(npz(), f"{PLANTED}.npz", dataset, headers={"Idempotency-Key": f"{PLANTED}-k"})
    assert released.status == 200, released.body
    release = released.headers["sfumato-release"]
    described = {"parameters": {"epsilon": 0.1, "delta": 1e-9, "clip": 1.0}}
    query = {"name": f"{PLANTED}.npz", "asked": json.dumps(described)}
    job = ended(served, served.ask("POST", f"/v1/datasets/{dataset}/jobs", npz(), query=query))["id"]
    body, kind = multipart(original=(f"{PLANTED}.npz", npz()))
    path = f"/v1/datasets/{dataset}/audits?release={release}"
    audit = ended(served, served.ask("POST", path, body, headers={"Content-Type": kind}))["result"]["audit"]
    key = served.ask("POST", "/v1/keys", {"name": PLANTED, "role": "auditor"}).json["id"]
    rules = {"policy": {"rules": [{"readers": [PLANTED], "distrust": 0.0}]}}
    assert served.ask("PUT", "/v1/policy", rules).status == 200
    said = {"authorisations": [PLANTED]}
    assert served.ask("PUT", f"/v1/readers/{PLANTED}", said).status == 200
    assert served.ask("POST", f"/v1/keys/{key}/s3").status == 200
    made = served.ask(
        "POST", "/v1/proxies", bucket(PLANTED, f"file://{served.data.parent / 'bucket'}", dataset)
    )
    assert made.status == 201, made.body
    return {
        "dataset": dataset,
        "release": release,
        "job": job,
        "audit": audit,
        "key": key,
        "reader": PLANTED,
        "name": PLANTED,
    }


@pytest.fixture(scope="module")
def operations(served):
    document = served.ask("GET", "/v1/openapi.json", tenant=None).json
    return [(method, path) for path, found in document["paths"].items() for method in found]


def body_for(method, path):
    """Something that the operation would take, as a stranger would send it."""
    known = {
        "/v1/budgets": {"dataset": "mine", "epsilon": 1, "delta": 1e-6},
        "/v1/keys": {"name": "mine", "role": "auditor"},
        "/v1/policy": {"policy": {"rules": []}},
        "/v1/proxies": bucket(PLANTED, "s3://elsewhere/x", "x"),
        "/v1/readers/{reader}": {"authorisations": ["stranger"]},
    }
    if method in ("get", "delete"):
        return None
    return known.get(path, npz())


def ask_as(served, tenant, method, path, named, **words):
    query = {"name": "x.npz", "asked": '{"parameters": {"epsilon": 0.1, "clip": 1}}', "certificate": "{}"}
    body = body_for(method, path)
    if path.endswith("/audits"):
        body, kind = multipart(original=("x.npz", npz()), released=("x.npz", npz()))
        words["headers"] = words.get("headers", {}) | {"Content-Type": kind}
    given = query if isinstance(body, bytes) else None
    return served.ask(method.upper(), path.format(**named), body, tenant=tenant, query=given, **words)


def everything(served):
    """All that the clinic has, as it sees it."""
    paths = (
        "budgets",
        "releases",
        "jobs",
        "keys",
        "policy",
        "proxies",
        "readers",
        f"budgets/{PLANTED}-ward/history",
    )
    return {path: served.ask("GET", f"/v1/{path}").json for path in paths}


def test_a_stranger_finds_sees_and_changes_nothing(served, named, operations):
    before = everything(served)
    for method, path in operations:
        answer = ask_as(served, "other", method, path, named)
        if "{" in path and (method, path) not in OWN_BY_NAME:
            assert answer.status == 404, (method, path, answer.status, answer.body[:300])
        elif method != "get" and (method, path) not in OWN_BY_NAME:
            assert (method, path) in MAKING, f"{method} {path} is new: may a stranger ask it?"
        else:
            assert answer.status == 200, (method, path, answer.body[:300])
        shown = answer.body.decode("utf-8", "replace")
        said = {
            value
            for value in named.values()
            if value in path.format(**named) or value in str(body_for(method, path))
        }
        for value in {PLANTED, *named.values()} - said - {PLANTED if said else ""}:
            assert value not in shown, (method, path, value)
    assert everything(served) == before


def test_what_another_has_is_answered_in_the_words_of_what_nobody_has(served, named, operations):
    nobody = {
        "dataset": "a" * len(named["dataset"]),
        "release": "0" * 24,
        "job": "0" * len(named["job"]),
        "audit": "0" * len(named["audit"]),
        "key": "0" * 16,
        "reader": "nobody",
        "name": "nobody",
    }
    for method, path in operations:
        if "{" not in path or (method, path) in OWN_BY_NAME:
            continue
        theirs, none = (ask_as(served, "other", method, path, names) for names in (named, nobody))
        assert theirs.status == none.status
        words = [answer.body.decode() for answer in (theirs, none)]
        for kind, value in named.items():
            words = [text.replace(value, "?").replace(nobody[kind], "?") for text in words]
        found = [json.loads(text) | {"request": "", "instance": ""} for text in words]
        assert found[0] == found[1], (method, path)


def test_without_a_key_every_operation_is_shut(served, named, operations):
    for method, path in operations:
        if path == "/v1/signing-key":  # what certificates are verified with is for anybody
            continue
        for headers in ({}, {"Authorization": "Basic eDp5"}):
            answer = ask_as(served, None, method, path, named, headers=dict(headers), address="127.0.0.9")
            assert answer.status in (401, 429), (method, path, answer.status)


def test_a_key_of_one_dataset_opens_no_other(served, named, operations):
    new = {"name": "narrow", "role": "owner", "datasets": ["second"]}
    served.tokens["narrow"] = served.ask("POST", "/v1/keys", new).json["token"]
    before = everything(served)
    for method, path in operations:
        answer = ask_as(served, "narrow", method, path, named)
        if "{" in path:
            assert answer.status in (403, 404), (method, path, answer.status, answer.body[:300])
        shown = answer.body.decode("utf-8", "replace")
        assert named["release"] not in shown.replace(path.format(**named), "") or answer.status >= 400
        assert answer.status >= 400 or PLANTED not in shown, (method, path)
    assert everything(served) == before


@pytest.mark.parametrize(
    "source",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://example.org/x",
        "ftp://example.org/x",
        "file:///etc",
        "file:///",
        "file:///proc/self",
        "file://localhost/etc",
        "s3://another-bucket/x",
        "gs://another-bucket/x",
        "memory://x",
        "simplecache::s3://x/y",
        "zip://x::file:///etc/x.zip",
        "{bucket}/../..",
        "{bucket}/../service",
        "{bucket}-beside",
        "{bucket}%2f..%2f..",
        "{data}",
        "{bucket}@evil.example/x",
        "{bucket}?endpoint_url=http://169.254.169.254",
        "{bucket}\r\nHost: evil",
        "/etc",
        "",
    ],
)
def test_no_source_is_taken_that_was_not_allowed(served, named, source):
    """The operator allows file://…/bucket to the clinic: nothing beside it, above it, or elsewhere."""
    url = source.format(bucket=f"file://{served.data.parent / 'bucket'}", data=f"file://{served.data}")
    new = bucket("evil", url, "second")
    for tenant in ("clinic", "other"):
        answer = served.ask("POST", "/v1/proxies", new, tenant=tenant)
        assert answer.status in (400, 403, 404, 422), (answer.status, answer.body)
    assert "evil" not in json.dumps(served.ask("GET", "/v1/proxies").json)


def test_datasets_of_one_name_are_two(served, named):
    before = everything(served)
    served.open_budget(named["dataset"], epsilon=2.0, tenant="other")
    released = served.protect(
        npz(), "x.npz", named["dataset"], tenant="other", headers={"Idempotency-Key": "k"}
    )
    again = served.protect(npz(), "x.npz", named["dataset"], headers={"Idempotency-Key": "k"})
    assert (released.status, again.status) == (200, 200)
    assert released.body != again.body  # the same file, the same words, and other noise
    assert served.ask("GET", f"/v1/budgets/{named['dataset']}", tenant="other").json["spends"] == 1
    after = everything(served)
    assert after["releases"][1:] == before["releases"]
    assert after["policy"] == before["policy"]
