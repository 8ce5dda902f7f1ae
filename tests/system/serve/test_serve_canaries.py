"""Private values are planted everywhere a client may put them, and looked for everywhere they must not be."""

import io
import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from itertools import product
from urllib.parse import urlencode

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("grpc_health", reason="the extra serve is not installed")
import grpc
from serve_process import serving
from test_serve_tenants import multipart

from sfumato.serve.grpc import SfumatoStub
from sfumato.serve.grpc import sfumato_pb2 as pb

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
    for rows in (
        {"asked": table, "table": {"age": [31, NUMBER]}},
        {"asked": table, "table": {"age": ["canarycell"]}},
        {"asked": table, "table": {"age": [31, "canarycell"]}},
        {"asked": {"parameters": {"epsilon": 0.1, "clip": 1, "delta": 1e-9}}, "array": [[NUMBER, 1.0]]},
        {"array": [[NUMBER, "canarycell"]]},
        {
            "asked": {"mechanism": "randomised-response", "parameters": {"epsilon": 1, "categories": 3}},
            "array": [[0, NUMBER]],
        },
    ):
        for operation in ("protect", "jobs"):
            found.append(served.ask("POST", f"/v1/datasets/ward/{operation}", rows))
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


def called_for(port, token):
    """The same over gRPC: what is released and planned, what is refused and in which words."""
    table = pb.Description(
        mechanism="laplace",
        parameters={"epsilon": pb.Parameter(whole=1)},
        columns_json='{"age": {"kind": "numeric", "bounds": [0, 100]}}',
    )
    array = pb.Description(parameters={"epsilon": pb.Parameter(whole=1), "clip": pb.Parameter(number=1.0)})
    metadata = (("authorization", f"Bearer {token}"), ("idempotency-key", "canaryrequest-grpc"))
    words = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = SfumatoStub(channel)
        for name, asked, body in (
            ("canaryname.npz", array, npz()),
            ("canaryname.npz", array, npz(bad=True)),
            ("canaryname.csv", table, b"age\n31\n31415926535\n"),
            ("canaryname.csv", table, b"age\n31\ncanarycell\n"),
            ("canaryname.parquet", table, b"canarycell" * 1000),
        ):
            file = pb.FilePart(file=pb.AskedFile(dataset="ward", name=name, asked=asked))
            for method in (stub.Plan, stub.Protect, stub.Submit):
                parts = iter([file, pb.FilePart(chunk=body)])
                words.append(_said(method, parts, metadata=metadata))
        words.append(_said(stub.GetRelease, pb.ReleaseRequest(id="canaryquery"), metadata=metadata))
        words.append(_said(stub.Me, pb.MeRequest(), metadata=(("authorization", "Bearer canaryquery"),)))
        bad = pb.NewBudget(dataset="canarycell\n", epsilon=NUMBER)
        words.append(_said(stub.OpenBudget, bad, metadata=metadata))
    return words


def _said(method, asked, **words):
    """Why a call was refused; nothing of one that was not."""
    try:
        found = method(asked, timeout=60, **words)
        if isinstance(found, Iterator):
            list(found)
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    return ""


def visited(served):
    """The same on pages, by somebody who signs in."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    page = served.ask("GET", "/ui/sign-in", tenant=None, query={"to": "/canaryquery"})

    def cookies(answer):
        held = SimpleCookie(answer.headers["set-cookie"])
        return {"Cookie": "; ".join(f"{name}={one.value}" for name, one in held.items())}

    def proof(answer):
        return re.search(r'name="proof" value="([0-9a-f]+)"', answer.body.decode())[1]

    def posted(path, fields, headers):
        return served.ask("POST", path, urlencode(fields).encode(), tenant=None, headers=form | headers)

    first = cookies(page)
    wrong = posted("/ui/sign-in", {"proof": proof(page), "key": "canaryquery", "to": ""}, first)
    given = {"proof": proof(page), "key": served.tokens["clinic"], "to": ""}
    own = cookies(posted("/ui/sign-in", given, first))
    found = [wrong, served.ask("GET", "/ui/releases/canaryquery", tenant=None, headers=own)]
    shown = proof(served.ask("GET", "/ui/check", tenant=None, headers=own))
    budget = {"proof": shown, "dataset": "canaryquery\n", "epsilon": "canaryquery", "delta": "canaryquery"}
    found.append(posted("/ui/datasets", budget, own))
    fields = {"proof": shown, "once": "0" * 32, "mechanism": "gaussian", "epsilon": "1", "clip": "1"}
    for way, body in product(("plan", "release", "jobs"), (npz(), npz(bad=True), b"canarycell" * 1000)):
        sent, kind = multipart(file=("canaryname.npz", body))
        boundary = kind.partition("boundary=")[2]
        words = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        )
        headers = {"Content-Type": kind} | own
        path = f"/ui/datasets/ward/{way}"
        found.append(served.ask("POST", path, words.encode() + sent, tenant=None, headers=headers))
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
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with serving(tmp_path, "--grpc-port", port, environment=environment) as served:
        served.open_budget()
        answers = asked_for(served)
        pages = visited(served)
        assert {answer.status for answer in pages} >= {200, 303, 400, 404}
        sentences = called_for(port, served.tokens["clinic"])
        assert "" in sentences
        assert not [one for one in sentences if one.startswith(("INTERNAL", "UNKNOWN"))]
        assert sum(map(bool, sentences)) > 5
        jobs = _wait_for_jobs(served)
        assert {answer.status for answer in answers} >= {200, 202, 400, 401, 404, 409}
        assert not any(answer.status >= 500 for answer in answers), [answer.body for answer in answers]
        assert not any(answer.status >= 500 for answer in pages), [answer.body for answer in pages]
        refused = [answer.body for answer in (*answers, *pages) if answer.status >= 400]
        told = [sentence.encode() for sentence in sentences]
        bodies = [*refused, *told, json.dumps(jobs).encode()]
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
