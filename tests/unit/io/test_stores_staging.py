"""Objects that wait on local disk: privately, under names that tell nothing, no longer than needed."""

import os
import stat

import pytest

from sfumato.errors import BadInput
from sfumato.io.object_store import Remote
from sfumato.io.stores import Staging

pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "there").mkdir()
    return Remote(f"file://{tmp_path}/there")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_copy_lasts_for_its_block(place, root):
    place.child("patient-7.csv.gz").write(b"content")
    staging = Staging("run", root)
    assert stat.S_IMODE(staging.path.stat().st_mode) == 0o700
    assert staging.path.parent == root
    with staging.fetched(place.objects()[0]) as path, staging.fetched(place.objects()[0]) as second:
        assert path.read_bytes() == b"content"
        assert path != second
        assert path.parent == staging.path
        assert path.name.endswith(".csv.gz")
        assert "patient" not in path.name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(staging.path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), staging.fetched(place.child("patient-7.csv.gz")):
        raise ZeroDivisionError
    assert list(staging.path.iterdir()) == []
    with pytest.raises(BadInput, match="no such object"), staging.fetched(place.child("missing.png")):
        pass
    assert list(staging.path.iterdir()) == []


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
def test_only_the_suffix_of_a_name_is_kept(place, root, name, suffix):
    place.child(name).write(b"x")
    with Staging("run", root).fetched(place.child(name)) as path:
        assert path.name[path.name.index(".") :] == suffix if suffix else "." not in path.name


def test_a_shared_copy_is_fetched_once_and_stays(place, root):
    place.child("a.png").write(b"content")
    (listed,) = place.objects()
    staging = Staging("run", root)
    path = staging.shared(listed)
    place.child("a.png").remove()
    assert staging.shared(listed) == path  # otherwise refused: there is no such object
    assert path.read_bytes() == b"content"
    assert path.suffix == ".png"
    place.child("a.png").write(b"another")
    (later,) = place.objects()
    assert staging.shared(later).read_bytes() == b"another"
    assert path.read_bytes() == b"content"


def test_what_a_killed_process_left_is_fetched_anew(place, root):
    place.child("a.png").write(b"content")
    staging = Staging("run", root)
    path = staging.shared(place.child("a.png"))
    path.rename(path.with_name(f".{path.stem}.part"))
    path.with_name(f".{path.stem}.part").write_bytes(b"half of it and more than that")
    assert staging.shared(place.child("a.png")).read_bytes() == b"content"


def test_a_fetch_that_fails_is_not_shared(place, root):
    staging = Staging("run", root)
    with pytest.raises(BadInput, match="no such object"):
        staging.shared(place.child("a.png"))
    place.child("a.png").write(b"content")
    assert staging.shared(place.child("a.png")).read_bytes() == b"content"


def test_a_token_names_the_same_folder(root):
    one, same, other = (Staging(token, root) for token in ("run", "run", "another"))
    assert one.path == same.path != other.path
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o700
    assert "run" not in one.path.name


@pytest.mark.parametrize("how", ["open to others", "a link", "a file"])
def test_a_folder_that_others_may_have_laid_is_refused(root, tmp_path, how):
    path = Staging("run", root).path
    if how == "open to others":
        os.chmod(path, 0o755)
    else:
        path.rmdir()
        path.symlink_to(tmp_path) if how == "a link" else path.write_bytes(b"")
    with pytest.raises(BadInput, match="exists and is open to others"):
        Staging("run", root)


def test_a_root_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match=r"^sfumato-\w+ cannot be written: No such file or directory\.$"):
        Staging("run", tmp_path / "nowhere")
