"""Around the gRPC service: reflection, health, ports, addresses and the generated code."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import json
import re
import socket
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from fastapi.testclient import TestClient
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_service import Code, channel, code_of, keys, listening, protected, refused, service, stub, ward

import sfumato.serve.grpc.generate as generating
from sfumato.errors import BadInput
from sfumato.serve import refusals
from sfumato.serve.grpc import grpc_server
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.grpc_server import NAME, make_server
from sfumato.serve.grpc.servicer import address_of_peer
from sfumato.serve.grpc.stub import SfumatoStub
from sfumato.serve.proxy import s3_protocol
from sfumato.serve.refusals import Busy
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.server import run
from sfumato.serve.settings import Listening


def without_tables(service, database):
    """Break a database of the service behind its back."""
    with closing(sqlite3.connect(service.settings.data / database, isolation_level=None)) as connection:
        for (name,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            connection.execute(f"drop table {name}")


def test_reflection_lists_the_service_and_describes_it(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=NAME),
    ]
    listed, described = stub.ServerReflectionInfo(iter(asked))
    names = {one.name for one in listed.list_services_response.service}
    assert {"sfumato.v1.Sfumato", "grpc.health.v1.Health"} <= names
    assert b"Protect" in described.file_descriptor_response.file_descriptor_proto[0]


@pytest.mark.parametrize("name", ["", "sfumato.v1.Sfumato"])
def test_health_says_serving(channel, name):
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=name))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("database", ["ledger.db", "service.db"])
def test_health_tells_alive_from_ready(channel, service, database):
    """Where a database has lost its tables the process still answers."""
    stub = health_pb2_grpc.HealthStub(channel)
    without_tables(service, database)
    statuses = [stub.Check(health_pb2.HealthCheckRequest(service=name)).status for name in ("", NAME)]
    answer = health_pb2.HealthCheckResponse
    assert statuses == [answer.SERVING, answer.NOT_SERVING]


@pytest.mark.parametrize(
    ("database", "word"), [("ledger.db", "ledger-unavailable"), ("service.db", "registry-unavailable")]
)
def test_without_a_database_calls_may_be_tried_again(stub, keys, service, database, word):
    without_tables(service, database)
    refused(Code.UNAVAILABLE, word, stub.ListBudgets, pb.ListBudgetsRequest(), metadata=keys["owner"])


def test_what_nobody_foresaw_is_said_without_where_it_lies(stub, keys, ward, service, capfd):
    release, _ = protected(stub, keys["owner"])
    (file,) = service.settings.releases.glob(f"*/{release.id}/release.npz")
    file.unlink()
    asked = pb.ReleaseRequest(id=release.id)
    told = refused(Code.INTERNAL, "unforeseen", stub.GetContent, asked, metadata=keys["owner"])
    assert "x.npz" not in told
    logged = capfd.readouterr().err
    (line,) = [one for one in map(json.loads, logged.splitlines()) if one["event"] == "unforeseen"]
    assert line["error"] == "FileNotFoundError"
    assert line["request"] in told
    assert release.id not in logged
    assert "x.npz" not in logged


def test_wrong_keys_are_counted_together_whichever_way_they_come(service, keys):
    wrong = {"Authorization": "Bearer sfu_" + "0" * 16 + "_" + "0" * 64}
    with (
        listening(service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
        TestClient(make_app(service), client=("127.0.0.1", 50_000)) as client,
    ):
        statuses = [client.get("/v1/me", headers=wrong).status_code for _ in range(20)]
        assert statuses[0] == 401
        given = {"metadata": keys["owner"]}
        stub = SfumatoStub(channel)
        refused(Code.RESOURCE_EXHAUSTED, "too-many-guesses", stub.Me, pb.MeRequest(), **given)


def test_a_call_does_not_last_for_ever(service):
    """Also of those services that need no key."""
    silence = threading.Event()

    def silent():
        silence.wait(30)
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    with (
        listening(service, open_seconds=0.3) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        watch = health_pb2_grpc.HealthStub(channel).Watch
        for call, asked in ((reflection, silent()), (watch, health_pb2.HealthCheckRequest())):
            refused(Code.DEADLINE_EXCEEDED, "too-slow", call, asked, timeout=20)
        silence.set()


# A reflection that asks nothing, a watch that goes on, and messages that do not come, to methods that need a
# key and to those that need none.
IDLE = {
    "reflection": "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "watch": "/grpc.health.v1.Health/Watch",
    "check": "/grpc.health.v1.Health/Check",
    "signing key": f"/{NAME}/GetSigningKey",
    "me": f"/{NAME}/Me",
    "plan": f"/{NAME}/Plan",
}


@pytest.mark.parametrize("method", IDLE.values(), ids=IDLE.keys())
def test_calls_without_a_key_take_no_place_of_those_with_one(service, keys, method):
    silence = threading.Event()

    def silent():
        if method.endswith("/Watch"):
            yield b""
        silence.wait(30)

    with (
        listening(service, calls=1, open_calls=2) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        idle = [channel.stream_stream(method)(silent(), timeout=20) for _ in range(8)]
        for _ in range(3):
            assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=keys["owner"]).role == "owner"
        for one in idle:
            one.cancel()
        silence.set()


def test_more_calls_without_a_key_than_there_are_places_are_refused(service):
    silence = threading.Event()

    def silent(*first):
        yield from first
        silence.wait(30)

    with (
        listening(service, open_calls=1) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        held = reflection(silent(reflection_pb2.ServerReflectionRequest(list_services="")))
        assert next(held).HasField("list_services_response"), "its place is taken before the next call"
        told = refused(Code.UNAVAILABLE, "busy", reflection, silent(), timeout=20)
        assert told == "1 such calls are under way, the most at the same time; retry."
        checked = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert checked.status == health_pb2.HealthCheckResponse.SERVING, "each method has its own places"
        silence.set()
        assert list(held) == []


# Nothing, not all of a greeting, and a whole one: magic words and empty settings.
GREETINGS = {
    "nothing": b"",
    "half": b"PRI * HT",
    "whole": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5),
}


@pytest.mark.parametrize("greeting", GREETINGS)
def test_a_silent_connection_is_closed(service, greeting):
    with (
        listening(service, idle_seconds=1.0, hello_seconds=1.0) as (server, _),
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection,
    ):
        begun = time.monotonic()
        connection.sendall(GREETINGS[greeting])
        with suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass
        assert 0.5 < time.monotonic() - begun < 20


def test_calls_count_until_they_end(service):
    guard = grpc_server.Guard(None, service.metrics, grpc_server.Limits())
    for _ in range(2):
        with guard._counted("", 1), guard._counted("a", 1), guard._counted("b", 1):
            for kind in ("", "a"):
                with pytest.raises(Busy), guard._counted(kind, 1):
                    pass


def test_a_message_that_does_not_come_is_not_waited_for(service, keys, monkeypatch):
    monkeypatch.setattr(grpc_server, "_MESSAGE_SECONDS", 0.3)
    silence = threading.Event()

    def silent():
        silence.wait(30)
        yield b""

    with (
        listening(service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        call = channel.stream_unary(f"/{NAME}/Me")
        told = refused(Code.DEADLINE_EXCEEDED, "too-slow", call, silent(), metadata=keys["owner"], timeout=20)
        assert told == "no message came; send one with the call."
        silence.set()


def test_calls_are_counted_by_their_method_and_refusals_by_their_word(service, keys):
    with (
        listening(service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = SfumatoStub(channel)
        stub.Me(pb.MeRequest(), metadata=keys["owner"])
        refused(
            Code.NOT_FOUND,
            "not-found",
            stub.GetBudget,
            pb.DatasetRequest(dataset="x"),
            metadata=keys["owner"],
        )
    page = service.metrics.page().decode()
    for method, status in (("Me", "OK"), ("GetBudget", "NOT_FOUND")):
        labels = f'method="POST",route="/sfumato.v1.Sfumato/{method}",status="{status}",way="grpc"'
        assert f"sfumato_requests_total{{{labels}}} 1.0" in page
    assert 'sfumato_refusals_total{refusal="not-found"} 1.0' in page


def test_every_refusal_has_a_status_at_every_door():
    for _, _, status, code, s3 in refusals._REFUSALS:
        assert 400 <= status < 600
        assert Code[code] is not Code.OK
        assert s3_protocol._STATUS[s3] >= 400


def test_health_does_not_know_what_there_is_not(channel):
    asked = health_pb2.HealthCheckRequest(service="nothing")
    assert code_of(health_pb2_grpc.HealthStub(channel).Check, asked) == Code.NOT_FOUND


def test_a_port_that_is_taken_is_said_so(service, channel):
    with listening(service) as (server, there):

        async def again():
            make_server(service, f"127.0.0.1:{server.port}")

        with pytest.raises(BadInput, match="cannot listen"):
            there(again())
        with pytest.raises(BadInput, match="cannot listen"):
            run(service.settings, Listening(port=free_port(), grpc_port=server.port))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_rest_and_grpc_have_a_port_each():
    with pytest.raises(BadInput, match="choose another `grpc_port`"):
        Listening(port=1234, grpc_port=1234)


def test_processes_that_share_a_port_share_its_calls(service, keys):
    """What a parent reserves is theirs; the first server that is gone leaves all calls to the second."""
    port = free_port()
    with listening(service, shared=True, address=f"127.0.0.1:{port}"):
        with listening(service, shared=True, address=f"127.0.0.1:{port}") as (second, _):
            assert second.port == port
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=keys["owner"], timeout=10).role == "owner"


def test_calls_over_tls(service, keys, self_signed):
    certificate, key = self_signed
    with listening(service, certificate=certificate, key=key) as (server, _):
        trust = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(f"localhost:{server.port}", trust) as channel:
            assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=keys["owner"], timeout=10).role == "owner"
        with grpc.insecure_channel(f"localhost:{server.port}") as channel:
            code = code_of(SfumatoStub(channel).Me, pb.MeRequest(), metadata=keys["owner"], timeout=10)
        assert code == Code.UNAVAILABLE


def test_a_server_that_drains_is_alive_and_not_ready(service):
    with (
        listening(service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        service.readiness.draining = True
        statuses = [stub.Check(health_pb2.HealthCheckRequest(service=name)).status for name in ("", NAME)]
    answer = health_pb2.HealthCheckResponse
    assert statuses == [answer.SERVING, answer.NOT_SERVING]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:4711", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:4711", "2001:db8::1"),
        ("ipv6:[::1]:4711", "::1"),
        ("unix:/tmp/socket", None),
        ("", None),
    ],
)
def test_an_address_is_read_from_a_peer(peer, address):
    assert address_of_peer(peer) == address


def test_the_generated_code_is_that_of_the_proto(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    here = Path(generating.__file__).parent
    stored = {name: (here / name).read_text() for name in generating.GENERATED}
    generating.generate(tmp_path)
    folder = tmp_path / "sfumato" / "serve" / "grpc"
    made = {name: (folder / name).read_text() for name in generating.GENERATED}
    version = re.compile("# Protobuf Python Version: .*")
    if version.findall(made["sfumato_pb2.py"]) != version.findall(stored["sfumato_pb2.py"]):
        pytest.skip("the code was generated by another version of protobuf than the installed one")
    assert made == stored
