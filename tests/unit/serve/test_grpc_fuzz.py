"""No message, however malformed, ends a gRPC server or is answered by the code of a defect."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import os
import random
import socket

import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from grpc_service import Code, channel, code_of, keys, listening, npz, parts, service, stub, ward

from sfumato.serve.grpc_api import sfumato_pb2 as pb
from sfumato.serve.grpc_api.health import NAME
from sfumato.serve.grpc_api.sfumato_pb2 import DESCRIPTOR
from sfumato.serve.grpc_api.sfumato_pb2_grpc import SfumatoStub

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


def test_no_malformed_message_breaks_it(channel, stub, keys, ward, service):
    """Every method gets random and damaged messages, with the key of an owner; the seed is fixed."""
    random_ = random.Random(10)
    valid = {
        "OpenBudget": pb.NewBudget(dataset="fuzz", epsilon=1, delta=1e-6, unit="record"),
        "GetBudget": pb.DatasetRequest(dataset="ward"),
        "ListHistory": pb.DatasetRequest(dataset="ward"),
        "GetRelease": pb.ReleaseRequest(id="0123456789abcdef"),
        "GetContent": pb.ReleaseRequest(id="0123456789abcdef"),
        "GetCertificate": pb.ReleaseRequest(id="0123456789abcdef"),
        "RevokeKey": pb.KeyRequest(id="0123456789abcdef"),
        "MakeKey": pb.NewKey(
            name="n", role="auditor", scopes=pb.Names(names=["read"]), reader="x", expires="2"
        ),
        "SetPolicy": pb.NewPolicy(policy_json='{"rules": [{"trust": 0.5}]}', after=3),
    }
    certified = pb.CertifiedPart(file=pb.CertifiedFile(name="x.npz", certificate_json='{"payload": ""}'))
    codes = set()
    for method in METHODS:
        call = raw_call(channel, f"/{NAME}/{method.name}", method.client_streaming, method.server_streaming)
        file = (
            [certified, pb.CertifiedPart(chunk=npz())] if method.name == "Verify" else list(parts(chunk=500))
        )
        for _ in range(60 if method.client_streaming else 25):
            raw = [part.SerializeToString() for part in file if method.client_streaming]
            raw = raw or [valid[method.name].SerializeToString() if method.name in valid else b""]
            for _ in range(random_.randrange(1, 3)):
                at = random_.randrange(2) * random_.randrange(len(raw))
                raw[at] = damaged(random_, raw[at])
            codes.add(code_of(call, raw, metadata=keys["owner"], timeout=30))
    assert codes <= ALLOWED, codes
    assert Code.INVALID_ARGUMENT in codes
    assert os.listdir(service.settings.work) == []
    assert stub.Me(pb.MeRequest(), metadata=keys["owner"]).role == "owner"


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
