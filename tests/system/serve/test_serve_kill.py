"""Workers of a service are killed under load: nothing unpaid is released, nothing paid is lost.

``SFUMATO_SOAK_SERVE=500`` kills as many; a handful otherwise. Clients are of four kinds: releases at once
and jobs, each with an idempotency key (their noise is keyed, and they are repeated until they are had) and
without (their noise is fresh: what had begun to draw when its worker died is spent, and not drawn again).
"""

import http.client
import io
import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from datetime import datetime

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving

from sfumato.ledger import Ledger
from sfumato.reports import KeyRing, certificate_file, verify

KILLS = int(os.environ.get("SFUMATO_SOAK_SERVE", "4"))
KINDS = ("plain", "keyed", "jobs", "fresh")
CLIENTS = 2  # of each kind
ASKED = {"parameters": {"epsilon": 0.001, "delta": 1e-12, "clip": 1.0}}
# What a client may see of a worker that dies: nothing, half of something, or that it should ask again.
BROKEN = (ConnectionError, http.client.HTTPException, TimeoutError)
AGAIN = (502, 503)
# A hold is settled so long after the death of its worker, at the latest.
SETTLED_SECONDS = 60.0


def npz(rows=400):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(rows, 8)))
    return out.getvalue()


# Jobs without a key are of larger files, so that many are being drawn when their worker is killed.
LARGE = npz(20_000)


class Client(threading.Thread):
    """Asks for one release after the other, and for each again until it has it; keeps what it saw."""

    def __init__(self, served, kind, slot, stop):
        super().__init__(daemon=True)
        self.served, self.kind, self.slot, self.stop = served, kind, slot, stop
        self.seen, self.bodies, self.attempts, self.failure = Counter(), {}, 0, None
        self.ended = {}  # jobs of fresh noise

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
        if self.kind == "jobs":
            job = self.patiently(lambda: self.submit(npz(), headers)).json
        elif (answer := self.ask(lambda: self.submit(LARGE))) is not None:
            job = answer.json
        else:
            time.sleep(0.05)
            return  # whether there is a job nobody knows: it is another one that is asked for next
        job = self.waited_for(job)
        if self.kind == "fresh":
            self.ended[job["id"]] = job
            if job["state"] == "failed":
                assert (job["problem"]["type"], job["problem"]["retryable"]) == ("interrupted", True), job
                return
        assert job["state"] == "done", job
        content = f"/v1/releases/{job['result']['release']}/content"
        self.bodies[request] = self.patiently(lambda: self.served.ask("GET", content)).body

    def submit(self, body, headers=None):
        query = {"name": "x.npz", "asked": json.dumps(ASKED)}
        return self.served.ask("POST", f"/v1/datasets/{self.kind}/jobs", body, query=query, headers=headers)

    def waited_for(self, job):
        place = f"/v1/jobs/{job['id']}"
        while job["state"] in ("queued", "running"):
            time.sleep(0.05)
            job = self.patiently(lambda: self.served.ask("GET", place)).json
        return job

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
        end = time.monotonic() + 180.0
        while time.monotonic() < end:
            answer = self.ask(once)
            if answer is not None:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"never answered: {dict(self.seen)}")


_HASHES = (
    "SELECT name, hash FROM entries JOIN datasets ON datasets.id = entries.dataset ORDER BY name, number"
)


def hashes(served):
    """Of every row of every dataset, in order; read as it stands, since this is asked for with every kill."""
    found = defaultdict(list)
    for name, digest in rows(served.data / "ledger.db", _HASHES):
        found[name].append(digest)
    return found


def rows(file, question, *values):
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30.0)) as database:
        return database.execute(question, values).fetchall()


def commits(served):
    """How many jobs have begun to draw."""
    return rows(served.data / "ledger.db", "SELECT count(*) FROM entries WHERE kind = 'commit'")[0][0]


def in_hand(served, pid):
    """The datasets and holds of the jobs that this process works on, or tidies after another."""
    question = (
        "SELECT dataset, hold FROM serve_job_records WHERE hold IS NOT NULL "
        "AND (worker LIKE ? OR worker LIKE ?)"
    )
    return rows(served.data / "service.db", question, f"worker {pid} %", f"janitor {pid} %")


def progress(clients):
    """How many answers clients have had; none of them has failed."""
    assert not [client.failure for client in clients if client.failure is not None]
    return sum(client.seen[200] + client.seen[202] for client in clients)


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)


def killed(served, clients, chance):
    """Kill a worker while somebody works, every second time just as a job begins to draw.

    When it was, and the dataset and number of each hold that it had in hand.
    """
    asked, wanted = progress(clients), chance.randrange(1, 8)
    wait_for(lambda: progress(clients) >= asked + wanted, 60.0)
    # The one before was replaced: who is killed is mostly not just starting.
    wait_for(lambda: len(served.workers) == 2, 30.0)
    if chance.random() < 0.5:
        begun = commits(served)
        wait_for(lambda: commits(served) > begun, 60.0)
    else:
        time.sleep(chance.uniform(0.0, 0.1))
    older, newer = served.workers
    victim = older if chance.random() < 0.8 else newer
    os.kill(victim, signal.SIGKILL)
    at = time.time()
    return [(at, dataset, hold) for dataset, hold in in_hand(served, victim)]


def test_killed_workers_lose_no_spend_and_leave_no_release_unpaid(tmp_path, record_property):
    chance, stop, lost = random.Random(), threading.Event(), []
    with serving(tmp_path, "--workers", 2, tenants=("clinic",)) as served:
        for kind in KINDS:
            served.open_budget(kind, epsilon=10_000.0)
        wait_for(lambda: len(served.workers) == 2, 30.0)
        clients = [Client(served, kind, slot, stop) for kind in KINDS for slot in range(CLIENTS)]
        for client in clients:
            client.start()
        before = hashes(served)
        for _ in range(KILLS):
            lost += killed(served, clients, chance)
            now = hashes(served)
            for name, rows in before.items():
                assert now[name][: len(rows)] == rows, "a row that was there is gone"
            before = now
        wait_for(lambda: {one.kind for one in clients if one.bodies} == {*KINDS}, 120.0)
        stop.set()
        for client in clients:
            client.join(240.0)
            assert not client.is_alive()
            assert client.failure is None, client.failure
        wait_for(lambda: all(not one["open_holds"] for one in served.ask("GET", "/v1/budgets").json), 60.0)
        wait_for(lambda: not list((served.data / "work").rglob("*.npz")), 60.0)
        spends = {one["dataset"]: one["spends"] for one in served.ask("GET", "/v1/budgets").json}
        for client in clients:
            check_again(served, client)
        assert {one["dataset"]: one["spends"] for one in served.ask("GET", "/v1/budgets").json} == spends
        released = check_money(served, clients)
        waited, orphans = check_ages(served, lost)
        seen = sum((client.seen for client in clients), Counter())
        interrupted = sum(job["state"] == "failed" for one in clients for job in one.ended.values())
        record_property(
            "count",
            f"service: {KILLS} kills of 2 workers; {released} releases, 0 unpaid; spends {spends}; "
            f"jobs of fresh noise that were interrupted and stay spent: {interrupted}; open holds that lost "
            f"their worker: {orphans}, the last settled after {waited:.0f} s; clients saw {dict(seen)}",
        )


def check_ages(served, lost):
    """Every hold that a worker had in hand when it died is settled in time; the longest wait, how many."""
    waited = []
    with Ledger(f"sqlite:///{served.data / 'ledger.db'}") as ledger:
        for name in ledger.names():
            settled = {one.refers_to: when(one) for one in ledger.history(name) if one.refers_to is not None}
            waits = [settled[hold] - at for at, dataset, hold in lost if name.endswith(f":{dataset}")]
            waited += [one for one in waits if one > 0.0]
    assert max(waited, default=0.0) <= SETTLED_SECONDS
    return max(waited, default=0.0), len(waited)


def when(entry):
    return datetime.fromisoformat(entry.at).timestamp()


def check_again(served, client):
    """Every request that may be repeated gives the same bytes once more; a few are asked."""
    if client.kind != "keyed":
        return
    for request, body in list(client.bodies.items())[-5:]:
        answer = served.protect(npz(), dataset="keyed", headers={"Idempotency-Key": request})
        assert (answer.status, answer.body) == (200, body)


def check_money(served, clients):
    """Each released file is paid for by a row that stays; each request is charged once."""
    made, keys = list((served.data / "releases").rglob("*.npz")), KeyRing(served.data / "keys")
    assert made
    with Ledger(f"sqlite:///{served.data / 'ledger.db'}") as ledger:
        assert ledger.check() == []
        charges, returned, drawn = {}, set(), Counter()
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
            if name.endswith(":fresh"):
                drawn.update(entry.key.split()[1] for entry in paid)
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
    attempts = {kind: sum(one.attempts for one in clients if one.kind == kind) for kind in KINDS}
    assert len(charges["keyed"]) == done["keyed"]
    assert len(charges["jobs"]) == done["jobs"]
    assert done["plain"] <= len(charges["plain"]) <= attempts["plain"]
    assert done["fresh"] <= len(charges["fresh"]) <= attempts["fresh"]
    check_fresh(drawn, clients)
    assert all(done.values())
    bodies = [body for one in clients for body in one.bodies.values()]
    assert len(bodies) == len(set(bodies))  # no noise was drawn for two
    return len(made)


def check_fresh(drawn, clients):
    """A job of fresh noise is paid once where it drew, whether it could end or not, and never otherwise.

    ``drawn`` says how often each job was paid for.
    """
    assert set(drawn.values()) <= {1}, "fresh noise was drawn twice for one job"
    for job in (job for one in clients for job in one.ended.values()):
        assert (job["id"] in drawn) == (job["state"] == "done" or job["problem"]["spent"]), job
