"""A service that is lied to: names that climb, headers that break out, two requests in one.

Everything here talks to a real process over plain HTTP, by an owner's valid key unless a test says otherwise.
"""

import io
import json
import os
import stat
import urllib.parse

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import read_all, serving

# What the service may use beside what it has at rest, whatever is sent.
ROOM = 100 << 20


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("security")) as made:
        made.open_budget()
        yield made


def npz(rows=20):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(rows, 3)))
    return out.getvalue()


def files_of(folder):
    return {os.path.join(place, name) for place, _, names in os.walk(folder) for name in names}


# Names


CLIMBING = [
    "../../escaped.npz",
    "..\\..\\escaped.npz",
    "/etc/escaped.npz",
    "%2e%2e%2fescaped.npz",
    "....//escaped.npz",
    "x\0/../escaped.npz",
    "escaped.npz\0.txt",
    "..",
    ".npz",
    "\u2215escaped.npz",
    "a" * 200 + ".npz",
]


@pytest.mark.parametrize("name", CLIMBING)
def test_no_name_of_a_file_leaves_the_place_of_its_release(served, name):
    answer = served.protect(npz(), name)
    if answer.status == 200:  # only the format is taken from a name
        assert answer.headers["content-disposition"] == 'attachment; filename="release.npz"'
        kept = served.data / "releases"
        (found,) = [
            file
            for file in files_of(kept)
            if answer.headers["sfumato-release"] in file and file.endswith(".npz")
        ]
        assert os.path.relpath(found, kept).count("/") == 2
    else:
        assert answer.problem(answer.status)
        assert answer.status in (400, 422)
    inside = files_of(served.data / "releases")
    assert {file for file in files_of(served.data.parent) if "escaped" in file} <= inside
    assert not os.path.exists("/etc/escaped.npz")


@pytest.mark.parametrize(
    "part",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fservice.db",
        "%2fetc%2fpasswd",
        "x%00y",
        "a" * 300,
        "%ff%fe",
        "..%5c..",
        "%0d%0aX:y",
        "%",
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/releases/{}",
        "/v1/releases/{}/content",
        "/v1/releases/{}/certificate",
        "/v1/budgets/{}",
        "/v1/budgets/{}/history",
        "/v1/jobs/{}",
        "/v1/audits/{}",
        "/s3/{}/object",
        "/s3/bucket/{}",
        "/ui/static/{}",
    ],
)
def test_no_id_reaches_another_file(served, path, part):
    answer = served.ask("GET", path.format(part))
    assert answer.status in (400, 401, 403, 404, 405, 422) or (
        answer.status in (302, 303, 307) and "/ui" in path
    ), answer
    assert b"root:" not in answer.body
    assert b"SQLite format" not in answer.body
    assert str(served.data).encode() not in answer.body


# Headers


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\r", "\u2028", "\x0b"])
def test_no_name_breaks_out_of_a_header(served, ending):
    evil = f"x{ending}Injected: yes{ending}.npz"
    query = urllib.parse.urlencode(
        {"name": evil, "asked": json.dumps({"parameters": {"epsilon": 0.1, "clip": 1}})}
    )
    lines = [
        f"POST /v1/datasets/ward/protect?{query} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {served.tokens['clinic']}",
        "Connection: close",
        f"Content-Length: {len(npz())}",
    ]
    answer = served.raw("\r\n".join([*lines, "", ""]).encode() + npz())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"injected: yes" not in answer.lower().split(b"\r\n\r\n")[0]


def test_what_a_client_chose_comes_back_in_headers_as_it_is_or_not_at_all(served):
    for key in ("caf\xe9", 'a"b;c=d', "x" * 128, "\ttab\t"):
        answer = served.protect(npz(), headers={"Idempotency-Key": key})
        assert answer.status in (200, 400, 422), answer.body
        assert {"set-cookie", "injected", "location"}.isdisjoint(answer.headers)
    served.protect(npz(), headers={"Idempotency-Key": "x" * 129}).problem(422)
    named = served.protect(npz(), "a b-c_d.npz")
    assert named.headers["content-disposition"] == 'attachment; filename="release.npz"'


# Requests whose end is told in two ways


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Bad Header: 1",
        "Nul: \0",
    ],
)
def test_of_two_requests_in_one_no_second_is_answered(served, head):
    """Whatever stands in front may see one request where this sees two: so it sees none, or one."""
    second = b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"0\r\n\r\n" + second
    first = f"POST /v1/budgets HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode()
    answer = served.raw(first + body, timeout=1.0)
    assert answer.count(b"HTTP/1.1 ") <= 1, answer
    assert b" 200 " not in answer


def test_heads_are_no_longer_than_a_limit(served):
    before = served.resident()
    with served.socket(5.0) as connection:
        connection.sendall(b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for number in range(4000):
                connection.sendall(f"X-{number}: {'y' * 10_000}\r\n".encode())
        except OSError:
            number = -1
        answer = read_all(connection)
    assert number == -1 or answer.startswith(b"HTTP/1.1 4")
    assert served.resident() - before < ROOM


# What is kept


def test_everything_that_is_kept_is_for_its_owner_alone(served):
    assert served.protect(npz()).status == 200
    open_to_others = []
    for place, folders, files in os.walk(served.data):
        for name in [".", *folders, *files]:
            mode = os.stat(os.path.join(place, name)).st_mode
            if mode & 0o077 or (stat.S_ISREG(mode) and mode & 0o100):
                open_to_others.append((os.path.join(place, name), oct(mode)))
    assert open_to_others == []
