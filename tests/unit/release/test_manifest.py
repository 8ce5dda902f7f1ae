"""The manifest of a released folder: its files by name and digest, and what verification makes of it."""

import hashlib
import json
import os

import pytest

from sfumato.errors import BadInput
from sfumato.io.atomic import write_whole
from sfumato.privacy import Guarantee, Statement
from sfumato.release.manifest import MANIFEST, manifest_of, verify_folder
from sfumato.release.protected_file import Protected
from sfumato.reports import KeyRing

STATEMENT = Statement("PlaneMeans", {}, None, Guarantee.pure(4.0, unit="region(16)"))
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
