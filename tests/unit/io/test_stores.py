"""Stores: files by name in a folder or below a URL, each of which appears after what accompanies it."""

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sfumato.errors import BadInput
from sfumato.io.stores import LocalStore, RemoteStore


@pytest.fixture
def places(tmp_path):
    """A folder and a URL, each with how the file of a name in it is read."""
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    return {
        "folder": (LocalStore(tmp_path / "near"), tmp_path / "near"),
        "url": (RemoteStore(f"file://{tmp_path / 'far'}"), tmp_path / "far"),
    }


@pytest.mark.parametrize("kind", ["folder", "url"])
def test_what_is_written_is_listed_and_read(places, kind):
    store, behind = places[kind]
    with store:
        for name in ("a.txt", "deep/er/b.txt"):
            with store.writing(name) as path:
                path.write_text(f"the file {name}")
                path.with_name(path.name + ".cert.json").write_text("its certificate")
        assert sorted(store.names()) == [
            *("a.txt", "a.txt.cert.json", "deep/er/b.txt", "deep/er/b.txt.cert.json")
        ]
        with store.reading("deep/er/b.txt", store.version("deep/er/b.txt")) as path:
            assert path.read_text() == "the file deep/er/b.txt"
            assert path.suffix == ".txt"
        assert store.shared("a.txt").read_text() == "the file a.txt"
        assert store.read("a.txt", 100) == b"the file a.txt"
        assert store.read("none", 100) is None
        assert store.holds("a.txt")  # whatever its size
        assert not store.holds("none")
    assert (behind / "deep/er/b.txt").read_text() == "the file deep/er/b.txt"


@pytest.mark.parametrize("kind", ["folder", "url"])
def test_a_copy_elsewhere_means_the_same_place(places, kind, monkeypatch, tmp_path):
    store, behind = places[kind]
    if kind == "folder":
        monkeypatch.chdir(tmp_path)
        store = LocalStore(Path("near"))
    (behind / "a.txt").write_text("here")
    store.names()
    sent = pickle.dumps(store)
    assert b"a.txt" not in sent
    monkeypatch.chdir("/")
    with pickle.loads(sent) as other, other.reading("a.txt") as path:
        assert path.read_text() == "here"


def interrupted(store, name):
    """Writes half of a file, and is cut off."""
    with store.writing(name) as path:
        path.write_text("half of it")
        path.with_name(f"{path.name}.cert.json").write_text("its certificate")
        raise RuntimeError("in the middle")


def test_an_object_appears_after_what_accompanies_it_and_not_without(tmp_path):
    with RemoteStore(f"file://{tmp_path}") as store:
        with store.writing("x/a.npz") as path:
            path.write_text("a")
            path.with_name("a.npz.cert.json").write_text("c")
        before, after = (tmp_path / "x" / name for name in ("a.npz.cert.json", "a.npz"))
        assert before.stat().st_mtime_ns <= after.stat().st_mtime_ns
        with pytest.raises(RuntimeError, match="in the middle"):
            interrupted(store, "b")
        assert [file.name for file in tmp_path.iterdir()] == ["x"]
        # A folder stands where the certificate should: the object itself does not appear either.
        (tmp_path / "c.cert.json").mkdir()
        with pytest.raises(BadInput), store.writing("c") as path:
            path.with_name("c.cert.json").write_text(str(path.write_text("c")))
        assert not (tmp_path / "c").exists()


def test_nothing_stays_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a").write_text("private")
    with RemoteStore(f"file://{tmp_path / 'far'}") as store:
        store.shared("a")
        with store.reading("a"), pytest.raises(RuntimeError):
            interrupted(store, "b")
        held = [file for file in (tmp_path / "tmp").rglob("*") if file.is_file()]
        assert held
        assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "tmp").iterdir())
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_object_that_has_changed_since_it_was_listed_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    with RemoteStore(f"file://{tmp_path}") as store:
        store.names()
        version = store.version("a.txt")
        (tmp_path / "a.txt").write_text("second, and longer")
        with pytest.raises(BadInput, match=r"a\.txt has changed"), store.reading("a.txt", version):
            pass


def test_an_object_that_nobody_listed_has_the_version_that_it_has_now(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    with RemoteStore(f"file://{tmp_path}") as store:
        version = store.version("a.txt")
        assert store.shared("a.txt", version).read_text() == "first"
        (tmp_path / "a.txt").write_text("second, and longer")
        with pytest.raises(BadInput, match=r"a\.txt has changed"):
            store.shared("a.txt", version)


def test_one_place_is_the_same_however_it_is_written(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    near = LocalStore(tmp_path / "in")
    for other in (LocalStore(tmp_path / "link"), RemoteStore(f"file://{tmp_path}/link")):
        assert other.place() == near.place()
        assert other.place("a/b.txt") == near.place("a/b.txt")
    assert RemoteStore("s3://b/in").place("x") == RemoteStore("s3a://b/").place("in/x")
    assert not RemoteStore("s3://b/input").place().is_relative_to(RemoteStore("s3://b/in").place())


def test_a_refusal_names_the_object_and_not_its_copy(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    with RemoteStore(f"file://{tmp_path}") as store:
        with pytest.raises(BadInput) as refused, store.reading("a.txt") as path:
            raise BadInput(f"{path.name} is damaged.")
        assert str(refused.value) == "a.txt is damaged."


def test_a_name_below_a_file_is_refused_by_itself(tmp_path):
    (tmp_path / "a.txt").write_text("a file, as an object of that name would be")
    store = LocalStore(tmp_path)
    with pytest.raises(BadInput, match=r"b\.txt cannot be written"), store.writing("a.txt/b.txt"):
        pass


def test_an_empty_place_is_refused(places):
    for store, _ in places.values():
        with store, pytest.raises(BadInput, match="holds no"):
            store.names()


def test_threads_may_write_at_once(places):
    store, behind = places["url"]

    def write(number):
        with store.writing(f"{number}.txt") as path:
            path.write_text(str(number))

    with store:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {file.read_text() for file in behind.iterdir()} == {str(number) for number in range(8)}


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path):
    store = LocalStore(tmp_path)
    program = (
        "import os, sys\n"
        "from sfumato.io.atomic import AtomicFile\n"
        "output = AtomicFile(sys.argv[1])\n"
        "output.file.write(b'4711')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "in").mkdir()
    for name in ("a.png", "in/b.png"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=False)
    (tmp_path / ".kept").write_text("somebody's own")
    (tmp_path / "c.png").write_text("whole")
    assert len(list(tmp_path.rglob("*"))) == 5
    store.settle()
    assert {path.name for path in tmp_path.rglob("*")} == {".kept", "c.png", "in"}
