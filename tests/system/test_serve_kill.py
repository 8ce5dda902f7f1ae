"""Workers of a service are killed under load: nothing unpaid is released, nothing paid is lost.

``SFUMATO_SOAK_SERVE=500`` kills as many; a handful otherwise.
"""

import http.client
import io
import json
import os
import random
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving

from sfumato.ledger import Ledger
from sfumato.report import KeyRing, certificate_file, verify

KILLS = int(os.environ.get("SFUMATO_SOAK_SERVE", "6"))
KINDS = ("plain", "keyed", "jobs")
CLIENTS = 2  # of each kind
ASKED = {"parameters": {"epsilon": 0.001, "delta": 1e-12, "clip": 1.0}}
# What a client may see of a worker that dies: nothing, half of something, or that it should ask again.
BROKEN = (ConnectionError, http.client.HTTPException, TimeoutError)
AGAIN = (502, 503)


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(400, 8)))
    return out.getvalue()


class Client(threading.Thread):
    """Asks for one release after the other, and for each again until it has it; keeps what it saw."""

    def __init__(self, served, kind, slot, stop):
        super().__init__(daemon=True)
        self.served, self.kind, self.slot, self.stop = served, kind, slot, stop
        self.seen, self.bodies, self.attempts, self.failure = Counter(), {}, 0, None

    def run(self):
        number = 0
        try:
            while not self.stop.is_set():
                number += 1
                self.once(f"{self.kind} {self.slot} {number}")
        except Exception as error:
            self.failure = error

    def once(self, request):
        self.attempts += 1
        if self.kind == "plain":
            answer = self.ask(lambda: self.served.protect(npz(), dataset="plain"))
            if answer is None:
                time.sleep(0.05)
            else:
                self.bodies[request] = answer.body
            return
        headers = {"Idempotency-Key": request}
        if self.kind == "keyed":
            self.bodies[request] = self.patiently(
                lambda: self.served.protect(npz(), dataset="keyed", headers=headers)
            ).body
            return
        query = {"name": "x.npz", "asked": json.dumps(ASKED)}
        path = "/v1/datasets/jobs/jobs"
        job = self.patiently(lambda: self.served.ask("POST", path, npz(), query=query, headers=headers)).json
        place = f"/v1/jobs/{job['id']}"
        while job["state"] in ("queued", "running"):
            time.sleep(0.05)
            job = self.patiently(lambda: self.served.ask("GET", place)).json
        assert job["state"] == "done", job
        content = f"/v1/releases/{job['result']['release']}/content"
        self.bodies[request] = self.patiently(lambda: self.served.ask("GET", content)).body

    def ask(self, once):
        """The answer, or None of one that a worker took with it."""
        try:
            answer = once()
        except BROKEN as error:
            self.seen[type(error).__name__] += 1
            return None
        self.seen[answer.status] += 1
        assert answer.status in (200, 202, *AGAIN), answer.body
        return None if answer.status in AGAIN else answer

    def patiently(self, once):
        end = time.monotonic() + 90.0
        while time.monotonic() < end:
            answer = self.ask(once)
            if answer is not None:
                return answer
            time.sleep(0.05)
        raise AssertionError("never answered")


def hashes(served):
    with Ledger(f"sqlite:///{served.data / 'ledger.db'}") as ledger:
        return {name: [entry.hash for entry in ledger.history(name)] for name in ledger.names()}


def progress(clients):
    """How many answers clients have had."""
    return sum(client.seen[200] + client.seen[202] for client in clients)


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)


def test_killed_workers_lose_no_spend_and_leave_no_release_unpaid(tmp_path, record_property):
    chance, stop = random.Random(), threading.Event()
    with serving(tmp_path, "--workers", 2, tenants=("clinic",)) as served:
        for kind in KINDS:
            served.open_budget(kind, epsilon=10_000.0)
        wait_for(lambda: len(served.workers) == 2, 30.0)
        clients = [Client(served, kind, slot, stop) for kind in KINDS for slot in range(CLIENTS)]
        for client in clients:
            client.start()
        before = hashes(served)
        for _ in range(KILLS):
            # Somebody works, and the one before was replaced: who is killed is mostly not just starting.
            asked, wanted = progress(clients), chance.randrange(1, 8)
            wait_for(lambda asked=asked, wanted=wanted: progress(clients) >= asked + wanted, 60.0)
            time.sleep(chance.uniform(0.0, 0.1))
            wait_for(lambda: len(served.workers) == 2, 30.0)
            older, newer = served.workers
            os.kill(older if chance.random() < 0.8 else newer, signal.SIGKILL)
            now = hashes(served)
            for name, rows in before.items():
                assert now[name][: len(rows)] == rows, "a row that was there is gone"
            before = now
        last = time.monotonic()
        stop.set()
        for client in clients:
            client.join(120.0)
            assert not client.is_alive()
            assert client.failure is None, client.failure
        wait_for(lambda: all(not one["open_holds"] for one in served.ask("GET", "/v1/budgets").json), 60.0)
        settled = time.monotonic() - last
        wait_for(lambda: not list((served.data / "work").rglob("*.npz")), 60.0)
        spends = {one["dataset"]: one["spends"] for one in served.ask("GET", "/v1/budgets").json}
        for client in clients:
            check_again(served, client)
        assert {one["dataset"]: one["spends"] for one in served.ask("GET", "/v1/budgets").json} == spends
        released = check_money(served, clients)
        seen = sum((client.seen for client in clients), Counter())
        record_property(
            "count",
            f"service: {KILLS} kills of 2 workers; {released} releases, 0 unpaid; spends {spends}; "
            f"clients saw {dict(seen)}; the last hold was settled after {settled:.0f} s",
        )


def check_again(served, client):
    """Every request that may be repeated gives the same bytes once more; a few are asked."""
    if client.kind != "keyed":
        return
    for request, body in list(client.bodies.items())[-5:]:
        answer = served.protect(npz(), dataset="keyed", headers={"Idempotency-Key": request})
        assert (answer.status, answer.body) == (200, body)


def check_money(served, clients):
    """Each released file is paid for by a row that stays; each request is charged once."""
    made, keys = list((served.data / "releases").rglob("x.npz")), KeyRing(served.data / "keys")
    with Ledger(f"sqlite:///{served.data / 'ledger.db'}") as ledger:
        assert ledger.check() == []
        charges, returned = {}, set()
        for name in ledger.names():
            history = ledger.history(name)
            committed = {entry.refers_to for entry in history if entry.kind == "commit"}
            back = {entry.refers_to for entry in history if entry.kind == "release"}
            assert not committed & back
            holds = {entry.number for entry in history if entry.kind == "hold"}
            assert holds == committed | back, "a hold is open"
            returned |= {entry.hash for entry in history if entry.number in back}
            paid = [entry for entry in history if entry.kind == "spend" or entry.number in committed]
            charges[name.partition(":")[2]] = {entry.hash for entry in paid}
        used = []
        for file in made:
            found = verify(file, keys, ledger)
            assert found.holds, found
            row = found.certificate.ledger["hash"]
            assert row not in returned
            assert any(row in rows for rows in charges.values())
            assert certificate_file(file).is_file()
            used.append(row)
        assert len(used) == len(set(used)), "two releases were paid by one row"
    done = {kind: sum(len(one.bodies) for one in clients if one.kind == kind) for kind in KINDS}
    attempts = sum(one.attempts for one in clients if one.kind == "plain")
    assert len(charges["keyed"]) == done["keyed"]
    assert len(charges["jobs"]) == done["jobs"]
    assert done["plain"] <= len(charges["plain"]) <= attempts
    assert all(done.values())
    bodies = [body for one in clients for body in one.bodies.values()]
    assert len(bodies) == len(set(bodies))  # no noise was drawn for two
    return len(made)
