"""gRPC: the operations of REST, and what is refused."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import io
import json
import os

import numpy as np
import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from fastapi.testclient import TestClient
from grpc_service import (
    LARGEST,
    PARAMETERS,
    Code,
    budget,
    channel,
    keys,
    npz,
    parts,
    protected,
    refused,
    service,
    stub,
    ward,
    whole,
)

from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.tenant_registry import Quotas


def test_a_file_is_released_paid_for_certified_and_found_again(stub, keys, ward):
    assert (ward.epsilon, ward.used, ward.unit) == (8.0, 0.0, "record")
    planned = json.loads(stub.Plan(parts(), metadata=keys["publisher"]).json)
    assert planned["cost"]["fits"]
    assert budget(stub, keys).used == 0.0
    release, body = protected(stub, keys["publisher"])
    assert np.load(io.BytesIO(body))["X"].shape == (30, 4)
    assert budget(stub, keys).used == pytest.approx(planned["cost"]["balance"]["used"])
    auditor = {"metadata": keys["auditor"]}
    (listed,) = stub.ListReleases(pb.ListReleasesRequest(), **auditor)
    asked = pb.ReleaseRequest(id=release.id)
    assert listed == release == stub.GetRelease(asked, **auditor)
    assert json.loads(release.statement_json)["mechanism"] == "Gaussian"
    assert whole(stub.GetContent(asked, **auditor)) == (release, body)
    certificate = stub.GetCertificate(asked, **auditor).json

    def certified(content):
        yield pb.CertifiedPart(file=pb.CertifiedFile(name="x.npz", certificate_json=certificate))
        yield pb.CertifiedPart(chunk=content)

    for content, holds in ((body, True), (npz(5), False)):
        answer = stub.Verify(certified(content), **auditor)
        assert answer.holds is holds
        assert json.loads(answer.json)["file"] == "x.npz"
    entries = stub.ListHistory(pb.DatasetRequest(dataset="ward"), metadata=keys["owner"])
    assert [json.loads(entry.json)["kind"] for entry in entries] == ["open", "spend"]


def test_a_repeated_request_is_charged_once_and_gives_the_bytes_that_rest_gives(stub, keys, ward, service):
    metadata = (*keys["publisher"], ("idempotency-key", "monday"))
    first, again = (protected(stub, metadata) for _ in range(2))
    assert first == again
    assert first[0].request == "monday"
    headers = {"Authorization": keys["publisher"][0][1], "Idempotency-Key": "monday"}
    query = {"name": "x.npz", "asked": json.dumps({"mechanism": "gaussian", "parameters": PARAMETERS})}
    with TestClient(make_app(service)) as client:
        rest = client.post("/v1/datasets/ward/protect", params=query, headers=headers, content=npz())
    assert rest.content == first[1]
    assert rest.headers["sfumato-release"] == first[0].id
    assert budget(stub, keys).spends == 1
    told = refused(Code.ABORTED, "conflict", protected, stub, metadata, npz(1))
    assert "other content" in told
    assert protected(stub, keys["publisher"])[1] != first[1]
    assert budget(stub, keys).spends == 2
    for key in ("", "k" * 129):
        long = (*keys["publisher"], ("idempotency-key", key))
        refused(Code.INVALID_ARGUMENT, "bad-input", protected, stub, long)


def test_a_tenant_neither_sees_nor_spends_what_another_has(stub, keys, ward):
    release, _ = protected(stub, keys["publisher"])
    stranger = {"metadata": keys["stranger"]}
    assert list(stub.ListBudgets(pb.ListBudgetsRequest(), **stranger)) == []
    assert list(stub.ListReleases(pb.ListReleasesRequest(), **stranger)) == []
    for call in (stub.GetBudget, stub.ListHistory):
        own, others = (
            refused(Code.NOT_FOUND, "not-found", call, pb.DatasetRequest(dataset=name), **stranger)
            for name in ("none", "ward")
        )
        assert others == own.replace("none", "ward")
    for call in (stub.GetRelease, stub.GetContent, stub.GetCertificate):
        refused(Code.NOT_FOUND, "not-found", call, pb.ReleaseRequest(id=release.id), **stranger)
    refused(Code.NOT_FOUND, "not-found", protected, stub, keys["stranger"])
    stub.OpenBudget(pb.NewBudget(dataset="ward", epsilon=1, delta=0), **stranger)
    assert [one.epsilon for one in stub.ListBudgets(pb.ListBudgetsRequest(), **stranger)] == [1.0]
    assert budget(stub, keys).epsilon == 8.0


def test_roles_allow_what_they_say(stub, keys, ward):
    refused(Code.PERMISSION_DENIED, "forbidden", protected, stub, keys["auditor"])
    new = pb.NewBudget(dataset="x", epsilon=1)
    refused(Code.PERMISSION_DENIED, "forbidden", stub.OpenBudget, new, metadata=keys["publisher"])
    for role in ("publisher", "auditor"):
        for call, asked in (
            (stub.ListKeys, pb.ListKeysRequest()),
            (stub.MakeKey, pb.NewKey(name="mine", role="owner")),
            (stub.GetPolicy, pb.GetPolicyRequest()),
        ):
            refused(Code.PERMISSION_DENIED, "forbidden", call, asked, metadata=keys[role])


def test_keys_are_made_narrowed_and_revoked(stub, keys, ward):
    owner = {"metadata": keys["owner"]}
    new = pb.NewKey(name="robot", role="publisher", expires="2999-01-31T12:00:00+00:00")
    new.scopes.names.extend(["plan", "protect"])
    new.datasets.names.append("ward")
    made = stub.MakeKey(new, **owner)
    robot = (("authorization", f"Bearer {made.token}"),)
    me = stub.Me(pb.MeRequest(), metadata=robot)
    assert (me.key, me.role, list(me.scopes.names)) == (made.key.id, "publisher", ["plan", "protect"])
    assert not stub.Me(pb.MeRequest(), **owner).HasField("scopes")
    assert protected(stub, robot)[1]
    refused(Code.PERMISSION_DENIED, "forbidden", stub.ListReleases, pb.ListReleasesRequest(), metadata=robot)
    listed = list(stub.ListKeys(pb.ListKeysRequest(), **owner))
    assert made.key in listed
    assert made.token not in str(listed)
    assert stub.RevokeKey(pb.KeyRequest(id=made.key.id), **owner).HasField("revoked")
    refused(Code.UNAUTHENTICATED, "unauthenticated", protected, stub, robot)
    unknown = pb.KeyRequest(id="0123456789abcdef")
    refused(Code.NOT_FOUND, "not-found", stub.RevokeKey, unknown, **owner)
    empty = pb.NewKey(name="none", role="publisher", scopes=pb.Names())
    refused(Code.INVALID_ARGUMENT, "bad-input", stub.MakeKey, empty, **owner)
    late = pb.NewKey(name="none", role="publisher", expires="tomorrow")
    refused(Code.INVALID_ARGUMENT, "bad-input", stub.MakeKey, late, **owner)


def test_a_key_that_expires_makes_none_that_outlasts_it(stub, keys):
    until = "2999-01-31T12:00:00+00:00"
    first = stub.MakeKey(pb.NewKey(name="first", role="owner", expires=until), metadata=keys["owner"])
    owner = {"metadata": (("authorization", f"Bearer {first.token}"),)}
    assert stub.MakeKey(pb.NewKey(name="second", role="owner"), **owner).key.expires == until
    later = pb.NewKey(name="third", role="owner", expires="2999-01-31T12:00:01+00:00")
    told = refused(Code.PERMISSION_DENIED, "forbidden", stub.MakeKey, later, **owner)
    assert told == "a key cannot outlast the key that makes it; leave out when it expires."


def test_a_policy_is_replaced_only_by_who_has_seen_it(stub, keys):
    owner = {"metadata": keys["owner"]}
    before = stub.GetPolicy(pb.GetPolicyRequest(), **owner)
    new = pb.NewPolicy(policy_json=before.policy_json, after=before.version)
    assert stub.SetPolicy(new, **owner).version == before.version + 1
    refused(Code.ABORTED, "conflict", stub.SetPolicy, new, **owner)
    for text in ("", "{", "[]", "[" * 100_000, '{"rules": 5}'):
        wrong = pb.NewPolicy(policy_json=text)
        refused(Code.INVALID_ARGUMENT, "bad-input", stub.SetPolicy, wrong, **owner)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer sfu_1_2", "Basic eDp5", "Bearer " + "x" * 500]
)
def test_without_a_valid_key_nothing_is_answered(stub, header):
    given = () if header is None else (("authorization", header),)
    for call, asked in (
        (stub.Me, pb.MeRequest()),
        (stub.ListBudgets, pb.ListBudgetsRequest()),
        (stub.Protect, iter([pb.FilePart(chunk=b"x")])),
        (stub.Verify, iter([pb.CertifiedPart(chunk=b"x")])),
    ):
        refused(Code.UNAUTHENTICATED, "unauthenticated", call, asked, metadata=given)


def test_anybody_may_know_the_key_that_certificates_are_verified_with(stub, service):
    assert stub.GetSigningKey(pb.GetSigningKeyRequest()).pem == service.keys.signing().public.pem()


def test_guessing_keys_is_slowed_down(stub, keys):
    wrong = (("authorization", "Bearer sfu_" + "0" * 16 + "_" + "0" * 64),)
    codes, delay = [], None
    for _ in range(30):
        with pytest.raises(grpc.RpcError) as raised:
            stub.Me(pb.MeRequest(), metadata=wrong)
        codes.append(raised.value.code())
        delay = dict(raised.value.trailing_metadata()).get("retry-delay")
    assert codes[0] == Code.UNAUTHENTICATED
    assert codes[-1] == Code.RESOURCE_EXHAUSTED
    assert int(delay) >= 1
    # Whoever is there waits too, as the right key is not looked at.
    refused(Code.RESOURCE_EXHAUSTED, "too-many-guesses", stub.Me, pb.MeRequest(), metadata=keys["owner"])


def test_a_quota_is_kept_and_says_when_to_come_again(stub, keys, service):
    tenant = stub.Me(pb.MeRequest(), metadata=keys["owner"]).tenant
    service.registry.set_quotas(tenant, Quotas(requests_per_minute=0))
    told = refused(Code.RESOURCE_EXHAUSTED, "quota", stub.Me, pb.MeRequest(), metadata=keys["owner"])
    assert "requests a minute" in told
    assert stub.Me(pb.MeRequest(), metadata=keys["stranger"]).role == "owner"


@pytest.mark.parametrize(
    ("words", "body", "code", "word"),
    [
        ({"name": "x.exe"}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"name": "../../x.npz"}, b"PK\x03\x04", Code.INVALID_ARGUMENT, "bad-input"),
        ({"name": "x\ny.npz"}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"name": ""}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({}, b"", Code.INVALID_ARGUMENT, "bad-input"),
        ({}, b"no archive", Code.INVALID_ARGUMENT, "bad-input"),
        ({}, npz()[:200], Code.INVALID_ARGUMENT, "bad-input"),
        ({"mechanism": "gausian"}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"parameters": {"epsilon": -1, "clip": 1}}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"parameters": {"epsilon": float("nan"), "clip": 1}}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"parameters": {"n" * 100_000: 1}}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"mechanism": "personalised", "parameters": {"epsilon_file": "/etc/hosts"}}, None,
         Code.INVALID_ARGUMENT, "bad-input"),
        ({"columns_json": "{"}, None, Code.INVALID_ARGUMENT, "bad-input"),
        ({"parameters": {"epsilon": 100.0, "clip": 1.0}}, None, Code.FAILED_PRECONDITION, "budget-refused"),
        ({"chunk": 1 << 16}, b"x" * (LARGEST + 1), Code.RESOURCE_EXHAUSTED, "too-large"),
        ({"dataset": "none"}, None, Code.NOT_FOUND, "not-found"),
        ({"dataset": "a b"}, None, Code.INVALID_ARGUMENT, "bad-input"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_spends_nothing(stub, keys, ward, service, words, body, code, word):
    sentence = refused(code, word, protected, stub, keys["owner"], body, **words)
    assert str(service.settings.data) not in sentence
    assert budget(stub, keys).spends == 0
    assert list(stub.ListReleases(pb.ListReleasesRequest(), metadata=keys["owner"])) == []
    assert list(service.settings.work.rglob("*.*")) == []


def test_tables_and_pictures_go_the_same_way(stub, keys):
    for dataset, unit in (("people", "record"), ("photos", "region:16")):
        new = pb.NewBudget(dataset=dataset, epsilon=20, delta=1e-5, unit=unit)
        assert stub.OpenBudget(new, metadata=keys["owner"]).epsilon == 20.0
    _, table = protected(
        stub,
        keys["owner"],
        b"age\n31\n64\n",
        dataset="people",
        name="p.csv",
        mechanism="laplace",
        parameters={"epsilon": 2},
        columns_json='{"age": {"kind": "numeric", "bounds": [0, 100]}}',
    )
    assert table.splitlines()[0] == b"age"
    pytest.importorskip("cv2")
    from sfumato.io import encode_picture

    picture = encode_picture(np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8), ".png")
    given = {"epsilon": 4, "unit": "region:16"}
    answer = list(
        stub.Protect(
            parts(picture, dataset="photos", name="a.png", parameters=given, mechanism="plane-means"),
            metadata=keys["owner"],
        )
    )
    assert answer[1].chunk[:4] == b"\x89PNG"
