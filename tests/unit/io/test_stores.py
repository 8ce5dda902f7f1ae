"""Stores: files by name in a folder or below a URL, each of which appears after what accompanies it."""

import os
import pickle
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from sfumato.errors import BadInput
from sfumato.io.stores import LocalStore, RemoteStore, is_remote


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


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """A store below a URL, the folder behind it, and the temporary folder that its copies stand in."""
    behind, root = tmp_path / "far", tmp_path / "root"
    behind.mkdir()
    root.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    return RemoteStore(f"file://{behind}"), behind, root


def test_a_copy_lasts_for_its_block_and_is_private(staged):
    store, behind, root = staged
    (behind / "patient-7.csv.gz").write_bytes(b"content")
    name = "patient-7.csv.gz"
    with store.reading(name) as path, store.reading(name) as second:
        assert path.read_bytes() == b"content"
        assert path != second
        assert path.parent.parent == root
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.name.endswith(".csv.gz")
        assert "patient" not in path.name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        (folder,) = root.iterdir()
    assert list(folder.iterdir()) == []
    with pytest.raises(ZeroDivisionError), store.reading(name):
        raise ZeroDivisionError
    with pytest.raises(BadInput, match="no such object"), store.reading("missing.png"):
        pass
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.png", ".png"),
        ("sub.folder/a", ""),
        ("scan.2020.png", ".png"),
        ("a.CSV.GZ", ".CSV.GZ"),
        ("a.é", ""),
        ("a.b c", ""),
        ("a.veryverylongsuffix", ""),
        (".png", ".png"),
    ],
)
def test_only_the_suffix_of_a_name_is_kept(staged, name, suffix):
    store, behind, _ = staged
    (behind / name).parent.mkdir(exist_ok=True)
    (behind / name).write_bytes(b"x")
    with store.reading(name) as path:
        assert path.name[path.name.index(".") :] == suffix if suffix else "." not in path.name


def test_a_shared_copy_is_fetched_once_and_stays(staged):
    store, behind, _ = staged
    (behind / "a.png").write_bytes(b"content")
    path = store.shared("a.png")
    path.write_bytes(b"the same copy")
    assert store.shared("a.png").read_bytes() == b"the same copy"
    assert path.suffix == ".png"
    (behind / "a.png").unlink()
    (behind / "a.png").write_bytes(b"another")
    assert store.shared("a.png").read_bytes() == b"another"
    assert path.read_bytes() == b"the same copy"


def test_what_a_killed_process_left_is_fetched_anew(staged):
    store, behind, _ = staged
    (behind / "a.png").write_bytes(b"content")
    path = store.shared("a.png")
    path.rename(path.with_name(f".{path.stem}.part"))
    path.with_name(f".{path.stem}.part").write_bytes(b"half of it and more than that")
    assert store.shared("a.png").read_bytes() == b"content"


def test_a_fetch_that_fails_is_not_shared(staged):
    store, behind, _ = staged
    with pytest.raises(BadInput, match="no such object"):
        store.shared("a.png")
    (behind / "a.png").write_bytes(b"content")
    assert store.shared("a.png").read_bytes() == b"content"


def test_copies_of_one_store_share_a_folder_and_other_stores_do_not(staged):
    store, behind, _ = staged
    (behind / "a.png").write_bytes(b"content")
    path = store.shared("a.png")
    assert pickle.loads(pickle.dumps(store)).shared("a.png") == path
    assert RemoteStore(store.shown).shared("a.png").parent != path.parent
    assert store._token not in path.parent.name


@pytest.mark.parametrize("how", ["open to others", "a link", "a file"])
def test_a_folder_that_others_may_have_laid_is_refused(staged, tmp_path, how):
    store, behind, _ = staged
    (behind / "a.png").write_bytes(b"content")
    with store.reading("a.png") as path:
        folder = path.parent
    if how == "open to others":
        os.chmod(folder, 0o755)
    else:
        folder.rmdir()
        folder.symlink_to(tmp_path) if how == "a link" else folder.write_bytes(b"")
    with pytest.raises(BadInput, match="exists and is open to others"), store.reading("a.png"):
        pass


def test_a_temporary_folder_that_is_not_there(staged, monkeypatch):
    store, behind, root = staged
    (behind / "a.png").write_bytes(b"content")
    monkeypatch.setattr(tempfile, "tempdir", str(root / "nowhere"))
    with pytest.raises(BadInput, match=r"^sfumato-\w+ cannot be written: No such file or directory\.$"):
        store.shared("a.png")


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("s3://bucket/a", True),
        ("S3A://bucket", True),
        ("gs://bucket/a", True),
        ("memory://a", True),
        ("file:///a", True),
        ("C://data", False),
        ("C:\\data", False),
        ("data/a.npz", False),
        ("/data//a", False),
        ("s3:/bucket", False),
        ("data/s3://bucket", False),
        ("", False),
    ],
)
def test_what_counts_as_remote(text, remote):
    assert is_remote(text) is remote
