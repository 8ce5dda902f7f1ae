"""The service as people start it: processes that listen, release, and end when they are told to."""

# ruff: noqa: F401, F811 (a fixture is imported, and then named by the test that takes it)

import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from ledger_server import postgresql
from prometheus_client.parser import text_string_to_metric_families
from serve_process import serving

from sfumato.serve import Service, Settings

TOKEN = "0123456789abcdef0123456789abcdef"


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.full((5, 3), 0.123456789))
    return out.getvalue()


def lines_of(log):
    """The lines of JSON in a log, and the sentences that are none."""
    told = [line for line in log.read_text().splitlines() if line]
    return (
        [json.loads(line) for line in told if line.startswith("{")],
        [line for line in told if not line.startswith("{")],
    )


def until(condition, seconds=30.0):
    """Wait for ``condition``, and return what it returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_a_reader_verifies_a_release_by_the_steps_of_the_documentation(folder, tmp_path):
    """The released file, its certificate and the service's public key, without any key of the service."""
    executable = str(Path(sys.executable).with_name("sfumato"))
    environment = os.environ | {"SFUMATO_HOME": str(tmp_path / "reader")}

    def sfumato(*words):
        return subprocess.run([executable, *words], cwd=tmp_path, env=environment, capture_output=True)

    with serving(folder, tenants=("clinic",)) as served:
        served.open_budget()
        done = served.protect(npz())
        certificate = served.ask("GET", f"/v1/releases/{done.headers['sfumato-release']}/certificate")
        key = served.ask("GET", "/v1/signing-key", tenant=None)
    assert key.status == 200
    for name, content in {
        "x.npz": done.body,
        "x.npz.cert.json": certificate.body,
        "service.pem": key.body,
    }.items():
        (tmp_path / name).write_bytes(content)
    assert sfumato("verify", "x.npz").returncode == 4
    assert sfumato("key", "trust", "service.pem").returncode == 0
    verified = sfumato("verify", "x.npz")
    assert verified.returncode == 0, verified.stdout
    (tmp_path / "x.npz").write_bytes(done.body[:-1] + bytes([done.body[-1] ^ 1]))
    assert sfumato("verify", "x.npz").returncode == 4


def test_a_service_releases_and_finishes_what_is_under_way_when_told_to_end(folder):
    """Half of a body has come when the signal does: the rest may still come, and is answered."""
    with serving(folder, tenants=("clinic",)) as served:
        served.open_budget()
        done = served.protect(npz())
        assert done.status == 200
        assert np.load(io.BytesIO(done.body))["X"].shape == (5, 3)
        assert "sfumato-release" in done.headers
        body, asked = npz(), json.dumps({"parameters": {"epsilon": 1, "clip": 1}})
        words = {"name": "x.npz", "asked": asked}
        job = served.ask("POST", "/v1/datasets/ward/jobs", body, query=words)
        assert job.status == 202, job.body
        query = urllib.parse.urlencode(words)
        head = (
            f"POST /v1/datasets/ward/protect?{query} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {served.tokens['clinic']}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with served.socket() as connection:
            connection.sendall(head.encode() + body[:100])
            time.sleep(0.5)
            served.run.send_signal(signal.SIGTERM)
            until(lambda: not _listens(served))
            connection.sendall(body[100:])
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert np.load(io.BytesIO(answer.partition(b"\r\n\r\n")[2]))["X"].shape == (5, 3)
        assert served.run.wait(30) == 0
        _require_settled(served, job.json["id"])
        lines, sentences = lines_of(served.log)
        assert len(sentences) == 2
        assert sentences[0] == f"Sfumato listens on http://127.0.0.1:{served.port}/v1; Ctrl-C ends it."
        left = "jobs that did not end in time are taken up or settled by the next process"
        assert sentences[1] == f"Sfumato has ended; {left}."
        line, _ = [one for one in lines if one.get("route") == "/v1/datasets/{dataset}/protect"]
        assert (line["status"], line["bytes_in"], line["bytes_out"]) == (200, len(npz()), len(done.body))
        assert line["request"] == done.headers["sfumato-request"]
        told = served.log.read_text()
        for never in (*served.tokens.values(), "0.123456789", "Traceback", "ward", "x.npz", "epsilon"):
            assert never not in told
        assert os.listdir(served.data / "work") == []
        for place, _, files in os.walk(served.data):
            for name in files:
                assert os.stat(os.path.join(place, name)).st_mode & 0o077 == 0, name


def _require_settled(served, id_):
    """The job is done and paid for, or waits for whoever starts next with its price set aside."""
    service = Service(Settings(served.data))
    (clinic,) = service.registry.tenants()
    caller = service.registry.authenticate(served.tokens["clinic"])
    state, balance = service.job(caller, id_).state, service.ledger.balance(f"{clinic.id}:ward")
    service.close()
    assert (state, balance.spends, balance.open_holds) in (("done", 3, 0), ("queued", 3, 1))


def _listens(served):
    try:
        with served.socket():
            return True
    except ConnectionError:
        return False


def test_a_signal_that_comes_before_it_answers_ends_it_too(folder, executable):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    run = subprocess.Popen(
        [executable, "serve", "--data", "service", "--port", port], stderr=subprocess.PIPE, text=True
    )
    until((folder / "service" / "service.db").exists)
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate(timeout=60)
    assert "Sfumato has ended" in told
    assert "Traceback" not in told
    assert run.returncode == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_says_that_it_listens_once_it_answers(folder, executable, workers):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    run = subprocess.Popen(
        [executable, "serve", "--data", "service", "--port", str(port), "--workers", workers],
        stderr=subprocess.PIPE,
        text=True,
    )
    said = next(line for line in run.stderr if not line.startswith("{"))
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"http://127.0.0.1:{port}/healthz", timeout=30
    )
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert said == f"Sfumato listens on http://127.0.0.1:{port}/v1; Ctrl-C ends it.\n"
    assert answer.status == 200


def test_it_says_that_it_is_not_ready_before_it_ends(folder):
    with serving(folder, "--drain-seconds", 3, tenants=("clinic",)) as served:
        served.run.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        until(lambda: served.ask("GET", "/readyz", tenant=None).status == 503, 3)
        assert served.ask("GET", "/v1/me").status == 200
        assert served.run.wait(30) == 0
        assert time.monotonic() - begun >= 2.5


def test_workers_answer_together_are_replaced_and_end_together(folder):
    """A worker that is killed is replaced; its counts stay; all end by one signal."""
    (folder / "token").write_text(TOKEN)
    options = ("--workers", 2, "--metrics-token-file", "token", "--log-file", "requests.log")
    with serving(folder, *options, tenants=("clinic",)) as served:
        served.open_budget()
        first = until(lambda: len(served.workers) == 2 and served.workers)
        for _ in range(10):
            assert served.protect(npz()).status == 200

        def metrics():
            page = served.ask("GET", "/metrics", tenant=None, headers={"Authorization": f"Bearer {TOKEN}"})
            assert page.status == 200
            families = text_string_to_metric_families(page.body.decode())
            return [sample for family in families for sample in family.samples]

        def value(name, **labels):
            return sum(
                one.value for one in metrics() if one.name == name and labels.items() <= one.labels.items()
            )

        route = "/v1/datasets/{dataset}/protect"
        # A request is counted once it is answered.
        until(lambda: value("sfumato_requests_total", route=route, status="200") == 10)
        until(lambda: value("sfumato_workers_up") == 2)
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(served.workers) == 2 and first[0] not in served.workers)
        until(lambda: value("sfumato_workers_up") == 2)
        assert value("sfumato_requests_total", route=route, status="200") == 10
        assert value("sfumato_releases_paid_total", dataset="ward") == 10
        last = served.workers
        served.end()
        assert served.run.returncode == 0
        assert not any(os.path.exists(f"/proc/{pid}") for pid in last)
        lines = [json.loads(line) for line in (folder / "requests.log").read_text().splitlines()]
        assert [line["worker"] for line in lines if line["event"] == "worker died"] == [first[0]]
        assert sum(line.get("route") == route for line in lines) == 10
        assert not [line for line in lines if line["level"] != "info" and line["event"] != "worker died"]


def test_workers_share_a_postgresql_server(folder, postgresql):
    """Both databases on one server; files are in the data folder, and neither database is."""
    url = postgresql()
    environment = {"SFUMATO_SERVE_DATABASE": url, "SFUMATO_SERVE_LEDGER": url}
    with serving(folder, "--workers", 2, tenants=("clinic",), environment=environment) as served:
        served.open_budget()
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda _: served.protect(npz()), range(12)))
        assert [answer.status for answer in done] == [200] * 12
        assert served.ask("GET", "/v1/budgets/ward").json["spends"] == 12
        assert url not in served.log.read_text()
        served.end()
        assert served.run.returncode == 0
        assert not list(served.data.glob("*.db"))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_settings_by_variables_of_the_environment_tls_and_workers_that_outlive_nobody(
    folder, executable, self_signed
):
    certificate, key = self_signed
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        "SFUMATO_SERVE_DATA": "service",
        "SFUMATO_SERVE_PORT": str(port),
        "SFUMATO_SERVE_TLS_CERTIFICATE": str(certificate),
        "SFUMATO_SERVE_TLS_KEY": str(key),
        "SFUMATO_SERVE_WORKERS": "2",
    }
    trust = ssl.create_default_context(cafile=str(certificate))

    def answered():
        try:
            with (
                socket.create_connection(("127.0.0.1", port), 10) as plain,
                trust.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                return connection.makefile("rb").read()
        except ConnectionError:
            return b""

    with open("log", "wb") as log:
        run = subprocess.Popen([executable, "serve"], stderr=log, env=os.environ | environment)
    try:
        assert until(answered, 60).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not connection.makefile("rb").read().startswith(b"HTTP")
        with open(f"/proc/{run.pid}/task/{run.pid}/children") as children:
            workers = children.read().split()
        assert len(workers) == 2
        assert all(_runs(pid) for pid in workers)
        run.kill()
        until(lambda: not any(_runs(pid) for pid in workers))
    finally:
        run.kill()
        run.wait()
    assert f"listens on https://127.0.0.1:{port}/v1" in (folder / "log").read_text()
    assert (folder / "service" / "ledger.db").exists()
