"""Private values are planted everywhere a client may put them, and looked for everywhere they must not be."""

import io
import json
import os
import struct
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving
from test_serve_tenants import multipart

# As text, and as the eight bytes that an array would hold.
NUMBER = 0.7310585786300049
SEEN = {
    "a number": repr(NUMBER).encode(),
    "a number's bytes": struct.pack("<d", NUMBER),
    "a word in a cell": b"canarycell",
    "a long number": b"31415926535",
}
NAMES = {
    "the name of a file": b"canaryname",
    "an idempotency key": b"canaryrequest",
    "a query": b"canaryquery",
}


def npz(bad=False):
    values = np.full((40, 3), NUMBER)
    if bad:
        values[7, 1] = np.nan
    out = io.BytesIO()
    np.savez(out, X=values)
    return out.getvalue()


def png():
    cv2 = pytest.importorskip("cv2")
    return cv2.imencode(".png", np.full((32, 32, 3), 77, np.uint8))[1].tobytes() + b"canarycell"


def asked_for(served):
    """A long day of requests, good ones and bad ones, each with something private in it; their answers."""
    table = {
        "mechanism": "laplace",
        "parameters": {"epsilon": 1},
        "columns": {"age": {"kind": "numeric", "bounds": [0, 100]}},
    }
    good, wrong = npz(), npz(bad=True)
    bomb = b"canarycell" * 1000
    key = {"Idempotency-Key": "canaryrequest"}
    found = [
        served.protect(good, "canaryname.npz", headers=key),
        served.protect(good, "canaryname.npz", headers=key),
        served.protect(wrong, "canaryname.npz", headers=key),
        served.protect(good, "canaryname.npz", operation="plan"),
        served.protect(b"age\n31\n31415926535\n", "canaryname.csv", asked=table),
        served.protect(b"age\n31\ncanarycell\n", "canaryname.csv", asked=table),
        served.protect(b'age\n31\n"2\ncanarycell\n', "canaryname.csv", asked=table),
        served.protect(b"age;x\n31;canarycell\n", "canaryname.csv", asked=table),
        served.protect(bomb, "canaryname.npz"),
        served.protect(bomb, "canaryname.parquet", asked=table),
        served.protect(png(), "canaryname.png", asked={"parameters": {"epsilon": 1}}),
        served.protect(good, "canaryname.npz", asked={"parameters": {"epsilon": 1, "clip": "word"}}),
        served.protect(good, "canaryname.npz", asked={"array": "Y", "parameters": {"epsilon": 1}}),
        served.protect(good, "canaryname.npz", "nowhere"),
        served.protect(good, "canaryname.npz", asked={"parameters": {"epsilon": 1e3, "clip": 1}}),
        served.ask("POST", "/v1/budgets", {"dataset": "canarycell\0", "epsilon": NUMBER}),
        served.ask("GET", "/v1/me", query={"q": "canaryquery"}),
        served.ask("GET", "/v1/releases/canaryquery"),
        served.ask("GET", "/v1/me", tenant=None, headers={"Authorization": "Bearer canaryquery"}),
        served.ask("POST", "/v1/verify", good, query={"name": "canaryname.npz", "certificate": '"x"'}),
    ]  # fmt: skip
    query = {"name": "canaryname.npz", "asked": json.dumps({"parameters": {"epsilon": 1, "clip": 1}})}
    for body in (good, wrong, bomb):
        found.append(served.ask("POST", "/v1/datasets/ward/jobs", body, query=query))
    query = {"name": "canaryname.csv", "asked": json.dumps(table)}
    found.append(served.ask("POST", "/v1/datasets/ward/jobs", b"age\n31\ncanarycell\n", query=query))
    for original in (good, wrong, bomb):
        body, kind = multipart(original=("canaryname.npz", original), released=("canaryname.npz", good))
        found.append(served.ask("POST", "/v1/datasets/ward/audits", body, headers={"Content-Type": kind}))
    raw = "POST /v1/datasets/ward/protect?name=canaryname.npz HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n"
    with served.socket() as cut:  # a sender that goes away in the middle
        cut.sendall(f"{raw}Authorization: Bearer {served.tokens['clinic']}\r\n\r\n".encode() + good[:900])
    served.raw(b"canaryquery \0\r\n\r\n", timeout=2.0)
    return found


def _wait_for_jobs(served):
    for _ in range(300):
        jobs = served.ask("GET", "/v1/jobs").json
        listed = jobs["jobs"] if isinstance(jobs, dict) else jobs
        if all(job["state"] in ("done", "failed", "cancelled") for job in listed):
            return listed
        time.sleep(0.1)
    raise AssertionError("jobs did not end")


def holding(places, secrets):
    """Where any of the ``secrets`` is found: the file and which."""
    return [
        (str(file), what)
        for file in places
        if file.is_file()
        for content in [file.read_bytes()]
        for what, secret in secrets.items()
        if secret in content
    ]


def test_no_private_value_is_told_logged_or_left_behind(tmp_path, tmp_path_factory):
    """The released files are the only trace of what was in the sent ones."""
    temporary = tmp_path_factory.mktemp("temporary")
    passphrase = "canarypassphrase-5502"
    environment = {"SFUMATO_PASSPHRASE": passphrase, "TMPDIR": str(temporary)}
    with serving(tmp_path, environment=environment) as served:
        served.open_budget()
        answers = asked_for(served)
        jobs = _wait_for_jobs(served)
        assert {answer.status for answer in answers} >= {200, 202, 400, 401, 404, 409}
        assert not any(answer.status >= 500 for answer in answers), [answer.body for answer in answers]
        refused = [answer.body for answer in answers if answer.status >= 400]
        bodies = [*refused, json.dumps(jobs).encode()]
        assert [(what, body) for body in bodies for what, secret in SEEN.items() if secret in body] == []
        served.end()
        secrets = SEEN | {"a passphrase": passphrase.encode()}
        secrets |= {f"the token of {name}": token[21:].encode() for name, token in served.tokens.items()}
        everything = list(served.data.rglob("*")) + list(temporary.rglob("*")) + [served.log]
        assert holding(everything, secrets) == []
        assert holding([served.log, *temporary.rglob("*")], NAMES) == []
        assert "Traceback" not in served.log.read_text()
        assert [
            file for file in served.data.rglob("work/**/*") if file.is_file() and file.stat().st_size
        ] == []
        assert os.listdir(temporary) == []
