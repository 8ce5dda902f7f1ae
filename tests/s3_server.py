"""A real S3-compatible server of our own: moto's, in its own process, on a free port of the loopback."""

import functools
import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest

#: Credentials that no message may ever show.
ACCESS_KEY, SECRET_KEY = "AKIAFORTHETESTS00000", "this-secret-is-for-the-tests-only"
#: A listing of more than these objects comes in several answers.
PAGE = 100
_SETTINGS = {"MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE)}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class S3:
    """The endpoint that the environment names, and a client to look at the server with."""

    endpoint: str
    client: Any

    def bucket(self):
        """The name of a new, empty bucket."""
        name = f"bucket-{os.getpid()}-{next(_numbers)}"
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket):
        """The keys of all objects there."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def dangling(self, bucket):
        """The keys of uploads in parts that nobody completed or aborted."""
        answer = self.client.list_multipart_uploads(Bucket=bucket)
        return [upload["Key"] for upload in answer.get("Uploads", [])]


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory):
    """The URL of a server that lasts for the session."""
    pytest.importorskip("moto.server", reason="the server of moto is not installed")
    log = tmp_path_factory.mktemp("s3") / "log"
    for _ in range(5):  # somebody else may take the port in between
        port = _free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with open(log, "ab") as output:
            server = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=os.environ | _SETTINGS
            )
        try:
            if _answers(server, port):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            server.kill()
            server.wait(10)
    pytest.fail(f"moto's server did not start: {log.read_text()}")


@pytest.fixture
def s3(s3_endpoint, monkeypatch):
    """The server, named by the environment as any S3 server is, and nobody's own configuration."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    return S3(s3_endpoint, _client(s3_endpoint))


@functools.cache
def _client(endpoint):
    """A client that keeps to this endpoint, whatever the environment comes to say."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(server, port, patience=60.0):
    """Whether the server came to answer; not if it ended first."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + patience
    while time.monotonic() < end and server.poll() is None:
        try:
            with opener.open(f"http://127.0.0.1:{port}/moto-api/data.json", timeout=5):
                return server.poll() is None
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    return False
