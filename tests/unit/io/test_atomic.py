"""Output appears whole, durable and with ordinary permissions, or not at all; its companion appears first."""

import gc
import os
import stat

import numpy as np
import pytest

from sfumato.errors import BadInput, StorageFull
from sfumato.io import ArraySink, atomic
from sfumato.io.atomic import AtomicFile, atomic_output, require_room, reserved, write_whole


def test_appears_only_at_the_end_and_is_private_and_nameless_until_then(tmp_path):
    path = tmp_path / "patients.bin"
    with atomic_output(path) as file:
        file.write(b"whole")
        file.flush()
        assert not path.exists()
        (hidden,) = tmp_path.iterdir()
        assert hidden.name.startswith(".")
        assert "patients" not in hidden.name
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o600
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_mode_that_is_asked_for_holds_whatever_stood_there(tmp_path):
    path = tmp_path / "private"
    path.write_bytes(b"older")
    path.chmod(0o644)
    with atomic_output(path, mode=0o600) as file:
        file.write(b"whole")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    output = AtomicFile(path, mode=0o400)
    output.commit()
    assert stat.S_IMODE(path.stat().st_mode) == 0o400


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_mode_follows_the_umask_and_leaves_it_alone(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with atomic_output(tmp_path / "out") as file:
            file.write(b"x")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_keeps_the_older_output_and_leaves_nothing_else(tmp_path, error):
    path = tmp_path / "out"
    path.write_bytes(b"older")

    def write_and_fail():
        with atomic_output(path) as file:
            file.write(b"newer")
            raise error

    with pytest.raises(error):
        write_and_fail()
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_replaces_what_a_link_points_to(tmp_path):
    (tmp_path / "store").mkdir()
    target, link = tmp_path / "store" / "out", tmp_path / "link"
    target.write_bytes(b"older")
    link.symlink_to(target)
    with atomic_output(link) as file:
        file.write(b"newer")
    assert link.is_symlink()
    assert target.read_bytes() == b"newer"


def test_refuses_a_missing_folder_and_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(BadInput, match=r"^out cannot be written: No such file or directory\.$"):
        AtomicFile(tmp_path / "missing" / "out")
    with pytest.raises(BadInput, match="not a regular file"):
        AtomicFile(tmp_path)
    with pytest.raises(BadInput, match="not a regular file"):
        AtomicFile("/dev/null")


def test_a_rename_that_fails_is_told_and_cleaned_up(tmp_path):
    path = tmp_path / "out"
    output = AtomicFile(path)
    output.file.write(b"x")
    path.mkdir()
    with pytest.raises(BadInput, match="out cannot be written"):
        output.commit()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_nobody_holds_goes_away(tmp_path):
    """As where a signal comes between its making and the first use."""
    AtomicFile(tmp_path / "out.bin")
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_room_that_is_kept_is_the_files_own_and_goes_back(tmp_path):
    """The disk has fewer bytes free for others from the first; the file has its own length in the end."""

    def free():
        room = os.statvfs(tmp_path)
        return room.f_bavail * room.f_frsize

    before = free()
    with reserved(tmp_path / "out", 64 << 20):
        assert free() < before - (60 << 20)
        assert [len(place.name) for place in tmp_path.iterdir()] == [17, 17]  # hidden, both
        write_whole(tmp_path / "out", b"abc", first=(tmp_path / "first", lambda written: b"x"))
    assert (tmp_path / "out").read_bytes() == b"abc"
    assert (tmp_path / "out").stat().st_blocks * 512 < 1 << 20
    assert sorted(place.name for place in tmp_path.iterdir()) == ["first", "out"]


def test_what_no_disk_has_is_refused_and_nothing_stays(tmp_path):
    with pytest.raises(StorageFull, match=r"^out cannot be written: "), reserved(tmp_path / "out", 1 << 60):
        raise AssertionError("nothing was kept")
    with pytest.raises(StorageFull, match="out cannot be written: No space left on device"):
        require_room(tmp_path / "not" / "yet" / "out", 1 << 60)
    require_room(tmp_path / "not" / "yet" / "out", 1)
    with pytest.raises(BadInput, match="No such file"), reserved(tmp_path / "nowhere" / "out", 1):
        raise AssertionError("there is no such folder")
    with pytest.raises(ZeroDivisionError), reserved(tmp_path / "out", 1 << 20):
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []


def test_where_a_disk_keeps_nothing_it_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_LIBRARY", object())
    with reserved(tmp_path / "out", 1 << 20):
        write_whole(tmp_path / "out", b"abc")
    with pytest.raises(StorageFull), reserved(tmp_path / "more", 1 << 60):
        raise AssertionError("there is no such disk")
    assert [place.name for place in tmp_path.iterdir()] == ["out"]


def standing(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(".")}


def write_pair(folder):
    why = folder / "out.why"
    write_whole(folder / "out", b"newer", first=(why, lambda output: b"why " + output.read_bytes()))


@pytest.mark.parametrize("older", [False, True])
def test_the_first_appears_before_the_output_and_never_beside_an_older_one(tmp_path, monkeypatch, older):
    if older:
        (tmp_path / "out").write_bytes(b"older")
        (tmp_path / "out.why").write_bytes(b"why older")
    seen, appear = {}, AtomicFile._appear

    def watchful(file):
        seen[file.path.name] = standing(tmp_path)
        appear(file)

    monkeypatch.setattr(AtomicFile, "_appear", watchful)
    write_pair(tmp_path)
    assert list(seen) == ["out.why", "out"]
    assert "out" not in seen["out.why"]
    assert seen["out"] == {"out.why": b"why newer"}
    assert standing(tmp_path) == {"out": b"newer", "out.why": b"why newer"}


@pytest.mark.parametrize("broken", ["out", "out.why"])
def test_neither_of_a_pair_appears_without_the_other(tmp_path, monkeypatch, broken):
    appear = AtomicFile._appear

    def failing(file):
        if file.path.name == broken:
            raise BadInput("the disk went away.")
        appear(file)

    monkeypatch.setattr(AtomicFile, "_appear", failing)
    with pytest.raises(BadInput, match="the disk went away"):
        write_pair(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_cannot_be_made_durable_leave_the_older_pair(tmp_path, monkeypatch):
    older = {"out": b"older", "out.why": b"why older"}
    for name, content in older.items():
        (tmp_path / name).write_bytes(content)
    settle = AtomicFile._settle

    def failing(file):
        if file.path.name == "out.why":
            file.file.close()  # flushing it fails now
        settle(file)

    monkeypatch.setattr(AtomicFile, "_settle", failing)
    with pytest.raises(ValueError, match="closed"):
        write_pair(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert standing(tmp_path) == older


def test_a_first_whose_content_cannot_be_made_keeps_the_output_away(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "out", b"newer", first=(tmp_path / "out.why", lambda output: bytes(1 // 0)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sink_is_accompanied_only_if_it_is_complete(tmp_path, rows):
    def write():
        with ArraySink(tmp_path / "out.npy", (2, 1), np.float64) as sink:
            sink.accompany((tmp_path / "out.npy.why", lambda output: b"why"))
            sink.write(np.ones((rows, 1)))

    if rows == 2:
        write()
        assert sorted(os.listdir(tmp_path)) == ["out.npy", "out.npy.why"]
    else:
        with pytest.raises(BadInput, match="was to hold 2 rows"):
            write()
        assert os.listdir(tmp_path) == []
