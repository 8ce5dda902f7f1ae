"""What is measured on: real files where a folder is named, else what libraries ship; split by file."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("skimage")
pytest.importorskip("simplejpeg")

from sfumato.errors import BadInput
from sfumato.io import write_picture
from sfumato_reproductions.multimedia_dp.allocation import allocation_part
from sfumato_reproductions.multimedia_dp.protocol import SIDE, Run
from sfumato_reproductions.multimedia_dp.selection_table import selection_table
from sfumato_reproductions.multimedia_dp.sources import Photograph, Sources


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with 12 small photographs, each of one brightness and with one person, and a little speech."""
    photos = tmp_path / "photos"
    photos.mkdir()
    boxes = {}
    for number in range(12):
        name = f"{number:03}.jpg"
        write_picture(photos / name, np.full((40, 60, 3), 20 * number, dtype=np.uint8))
        boxes[name] = {"boxes": [{"category": "person", "bbox_xywh": [0.0, 0.0, 30.0, 40.0]}]}
    (photos / "annotations.json").write_text(json.dumps(boxes))
    takes, digits, speakers = (part.ravel() for part in np.meshgrid(range(3), range(6), range(2)))
    np.savez(
        tmp_path / "fsdd.npz",
        audio=np.arange(takes.size * 100, dtype=np.int16),
        offsets=np.arange(takes.size + 1) * 100,
        take=takes,
        digit=digits,
        speaker=speakers,
        sample_rate=8000,
    )
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    return tmp_path


def test_photographs_are_split_by_their_names(folder) -> None:
    sources = Sources(Run.of(False))
    tested, learned = (
        [one.name for one in part] for part in (sources.photographs, sources.public_photographs)
    )
    assert sorted(tested + learned) == [f"{number:03}.jpg" for number in range(12)]
    assert tested
    assert all(hashlib.sha256(name.encode()).digest()[0] % 2 == 1 for name in tested)
    assert all(hashlib.sha256(name.encode()).digest()[0] % 2 == 0 for name in learned)
    assert sources.photographs[0].people == [[0.0, 0.0, 30.0, 40.0]]
    assert "COCO" in sources.told()


def test_a_quick_run_takes_three_photographs_and_four_digits(folder) -> None:
    sources = Sources(Run.of(True))
    assert len(sources.photographs) <= 3
    speech = sources.speech
    assert speech is not None
    assert set(speech.digits) == {0, 1, 2, 3}
    # Two takes of two speakers; the first is tested on.
    assert len(speech.recordings) == 2 * 2 * 4
    assert speech.held_out.sum() == 8
    assert speech.rate == 8000


def test_recordings_keep_their_samples_and_labels(folder) -> None:
    speech = Sources(Run.of(False)).speech
    assert speech is not None
    assert len(speech.recordings) == 36
    assert [clip.size for clip in speech.recordings] == [100] * 36
    assert speech.recordings[1] * 32768 == pytest.approx(np.arange(100, 200), abs=0.01)


def test_without_a_folder_libraries_give_the_pictures_and_it_is_said(monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    sources = Sources(Run.of(False))
    assert [one.name for one in sources.photographs][:2] == ["astronaut", "china"]
    assert sources.photographs[0].people
    assert sources.speech is None
    ((name, clip),) = sources.clips
    assert "scikit-image" in name
    assert clip.shape == (60, 160, 160, 3)
    # The lower part stands still, the upper one moves.
    assert (clip[0, 64:] == clip[-1, 64:]).all()
    assert (clip[0, :64] != clip[-1, :64]).any()
    told = sources.told()
    for words in ("SFUMATO_DATA", "scikit-image", "made from a photograph", "no speech"):
        assert words in told
    origin, faces = sources.portraits
    assert "scikit-image" in origin
    assert faces.shape == (100, 25, 25)


@pytest.mark.parametrize("shape", [(300, 512, 3), (512, 300, 3), (100, 100, 3)])
def test_a_square_carries_its_boxes_along(shape) -> None:
    pixels = np.zeros(shape, dtype=np.uint8)
    y, x = shape[0] // 2, shape[1] // 2
    pixels[y - 20 : y + 20, x - 30 : x + 30] = 255
    boxes = (
        {"category": "person", "bbox_xywh": [x - 30.0, y - 20.0, 60.0, 40.0]},
        {"category": "cat", "bbox_xywh": [-50.0, -50.0, 10.0, 10.0]},
    )
    made = Photograph("one", pixels, boxes).square()
    assert made.pixels.shape == (SIDE, SIDE, 3)
    assert len(made.boxes) == 1
    left, top, wide, high = made.people[0]
    white = made.pixels[..., 0] > 127
    down, across = np.flatnonzero(white.any(axis=1)), np.flatnonzero(white.any(axis=0))
    assert (down[0], down[-1] + 1) == pytest.approx((top, top + high), abs=1.5)
    assert (across[0], across[-1] + 1) == pytest.approx((left, left + wide), abs=1.5)


def test_broken_files_are_named(folder) -> None:
    (folder / "fsdd.npz").write_bytes(b"no archive")
    (folder / "photos" / "annotations.json").write_text("[")
    with pytest.raises(BadInput, match=r"fsdd\.npz is no NumPy archive with arrays audio, offsets"):
        _ = Sources(Run.of(True)).speech
    with pytest.raises(BadInput, match=r"annotations\.json is no JSON object of boxes"):
        _ = Sources(Run.of(True)).photographs


def test_where_nobody_is_in_a_box_tables_are_left_out_and_it_is_said(folder) -> None:
    (folder / "photos" / "annotations.json").write_text("{}")
    sources = Sources(Run.of(True))
    assert selection_table(sources, lambda stage, share: None) == "since no photograph has a box of a person"
    left = allocation_part(sources, lambda stage, share: None)
    assert left == "since no photograph has a box that is sensitive"
