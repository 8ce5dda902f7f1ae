"""Files as streams over gRPC: their limits, clients that go away, and a server that stops."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import asyncio
import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
from grpc_service import (
    Code,
    budget,
    channel,
    keys,
    listening,
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
from sfumato.serve.grpc.servicer import finished
from sfumato.serve.grpc.stub import SfumatoStub


@pytest.mark.parametrize(
    "stream",
    [
        [],
        [pb.FilePart()],
        [pb.FilePart(chunk=b"x")],
        [*parts(), *parts()],
        [*parts(), pb.FilePart()],
    ],
    ids=["nothing", "neither", "no question", "two questions", "an end of neither"],
)
def test_a_stream_is_one_question_and_then_chunks(stub, keys, ward, stream):
    for call in (stub.Protect, stub.Plan):
        refused(Code.INVALID_ARGUMENT, "bad-input", call, iter(stream), metadata=keys["owner"])
    assert budget(stub, keys).spends == 0


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_a_message_is_no_larger_than_is_allowed(service, stub, keys, ward, compression):
    """Nor when it is unpacked."""
    with (
        listening(service, message_bytes=10_000) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}", compression=compression) as narrow,
        pytest.raises(grpc.RpcError) as raised,
    ):
        protected(SfumatoStub(narrow), keys["owner"], b"x" * 20_000, chunk=20_000)
    assert raised.value.code() == Code.RESOURCE_EXHAUSTED
    assert budget(stub, keys).spends == 0
    assert list(service.settings.work.rglob("*.*")) == []


def test_a_sender_that_falls_silent_is_not_waited_for(service, keys):
    service.ledger.open(f"{service.registry.tenants()[0].id}:ward", 8.0, 1e-5, "record", "replace")
    silence = threading.Event()

    def silent(first):
        yield from first
        silence.wait(30)

    with (
        listening(service, upload_seconds=0.3) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        slow = SfumatoStub(channel)
        for first in ([], list(parts())):
            refused(Code.DEADLINE_EXCEEDED, "too-slow", slow.Plan, silent(first), metadata=keys["owner"])
        silence.set()
    assert list(service.settings.work.rglob("*.*")) == []


def test_a_client_that_goes_away_leaves_nothing_behind_and_finds_its_release_again(service, keys):
    """What was under way is ended and paid for once; the same key then gives it."""
    metadata = (*keys["publisher"], ("idempotency-key", "leaving"))
    with (
        listening(service) as (server, _),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = SfumatoStub(channel)
        stub.OpenBudget(pb.NewBudget(dataset="ward", epsilon=8, delta=1e-5), metadata=keys["owner"])
        for seconds in (0.001, 0.01, 0.03, 0.1):
            with suppress(grpc.RpcError):  # none, where it was fast enough
                whole(stub.Protect(parts(npz(rows=5000), chunk=1 << 14), metadata=metadata, timeout=seconds))
        release, _ = protected(stub, metadata, npz(rows=5000), chunk=1 << 14)
        assert budget(stub, keys).spends == 1
        assert release.request == "leaving"
        # Work that nobody waits for any more goes on to its end, and its files are there until then.
        deadline = time.monotonic() + 30.0
        while list(service.settings.work.rglob("*.*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_calls_under_way_are_ended_before_the_server_stops(service, keys):
    going, go_on, answers = threading.Event(), threading.Event(), []

    def slowly():
        yield from list(parts(chunk=100))[:3]
        going.set()
        go_on.wait(30)
        yield from list(parts(chunk=100))[3:]

    with (
        listening(service) as (server, there),
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = SfumatoStub(channel)
        stub.OpenBudget(pb.NewBudget(dataset="ward", epsilon=8, delta=1e-5), metadata=keys["owner"])
        call = threading.Thread(
            target=lambda: answers.append(whole(stub.Protect(slowly(), metadata=keys["owner"])))
        )
        call.start()
        assert going.wait(30)
        stop = threading.Thread(target=lambda: there(server.stop(30.0)))
        stop.start()
        stop.join(0.3)
        assert stop.is_alive()
        go_on.set()
        call.join(30)
        stop.join(30)
        assert not stop.is_alive()
    ((_, body),) = answers
    assert np.load(io.BytesIO(body))["X"].shape == (30, 4)


def test_a_cancelled_call_is_let_go_only_when_its_work_has_ended():
    """However often it is cancelled."""
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        go_on.wait(30)
        ended.append(True)

    async def cancelled():
        with ThreadPoolExecutor(1) as threads:
            call = asyncio.create_task(finished(threads, work))
            await asyncio.to_thread(begun.wait, 30)
            for _ in range(3):
                call.cancel()
                done, _ = await asyncio.wait([call], timeout=0.05)
                assert not done
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ended

    try:
        asyncio.run(cancelled())
    finally:
        go_on.set()


def test_what_a_call_waits_for_is_smaller_than_what_is_a_job(service, stub, keys, ward):
    object.__setattr__(service.settings, "direct_bytes", 10_000)
    body = npz(rows=1000)
    for call in (stub.Plan, stub.Protect):
        told = refused(Code.RESOURCE_EXHAUSTED, "too-large", call, parts(body), metadata=keys["owner"])
        assert "10,000 bytes" in told
        assert "Submit" in told
    assert stub.Submit(parts(body), metadata=keys["owner"]).state == "queued"


def test_a_call_that_takes_too_long_is_answered_and_its_release_kept(service, stub, keys, ward):
    service.direct._seconds = 0.2
    quick, begins = service.protect, threading.Event()

    def slow(*rest, **words):
        begins.wait(30)
        return quick(*rest, **words)

    service.protect = slow
    told = refused(Code.DEADLINE_EXCEEDED, "took-too-long", stub.Protect, parts(), metadata=keys["owner"])
    assert "goes on" in told
    begins.set()
    ends = time.monotonic() + 30
    while not list(stub.ListReleases(pb.ListReleasesRequest(), metadata=keys["owner"])):
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert budget(stub, keys).spends == 1
