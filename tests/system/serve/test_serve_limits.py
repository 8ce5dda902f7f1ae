"""Limits of a service that several processes answer: connections, guesses, the last of a budget."""

import io
import math
import random
import threading
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving

from sfumato.serve import Registry
from sfumato.serve.authentication import Token
from sfumato.serve.server import HEAD_SECONDS

WRONG = "Bearer sfu_" + "0" * 16 + "_" + "0" * 64


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("limits"), "--workers", 2) as made:
        made.open_budget()
        yield made


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(50, 3)))
    return out.getvalue()


# Connections


def test_who_says_nothing_or_little_loses_the_connection(served):
    """Slow heads, no heads, and bodies that go on after they were refused: each ends in time."""
    key = f"Authorization: Bearer {served.tokens['clinic']}\r\n"
    start = time.monotonic()
    with served.socket(60) as silent, served.socket(60) as slow, served.socket(60) as refused:
        slow.sendall(b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n")
        refused.sendall(f"POST /v1/datasets/ward/protect?name=x.npz HTTP/1.1\r\nHost: x\r\n{key}".encode())
        refused.sendall(f"Content-Length: {10**12}\r\n\r\n".encode())
        assert refused.recv(1000).startswith(b"HTTP/1.1 413 ")
        ends = {}
        while len(ends) < 2 and time.monotonic() - start < 3 * HEAD_SECONDS:
            time.sleep(0.5)
            for name, connection, drop in (("slow", slow, b"X-Y: z\r\n"), ("refused", refused, b"x" * 100)):
                if name not in ends and not _sent(connection, drop):
                    ends[name] = time.monotonic() - start
        silent.settimeout(5.0)
        assert silent.recv(1) == b""
        assert ends.keys() == {"slow", "refused"}
        assert all(seconds < 2 * HEAD_SECONDS for seconds in ends.values()), ends


def _sent(connection, drop):
    try:
        connection.sendall(drop)
        connection.settimeout(0.01)
        try:
            return connection.recv(1000) != b""
        except TimeoutError:
            return True
    except OSError:
        return False


def test_silent_connections_shut_nobody_out_for_long(served):
    """Twice as many as are answered at once; when they have ended, whoever asks is answered."""
    held = [served.socket(60) for _ in range(600)]
    connections = [one.__enter__() for one in held]
    try:
        deadline, answered = time.monotonic() + 3 * HEAD_SECONDS, 0
        while answered < 10 and time.monotonic() < deadline:  # by all processes, not by one that was spared
            try:
                answered = answered + 1 if served.ask("GET", "/v1/me", timeout=5).status == 200 else 0
            except OSError:
                answered = 0
            time.sleep(0.01 if answered else 0.5)
        assert answered == 10
    finally:
        for connection in connections:
            connection.close()


def test_a_half_sent_body_ends_with_its_sender(served):
    head = "POST /v1/datasets/ward/protect?name=x.npz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    with served.socket() as connection:
        connection.sendall(f"{head}Authorization: Bearer {served.tokens['clinic']}\r\n\r\nPK".encode())
        time.sleep(0.3)
    end = time.monotonic() + 10.0
    while time.monotonic() < end and _bodies(served):
        time.sleep(0.1)
    assert _bodies(served) == []


def _bodies(served):
    return list((served.data / "work").rglob("*.npz*"))


# Guesses


def test_guesses_from_one_site_are_limited_whatever_it_says_of_itself(served):
    """Each process counts ten; made-up addresses in headers open no new count, nor shut out others."""
    statuses = Counter()
    for number in range(60):
        spoofed = {
            "Authorization": WRONG,
            "X-Forwarded-For": f"203.0.113.{number}",
            "X-Real-IP": f"203.0.113.{number}",
            "Forwarded": f"for=203.0.113.{number}",
            "X-Client-IP": f"198.51.100.{number}",
        }
        answer = served.ask("GET", "/v1/me", tenant=None, headers=spoofed, address="127.0.0.66")
        statuses[answer.status] += 1
    assert statuses.keys() == {401, 429}
    assert statuses[401] <= 2 * (10 + 1)
    blocked = served.ask("GET", "/v1/me", tenant=None, headers={"Authorization": WRONG}, address="127.0.0.66")
    assert blocked.status in (401, 429)
    assert served.ask("GET", "/v1/me").status == 200


def test_a_wrong_secret_that_is_almost_right_takes_no_longer(tmp_path):
    """Of two wrong tokens of one key, one shares 63 of 64 digits with the right one, the other none.

    Pairs are measured in random order, so without a difference each is the slower of a pair by a fair coin.
    False-alarm rate: at most 1e-6, by Hoeffding's inequality on 4,000 pairs.
    """
    pairs, chance = 4000, random.Random(0)
    with Registry(f"sqlite:///{tmp_path / 'service.db'}") as registry:
        tenant = registry.create_tenant("clinic")
        right = Token.parsed(registry.create_key(tenant.id, name="k", role="owner")[1])
        last = format((int(right.secret[-1], 16) + 1) % 16, "x")
        near = Token(right.id, right.secret[:-1] + last).shown()
        far = Token(right.id, "".join(format(15 - int(digit, 16), "x") for digit in right.secret)).shown()
        assert registry.authenticate(right.shown()) is not None
        slower = 0
        for _ in range(pairs):
            times = {}
            for name, token in chance.sample([("near", near), ("far", far)], 2):
                start = time.perf_counter_ns()
                assert registry.authenticate(token) is None
                times[name] = time.perf_counter_ns() - start
            slower += 0.5 if times["near"] == times["far"] else times["near"] > times["far"]
    assert abs(slower / pairs - 0.5) < math.sqrt(math.log(2 / 1e-6) / (2 * pairs))


# The last of a budget


def test_many_at_once_spend_the_last_of_a_budget_once(served):
    """Of 24 requests in 12 threads over two processes, exactly those succeed that fit."""
    served.open_budget("last", epsilon=1.0)
    asked = {"mechanism": "laplace", "parameters": {"epsilon": 0.19, "clip": 1.0}}
    statuses, lock, barrier = Counter(), threading.Lock(), threading.Barrier(12)

    def spend():
        barrier.wait()
        for _ in range(2):
            answer = served.protect(npz(), dataset="last", asked=asked)
            with lock:
                statuses[answer.status] += 1

    threads = [threading.Thread(target=spend) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    budget = served.ask("GET", "/v1/budgets/last").json
    assert statuses == {200: budget["spends"], 409: 24 - budget["spends"]}
    assert budget["used"] <= 1.0
    assert budget["spends"] == 5
    kinds = Counter(entry["kind"] for entry in served.ask("GET", "/v1/budgets/last/history").json)
    assert kinds == {"open": 1, "spend": 5}


def test_one_request_at_once_from_many_is_one_release(served):
    served.open_budget("once")
    found, barrier = [], threading.Barrier(8)

    def ask():
        barrier.wait()
        answer = served.protect(npz(), dataset="once", headers={"Idempotency-Key": "monday"})
        found.append((answer.status, answer.body))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for status, _ in found} <= {200, 409}
    assert len({body for status, body in found if status == 200}) == 1
    assert served.ask("GET", "/v1/budgets/once").json["spends"] == 1
