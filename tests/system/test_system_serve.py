"""The service as people start it: a process that listens, releases, and ends when it is told to."""

import io
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")


@pytest.fixture
def running(folder, executable):
    """A service on a free port, with a tenant; ends by a signal."""
    made = subprocess.run(
        [executable, "serve", "--data", "service", "tenant", "clinic", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [executable, "serve", "--data", "service", "--port", str(port)]
    with open("log", "wb") as log:
        run = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 60.0
    while time.monotonic() < end and run.poll() is None:
        try:
            _open(urllib.request.Request(f"{address}/readyz"))
            break
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    yield run, address, json.loads(made.stdout)["token"]
    run.kill()
    run.wait()


def _open(request):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        return answer.status, dict(answer.headers), answer.read()


def test_a_service_releases_and_ends_when_told_to(running, folder):
    run, address, token = running
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    new = json.dumps({"dataset": "ward", "epsilon": 8, "delta": 1e-5}).encode()
    status, _, _ = _open(urllib.request.Request(f"{address}/v1/budgets", new, headers))
    assert status == 201
    private = np.full((5, 3), 0.123456789)
    out = io.BytesIO()
    np.savez(out, X=private)
    query = urllib.parse.urlencode({"name": "x.npz", "asked": '{"parameters": {"epsilon": 1, "clip": 1}}'})
    released = urllib.request.Request(
        f"{address}/v1/datasets/ward/protect?{query}", out.getvalue(), {"Authorization": f"Bearer {token}"}
    )
    status, answered, body = _open(released)
    assert status == 200
    assert np.load(io.BytesIO(body))["X"].shape == (5, 3)
    assert "sfumato-release" in {name.lower() for name in answered}
    run.send_signal(signal.SIGTERM)
    run.wait(60)
    told = (folder / "log").read_text()
    assert token not in told
    assert "0.123456789" not in told
    assert "Traceback" not in told
    assert os.listdir(folder / "service" / "work") == []
