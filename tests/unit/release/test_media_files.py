"""Which mechanism a file goes through, with which noise; what is proven of its units."""

import json
import math
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from sfumato.errors import BadInput
from sfumato.io import write_picture
from sfumato.mechanisms import Gaussian
from sfumato.media.audio import BandNoise
from sfumato.media.images import Blur, ContentAdaptive, Mask, PlaneMeans
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Guarantee, Statement, Unit
from sfumato.release.media_files import (
    BoxMask,
    DeclaredMaps,
    MediaMechanisms,
    PictureFile,
    SoundFile,
    VideoFile,
    per_item,
)

BOTH = MediaMechanisms(PlaneMeans(4.0), BandNoise(4.0))


@pytest.fixture
def files(tmp_path):
    """A picture, a sound, a silent video and one that is heard."""
    write_picture(tmp_path / "a.png", np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3))
    soundfile.write(tmp_path / "a.wav", 0.1 * np.sin(np.arange(4_000)), 8_000)
    for name, heard in (("silent.avi", False), ("heard.avi", True)):
        with av.open(str(tmp_path / name), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.height, stream.width, stream.pix_fmt = 32, 32, "yuv420p"
            track = container.add_stream("pcm_s16le", rate=8_000, layout="mono") if heard else None
            for number in range(3):
                frame = av.VideoFrame.from_ndarray(
                    np.full((32, 32, 3), 60 * number, np.uint8), format="rgb24"
                )
                frame.pts = number
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
            if track is not None:
                block = av.AudioFrame.from_ndarray(
                    np.zeros((1, 2_400), np.int16), format="s16", layout="mono"
                )
                block.rate, block.pts = 8_000, 0
                container.mux(track.encode(block))
                container.mux(track.encode())
    return tmp_path


def proven(file):
    return {str(part.unit): part for part in (file.statement.proven, *file.statement.also_proven)}


def test_every_kind_goes_its_own_way(files):
    kinds = {"a.png": PictureFile, "a.wav": SoundFile, "silent.avi": VideoFile, "heard.avi": VideoFile}
    for name, kind in kinds.items():
        file = BOTH.open(files / name)
        assert type(file) is kind
        assert file.path == files / name
        assert file.statement.proven.epsilon() == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("mechanism", "name", "said"),
    [
        (PlaneMeans(4.0), "a.wav", "a.wav is a sound, and no mechanism for sounds was given."),
        (PlaneMeans(4.0), "heard.avi", "heard.avi has a sound track, and no mechanism for sounds was given."),
        (BandNoise(4.0), "a.png", "a.png has pictures, and no mechanism for them was given."),
        (BandNoise(4.0), "silent.avi", "silent.avi has pictures, and no mechanism for them was given."),
        (BOTH, "X.npy", "X.npy is no picture, sound or video; release it by itself."),
        (BOTH, "t.csv", "t.csv is no picture, sound or video; release it by itself."),
        (BOTH, "a.txt", "a.txt is no picture, sound or video."),
        (BOTH, "none", "none is no picture, sound or video."),
    ],
)
def test_a_file_without_a_mechanism_is_refused_by_name(files, mechanism, name, said):
    with pytest.raises(BadInput) as refused:
        MediaMechanisms.of(mechanism).open(files / name)
    assert str(refused.value) == said


def test_a_silent_video_needs_no_mechanism_for_sounds(files):
    assert MediaMechanisms.of(PlaneMeans(4.0)).open(files / "silent.avi").noise.sound is None


def test_a_mechanism_for_records_is_refused():
    with pytest.raises(BadInput, match="Gaussian is for records"):
        MediaMechanisms.of(Gaussian(1.0, 1e-6, 1.0))


def test_boxes_are_for_pictures_alone(files):
    with pytest.raises(BadInput, match=r"silent\.avi is a video, and boxes are supported for images only"):
        replace(BOTH, maps=DeclaredMaps({}, "boxes.json")).open(files / "silent.avi")


# A region(16) of ε = 4: a frame of 32 × 32 pixels holds four of them, and a region(8) is a quarter of one.
@pytest.mark.parametrize(
    ("unit", "epsilon"), [("item", 4.0), ("clip", 4.0), ("channel", 4.0), ("frame", 16.0), ("region(8)", 1.0)]
)
def test_the_unit_of_videos_is_their_headline(files, unit, epsilon):
    statement = replace(BOTH, unit=Unit.parse(unit)).open(files / "heard.avi").statement
    assert str(statement.proven.unit) == unit
    assert statement.proven.epsilon() == pytest.approx(epsilon)


def test_a_window_is_the_headline_where_there_is_sound(files):
    asked = replace(BOTH, unit=Unit("window", 20))
    assert str(asked.open(files / "heard.avi").statement.proven.unit) == "window(20)"
    # A channel is the pictures where there is no sound.
    channel = replace(BOTH, unit=Unit("channel")).open(files / "silent.avi")
    assert str(channel.statement.proven.unit) == "channel"
    assert str(asked.open(files / "silent.avi").statement.proven.unit) == "region(16)"


def test_a_folder_is_about_items_where_clips_are_asked_for():
    assert [replace(BOTH, unit=unit).headline for unit in (None, Unit("clip"), Unit("region", 16))] == [
        *(None, Unit("item"), Unit("region", 16))
    ]


def test_what_is_proven_of_a_clip_is_proven_of_the_item(files):
    for name in ("a.wav", "silent.avi", "heard.avi"):
        found = proven(BOTH.open(files / name))
        assert replace(found["item"], unit=found["clip"].unit) == found["clip"]
    assert "clip" not in proven(BOTH.open(files / "a.png"))
    bare = Statement("Blur", {}, None, Guarantee.nothing("no noise", "region(16)"))
    assert per_item(bare) is bare
    asked = replace(BOTH, unit=Unit("item")).open(files / "heard.avi").statement
    assert [str(part.unit) for part in (asked.proven, *asked.also_proven)].count("item") == 1


def test_a_video_expects_the_error_of_its_frames_and_of_its_sound(files):
    silent, heard = (BOTH.open(files / name).expected() for name in ("silent.avi", "heard.avi"))
    assert len(heard) > len(silent) > 0
    assert heard[: len(silent)] == silent


@pytest.mark.parametrize("name", ["a.png", "a.wav"])
def test_a_file_that_changes_after_it_was_opened_is_refused(files, name):
    file = BOTH.open(files / name)
    if name == "a.png":
        write_picture(files / name, np.zeros((30, 20, 3), dtype=np.uint8))
    else:
        soundfile.write(files / name, np.zeros(3_000), 8_000)
    with pytest.raises(BadInput, match=f"{name} has changed since it was opened"):
        file.check(lambda stage, share: None)
    output = files / f"out{Path(name).suffix}"
    with pytest.raises(BadInput, match=f"{name} has changed since it was opened"):
        drawn(BOTH, files / name, None, output, file)
    assert not output.exists()


def drawn(mechanisms, path, name, output, file=None):
    file = file or mechanisms.open(path, name)
    file.write(output, (Path(f"{output}.txt"), lambda written: b""), lambda stage, share: None)
    return output.read_bytes()


def test_keyed_noise_belongs_to_the_name_in_the_folder(files):
    noise = Keyed(bytes(32), dataset="album", version="1", release="r")
    mechanisms = BOTH.keyed_by(noise)
    for name in ("a.png", "a.wav", "heard.avi"):
        output = files / f"out{Path(name).suffix}"
        first = drawn(mechanisms, files / name, f"x/{name}", output)
        assert drawn(mechanisms, files / name, f"x/{name}", output) == first
        for other in (f"y/{name}", f"\udcff/{name}", f"'\\udcff'/{name}"):
            assert drawn(mechanisms, files / name, other, output) != first
    assert drawn(mechanisms, files / "a.png", "\udcff", files / "out.png") != drawn(
        mechanisms, files / "a.png", "\\udcff", files / "out.png"
    )


def test_what_draws_no_noise_cannot_be_keyed():
    noise = Keyed(bytes(32), dataset="album", version="1", release="r")
    with pytest.raises(BadInput, match="Blur draws no noise"):
        MediaMechanisms(Blur(), BandNoise(4.0)).keyed_by(noise)


def test_one_seeded_part_makes_the_whole_reproducible():
    assert not BOTH.reproducible
    assert MediaMechanisms(PlaneMeans(4.0, randomness=Seeded(1)), BandNoise(4.0)).reproducible
    assert MediaMechanisms(PlaneMeans(4.0), BandNoise(4.0, randomness=Seeded(1))).reproducible


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
