"""Bodies that never end, forms that are none, and bombs: refused in time, without piling up anywhere.

Everything here talks to a real process over plain HTTP, by an owner's valid key unless a test says otherwise.
"""

import io
import select
import struct
import time
import zipfile
import zlib

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving

LARGEST = 4 << 20
# What the service may use beside what it has at rest, whatever is sent.
ROOM = 300 << 20


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("bodies"), "--largest", LARGEST) as made:
        made.open_budget()
        made.open_budget("photos", unit="region:16")
        yield made


def npz(rows=20):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(rows, 3)))
    return out.getvalue()


def spends(served):
    return {one["dataset"]: one["spends"] for one in served.ask("GET", "/v1/budgets").json}


# Bodies


def test_a_body_that_announces_too_much_is_not_read(served):
    start = time.monotonic()
    head = "POST /v1/datasets/ward/protect?name=x.npz HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {served.tokens['clinic']}\r\n"
    with served.socket(5.0) as connection:
        connection.sendall(f"{head}Content-Length: {10**15}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    assert time.monotonic() - start < 3.0


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v1/budgets", None),
        ("/v1/budgets", "clinic"),
        ("/v1/policy", "clinic"),
        ("/v1/datasets/ward/protect?name=x.npz", "clinic"),
        ("/v1/datasets/ward/plan?name=x.npz", "clinic"),
        ("/v1/datasets/ward/jobs?name=x.npz", "clinic"),
        ("/v1/verify?name=x.npz&certificate={}", "clinic"),
        ("/ui/sign-in", None),
        ("/nothing/here", None),
    ],
)
def test_an_endless_body_ends(served, path, key):
    """Chunks without end, of JSON or of a file, with a key or without: refused, and nothing piles up."""
    before, sent = served.resident(), 0
    method = "PUT" if path == "/v1/policy" else "POST"
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    ]
    if key is not None:
        lines.append(f"Authorization: Bearer {served.tokens[key]}")
    chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    with served.socket(15.0) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        try:
            while sent < 200 << 20 and not select.select([connection], [], [], 0.0)[0]:
                connection.sendall(chunk)
                sent += 0x10000
            answer = connection.recv(200)
        except ConnectionError:
            answer = b""
    assert sent < 200 << 20, "all of it was taken without a word"
    if answer:
        assert answer.split(b" ")[1] in (b"400", b"401", b"404", b"405", b"413", b"415", b"422"), answer[:200]
    assert served.resident() - before < ROOM / 3
    assert served.ask("GET", "/v1/me").status == 200


# Forms


def form(*parts, boundary="b0undary", end=True):
    """A multipart body of ``parts``, each its headers and its content."""
    lines = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + body + b"\r\n" for head, body in parts]
    return b"".join(lines) + (f"--{boundary}--\r\n".encode() if end else b"")


def part(name, filename=None):
    """The header of a part."""
    return f'Content-Disposition: form-data; name="{name}"' + (
        "" if filename is None else f'; filename="{filename}"'
    )


FILE = (part("file", "x.npz"), npz())
FORMS = {
    "too large": form((part("file", "x.npz"), b"x" * (LARGEST + 1))),
    "too large in pieces": form(FILE, (part("asked"), b"x" * LARGEST)),
    "two files": form(FILE, FILE),
    "an unknown part": form(FILE, (part("else", "y.npz"), npz())),
    "ten thousand parts": form(*[(part("asked"), b"{}")] * 10_000),
    "a long header": form((part("file", "x" * 20_000 + ".npz"), npz())),
    "many headers": form((part("file", "x.npz") + "\r\nX-Y: z" * 10_000, npz())),
    "a name that climbs": form((part("file", "../../../../etc/..npz"), npz())),
    "a part that climbs": form((part("../file", "x.npz"), npz())),
    "a line break in a name": form((part("file", "x\ny.npz"), npz())),
    "no end": form(FILE, end=False),
    "no parts": form(),
    "nothing": b"",
    "no form": b"--b0undary" * 1000,
    "an empty file": form((part("file", "x.npz"), b"")),
}


@pytest.mark.parametrize(
    "path", ["datasets/ward/plan", "datasets/ward/protect", "datasets/ward/jobs", "verify"]
)
@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS.keys())
def test_forms_are_read_with_limits_and_refused_whole(served, path, body):
    before, paid = served.resident(), spends(served)
    answer = served.ask(
        "POST", f"/v1/{path}", body, headers={"Content-Type": "multipart/form-data; boundary=b0undary"}
    )
    assert answer.status in (400, 413, 422), answer.body
    assert answer.problem(answer.status)
    assert spends(served) == paid
    assert served.resident() - before < ROOM / 3
    assert list((served.data / "work").rglob("*.npz")) == []


@pytest.mark.parametrize("boundary", ["", "=", "=" + "x" * 71, '="', "=\xff", "=a; boundary=b"])
def test_forms_with_boundaries_of_all_kinds_are_refused(served, boundary):
    kind = f"multipart/form-data; boundary{boundary}"
    answer = served.ask("POST", "/v1/datasets/ward/plan", form(FILE), headers={"Content-Type": kind})
    answer.problem(400, "bad-input")


# Bombs


def png(width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer, row = zlib.compressobj(9), bytes(1 + 3 * width)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def jpeg(width, height):
    """A small JPEG whose header says that it is large."""
    cv2 = pytest.importorskip("cv2")
    made = bytearray(cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))[1].tobytes())
    at = made.index(b"\xff\xc0") + 5
    made[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(made)


def packed_table():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b"age\n")] + [packer.compress(b"31\n" * (1 << 20)) for _ in range(100)]
    return b"".join(parts) + packer.flush()


def archive():
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((4_000_000, 3)))
    return out.getvalue()


def repeated_texts(letters=4500, rows=100_000):
    """A text that all rows of the table have, once in the file."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    words = pa.array(["x" * letters]).take(pa.array(np.zeros(rows, np.int64)))
    pq.write_table(pa.table({"age": words}), out)
    return out.getvalue()


def lying_archive():
    """A header that promises 10¹³ rows in a file of a few hundred bytes."""
    head, out = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**13, 3)})
    with zipfile.ZipFile(out, "w") as zipped:
        zipped.writestr("X.npy", head.getvalue() + bytes(240))
    return out.getvalue()


def sound():
    soundfile = pytest.importorskip("soundfile")
    out = io.BytesIO()
    soundfile.write(out, np.zeros((20_000_000, 2), np.int16), 48_000, format="FLAC")
    return out.getvalue()


def film():
    av = pytest.importorskip("av")
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((720, 1280, 3), np.uint8), format="rgb24")
        for number in range(60):
            picture.pts = number
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return out.getvalue()


_TABLE = {
    "mechanism": "laplace",
    "parameters": {"epsilon": 0.1},
    "columns": {"age": {"kind": "numeric", "bounds": [0, 100]}},
}
_PICTURE = {"parameters": {"epsilon": 1, "unit": "region:16"}}


@pytest.mark.parametrize("operation", ["plan", "protect"])
@pytest.mark.parametrize(
    ("name", "made", "dataset", "asked"),
    [
        ("a.csv.gz", packed_table, "ward", _TABLE),
        ("a.npz", archive, "ward", None),
        ("a.parquet", repeated_texts, "ward", _TABLE),
        ("b.npz", lying_archive, "ward", None),
        ("a.png", lambda: png(9_900, 9_900), "photos", _PICTURE),
        ("a.jpg", lambda: jpeg(65_000, 65_000), "photos", _PICTURE),
        ("b.jpg", lambda: jpeg(9_000, 9_000), "photos", _PICTURE),
        ("a.flac", sound, "photos", _PICTURE),
        ("a.mkv", film, "photos", _PICTURE),
    ],
    ids=["csv.gz", "npz", "parquet", "lying npz", "png", "huge jpeg", "jpeg", "flac", "film"],
)
def test_a_bomb_goes_off_nowhere(served, name, made, dataset, asked, operation):
    """Each is under the limit of a body and unpacks to more than ten times of it."""
    body = made()
    assert len(body) < LARGEST
    before, paid, start = served.resident(), spends(served), time.monotonic()
    answer = served.protect(body, name, dataset, asked=asked, operation=operation)
    answer.problem(answer.status)
    assert answer.status in (400, 413)
    assert time.monotonic() - start < 10.0
    assert served.resident() - before < ROOM
    assert spends(served) == paid


def test_a_table_that_repeats_a_long_text_is_too_large_and_an_honest_one_is_not(served):
    asked = _TABLE | {"columns": {"age": {"kind": "categorical", "categories": ["x" * 40, "y" * 40]}}}
    served.protect(repeated_texts(), "a.parquet", asked=asked, operation="plan").problem(413, "too-large")
    honest = served.protect(repeated_texts(40, 2000), "a.parquet", asked=asked, operation="plan")
    assert honest.status == 200, honest.body
