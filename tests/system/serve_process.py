"""A service as a process of its own, and plain HTTP to it: what is sent is exactly what a test says."""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_EXECUTABLE = str(Path(sys.executable).with_name("sfumato"))
_START_SECONDS = 60.0


@dataclass
class Answer:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    def problem(self, status, kind=None):
        """The sentence of a problem with this status."""
        assert self.status == status, (self.status, self.body[:500])
        assert self.headers["content-type"] == "application/problem+json", self.headers
        assert self.json["status"] == status
        assert kind is None or self.json["type"] == kind, self.json
        return self.json["detail"]


@dataclass
class Served:
    """A running service: its process, its folder, and the tokens of tenants by their names."""

    run: subprocess.Popen
    port: int
    data: Path
    log: Path
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def workers(self):
        """The processes that answer, oldest first: those the first one started, or itself."""
        listed = Path(f"/proc/{self.run.pid}/task/{self.run.pid}/children").read_text().split()
        words = {int(pid): _words_of(int(pid)) for pid in listed}  # none of one that has ended
        servers = [pid for pid, said in words.items() if said and b"resource_tracker" not in said]
        return servers or [self.run.pid]

    def ask(
        self,
        method,
        path,
        body=None,
        *,
        tenant="clinic",
        headers=None,
        query=None,
        timeout=30,
        address="127.0.0.1",
    ):
        """One request from ``address``, any of the loopback; ``body`` may be bytes or what becomes JSON."""
        given = {} if tenant is None else {"Authorization": f"Bearer {self.tokens[tenant]}"}
        if body is not None and not isinstance(body, bytes):
            given["Content-Type"], body = "application/json", json.dumps(body).encode()
        target = path if query is None else f"{path}?{urllib.parse.urlencode(query)}"
        to = http.client.HTTPConnection("127.0.0.1", self.port, timeout, source_address=(address, 0))
        with closing(to) as connection:
            connection.request(method, target, body, given | (headers or {}))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())

    def protect(self, file, name="x.npz", dataset="ward", *, asked=None, operation="protect", **words):
        """Release ``file``, bytes."""
        described = {"parameters": {"epsilon": 0.1, "delta": 1e-9, "clip": 1.0}} if asked is None else asked
        query = {"name": name, "asked": json.dumps(described)}
        return self.ask("POST", f"/v1/datasets/{dataset}/{operation}", file, query=query, **words)

    def open_budget(self, dataset="ward", *, epsilon=1000.0, unit="record", tenant="clinic"):
        """A budget that lasts."""
        new = {"dataset": dataset, "epsilon": epsilon, "delta": 1e-5, "unit": unit}
        made = self.ask("POST", "/v1/budgets", new, tenant=tenant)
        assert made.status == 201, made.body

    def socket(self, timeout=30.0):
        """A connection of one's own."""
        return closing(socket.create_connection(("127.0.0.1", self.port), timeout=timeout))

    def raw(self, sent, timeout=10.0):
        """What comes back for these bytes until the other side closes, or says nothing for ``timeout``."""
        with self.socket(timeout) as connection:
            connection.sendall(sent)
            return read_all(connection)

    def resident(self):
        """The most memory that any process of the service has had, in bytes."""
        return max(_high_water(pid) for pid in {self.run.pid, *self.workers})

    def end(self):
        """Tell it to end, and wait."""
        self.run.send_signal(signal.SIGTERM)
        self.run.wait(60)


def read_all(connection):
    """Everything until the other side closes or is silent for the timeout."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except (TimeoutError, ConnectionResetError):
        pass
    return b"".join(parts)


def make_tenant(data, name, **environment):
    """A tenant of the service in ``data``; its owner's token."""
    from sfumato.cli import main

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as told:
        for variable, value in environment.items():
            patch.setenv(variable, value)
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--data", str(data), "tenant", name, "--json"])
    assert ended.value.code == 0
    return json.loads(told.getvalue())["token"]


@contextmanager
def serving(folder, *options, tenants=("clinic", "other"), environment=None):
    """A service in ``folder`` with these tenants, until the block ends."""
    data, log, words = folder / "service", folder / "log", environment or {}
    tokens = {name: make_tenant(data, name, **words) for name in tenants}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [_EXECUTABLE, "serve", "--data", str(data), "--port", str(port), *map(str, options)]
    with open(log, "ab") as out:
        run = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder, env=os.environ | words
        )
    made = Served(run, port, data, log, tokens)
    try:
        _wait_until_ready(made, int(command[command.index("--workers") + 1]) if "--workers" in command else 1)
        yield made
    finally:
        left = made.workers if run.poll() is None else []
        run.kill()
        run.wait()
        for pid in left:
            _kill(pid)


def listeners(port):
    """The number of sockets that listen on ``port`` of the loopback: each worker has one of its own."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1] == f"0100007F:{port:04X}" and row[3] == "0A" for row in rows)


def _wait_until_ready(made, workers):
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        assert made.run.poll() is None, made.log.read_text()
        try:
            if listeners(made.port) == workers and made.ask("GET", "/readyz", tenant=None).status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"the service did not start: {made.log.read_text()}")


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _high_water(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0
