"""gRPC beside REST in one process, as people start it."""

import io
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serve_process import listeners

from sfumato.serve.grpc import SfumatoStub
from sfumato.serve.grpc import sfumato_pb2 as pb


def _free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def test_one_process_answers_both_and_ends_when_told_to(folder, executable):
    tenant = [executable, "serve", "--data", "service", "tenant", "clinic", "--json"]
    token = json.loads(subprocess.run(tenant, check=True, capture_output=True, text=True).stdout)["token"]
    rest, port = _free_ports(2)
    command = [executable, "serve", "--data", "service", "--port", str(rest), "--grpc-port", str(port)]
    with open("log", "wb") as log:
        run = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            asked = health_pb2.HealthCheckRequest(service="sfumato.v1.Sfumato")
            healthy = health_pb2_grpc.HealthStub(channel).Check(asked, wait_for_ready=True, timeout=60)
            assert healthy.status == health_pb2.HealthCheckResponse.SERVING
            metadata = (("authorization", f"Bearer {token}"),)
            stub = SfumatoStub(channel)
            stub.OpenBudget(pb.NewBudget(dataset="ward", epsilon=8, delta=1e-5), metadata=metadata)
            parts = list(stub.Protect(_parts(), metadata=metadata))
            released = b"".join(part.chunk for part in parts[1:])
        assert np.load(io.BytesIO(released))["X"].shape == (5, 3)
        url = f"http://127.0.0.1:{rest}/v1/releases/{parts[0].release.id}/content"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            assert answer.read() == released
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
    finally:
        run.kill()
        run.wait()
    told = (folder / "log").read_text()
    assert f"gRPC on 127.0.0.1:{port}" in told
    for never in (token, "0.123456789", "Traceback", "rror", "ward", "x.npz"):
        assert never not in told
    assert os.listdir(folder / "service" / "work") == []


def test_several_workers_answer_grpc_on_one_port(folder, executable):
    """Each has a socket of its own there; another service finds the port taken; one signal ends them all."""
    tenant = [executable, "serve", "--data", "service", "tenant", "clinic", "--json"]
    token = json.loads(subprocess.run(tenant, check=True, capture_output=True, text=True).stdout)["token"]
    rest, port, other = _free_ports(3)
    command = [executable, "serve", "--data", "service", "--workers", "2", "--grpc-port", str(port)]
    with open("log", "wb") as log:
        run = subprocess.Popen([*command, "--port", str(rest)], stdout=log, stderr=log)
    try:
        metadata = (("authorization", f"Bearer {token}"),)
        asked = health_pb2.HealthCheckRequest(service="sfumato.v1.Sfumato")
        for _ in range(16):
            # A connection each, which the system gives to either worker.
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
                health_pb2_grpc.HealthStub(channel).Check(asked, wait_for_ready=True, timeout=60)
                assert SfumatoStub(channel).Me(pb.MeRequest(), metadata=metadata).role == "owner"
        second = subprocess.run([*command, "--port", str(other)], capture_output=True, text=True)
        assert second.returncode == 2
        assert f"gRPC cannot listen on 127.0.0.1:{port}" in second.stderr
        end = time.monotonic() + 60.0
        while listeners(rest) < 2:  # one that has not begun would end without a word
            assert time.monotonic() < end
            time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
    finally:
        run.kill()
        run.wait()
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]
    assert sum(line["event"] == "worker started" for line in lines) == 2
    assert sum(line["event"] == "ended" for line in lines) == 2
    assert sum(line.get("route") == "/sfumato.v1.Sfumato/Me" for line in lines) == 16
    assert not [line for line in lines if line["level"] == "error"]


def _parts():
    asked = pb.Description(parameters={"epsilon": pb.Parameter(whole=1), "clip": pb.Parameter(number=1.0)})
    yield pb.FilePart(file=pb.AskedFile(dataset="ward", name="x.npz", asked=asked))
    out = io.BytesIO()
    np.savez(out, X=np.full((5, 3), 0.123456789))
    yield pb.FilePart(chunk=out.getvalue())
