"""gRPC: buckets, readers and access keys as over REST."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import json

import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
from grpc_service import LARGEST, Code, channel, keys, refused, stub, ward

from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def service(tmp_path, sources):
    made = Service(
        Settings(tmp_path / "service", body_bytes=LARGEST, sources=(f"clinic={sources.as_uri()}",))
    )
    yield made
    made.close()


def bucket(sources, **changes):
    files = {"array": {"parameters": {"epsilon": [1, 8], "delta": 1e-6, "clip": 1.0}}}
    document = {"name": "ward-files", "source": sources.as_uri(), "dataset": "ward", "tiers": [0, 0.5, 1]}
    return pb.Document(json=json.dumps(document | {"files": files} | changes))


def test_a_bucket_is_declared_read_about_and_removed(stub, keys, ward, sources):
    owner, auditor = keys["owner"], keys["auditor"]
    made = json.loads(stub.DeclareBucket(bucket(sources), metadata=owner).json)
    assert json.loads(stub.DeclareBucket(bucket(sources), metadata=owner).json) == made
    named = pb.BucketRequest(name="ward-files")
    assert json.loads(stub.GetBucket(named, metadata=owner).json) == made
    told = [json.loads(one.json) for one in stub.ListBuckets(pb.ListBucketsRequest(), metadata=auditor)]
    assert [one["name"] for one in told] == ["ward-files"]
    assert sources.as_uri() not in json.dumps(told)
    assert stub.GetTier(named, metadata=auditor) == pb.Tier(tier=1.0, tiers=[0.0, 0.5, 1.0])
    refused(Code.NOT_FOUND, "not-found", stub.RemoveBucket, named, metadata=auditor)
    assert json.loads(stub.RemoveBucket(named, metadata=owner).json) == made
    refused(Code.NOT_FOUND, "not-found", stub.GetBucket, named, metadata=owner)


def test_what_is_said_of_a_reader_decides_the_tier(stub, keys, ward, sources, service):
    owner = keys["owner"]
    stub.DeclareBucket(bucket(sources), metadata=owner)
    rules = [{"readers": ["clinic-b"], "authorisations": ["approved"], "distrust": 0.4}]
    stub.SetPolicy(pb.NewPolicy(policy_json=json.dumps({"rules": rules})), metadata=owner)
    new = pb.NewKey(name="b", role="auditor", reader="clinic-b")
    made = stub.MakeKey(new, metadata=owner)
    reader, named = (("authorization", f"Bearer {made.token}"),), pb.BucketRequest(name="ward-files")
    assert stub.GetTier(named, metadata=reader).tier == 1.0
    said = pb.Reader(reader="clinic-b", authorisations=["approved"], jurisdiction="DE")
    assert stub.SayOfReader(said, metadata=owner) == said
    assert stub.GetTier(named, metadata=reader).tier == 0.5
    assert list(stub.ListReaders(pb.ListReadersRequest(), metadata=owner)) == [said]
    refused(Code.PERMISSION_DENIED, "forbidden", stub.SayOfReader, said, metadata=reader)
    forgotten = stub.ForgetReader(pb.ReaderRequest(reader="clinic-b"), metadata=owner)
    assert forgotten == pb.Reader(reader="clinic-b")
    assert stub.GetTier(named, metadata=reader).tier == 1.0
    access = stub.GetAccessKey(pb.KeyRequest(id=made.key.id), metadata=owner)
    assert access.access_key_id == made.key.id
    assert access.secret_access_key == service.buckets.secret_of(made.key.id)
    assert access.path == "/s3"


def test_strangers_find_nothing(stub, keys, ward, sources):
    stub.DeclareBucket(bucket(sources), metadata=keys["owner"])
    stranger, named = keys["stranger"], pb.BucketRequest(name="ward-files")
    for call in (stub.GetBucket, stub.GetTier, stub.RemoveBucket):
        refused(Code.NOT_FOUND, "not-found", call, named, metadata=stranger)
    assert list(stub.ListBuckets(pb.ListBucketsRequest(), metadata=stranger)) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"name": "ward-files"}', '{"name": 3}', "null", "[" * 100_000]
)
def test_malformed_declarations_are_refused(stub, keys, ward, text):
    refused(
        Code.INVALID_ARGUMENT,
        "bad-input",
        stub.DeclareBucket,
        pb.Document(json=text),
        metadata=keys["owner"],
    )


def test_a_source_that_is_not_allowed_is_refused(stub, keys, ward, tmp_path):
    said = refused(
        Code.INVALID_ARGUMENT,
        "bad-input",
        stub.DeclareBucket,
        bucket(tmp_path),
        metadata=keys["owner"],
    )
    assert "source" in said
