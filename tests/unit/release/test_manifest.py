"""The manifest of a released folder: its files by name and digest, and what verification makes of it."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from sfumato.errors import BadInput
from sfumato.io import write_whole
from sfumato.privacy import Guarantee, Statement
from sfumato.release.manifest import Stated, manifest_bytes, manifest_of, verify_folder
from sfumato.release.path import Protected
from sfumato.reports import MANIFEST, KeyRing, verify

STATEMENT = Statement("PlaneMeans", {}, None, Guarantee.pure(4.0, unit="region(16)"))
SIDES = (("a", 4), ("b", 4), ("c", 8))
NAMES = ["a.png", "sub/b c.png", "line\nbreak.png", "é.png", os.fsdecode(b"\xff.png")]


@pytest.fixture
def keys(tmp_path):
    ring = KeyRing(tmp_path / "keys")
    ring.signing_or_new()
    return ring


@pytest.fixture
def released(tmp_path, keys):
    """A folder of files with a signed manifest."""
    folder = tmp_path / "out"
    (folder / "sub").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    done = Protected(folder / MANIFEST, STATEMENT, len(NAMES), 1, ())
    first = done.certificate_file, lambda written: done.certified(written, keys.signing())
    write_whole(done.output, manifest_of(folder, [folder / name for name in NAMES]), first=first)
    return folder


def outcomes(found):
    return [check.outcome for check in found.checks if check.what == "file"]


def test_it_lists_every_file_by_name_and_digest(released):
    listed = json.loads((released / MANIFEST).read_bytes())["files"]
    assert listed == {name: hashlib.sha256((released / name).read_bytes()).hexdigest() for name in NAMES}
    assert (released / MANIFEST).read_bytes().isascii()


def test_a_folder_holds_as_it_was_released(released, keys):
    found = verify_folder(released, keys)
    assert found.holds
    assert outcomes(found) == ["holds", "holds"]
    assert "5 files" in found.checks[-2].detail
    assert found.checks[-1].detail == "nothing else stands in the folder"


def test_what_is_not_listed_fails_the_folder_and_is_named(released, keys):
    (released / ".hidden.png").write_bytes(b"half of a file that is being written")
    (released / "a.png.cert.json").write_bytes(b"a certificate belongs to its file")
    assert verify_folder(released, keys).holds
    (released / "sub" / "further.png").write_bytes(b"of another run")
    (released / "sub" / "further.png.cert.json").write_bytes(b"which certified it")
    found = verify_folder(released, keys)
    assert not found.holds
    assert outcomes(found) == ["holds", "holds"]
    assert (found.checks[-1].what, found.checks[-1].outcome) == ("folder", "fails")
    assert "lists no sub/further.png, sub/further.png.cert.json" in found.checks[-1].detail
    assert found.to_dict()["checks"][-1]["outcome"] == "fails"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["altered", "missing", "a folder"])
def test_a_changed_file_is_named(released, keys, name, change):
    (released / name).unlink()
    if change == "altered":
        (released / name).write_bytes(b"else")
    elif change == "a folder":
        (released / name).mkdir()
    found = verify_folder(released, keys)
    assert not found.holds
    assert outcomes(found) == ["holds", "fails"]
    assert name in found.checks[-2].detail


def test_a_link_to_a_folder_fails_the_folder_and_is_named(released, keys, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (released / "sub" / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (released / ".hidden").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    found = verify_folder(released, keys)
    assert not found.holds
    assert found.checks[-1].detail == "not part of this release, the manifest lists no sub/linked"


def test_of_many_changed_files_five_are_named(released, keys):
    more = [released / f"{number}.png" for number in range(8)]
    for file in more:
        file.write_bytes(b"x")
    done = Protected(released / MANIFEST, STATEMENT, 8, 1, ())
    first = done.certificate_file, lambda written: done.certified(written, keys.signing())
    write_whole(done.output, manifest_of(released, more), first=first)
    for file in more:
        file.unlink()
    assert verify_folder(released, keys).checks[-2].detail.endswith("4.png and 3 more")


def test_a_changed_manifest_fails_itself(released, keys):
    listed = json.loads((released / MANIFEST).read_bytes())
    (released / MANIFEST).write_text(json.dumps(listed))
    found = verify_folder(released, keys)
    assert outcomes(found) == ["fails", "holds"]
    assert not found.holds


@pytest.mark.parametrize("text", ["no json", "[]", '{"files": 3}', '{"other": {}}', "[" * 100_000, "\udcff"])
def test_what_is_no_manifest_is_refused_in_a_sentence(released, keys, text):
    (released / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=r"manifest\.json in out is no manifest of released files\."):
        verify_folder(released, keys)


def test_each_file_is_verified_through_the_manifest_beside_or_above_it(released, keys, monkeypatch):
    for name in NAMES:
        found = verify(released / name, keys)
        assert found.holds
        assert found.certificate.file_name == name
        assert found.certificate.statement == STATEMENT
    monkeypatch.chdir(released / "sub")
    assert verify(Path("b c.png"), keys).holds


def test_an_altered_file_or_manifest_and_one_that_is_not_listed_are_found(released, keys, tmp_path):
    (released / "a.png").write_bytes(b"other bytes")
    (failed,) = [check for check in verify(released / "a.png", keys).checks if check.outcome == "fails"]
    assert failed.detail == "its bytes are not those that were certified; the file was altered"
    (released / "new.png").write_bytes(b"new")
    with pytest.raises(BadInput, match=r"beside new.png, and the manifest.json in out lists no such file\.$"):
        verify(released / "new.png", keys)
    (released / "sub" / "b c.png").rename(tmp_path / "taken.png")
    with pytest.raises(BadInput, match=r"no certificate taken.png.cert.json beside taken.png\.$"):
        verify(tmp_path / "taken.png", keys)
    told = json.loads((released / MANIFEST).read_bytes())
    told["files"]["new.png"] = hashlib.sha256(b"new").hexdigest()
    (released / MANIFEST).write_text(json.dumps(told))
    for name in ("new.png", "é.png"):
        found = verify(released / name, keys)
        assert not found.holds
        assert found.certificate is None
        assert "the manifest.json that lists it" in found.checks[-1].detail
    (released / MANIFEST).write_text("[]")
    with pytest.raises(BadInput, match="lists no such file"):
        verify(released / "é.png", keys)


def test_a_manifest_says_what_is_stated_of_each_file_once_for_all_that_share_it(tmp_path, keys):
    own = {name: Statement("PlaneMeans", {"blocks": side}, None, STATEMENT.proven) for name, side in SIDES}
    stated = {Stated(own["a"], 1, 12): ["a", "b"], Stated(own["c"], 2, 27, ("labels",)): ["c"]}
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b", "c")}
    done = Protected(tmp_path / MANIFEST, STATEMENT, 3, 27, (), "album")
    first = done.certificate_file, lambda written: done.certified(written, keys.signing())
    content = manifest_bytes(digests, "run", 0, stated)
    assert content.count(b'"mechanism"') == 2
    write_whole(done.output, content, first=first)
    found = {name: verify(tmp_path / name, keys).certificate for name in ("a", "b", "c")}
    assert [one.statement.parameters["blocks"] for one in found.values()] == [4, 4, 8]
    assert [(one.rows, one.columns, one.left_out) for one in found.values()] == [
        *((1, 12, ()), (1, 12, ()), (2, 27, ("labels",)))
    ]
    assert {one.dataset for one in found.values()} == {"album"}
    assert (
        "files"
        not in json.loads(manifest_bytes({"a": "0"}, stated={Stated(own["a"], 1, 1): ["a"]}))["releases"][0]
    )
