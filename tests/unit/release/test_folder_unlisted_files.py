"""Files that no manifest lists: refused before a run, and counted where a run was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import BadInput
from sfumato.io import LocalStore, RemoteStore
from sfumato.release.folder import refuse_foreign, telling_what_stays
from sfumato.release.manifest import unlisted
from sfumato.reports import MANIFEST

OWN = ["a.png", "sub/b.png"]


@pytest.fixture(params=["folder", "url"])
def output(request, tmp_path):
    """An output that does not exist yet, and its folder."""
    folder = tmp_path / "out"
    return (LocalStore(folder) if request.param == "folder" else RemoteStore(f"file://{folder}")), folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_an_output_may_hold_what_the_same_request_left(output):
    store, folder = output
    refuse_foreign(store, [])
    put(folder, *OWN, "a.png.cert.json", MANIFEST, f"{MANIFEST}.cert.json", ".hidden")
    refuse_foreign(store, OWN)


def test_files_of_others_are_refused_and_named(output):
    store, folder = output
    put(folder, "a.png", "sub/c.png", "c.png.cert.json")
    with pytest.raises(BadInput, match=r"not of this run, c\.png\.cert\.json, sub/c\.png; choose"):
        refuse_foreign(store, OWN)
    with pytest.raises(BadInput, match=r"not of this run, a\.png, "):
        refuse_foreign(store, [])


@pytest.mark.parametrize(
    ("held", "exact", "left"),
    [
        ([], True, ""),
        (
            ["a.png", "a.png.cert.json"],
            True,
            "1 file stands in {} without a manifest and belongs to no release",
        ),
        (OWN, True, "2 files stand in {} without a manifest and belong to no release"),
        (OWN, False, "2 files or more stand in {} without a manifest and belong to no release"),
        ([*OWN, MANIFEST], True, ""),
    ],
)
def test_a_signal_tells_what_stays(output, held, exact, left):
    store, folder = output
    put(folder, *held)
    with pytest.raises(KeyboardInterrupt) as stop, telling_what_stays(store, OWN, exact=exact):
        raise KeyboardInterrupt
    assert "; ".join(getattr(stop.value, "__notes__", ())) == left.format(store.shown)


def test_an_error_is_left_as_it_is(output):
    store, folder = output
    put(folder, *OWN)
    with pytest.raises(ValueError, match="own words") as error, telling_what_stays(store, OWN, exact=True):
        raise ValueError("own words")
    assert not hasattr(error.value, "__notes__")


def test_where_the_manifest_states_every_file_no_other_certificate_belongs():
    held = ["a.png", "a.png.cert.json", "manifest.json", "manifest.json.cert.json"]
    assert unlisted(held, ["a.png"]) == []
    assert unlisted(held, ["a.png"], certified=False) == ["a.png.cert.json"]
