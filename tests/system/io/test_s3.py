"""Storage on a real S3-compatible server, also behind a network that breaks in many ways."""

import itertools
import multiprocessing
import os
import pickle
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faulty_proxy import proxy_before

from s3_server import ACCESS_KEY, PAGE, SECRET_KEY, s3, s3_endpoint  # noqa: F401 (fixtures)
from sfumato.errors import BadInput
from sfumato.io import Remote, RemoteStore, RetryPolicy

QUICK = RetryPolicy(attempts=4, first=0.01, longest=0.05, total=20.0)
LARGE = os.urandom(1 << 20) * 18  # one part of 16 MiB and one of 2
MEDIUM = LARGE[: 9 << 20]  # one request; one block of 8 MiB and one of 1


@pytest.fixture
def bucket(s3):  # noqa: F811
    return s3.bucket()


@pytest.fixture(scope="module")
def network(s3_endpoint):  # noqa: F811
    with proxy_before(s3_endpoint) as made:
        yield made


@pytest.fixture
def proxy(network, bucket, monkeypatch):
    """A faulty network in front of the server; botocore itself tries once, so that what is tried is ours."""
    network.heal()
    monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return network


@pytest.fixture
def place(bucket):
    return Remote(f"s3://{bucket}/in", QUICK)


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(LARGE)
    return path


def write(remote, content):
    """Put ``content`` into the store as an object."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        remote.put(Path(file.name))


def remove(remote):
    remote.retried(lambda filesystem, path: filesystem.rm_file(path), "removed")


def sentence(action):
    """The sentence of a refusal, which names no credentials, not even in the traceback."""
    with pytest.raises(BadInput) as caught:
        action()
    said = str(caught.value)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    for secret in (ACCESS_KEY, SECRET_KEY, "Signature", "127.0.0.1"):
        assert secret not in told
    assert said.endswith(".")
    assert "\n" not in said
    return said


def attempts(way):
    """How often a request is seen that always fails; the HTTP client itself repeats some that broke off."""
    return [1] if way == "403" else [QUICK.attempts, 2 * QUICK.attempts]


def test_objects_and_prefixes(s3, bucket, place, tmp_path):  # noqa: F811
    assert place.find() is None
    assert place.objects() == []
    for name in ("b.txt", "sub/a.txt", ".hidden", "sub/.hidden/c.txt"):
        write(place.child(name), name.encode())
    s3.client.put_object(Bucket=bucket, Key="in/empty/", Body=b"")  # as consoles mark a folder
    s3.client.put_object(Bucket=bucket, Key="inside.txt", Body=b"not below the prefix")
    listed = place.objects()
    assert [(one.name, one.size) for one in listed] == [("b.txt", 5), ("sub/a.txt", 9)]
    assert [one.version for one in listed] == [
        s3.client.head_object(Bucket=bucket, Key=f"in/{one.name}")["ETag"].strip('"') for one in listed
    ]
    assert place.info() is not None
    assert place.find() is None
    assert Remote(f"s3://{bucket}").info() is not None
    assert place.child("b.txt").find() is not None
    assert place.child("b").find() is None
    s3.client.put_object(Bucket=bucket, Key="in/sub", Body=b"an object where others stand below")
    assert place.child("sub").find() is not None
    assert [one.name for one in place.child("sub").objects()] == ["a.txt"]
    assert place.child("b.txt").object().read(5) == b"b.txt"
    listed[1].fetch(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"sub/a.txt"
    remove(place.child("b.txt"))
    assert place.child("b.txt").find() is None
    s3.client.delete_object(Bucket=bucket, Key="in/sub/a.txt")  # somebody else: no listing may be remembered
    assert place.child("sub/a.txt").find() is None


def test_more_objects_than_one_answer_lists(s3, bucket, place):  # noqa: F811
    for number in range(2 * PAGE + 5):
        s3.client.put_object(Bucket=bucket, Key=f"in/{number:04}", Body=b"x")
    pages = s3.client.list_objects_v2(Bucket=bucket)
    assert pages["IsTruncated"]
    assert [one.name for one in place.objects()] == [f"{number:04}" for number in range(2 * PAGE + 5)]


def test_a_large_object_goes_in_parts_and_comes_back(s3, bucket, proxy, place, large, tmp_path):  # noqa: F811
    place.child("large.bin").put(large)
    parts = [target for method, target in proxy.seen if method == "PUT" and "partNumber" in target]
    assert [re.search(r"partNumber=(\d)", target)[1] for target in parts] == ["1", "2"]
    assert s3.client.head_object(Bucket=bucket, Key="in/large.bin")["ETag"].endswith('-2"')
    (listed,) = place.objects()
    listed.fetch(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == LARGE
    assert stat.S_IMODE((tmp_path / "back").stat().st_mode) == 0o600
    assert sum(method == "GET" and "large.bin" in target for method, target in proxy.seen) == 3
    assert s3.dangling(bucket) == []


@pytest.mark.parametrize("way", ["reset", "lose", "cut", "short", "500", "503"])
def test_a_fetch_gets_over_what_passes(proxy, place, tmp_path, way):
    write(place.child("medium.bin"), MEDIUM)
    (listed,) = place.objects()
    proxy.spoil("GET", "medium.bin", way, times=2, after=1)
    listed.fetch(tmp_path / "back")
    assert len(proxy.spoiled) == 2
    assert (tmp_path / "back").read_bytes() == MEDIUM


#: The requests of an upload in parts.
STEPS = {"begin": ("POST", "?uploads"), "part": ("PUT", "partNumber=2"), "complete": ("POST", "uploadId=")}


@pytest.mark.parametrize("way", ["reset", "lose", "500", "503"])
@pytest.mark.parametrize("step", ["begin", "part", "complete"])
def test_an_upload_gets_over_what_passes(s3, bucket, proxy, place, large, step, way):  # noqa: F811
    method, request_part = STEPS[step]
    proxy.spoil(method, request_part, way, times=2)
    place.child("large.bin").put(large)
    assert len(proxy.spoiled) >= 1
    assert s3.client.get_object(Bucket=bucket, Key="in/large.bin")["Body"].read() == LARGE
    assert s3.dangling(bucket) == []


@pytest.mark.parametrize(
    ("step", "way"),
    # Where the last answer is lost the object is complete, as the test after this one says.
    [
        case
        for case in itertools.product(STEPS, ["reset", "lose", "503", "403"])
        if case != ("complete", "lose")
    ],
)
def test_a_failed_upload_leaves_nothing(s3, bucket, proxy, place, large, step, way):  # noqa: F811
    method, request_part = STEPS[step]
    older = {"in/large.bin": b"older"} if way == "503" else {}
    for key, content in older.items():
        s3.client.put_object(Bucket=bucket, Key=key, Body=content)
    proxy.spoil(method, request_part, way, times=1000)
    said = sentence(lambda: place.child("large.bin").put(large))
    assert said.startswith(f"s3://{bucket}/in/large.bin cannot be written: ")
    assert len(proxy.spoiled) in attempts(way)
    found = {key: s3.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in s3.keys(bucket)}
    assert found == older
    assert s3.dangling(bucket) == []


def test_an_upload_whose_last_answer_is_lost_for_good_is_whole(s3, bucket, proxy, place, large):  # noqa: F811
    """The server completed it and forgot the upload; asking for the object tells that all is done."""
    proxy.spoil("POST", "uploadId=", "lose")
    proxy.spoil("POST", "uploadId=", "404")
    place.child("large.bin").put(large)
    assert sum(method == "POST" and "?uploads" in target for method, target in proxy.seen) == 1
    assert s3.client.get_object(Bucket=bucket, Key="in/large.bin")["Body"].read() == LARGE


@pytest.mark.parametrize("step", ["part", "complete"])
def test_an_upload_that_others_end_is_begun_again(s3, bucket, proxy, place, large, step):  # noqa: F811
    proxy.spoil(*STEPS[step], "404")
    place.child("large.bin").put(large)
    assert len(proxy.spoiled) == 1
    assert s3.client.get_object(Bucket=bucket, Key="in/large.bin")["Body"].read() == LARGE
    assert s3.dangling(bucket) == []


def test_an_upload_that_others_end_always_is_given_up(s3, bucket, proxy, place, large):  # noqa: F811
    proxy.spoil("PUT", "partNumber=1", "404", times=1000)
    assert "others end its upload time and again" in sentence(lambda: place.child("large.bin").put(large))
    assert s3.keys(bucket) == []
    assert s3.dangling(bucket) == []


UPLOAD = """
import pathlib, sys
from sfumato.io.object_store import Remote
Remote(sys.argv[1]).put(pathlib.Path(sys.argv[2]))
"""


def test_a_key_pressed_while_a_part_is_on_its_way_aborts_the_upload(s3, bucket, proxy, large, heeding):  # noqa: F811
    proxy.spoil("PUT", "partNumber=2", "stall", times=1000)
    command = [sys.executable, "-c", UPLOAD, f"s3://{bucket}/large.bin", str(large)]
    process = subprocess.Popen(heeding(*command), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 40
    while not proxy.spoiled and time.monotonic() < deadline:
        time.sleep(0.02)
    assert s3.dangling(bucket) == ["large.bin"]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    assert s3.keys(bucket) == []
    assert s3.dangling(bucket) == []


def test_threads_share_a_connection_pool(place, tmp_path):
    for number in range(20):
        write(place.child(f"{number:02}"), bytes([number]) * 1000)
    with ThreadPoolExecutor(8) as pool:
        contents = list(pool.map(lambda one: one.read(1000), place.objects()))
    assert contents == [bytes([number]) * 1000 for number in range(20)]


@pytest.mark.parametrize("way", ["reset", "lose", "503", "500"])
def test_listing_and_small_objects_get_over_what_passes(proxy, place, way):
    proxy.spoil("PUT", "small.txt", way, times=2)
    write(place.child("small.txt"), b"small")
    proxy.spoil("GET", "list-type=2", way, times=2)
    (listed,) = place.objects()
    proxy.spoil("HEAD", "small.txt", way, times=2)
    proxy.spoil("GET", "small.txt", way, times=2)
    assert listed.read(5) == b"small"
    assert place.child("small.txt").find() is not None
    proxy.spoil("DELETE", "small.txt", way, times=2)
    remove(place.child("small.txt"))
    assert len(proxy.spoiled) == 10
    assert place.objects() == []


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("short", "half-written or truncated"),
        ("cut", "connection was lost"),
        ("reset", "connection was lost"),
        ("503", "overloaded or failing (SlowDown); try later"),
        ("403", "access is denied"),
    ],
)
def test_a_fetch_that_fails_for_good_leaves_nothing(proxy, place, tmp_path, way, reason):
    write(place.child("medium.bin"), MEDIUM)
    (listed,) = place.objects()
    proxy.spoil("GET", "medium.bin", way, times=1000, after=1)
    said = sentence(lambda: listed.fetch(tmp_path / "back"))
    assert said.startswith(f"{listed.remote.url} cannot be read: ")
    assert reason in said
    assert len(proxy.spoiled) in attempts(way)
    assert list(tmp_path.iterdir()) == []


def test_a_stalled_answer_is_waited_for_only_so_long(proxy, place, tmp_path, monkeypatch):
    import fsspec.config

    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 0.3}})
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")  # another environment: made anew
    write(place.child("a.bin"), b"content")
    proxy.spoil("GET", "a.bin", "stall")
    assert place.child("a.bin").object().read(100) == b"content"
    proxy.spoil("GET", "a.bin", "stall", times=1000)
    began = time.monotonic()
    assert "timed out" in sentence(lambda: place.child("a.bin").object().fetch(tmp_path / "a"))
    assert time.monotonic() - began < 10


def test_an_object_that_changed_after_the_listing_is_refused(proxy, place, tmp_path):
    write(place.child("a.bin"), b"before")
    (listed,) = place.objects()
    write(place.child("a.bin"), b"after.")
    assert "has changed since it was listed" in sentence(lambda: listed.fetch(tmp_path / "a"))
    write(place.child("a.bin"), b"longer than it was")
    assert "has changed since it was listed" in sentence(lambda: listed.read(100))
    remove(place.child("a.bin"))
    assert "there is no such object" in sentence(lambda: listed.fetch(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []
    assert not [target for method, target in proxy.seen if method == "GET" and target.endswith("a.bin")]


@pytest.mark.parametrize("other", [MEDIUM[:-1] + b"#", b"short"], ids=["same length", "shorter"])
def test_an_object_that_changes_while_it_is_read_is_refused(s3, bucket, proxy, place, other):  # noqa: F811
    write(place.child("a.bin"), MEDIUM)
    (listed,) = place.objects()
    blocks = listed.blocks()
    assert len(next(blocks)) == 8 << 20
    s3.client.put_object(Bucket=bucket, Key="in/a.bin", Body=other)
    assert "has changed" in sentence(lambda: next(blocks))


def test_an_object_that_changes_after_its_last_block_is_refused(s3, bucket, place):  # noqa: F811
    write(place.child("a.bin"), b"one block")
    (listed,) = place.objects()
    blocks = listed.blocks()
    assert next(blocks) == b"one block"
    s3.client.put_object(Bucket=bucket, Key="in/a.bin", Body=b"two block")
    assert "has changed" in sentence(lambda: list(blocks))


def test_a_bucket_that_is_not_there(s3, large):  # noqa: F811
    for url in ("s3://no-such-bucket", "s3://no-such-bucket/in"):
        there = Remote(url)
        for action in (there.objects, there.info, there.object):
            assert "there is no such bucket; make it first" in sentence(action)
    assert "no such bucket" in sentence(lambda: write(Remote("s3://no-such-bucket/a"), b""))
    assert "no such bucket" in sentence(lambda: Remote("s3://no-such-bucket/a").put(large))
    assert "names a bucket and no object" in sentence(lambda: write(Remote("s3://no-such-bucket"), b""))


@pytest.mark.parametrize("kind", ["closed port", "unknown host", "silent host"])
def test_an_endpoint_that_cannot_be_reached_is_known_in_seconds(s3, monkeypatch, kind):  # noqa: F811
    """With the patience and the settings that everybody has."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        full = []
        if kind == "silent host":
            # Connections beyond the full queue of one who never accepts are left without an answer.
            listening.listen(0)
            for _ in range(4):
                full.append(socket.socket())
                full[-1].setblocking(False)
                full[-1].connect_ex(("127.0.0.1", port))
        endpoint = "http://nowhere.invalid" if kind == "unknown host" else f"http://127.0.0.1:{port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        began = time.monotonic()
        said = sentence(Remote("s3://bucket/in").objects)
        assert time.monotonic() - began < 15
        assert said.startswith("s3://bucket/in cannot be listed: its endpoint cannot be reached")
        for one in full:
            one.close()


def test_credentials_that_are_missing(s3, monkeypatch):  # noqa: F811
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no usable credentials; set AWS_ACCESS_KEY_ID" in sentence(Remote("s3://bucket/in").objects)


def test_an_endpoint_with_credentials_is_not_repeated(s3, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://somebody:hush-hush@127.0.0.1:9")
    assert "hush-hush" not in sentence(Remote("s3://bucket/in").objects)


def test_default_settings_get_over_a_failing_server(proxy, bucket, monkeypatch):
    """Botocore's second attempt and ours together."""
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    place = Remote(f"s3://{bucket}")
    proxy.spoil("PUT", "a.txt", "503", times=3)
    write(place.child("a.txt"), b"a")
    assert place.child("a.txt").object().read(1) == b"a"
    assert len(proxy.spoiled) == 3


def _read_in_child(place, answers):
    answers.put(place.child("a.txt").object().read(10))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_other_processes_open_their_own_connections(place, start):
    write(place.child("a.txt"), b"content")
    assert b"\0".join(re.findall(rb"s3://\S+?/in", pickle.dumps(place))) == place.url.encode()
    context = multiprocessing.get_context(start)
    answers = context.Queue()
    children = [context.Process(target=_read_in_child, args=(place, answers)) for _ in range(2)]
    for child in children:
        child.start()
    assert [answers.get(timeout=40) for _ in children] == [b"content"] * 2
    for child in children:
        child.join(20)
        assert child.exitcode == 0
    assert place.child("a.txt").object().read(10) == b"content"


STAGE = """
import pickle, sys
print(pickle.loads(bytes.fromhex(sys.argv[1])).shared("a.png"))
"""


def test_processes_of_a_node_share_one_copy(proxy, place):
    write(place.child("a.png"), b"picture")
    store = RemoteStore(place.url)
    with store:
        command = [sys.executable, "-c", STAGE, pickle.dumps(store).hex()]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        paths = {process.communicate(timeout=60)[0].strip() for process in started}
        assert [process.returncode for process in started] == [0, 0, 0]
        assert paths == {str(store.shared("a.png"))}
        assert sum(method == "GET" for method, target in proxy.seen if "a.png" in target) == 1
        assert store.shared("a.png").read_bytes() == b"picture"
