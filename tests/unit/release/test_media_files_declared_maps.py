"""Boxes in a file: as a map for noise, as a mask, and refused where they are none."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.images import ContentAdaptive, Mask
from sfumato.release.media_files import BoxMask, DeclaredMaps

SHAPE = (40, 60, 3)
PERSON = {"category": "person", "bbox_xywh": [10, 5, 20, 10]}


@pytest.fixture
def declared(tmp_path):
    """Loads a document as maps."""

    def load(document):
        (tmp_path / "boxes.json").write_text(json.dumps(document))
        return DeclaredMaps.load(tmp_path / "boxes.json")

    return load


def of(maps, mechanism, name=None, path="a.png"):
    return maps.parameters(mechanism, Path("photos", path), name, SHAPE)


def test_noise_gets_a_public_map_that_is_high_inside_the_box_of_a_person(declared):
    found = of(declared({"a.png": {"boxes": [PERSON]}}), ContentAdaptive(epsilon=4.0))["declared"]
    assert not found.private
    scores = found.scores
    assert scores[0, 0] > 0.0
    assert scores[-1, -1] == 0.0


def test_an_empty_list_is_a_map_on_which_nothing_is_sensitive(declared):
    maps = declared({"a.png": {"boxes": []}})
    assert not of(maps, ContentAdaptive(epsilon=4.0))["declared"].scores.any()
    assert not np.asarray(of(maps, Mask())["mask"]).any()


def test_the_name_in_the_folder_comes_before_the_bare_name(declared):
    maps = declared({"sub/a.png": {"boxes": [PERSON]}, "a.png": {"boxes": []}})
    assert np.asarray(of(maps, Mask(), name="sub/a.png")["mask"]).any()
    assert not np.asarray(of(maps, Mask(), name="other/a.png")["mask"]).any()
    assert not np.asarray(of(maps, Mask())["mask"]).any()
    with pytest.raises(BadInput, match=r"boxes\.json declares no boxes for b\.png, not even an empty list"):
        of(maps, Mask(), path="b.png")


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [
        ([10, 5, 20, 10], (5, 15), (10, 30)),
        ([10.5, 5.5, 1, 1], (5, 7), (10, 12)),
        ([-5, -5, 10, 10], (0, 5), (0, 5)),
        ([50, 30, 1000, 1000], (30, 40), (50, 60)),
        ([0, 0, 60, 40], (0, 40), (0, 60)),
        ([-20, -20, 5, 5], (0, 0), (0, 0)),
        ([100, 100, 5, 5], (0, 0), (0, 0)),
        ([3, 3, 0, 0], (0, 0), (0, 0)),
    ],
)
def test_a_mask_covers_every_pixel_that_a_box_touches(box, rows, columns):
    expected = np.zeros(SHAPE[:2], dtype=np.uint8)
    expected[slice(*rows), slice(*columns)] = 1
    assert np.array_equal(np.asarray(BoxMask([box], SHAPE)), expected)


def test_a_mask_tells_itself_by_its_digest_and_not_by_its_pixels():
    first, second = BoxMask([[0, 0, 6, 4]], SHAPE), BoxMask([[1, 0, 6, 4]], SHAPE)
    assert repr(first) == repr(BoxMask([[0.0, 0.0, 5.5, 3.5]], SHAPE))
    assert repr(first) != repr(second)
    assert repr(first).startswith("boxes over 1.0% of 60 × 40 pixels, sha256 ")
    assert Mask(first).parameters()["mask"] == repr(first)
    assert first.__array__(np.float64).dtype == np.float64


@pytest.mark.parametrize(
    "document",
    [[1], 3, "boxes", None, {"a.png": []}, {"a.png": {"box": []}}, {"a.png": {"boxes": 3}}, {"a.png": None}],
)
def test_a_file_of_another_form_is_refused(declared, document):
    with pytest.raises(BadInput, match=r"boxes\.json must map the names of pictures to boxes"):
        declared(document)


def test_a_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "boxes.json").write_bytes(b"\xff{")
    with pytest.raises(BadInput, match=r"boxes\.json must map"):
        DeclaredMaps.load(tmp_path / "boxes.json")
    (tmp_path / "boxes.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"boxes\.json must map"):
        DeclaredMaps.load(tmp_path / "boxes.json")


@pytest.mark.parametrize(
    "box",
    [
        *("person", 3, None, {}, {"category": "person"}, {"bbox_xywh": [0, 0, 1, 1]}),
        *({"category": 3, "bbox_xywh": [0, 0, 1, 1]}, {"category": "person", "bbox_xywh": [0, 0, 1]}),
        *(
            {"category": "person", "bbox_xywh": numbers}
            for numbers in (
                *([0, 0, -1, 1], [0, 0, 1, "1"], [True, 0, 1, 1], [0, 0, 1e300, 1], [math.nan, 0, 1, 1]),
                *([0, 0, math.inf, 1], 7, None, {"x": 1}),
            )
        ),
    ],
)
@pytest.mark.parametrize("mechanism", [Mask(), ContentAdaptive(epsilon=4.0)], ids=["mask", "noise"])
def test_what_is_no_box_is_refused_for_the_picture_it_is_of(declared, box, mechanism):
    maps = declared({"a.png": {"boxes": [PERSON, box]}})
    with pytest.raises(BadInput, match=r"boxes\.json declares boxes for a\.png that are not valid"):
        of(maps, mechanism)
