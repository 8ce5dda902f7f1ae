"""Objects and prefixes on filesystems that need no server: memory, this machine's files, and another kind."""

import os
import pickle
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sfumato.errors import BadInput
from sfumato.io import object_store
from sfumato.io.object_store import Remote
from sfumato.io.retry import RetryPolicy

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
from fsspec.implementations.local import LocalFileSystem  # noqa: E402

LARGE = os.urandom(1 << 20) * 17  # more than one part, and than two blocks
QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.002)


class Elsewhere(LocalFileSystem):
    """A filesystem that is neither of those known by name, and that commits what was written when told."""

    protocol = "elsewhere"


fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)


@pytest.fixture(params=["memory", "file", "elsewhere"])
def place(request, tmp_path):
    path = f"{request.node.name}-{os.getpid()}" if request.param == "memory" else f"{tmp_path}/there"
    if request.param == "elsewhere":
        (tmp_path / "there" / "sub").mkdir(parents=True)
    return Remote(f"{request.param}://{path}", QUICK)


def write(remote, content):
    """Put ``content`` into the store as an object."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        remote.put(Path(file.name))


def remove(remote):
    remote.retried(lambda filesystem, path: filesystem.rm_file(path), "removed")


def test_an_object_goes_there_and_comes_back(place, tmp_path):
    assert place.child("a.bin").find() is None
    write(place.child("a.bin"), b"content")
    assert place.child("a.bin").find() == place.child("a.bin").object()
    assert place.find() is None
    assert place.child("a.bin").object().read(7) == b"content"
    place.child("a.bin").object().fetch(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    write(place.child("a.bin"), b"")
    assert place.child("a.bin").object().read(0) == b""
    remove(place.child("a.bin"))
    assert place.child("a.bin").find() is None


def test_a_large_object_is_streamed_both_ways(place, tmp_path):
    (tmp_path / "large").write_bytes(LARGE)
    place.child("large.bin").put(tmp_path / "large")
    (listed,) = place.objects()
    assert (listed.name, listed.size) == ("large.bin", len(LARGE))
    os.chmod(tmp_path / "large", 0o644)
    listed.fetch(tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == LARGE
    assert stat.S_IMODE((tmp_path / "large").stat().st_mode) == 0o600
    assert [len(block) for block in listed.blocks()] == [8 << 20, 8 << 20, 1 << 20]


def test_what_is_listed(place):
    assert Remote(f"{place.url}/nothing").objects() == []
    for name in ("b", "sub/a", ".hidden", "sub/.hidden"):
        write(place.child(name), name.encode())
    listed = place.objects()
    assert [(one.name, one.size, one.remote.url) for one in listed] == [
        ("b", 1, f"{place.url}/b"),
        ("sub/a", 5, f"{place.url}/sub/a"),
    ]
    assert all(one.version for one in listed)
    assert [one.read(5) for one in listed] == [b"b", b"sub/a"]
    assert pickle.loads(pickle.dumps(listed)) == listed


def test_an_object_that_changed_is_refused(place, tmp_path):
    write(place.child("a"), b"before")
    (listed,) = place.objects()
    for content in (b"after.", b"longer than before", b""):
        write(place.child("a"), content)
        with pytest.raises(BadInput, match=r"/a cannot be read: it has changed since it was listed"):
            listed.fetch(tmp_path / "a")
        assert not (tmp_path / "a").exists()
    remove(place.child("a"))
    with pytest.raises(BadInput, match=r"/a cannot be read: there is no such object"):
        listed.read(100)


def test_an_object_that_shrinks_while_it_is_read_is_refused(tmp_path):
    """The end of a file that somebody truncates in place is not there to be read."""
    (tmp_path / "a").write_bytes(LARGE)
    blocks = Remote(f"file://{tmp_path}/a", QUICK).object().blocks()
    assert len(next(blocks)) == 8 << 20
    os.truncate(tmp_path / "a", 9 << 20)
    with pytest.raises(BadInput, match=r"half-written or truncated: it ends before the 16,777,216 bytes"):
        next(blocks)


def test_an_upload_that_ends_early_leaves_the_older_object(place, tmp_path, monkeypatch):
    write(place.child("a"), b"older")
    (tmp_path / "large").write_bytes(LARGE)
    version = place.objects()[0].version
    exactly, parts = object_store._exactly, []

    def interrupted(file, count):
        if parts:
            raise KeyboardInterrupt
        parts.append(exactly(file, count))
        return parts[0]

    if place.url.startswith("elsewhere"):  # the others write all in one step
        monkeypatch.setattr(object_store, "_exactly", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.child("a").put(tmp_path / "large")
        assert [(one.name, one.version) for one in place.objects()] == [("a", version)]
    with pytest.raises(BadInput, match=r"^missing cannot be read: No such file or directory\.$"):
        place.child("a").put(tmp_path / "missing")
    assert place.child("a").object().read(5) == b"older"


def test_more_bytes_than_wanted_are_not_read(place):
    write(place.child("a"), b"12345678")
    with pytest.raises(BadInput, match=r"/a has 8 bytes, and at most 7 are read here\.$"):
        place.child("a").object().read(7)


def test_folders_are_not_objects(place):
    write(place.child("sub/a"), b"a")
    with pytest.raises(BadInput, match="there is a folder, not an object"):
        place.child("sub").object()
    assert place.child("sub").find() is None
    with pytest.raises(BadInput, match="there is no such object"):
        place.child("b").object()


def test_links_are_followed_to_files(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "target").write_bytes(b"content")
    (tmp_path / "there" / "link").symlink_to(tmp_path / "target")
    (tmp_path / "there" / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "there" / "folder").symlink_to(tmp_path)
    (listed,) = Remote(f"file://{tmp_path}/there").objects()
    assert (listed.name, listed.size) == ("link", 7)
    assert listed.read(7) == b"content"


def test_names_and_children():
    place = Remote("S3://Bucket/in/")
    assert place.url == "s3://Bucket/in"
    assert place.name == "in"
    assert Remote("s3://bucket").name == "bucket"
    assert place.child("day/a b*?[é].png").url == "s3://Bucket/in/day/a b*?[é].png"
    assert Remote("memory://").child("a").url == "memory://a"
    assert place == Remote("s3://Bucket/in") != Remote("s3://Bucket/on")
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty part"),
        ("a//b", "empty part"),
        ("/a", "empty part"),
        ("a/", "empty part"),
        ("..", r"a part \. or \.\."),
        ("a/../../b", r"a part \. or \.\."),
        ("./a", r"a part \. or \.\."),
        ("a\\b", "a backslash"),
        ("a\nb", r"name a\\nb in s3://bucket/in has a control character"),
        ("a\x1b[2Jb", "a control character"),
        ("a\x00", "a control character"),
        ("a?token=x", r"a query after a \?"),
    ],
)
def test_names_that_could_lead_elsewhere_are_refused(name, why):
    with pytest.raises(BadInput, match=why) as caught:
        Remote("s3://bucket/in").child(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://", "names no bucket"),
        ("bucket/in", "is not a URL"),
        ("file://a/b", "does not name an absolute path"),
        ("file:///", "does not name an absolute path"),
        ("s3://bucket/a/../b", "could lead elsewhere"),
        ("s3://bucket/a//b", "empty part"),
        ("s3://buc\nket", "control character"),
    ],
)
def test_urls_that_name_nothing(url, why):
    with pytest.raises(BadInput, match=why):
        Remote(url)


@pytest.mark.parametrize(
    "url",
    ["s3://me:hush-hush@bucket/a", "s3://hush-hush@bucket/a", "https://host/a?X-Amz-Signature=hush-hush"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(BadInput, match="in the environment") as caught:
        Remote(url)
    assert "hush-hush" not in str(caught.value)


def test_storage_that_is_not_known():
    with pytest.raises(BadInput, match="nowhere:// is no kind of storage that is known here"):
        Remote("nowhere://a/b").info()


@pytest.mark.parametrize("package", ["s3fs", "fsspec"])
def test_a_package_that_is_not_installed(package):
    """In a process of its own: what is imported once stays."""
    code = (
        f"import sys; sys.modules['{package}'] = None; from sfumato.io.object_store import Remote\n"
        "try: Remote('s3://a/b').info()\n"
        "except ValueError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert said == f"s3:// needs {package}: pip install 'sfumato[storage]'."


def test_nothing_is_imported_before_it_is_needed():
    code = (
        "import sys; from sfumato.io.object_store import Remote; import sfumato.io.stores;"
        "Remote('s3://bucket/a').child('b');"
        "print([name for name in ('fsspec', 's3fs', 'botocore') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
