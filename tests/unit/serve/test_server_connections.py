"""Connections end by themselves where their client sends no head, or does not read its answer."""

import asyncio
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")
import uvicorn

from sfumato.serve.server import PatientProtocol

PATIENCE = 0.6
SIZE = 64 << 20


async def application(scope, receive, send):
    """Answers with much, after it has read what came."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        continue
    await asyncio.sleep(2 * PATIENCE if scope["path"] == "/slowly" else 0.0)
    size = 4 if scope["path"] == "/slowly" else SIZE
    head = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for _ in range(max(1, size >> 16)):
        await send({"type": "http.response.body", "body": bytes(min(size, 1 << 16)), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def listening():
    """A server with this protocol; its port, and how many connections it has."""
    config = uvicorn.Config(application, port=0, http=PatientProtocol, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1], lambda: len(server.server_state.connections)
    server.should_exit = server.force_exit = True
    thread.join()


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr("sfumato.serve.server.HEAD_SECONDS", PATIENCE)
    monkeypatch.setattr("sfumato.serve.server._UNREAD_SECONDS", PATIENCE)
    with listening() as made:
        yield made


def connected(port):
    return closing(socket.create_connection(("127.0.0.1", port), timeout=20))


def ended(count, seconds=20 * PATIENCE):
    """Whether all connections end, before their clients do anything about it."""
    end = time.monotonic() + seconds
    while count() and time.monotonic() < end:
        time.sleep(0.02)
    return count() == 0


@pytest.mark.parametrize("sent", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\nX-Y: z\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(served, sent):
    port, count = served
    with connected(port) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
        assert ended(count)


def test_an_answer_that_nobody_reads_ends_the_connection(served):
    port, count = served
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        assert count() == 1
        assert ended(count)


def test_an_answer_that_is_read_comes_whole_and_the_connection_may_be_used_again(served):
    port, count = served
    with connected(port) as client:
        for path, size in ((b"/slowly", 4), (b"/", SIZE), (b"/slowly", 4)):
            client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            found = b""
            while b"\r\n\r\n" not in found:
                found += client.recv(1 << 16)
            left = size - len(found.split(b"\r\n\r\n", 1)[1])
            while left:
                left -= len(client.recv(min(left, 1 << 20)))
        assert count() == 1
