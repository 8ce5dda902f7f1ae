"""No message, however malformed, ends a gRPC server or is answered by the code of a defect."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import inspect
import math
import os
import random
import socket
import time

import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from grpc_service import (
    Code,
    budget,
    channel,
    code_of,
    keys,
    listening,
    npz,
    parameter,
    parts,
    service,
    stub,
    ward,
)

from sfumato.errors import BadInput
from sfumato.mechanisms import MECHANISMS
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.grpc_server import NAME
from sfumato.serve.grpc.servicer import request_of
from sfumato.serve.grpc.sfumato_pb2 import DESCRIPTOR
from sfumato.serve.grpc.stub import SfumatoStub

METHODS = DESCRIPTOR.services_by_name["Sfumato"].methods
ALLOWED = {
    *(Code.OK, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.FAILED_PRECONDITION),
    Code.ABORTED,
}


def damaged(random_, valid):
    """Random bytes, or a valid message with some bytes changed, cut off or put in."""
    way = random_.randrange(4)
    if way == 0 or not valid:
        return random_.randbytes(random_.randrange(60))
    found = bytearray(valid)
    for _ in range(random_.randrange(1, 4)):
        at = random_.randrange(len(found) + 1)
        if way == 1:
            found[at : at + 1] = random_.randbytes(1)
        elif way == 2:
            found[at:at] = random_.randbytes(random_.randrange(1, 9))
        else:
            del found[at : at + random_.randrange(1, 9)]
    return bytes(found)


def raw_call(channel, path, client_streaming, server_streaming):
    """A call of raw messages."""
    kinds = ("stream" if client_streaming else "unary", "stream" if server_streaming else "unary")
    call = getattr(channel, "_".join(kinds))(path)
    return lambda raw, **words: call(iter(raw) if client_streaming else raw[0], **words)


VALID = {
    "OpenBudget": pb.NewBudget(dataset="fuzz", epsilon=1, delta=1e-6, unit="record"),
    "GetBudget": pb.DatasetRequest(dataset="ward"),
    "ListHistory": pb.DatasetRequest(dataset="ward"),
    "ListReleases": pb.ListReleasesRequest(limit=10, cursor="0123456789abcdef01234567"),
    "GetRelease": pb.ReleaseRequest(id="0123456789abcdef01234567"),
    "GetContent": pb.ReleaseRequest(id="0123456789abcdef01234567"),
    "DeleteRelease": pb.ReleaseRequest(id="0123456789abcdef01234567"),
    "GetCertificate": pb.ReleaseRequest(id="0123456789abcdef01234567"),
    "ListJobs": pb.ListJobsRequest(limit=10, cursor="0123456789abcdef01234567"),
    "GetJob": pb.JobRequest(id="0123456789abcdef01234567"),
    "CancelJob": pb.JobRequest(id="0123456789abcdef01234567"),
    "GetAudit": pb.AuditRequest(id="0123456789abcdef01234567"),
    "GetReport": pb.ReportRequest(id="0123456789abcdef01234567"),
    "RevokeKey": pb.KeyRequest(id="0123456789abcdef"),
    "MakeKey": pb.NewKey(name="n", role="auditor", scopes=pb.Names(names=["read"]), reader="x", expires="2"),
    "SetPolicy": pb.NewPolicy(policy_json='{"rules": [{"distrust": 0.5}]}', after=3),
    "DeclareBucket": pb.Document(
        json='{"name": "files", "source": "file:///x", "dataset": "ward", "tiers": [0, 1], '
        '"files": {"array": {"parameters": {"epsilon": [1, 8], "delta": 1e-6, "clip": 1.0}}}}'
    ),
    "GetBucket": pb.BucketRequest(name="files"),
    "GetTier": pb.BucketRequest(name="files"),
    "RemoveBucket": pb.BucketRequest(name="files"),
    "SayOfReader": pb.Reader(reader="clinic-b", authorisations=["approved"], jurisdiction="DE"),
    "ForgetReader": pb.ReaderRequest(reader="clinic-b"),
    "GetAccessKey": pb.KeyRequest(id="0123456789abcdef"),
}
FILES = {
    "Verify": [
        pb.CertifiedPart(file=pb.CertifiedFile(name="x.npz", certificate_json='{"payload": ""}')),
        pb.CertifiedPart(chunk=npz()),
    ],
    "SubmitAudit": [
        pb.AuditPart(asked=pb.AskedAudit(dataset="ward", array="X", confidence=0.9, seed=3)),
        pb.AuditPart(file=pb.AuditFile(part="original", name="x.npz")),
        pb.AuditPart(chunk=npz()),
        pb.AuditPart(file=pb.AuditFile(part="released", name="x.npz")),
        pb.AuditPart(chunk=npz(1)),
    ],
}


def valid_messages(method):
    """Messages that ``method`` takes, of its own type; an empty one where that has no fields."""
    if method.client_streaming:
        return FILES.get(method.name) or list(parts(chunk=500))
    return [VALID[method.name] if method.input_type.fields else getattr(pb, method.input_type.name)()]


@pytest.mark.parametrize("method", list(METHODS), ids=lambda method: method.name)
def test_messages_that_are_damaged_were_of_the_type_that_their_method_takes(method):
    assert {one.DESCRIPTOR.full_name for one in valid_messages(method)} == {method.input_type.full_name}


def test_no_malformed_message_breaks_it(channel, stub, keys, ward, service):
    """Every method gets random and damaged messages, with the key of an owner; the seed is fixed."""
    random_ = random.Random(10)
    codes = set()
    for method in METHODS:
        call = raw_call(channel, f"/{NAME}/{method.name}", method.client_streaming, method.server_streaming)
        for _ in range(60 if method.client_streaming else 25):
            raw = [part.SerializeToString() for part in valid_messages(method)]
            for _ in range(random_.randrange(1, 3)):
                at = random_.randrange(2) * random_.randrange(len(raw))
                raw[at] = damaged(random_, raw[at])
            codes.add(code_of(call, raw, metadata=keys["owner"], timeout=30))
    assert codes <= ALLOWED, codes
    assert Code.INVALID_ARGUMENT in codes
    assert list(service.settings.work.rglob("*.*")) == []
    assert stub.Me(pb.MeRequest(), metadata=keys["owner"]).role == "owner"


NASTY = ["", "x", True, 0, -1, 2**62, math.nan, math.inf, 5e-324, 1e308, [], [1.0, math.nan], [1e308] * 2]


def kind_for(mechanism):
    if issubclass(mechanism, PictureMechanism):
        return "picture"
    return "sound" if issubclass(mechanism, SoundMechanism) else "array"


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_no_parameter_of_a_message_breaks_the_making_of_a_mechanism(mechanism):
    """Made, and asked for its guarantee, or refused in a sentence."""
    takes = [one for one in inspect.signature(MECHANISMS[mechanism]).parameters if one != "randomness"]
    usual = {"epsilon": [1.0, 8.0] if mechanism == "trust-adaptive" else 1.0} if "epsilon" in takes else {}
    for option in takes:
        for value in [*NASTY, None]:
            given = {name: parameter(one) for name, one in usual.items()}
            given[option] = pb.Parameter() if value is None else parameter(value)
            try:
                asked = request_of(pb.Description(mechanism=mechanism, parameters=given))
                made = asked.make_mechanism(kind_for(MECHANISMS[mechanism]))
                part = getattr(made, kind_for(MECHANISMS[mechanism]), made)
                part.guarantee(3)
            except BadInput as error:
                assert str(error).endswith((".", "?")), (option, value)  # noqa: PT017


def test_parameters_that_nobody_means_cost_nothing(channel, stub, keys, ward):
    base = {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}
    for mechanism, option, value in (
        *(("gaussian", option, value) for option in base for value in ("x", -1, 1e308, [1e308] * 2)),
        *(("trust-adaptive", "epsilon", value) for value in ("x", 1.0, [8.0, 1.0], [])),
        *(("gaussian", "epsilon", value) for value in (1e50, 1e99)),
    ):
        for method in (stub.Plan, stub.Protect, stub.Submit):
            sent = parts(mechanism=mechanism, parameters=base | {option: value})
            code = code_of(method, sent, metadata=keys["owner"], timeout=60)
            assert code == Code.INVALID_ARGUMENT, (mechanism, option, value)
    found = budget(stub, keys)
    assert (found.spends, found.open_holds) == (0, 0)


@pytest.mark.parametrize(
    ("path", "streaming"),
    [
        ("/grpc.health.v1.Health/Check", False),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", True),
    ],
)
def test_no_malformed_message_breaks_what_stands_beside_it(channel, path, streaming):
    random_ = random.Random(11)
    call = raw_call(channel, path, streaming, streaming)
    codes = {code_of(call, [random_.randbytes(random_.randrange(40))]) for _ in range(50)}
    assert codes <= ALLOWED
    assert Code.INVALID_ARGUMENT in codes


METADATA = [
    [],
    [("authorization", "")],
    [("authorization", "Bearer")],
    [("authorization", "Bearer " + "x" * 5000)],
    [("authorization", "Bearer sfu_1_2"), ("authorization", "Bearer sfu_3_4")],
    [("authorization-bin", b"\xff\x00")],
    [("x-forwarded-for", "10.0.0.1"), ("authorization", "Basic eDp5")],
]


@pytest.mark.parametrize("metadata", METADATA, ids=range(len(METADATA)))
def test_metadata_that_names_no_key_opens_no_method(channel, metadata):
    codes = set()
    for method in METHODS:
        if method.name == "GetSigningKey":  # what certificates are verified with is for anybody
            continue
        call = raw_call(channel, f"/{NAME}/{method.name}", method.client_streaming, method.server_streaming)
        codes.add(code_of(call, [b""], metadata=metadata, timeout=30))
    assert codes <= {Code.UNAUTHENTICATED, Code.RESOURCE_EXHAUSTED}, codes  # the latter after many guesses


@pytest.mark.parametrize("request_", ["", "x" * 129, "a b", "~" * 128])
def test_idempotency_keys_of_all_kinds_are_taken_or_refused(channel, stub, keys, ward, request_):
    metadata = [*keys["owner"], ("idempotency-key", request_)]
    assert code_of(stub.Protect, parts(), metadata=metadata) in {Code.OK, Code.INVALID_ARGUMENT}


def test_a_small_message_that_unpacks_to_a_large_one_is_refused(service, keys, ward):
    """Compression is the transport's; the limit of a message is that of what comes out of it."""
    with listening(service) as (server, _):
        address = f"127.0.0.1:{server.port}"
        with grpc.insecure_channel(address, compression=grpc.Compression.Gzip) as channel:

            def bomb():
                yield next(iter(parts()))
                yield pb.FilePart(chunk=bytes(64 << 20))

            assert (
                code_of(SfumatoStub(channel).Plan, bomb(), metadata=keys["owner"]) == Code.RESOURCE_EXHAUSTED
            )
            assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=keys["owner"]).role == "owner"


def test_streams_that_break_off_leave_nothing_behind(channel, stub, keys, ward, service):
    """Cancelled after nothing, after what is asked, and in the middle of the file."""

    def broken(count):
        yield from list(parts(chunk=100))[:count]
        raise RuntimeError("the client is gone")

    for method in ("Plan", "Protect"):
        for count in range(4):
            sent = broken(count)
            assert code_of(getattr(stub, method), sent, metadata=keys["owner"], timeout=30) != Code.OK
    assert stub.GetBudget(pb.DatasetRequest(dataset="ward"), metadata=keys["owner"]).spends == 0
    end = time.monotonic() + 10.0
    while list(service.settings.work.rglob("*.*")) and time.monotonic() < end:
        time.sleep(0.1)
    assert list(service.settings.work.rglob("*.*")) == []


def test_bytes_that_are_no_call_break_nothing(service, keys):
    random_ = random.Random(12)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with listening(service) as (server, _):
        for turn in range(40):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
                connection.sendall((preface if turn % 2 else b"") + random_.randbytes(random_.randrange(300)))
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=keys["owner"]).role == "owner"


def test_what_there_is_not_is_said(channel):
    assert code_of(channel.unary_unary(f"/{NAME}/Nothing"), b"") == Code.UNIMPLEMENTED
