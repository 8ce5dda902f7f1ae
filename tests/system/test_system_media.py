"""Pictures, sounds, videos and folders of them through the command: what is kept, stated and certified."""

import base64
import io
import json
import os
import shutil
import stat
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
import small_media
import soundfile
from PIL import Image
from small_media import REFUSED, RELEASED, SECRET, SIDES

from sfumato.cli import main
from sfumato.io import open_video, read_picture
from sfumato.mechanisms import MECHANISMS
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.privacy import Statement

SIDEWAYS = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
PINNED = ("--unit", "region:16", "--epsilon", "4", "--public-names")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    return small_media.album(tmp_path_factory.mktemp("album") / "photos")


@pytest.fixture
def photos(folder, made_once):
    """The folder photos with its mixed files; the test may change it."""
    return Path(shutil.copytree(made_once, folder / "photos"))


@pytest.fixture
def photo(folder):
    """One picture in a file, without loss."""
    small_media.png(folder / "a.png", small_media.photograph())
    return "a.png"


def proven(document):
    """ε of every unit that a statement, as JSON, is about; infinite where nothing is proven."""
    statement = Statement.from_dict(document)
    return {str(part.unit): part.epsilon() for part in (statement.proven, *statement.also_proven)}


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_folder_of_mixed_files_is_released_file_by_file_and_a_summary_names_the_rest(called, photos):
    ran = called("protect", "photos/", "-o", "out/", *PINNED)
    assert (ran.code, ran.err, ran.appeared) == (5, "", {"out"})
    out = Path("out")
    assert json.loads((out / "manifest.json").read_text("utf-8"))["skipped"] == 3
    assert files_in(out) == sorted([*RELEASED, "manifest.json", "manifest.json.cert.json"])
    assert "Released: out (7 files)" in ran.out
    assert "Manifest: out/manifest.json, whose certificate is that of all files" in ran.out
    told = ran.out[ran.out.index("Skipped: 3 files") :].splitlines()[1:]
    assert told == [f"  {name}: {why}" for name, why in REFUSED.items()]
    assert str(photos) not in ran.out
    for words in (["out"], *([f"out/{name}"] for name in RELEASED)):
        assert called("verify", *words).code == 0
    assert "folder; 3 of the source's could not be released and are not here\n" in called("verify", "out").out
    # Who was left out, and why, depends on the content and stands in no output.
    assert all(
        "cut.jpg" not in (out / name).read_text("utf-8") for name in files_in(out) if name.endswith(".json")
    )


def test_what_a_folder_states_holds_of_every_file_in_it(called, photos, statement_beside):
    result = called("protect", "photos", "-o", "out", *PINNED, "--json").partial
    assert [entry["file"] for entry in result["released"]] == RELEASED
    assert {entry["file"]: entry["why"] for entry in result["skipped"]} == REFUSED
    assert (result["output"], result["manifest"]) == ("out", "out/manifest.json")
    assert (result["epsilon"], result["delta"], result["dataset"]) == (pytest.approx(4.0), 0.0, None)
    whole = proven(result["statement"])
    assert result["epsilon"] <= 4.0
    assert whole.keys() >= {"region(16)", "pixels(1)", "pixels(16)", "region(8)", "region(32)", "item"}
    assert whole.keys() >= {"window(20)", "frame", "clip"}
    for name in RELEASED:
        verified = called("verify", f"out/{name}", "--json").result
        assert verified["holds"]
        stated = proven(verified["statement"])
        assert "item" in stated
        for unit, epsilon in stated.items():
            assert unit not in whole or epsilon <= whole[unit] * (1 + 1e-9), (name, unit)
    assert statement_beside("out/manifest.json")[0].to_dict() == result["statement"]


def test_sizes_depths_rates_and_lengths_are_kept_and_metadata_is_not(called, photos):
    assert called("protect", "photos", "-o", "out", *PINNED).code == 5
    for name in RELEASED:
        assert SECRET.encode() not in Path("out", name).read_bytes()
    portrait = Image.open("out/portrait.jpg")
    # The camera was turned: the release stands upright and says nothing of it.
    assert portrait.size == (SIDES[0], SIDES[1])
    assert len(portrait.getexif()) == 0
    assert not {"comment", "exif", "icc_profile"} & set(portrait.info)
    assert Image.open("out/from the sea/glass.png").info == {}
    for name in ("glass.png", "deep.png"):
        before, after = (
            read_picture(Path(place, "from the sea", name)).values for place in ("photos", "out")
        )
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
        assert not np.array_equal(before, after)
    for name in ("tone.wav", "from the sea/tone.flac"):
        before, after = (soundfile.SoundFile(f"{place}/{name}") for place in ("photos", "out"))
        for part in ("samplerate", "channels", "frames", "subtype", "format"):
            assert getattr(before, part) == getattr(after, part)
        assert before.copy_metadata()
        assert not after.copy_metadata()
    for name in ("walk.mp4", "from the sea/walk.avi"):
        before, after = (open_video(f"{place}/{name}") for place in ("photos", "out"))
        for part in ("height", "width", "frames", "rate", "constant"):
            assert getattr(before, part) == getattr(after, part)
        assert after.rate == Fraction(20)
        lengths = [float(each.last_ticks * each.time_base) for each in (before, after)]
        assert lengths[1] == pytest.approx(lengths[0], abs=1e-3)
        assert (before.sound is None) == (after.sound is None)
        if before.sound is not None:
            assert (before.sound.rate, before.sound.channels) == (after.sound.rate, after.sound.channels)
            # A codec pads its last block.
            assert abs(before.sound.samples - after.sound.samples) <= 2_048


@pytest.mark.parametrize("name", ["portrait.jpg", "tone.wav", "walk.mp4"])
def test_one_file_is_planned_released_and_verified(called, photos, name):
    output = f"out{Path(name).suffix}"
    before = sorted(os.listdir())
    planned = called("plan", f"photos/{name}", "--epsilon", "4", "--json").result
    assert sorted(os.listdir()) == before
    done = called("protect", f"photos/{name}", "-o", output, "--epsilon", "4", "--json").result
    assert planned["statement"] == done["statement"]
    assert planned["what"] == done["what"]
    assert planned["rows"] == done["rows"] == 1
    assert planned["columns"] == done["columns"]
    assert done["epsilon"] == pytest.approx(4.0)
    checked = called("verify", output, "--json").result
    assert checked["statement"] == done["statement"]
    assert sorted(os.listdir()) == sorted([*before, output, f"{output}.cert.json"])
    told = called("plan", f"photos/{name}", "--epsilon", "4").out
    assert f"Would release: {done['what']} from photos/{name}" in told
    assert "Expected error, clipping aside:" in told
    again = called("protect", f"photos/{name}", "-o", output, "--epsilon", "4", "--overwrite")
    assert f"Released: {output} ({done['what']})" in again.out


def test_a_folder_is_planned_as_it_is_released(called, photos):
    (photos / "from the sea" / "cut.jpg").unlink()  # its header is whole, which is all that a plan reads
    planned = called("plan", "photos", *PINNED, "--json").result
    ran = called("plan", "photos", *PINNED)
    assert not ran.appeared
    assert "Would release: 7 files from photos" in ran.out
    assert "Would skip: 2 files\n  notes.txt: notes.txt is no picture, sound or video.\n" in ran.out
    done = called("protect", "photos", "-o", "out", *PINNED, "--json").partial
    assert planned["statement"] == done["statement"]
    assert planned["skipped"] == done["skipped"]
    assert (planned["rows"], planned["what"]) == (7, "7 files")


@pytest.mark.parametrize(
    ("name", "words", "unit"),
    [
        ("portrait.jpg", [], "region(16)"),
        ("portrait.jpg", ["--unit", "item"], "item"),
        ("portrait.jpg", ["--unit", "pixels:16"], "pixels(16)"),
        ("portrait.jpg", ["--unit", "region:8", "--delta", "1e-6"], "region(8)"),
        ("tone.wav", [], "window(20)"),
        ("tone.wav", ["--unit", "window:50"], "window(50)"),
        ("tone.wav", ["--sound-unit", "window:50"], "window(50)"),
        ("tone.wav", ["--unit", "item"], "clip"),
        ("tone.wav", ["--unit", "clip", "--delta", "1e-6"], "clip"),
        ("from the sea/tone.flac", ["--unit", "channel"], "channel"),
        ("walk.mp4", ["--unit", "pixels:16"], "pixels(16)"),
        ("walk.mp4", ["--unit", "frame"], "frame"),
        ("walk.mp4", ["--unit", "clip"], "clip"),
        ("walk.mp4", ["--unit", "item", "--delta", "1e-6"], "item"),
        ("walk.mp4", ["--unit", "channel"], "channel"),
        ("walk.mp4", ["--unit", "window:20"], "window(20)"),
        ("from the sea/walk.avi", ["--unit", "item"], "item"),
    ],
)
def test_the_asked_epsilon_is_that_of_the_asked_unit(called, photos, name, words, unit):
    output = f"out{Path(name).suffix}"
    done = called("protect", f"photos/{name}", "-o", output, "--epsilon", "4", *words, "--json").result
    delta = 1e-6 if "--delta" in words else 0.0
    assert (done["statement"]["proven"]["unit"], done["delta"]) == (unit, pytest.approx(delta))
    # What is asked for is used, but for roundings and for noise that is drawn on a grid.
    assert 3.9 <= done["epsilon"] <= 4.0
    assert done["statement"]["proven"]["event"] is not None
    assert called("verify", output).code == 0


def test_the_headline_of_a_folder_is_about_the_asked_unit_whatever_file_comes_first(called, photos):
    small_media.sound(photos / "a first.wav")
    for unit, stated in (("region:16", "region(16)"), ("window:20", "window(20)"), ("clip", "item")):
        done = called("plan", "photos", "--unit", unit, "--epsilon", "4", "--json").result
        assert done["statement"]["proven"]["unit"] == stated
        assert Statement.from_dict(done["statement"]).proven.epsilon() == pytest.approx(4.0)


def test_pictures_and_sounds_of_a_folder_have_a_unit_each(called, photos):
    words = ("--unit", "pixels:16", "--sound-unit", "window:50", "--epsilon", "4", "--json")
    whole = proven(called("protect", "photos", "-o", "out", *words).partial["statement"])
    assert whole["pixels(16)"] == pytest.approx(4.0)
    assert whole["window(50)"] == pytest.approx(4.0)
    of_items = called("plan", "photos", "--unit", "item", "--epsilon", "4", "--json").result["statement"]
    assert proven(of_items)["item"] == pytest.approx(4.0)


PICTURES = {
    "plane-means": [],
    "plane-bands": [],
    "content-adaptive": ["--map", "private"],
    "dp-pix": ["--block", "8"],
    "spectral-laplace": ["--noise", "gaussian"],
    "scaled-pixels": [],
    "uniform-pixels": ["--delta", "1e-6"],
    "blur": ["--sigma", "3"],
    "pixelate": ["--block", "8"],
    "mask": ["--map", "boxes.json"],
    "selective-noise": ["--strategy", "uniform"],
}
SOUNDS = {"band-noise": ["--clip", "0.5"], "mel-laplace": []}
WITHOUT_NOISE = ("blur", "pixelate", "mask")
# What is released says what it is for; the paper's noise costs more than the paper says.
MORE_THAN_ASKED = ("spectral-laplace", "scaled-pixels", "mel-laplace")


def test_there_is_a_case_for_every_mechanism_of_media():
    of_media = {n for n, kind in MECHANISMS.items() if issubclass(kind, PictureMechanism | SoundMechanism)}
    assert {*PICTURES, *SOUNDS} == of_media


@pytest.fixture
def boxes(folder):
    """Public boxes for a.png, one of them over its edge."""
    listed = [
        {"category": "person", "bbox_xywh": [10, 20, 30.5, 12]},
        {"category": "kite", "bbox_xywh": [70, 50, 500, 500]},
    ]
    (folder / "boxes.json").write_text(json.dumps({"a.png": {"boxes": listed}}))
    covered = np.zeros(SIDES, dtype=bool)
    covered[20:32, 10:41] = covered[50:, 70:] = True
    return covered


@pytest.mark.parametrize("name", PICTURES)
def test_every_mechanism_for_pictures_is_reached_by_its_name(called, photo, boxes, name, statement_beside):
    budget = [] if name in WITHOUT_NOISE else ["--epsilon", "4"]
    done = called("protect", photo, "-o", "out.png", "--mechanism", name, *PICTURES[name], *budget, "--json")
    assert done.result["what"] == "a picture of 88 × 64 pixels"
    statement, _ = statement_beside("out.png")
    if name in WITHOUT_NOISE:
        assert statement.proven.proves_nothing
    elif name in MORE_THAN_ASKED:
        assert statement.proven.epsilon() > 4.0
        assert statement.claimed.epsilon == 4.0
    else:
        assert 3.9 <= statement.proven.epsilon() <= 4.0
    released = read_picture("out.png").values
    assert released.shape == (*SIDES, 3)
    assert not np.array_equal(released, small_media.photograph())
    assert called("verify", "out.png").code == 0
    assert len((Path("out.png.cert.json")).read_bytes()) < 20_000


@pytest.mark.parametrize("name", SOUNDS)
def test_every_mechanism_for_sounds_is_reached_by_its_name(called, folder, name, statement_beside):
    small_media.sound(folder / "a.wav")
    words = ("--mechanism", name, "--epsilon", "4", *SOUNDS[name])
    assert called("protect", "a.wav", "-o", "out.wav", *words).code == 0
    statement, _ = statement_beside("out.wav")
    assert (statement.proven.epsilon() > 4.001) == (name in MORE_THAN_ASKED)
    before, after = (soundfile.read(name)[0] for name in ("a.wav", "out.wav"))
    assert before.shape == after.shape
    assert not np.array_equal(before, after)


def test_a_mechanism_without_noise_says_that_nothing_is_proven_and_a_whole_mask_that_all_is(called, photo):
    blurred = called("protect", photo, "-o", "out.png", "--mechanism", "blur", "--json").result
    assert (blurred["epsilon"], blurred["delta"]) == (None, None)
    words = ("--mechanism", "mask", "--overwrite", "--json")
    masked = called("protect", photo, "-o", "out.png", *words).result
    assert masked["epsilon"] == 0.0
    assert (read_picture("out.png").values == 128).all()


def test_a_mask_covers_the_declared_boxes_and_nothing_else(called, photo, boxes, statement_beside):
    assert called("protect", photo, "-o", "out.png", "--mechanism", "mask", "--map", "boxes.json").code == 0
    released, original = read_picture("out.png").values, small_media.photograph()
    assert (released[boxes] == 128).all()
    assert np.array_equal(released[~boxes], original[~boxes])
    told = statement_beside("out.png")[0].parameters["mask"]
    assert f"boxes over {boxes.mean():.1%} of 88 × 64 pixels" in told


@pytest.mark.parametrize("map_", ["boxes.json", "private", "unaccounted"])
def test_noise_follows_a_map_that_is_public_or_paid_for_or_proves_nothing(called, photo, boxes, map_):
    words = ("--map", map_, "--epsilon", "4", "--json")
    done = called("protect", photo, "-o", "out.png", *words).result
    assert done["statement"]["mechanism"] == "ContentAdaptive"
    assert done["statement"]["parameters"]["map"] == ("public" if map_ == "boxes.json" else map_)
    if map_ == "unaccounted":
        assert done["epsilon"] is None
        assert "not paid for" in done["statement"]["proven"]["theorem"]
    else:
        assert done["epsilon"] <= 4.0
    assert called("plan", photo, *words).result["statement"] == done["statement"]


def test_a_map_for_a_folder_leaves_out_what_it_does_not_name(called, folder, boxes):
    (folder / "in").mkdir()
    for number, name in enumerate(("a.png", "b.png")):
        small_media.png(folder / "in" / name, small_media.photograph() // (1 + number))
    small_media.video(folder / "in" / "c.mp4", frames=2, heard=False)
    done = called(
        "protect", "in", "-o", "out", "--map", "boxes.json", "--public-names", "--epsilon", "4", "--json"
    ).partial
    assert [entry["file"] for entry in done["released"]] == ["a.png"]
    assert [entry["why"] for entry in done["skipped"]] == [
        "boxes.json declares no boxes for b.png, not even an empty list.",
        "c.mp4 is a video, and boxes are supported for images only.",
    ]


def test_pictures_are_blurred_and_sounds_beside_them_need_a_budget(called, photos):
    done = called("protect", "photos", "-o", "out", "--mechanism", "blur", "--public-names", "--json").partial
    assert [entry["file"] for entry in done["released"]] == [
        name for name in RELEASED if not name.endswith((".wav", ".flac", ".mp4"))
    ]
    why = {entry["file"]: entry["why"] for entry in done["skipped"]}
    assert why["tone.wav"] == "tone.wav is a sound, and no mechanism for sounds was given."
    assert why["walk.mp4"] == "walk.mp4 has a sound track, and no mechanism for sounds was given."
    both = called(
        "protect", "photos", "-o", "both", "--mechanism", "blur", "--public-names", "--epsilon", "4", "--json"
    ).partial
    assert [entry["file"] for entry in both["released"]] == RELEASED
    assert proven(both["statement"])["window(20)"] == pytest.approx(4.0)
    assert both["epsilon"] is None


def test_gaussian_noise_for_a_folder_has_one_delta(called, photos):
    done = called("protect", "photos", "-o", "out", *PINNED, "--delta", "1e-6", "--json").partial
    assert (done["epsilon"], done["delta"]) == (pytest.approx(4.0, rel=1e-3), 1e-6)
    for part in (done["statement"]["proven"], *done["statement"]["also_proven"]):
        assert 1e-6 <= part["at_delta"] <= 2e-6


def test_a_fine_recording_stays_fine(called, folder):
    small_media.sound(folder / "fine.wav", small_media.tone(0.2, 96_000, 2), 96_000, "PCM_24")
    assert called("protect", "fine.wav", "-o", "out.wav", "--epsilon", "4").code == 0
    told = soundfile.info("out.wav")
    assert (told.samplerate, told.subtype, told.channels, told.frames) == (96_000, "PCM_24", 2, 19_200)


def test_frames_keep_their_times_where_they_are_not_equally_long(called, folder):
    ticks = [0, 1, 2, 6, 7, 12]
    small_media.video(folder / "a.mp4", frames=len(ticks), heard=False, ticks=ticks)
    assert called("protect", "a.mp4", "-o", "out.mp4", "--epsilon", "4").code == 0
    before, after = open_video("a.mp4"), open_video("out.mp4")
    assert not before.constant
    times = [[float(f.ticks * v.time_base) for f in v.pictures()] for v in (before, after)]
    assert times[0] == pytest.approx(times[1], abs=1e-3)
    refused = called("protect", "a.mp4", "-o", "out.avi", "--epsilon", "4").sentence
    assert refused.startswith("a.mp4 has a variable frame rate, which an .avi cannot keep")


@pytest.mark.parametrize(
    ("source", "output"), [("portrait.jpg", "out.png"), ("tone.wav", "out.flac"), ("walk.mp4", "out.mkv")]
)
def test_the_format_of_the_output_is_the_one_that_its_name_says(called, photos, source, output):
    assert called("protect", f"photos/{source}", "-o", output, "--epsilon", "4").code == 0
    starts = {".png": b"\x89PNG", ".flac": b"fLaC", ".mkv": b"\x1a\x45\xdf\xa3"}
    assert Path(output).read_bytes().startswith(starts[Path(output).suffix])
    assert called("verify", output).code == 0


def test_formats_that_are_read_only_are_released_in_another(called, folder):
    """HEIC and AVIF alone and in a folder, whose names are public or not."""
    (folder / "phone").mkdir()
    photograph = Image.fromarray(small_media.photograph())
    pillow_heif.from_pillow(photograph).save(folder / "phone" / "a.heic", exif=SIDEWAYS)
    photograph.save(folder / "phone" / "b.avif", exif=SIDEWAYS)
    upright = photograph.size  # as width and height, which the turn exchanges into height and width
    words = ("--unit", "region:16", "--epsilon", "4")
    assert called("protect", "phone/a.heic", "-o", "a.png", *words).code == 0
    assert read_picture("a.png").values.shape == (*upright, 3)
    ran = called("protect", "phone/b.avif", "-o", "b.avif", *words)
    assert (ran.code, ran.appeared) == (2, set())
    assert "must end in one of .jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp." in ran.err
    assert called("protect", "phone/", "-o", "numbered/", *words).code == 0
    assert {"000001.webp", "000002.webp"} < set(files_in(Path("numbered")))
    assert called("protect", "phone/", "-o", "named/", *PINNED).code == 0
    for name in ("a.heic.webp", "b.avif.webp"):
        assert read_picture(Path("named", name)).values.shape == (*upright, 3)
    (folder / "phone" / "a.heic.webp").write_bytes(Path("named/a.heic.webp").read_bytes())
    ran = called("protect", "phone/", "-o", "again/", *PINNED)
    assert (ran.code, ran.appeared) == (2, set())
    assert "another file has that name" in ran.err


def test_a_changed_byte_is_noticed_in_a_file_and_in_a_folder(called, photos):
    assert called("protect", "photos", "-o", "out", *PINNED).code == 5
    released = Path("out/from the sea/glass.png")
    held = released.read_bytes()
    released.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    for target in (released, "out"):
        ran = called("verify", target)
        assert ran.code == 4
        assert "fails" in ran.out
    assert "from the sea/glass.png" in called("verify", "out").out
    answer = called("verify", "out", "--json")
    assert (answer.code, json.loads(answer.out)["holds"]) == (4, False)
    assert called("verify", "out/portrait.jpg").code == 0
    released.unlink()
    assert called("verify", "out").code == 4
    released.write_bytes(held)
    assert called("verify", "out").code == 0
    listed = json.loads(Path("out/manifest.json").read_text("utf-8"))
    del listed["files"]["tone.wav"]
    Path("out/manifest.json").write_text(json.dumps(listed))
    assert called("verify", "out").code == 4


def test_a_page_shows_before_map_and_after_and_no_original_unless_it_may(called, photos):
    assert called("protect", "photos", "-o", "out", *PINNED).code == 5
    # To look for text takes a second for each, so two of them must do.
    for name in ("walk.mp4", "from the sea/walk.avi", "from the sea/deep.png"):
        os.unlink(f"out/{name}")
    asked = ("report", "out", "--original", "photos", "-o", "page.html")
    assert called(*asked).code == 0
    bare = Path("page.html").read_text("utf-8")
    assert "data:image" not in bare  # originals only where they are asked for
    # The command that makes the page again names the originals.
    assert "Not for release." in bare
    assert stat.S_IMODE(os.stat("page.html").st_mode) == 0o600
    ran = called(*asked, "--show-originals", "6", "--json")
    assert ran.result == {"file": "page.html"}
    assert stat.S_IMODE(os.stat("page.html").st_mode) == 0o600
    shown = Path("page.html").read_text("utf-8")
    # Two pictures, each three times.
    assert shown.count("data:image/jpeg;base64,") == 6
    for word in ("before", "sensitivity map", "after", "from the sea/glass.png"):
        assert word in shown
    hidden = ("report", "out", "out/tone.wav", "--original", "photos", "-o", "page.html")
    assert called(*hidden, "--show-originals", "0").code == 0
    page = Path("page.html").read_text("utf-8")
    assert "data:image/jpeg" not in page
    assert "region(16)" in page
    assert SECRET not in page + shown
    assert "keep this report in-house" in shown
    assert "keep this report in-house" not in page


def test_one_frame_of_a_video_is_shown_beside_its_release(called, photos, reproduced):
    assert called("protect", "photos/walk.mp4", "-o", "out.mp4", "--epsilon", "4").code == 0
    words = ("out.mp4", "--original", "photos/walk.mp4", "-o", "page.html", "--show-originals", "1")
    assert called("report", *words).code == 0
    shown = Path("page.html").read_text("utf-8")
    assert shown.count("data:image/jpeg") == 3
    assert "out.mp4, 64 × 48 pixels" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert [line.split()[1] for line in reproduced(shown)] == ["verify", "report"]


def test_an_older_file_is_replaced_whole_where_that_is_said_and_an_older_folder_is_not_mixed_with(
    called, photos
):
    assert called("protect", "photos", "-o", "out", "--epsilon", "1", "--public-names").code == 5
    assert (
        "holds the manifest.json of another run"
        in called(*("protect", "photos", "-o", "out", "--epsilon", "8", "--public-names")).sentence
    )
    assert called("verify", "out").code == 0
    again = ("protect", "photos/tone.wav", "-o", "out.wav", "--epsilon")
    for epsilon in ("1", "8"):
        assert called(*again, epsilon, "--overwrite").code == 0
        done = called("verify", "out.wav", "--json").result
        assert done["statement"]["parameters"]["epsilon"] == float(epsilon)
    assert "out.wav exists already; choose another output" in called(*again, "1").sentence
    assert not [name for name in files_in(Path("out")) if "/." in f"/{name}"]


NAMES = ["two words.png", 'it\'s "quoted".png', "line\nbreak.png", "école-数.png", os.fsdecode(b"r\xff.png")]


def test_files_may_be_called_anything(called, folder, statement_beside):
    (folder / "in").mkdir()
    for left, name in enumerate(NAMES):
        small_media.png(folder / "in" / name, small_media.photograph(16, 16, left))
    ran = called("protect", "in", "-o", "out", "--epsilon", "4", "--public-names")
    assert (ran.code, ran.err) == (0, "")
    assert called("verify", "out").code == 0
    for name in NAMES:
        assert called("verify", f"out/{name}").code == 0
        single = called("protect", f"in/{name}", "-o", f"one {name}", "--epsilon", "4")
        assert single.code == 0
        statement_beside(f"one {name}")
    broken = Path("in", "line\nbreak.png")
    broken.write_text("no picture")
    told = called("protect", "in", "-o", "out2", "--epsilon", "4", "--public-names").out
    assert "  line\\nbreak.png: line\\nbreak.png is not a PNG picture" in told
    done = called("protect", "in", "-o", "out3", "--epsilon", "4", "--public-names", "--json").partial
    assert {entry["file"] for entry in done["released"]} == {*NAMES} - {"line\nbreak.png"}


class _Screen(io.StringIO):
    def isatty(self):
        return True


def test_progress_goes_to_the_screen_and_never_between_the_results(photos, monkeypatch):
    monkeypatch.setattr("sfumato.cli.terminal._PATIENCE_SECONDS", 0.0)
    for code, words, first in (
        (5, ["photos", "-o", "out"], "BandNoise and ClipNoise and PlaneMeans"),
        (0, ["photos/walk.mp4", "-o", "out.mp4"], "ClipNoise("),
    ):
        out, err = io.StringIO(), _Screen()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main(["protect", *words, "--epsilon", "4"])
        assert ended.value.code == code
        assert "drawing" in err.getvalue()
        assert "drawing" not in out.getvalue()
        assert out.getvalue().startswith(first)


def test_names_of_sources_travel_nowhere_and_the_owner_keeps_which_is_which(called, folder, photos):
    Path("in/ward 7").mkdir(parents=True)
    for number, name in enumerate(("anna_mueller_hiv_positive", "berta_schmidt")):
        small_media.png(folder / "in" / "ward 7" / f"{name}.png", small_media.photograph(24, 20, number))
    words = ("protect", "in", "-o", "out", "--epsilon", "4")
    for refused, where in (("out/names.json", "inside the output"), ("no/names.json", "cannot be written")):
        assert where in called(*words, "--names-file", refused).sentence
    assert not Path("out").exists()
    ran = called(*words, "--names-file", "names.json")
    assert "Names: numbered" in ran.out
    assert files_in(Path("out")) == ["000001.png", "000002.png", "manifest.json", "manifest.json.cert.json"]
    written = b"".join(file.read_bytes() for file in Path("out").iterdir())
    sealed = [json.loads(file.read_bytes()) for file in Path("out").glob("*.cert.json")]
    stated = [base64.b64decode(envelope["payload"]).decode() for envelope in sealed]
    for private in ("anna", "berta", "hiv_", "ward 7"):
        assert private.encode() not in written
        assert private not in str(stated)
    kept = json.loads(Path("names.json").read_text())
    assert sorted(kept) == ["000001.png", "000002.png"]
    assert sorted(kept.values()) == ["ward 7/anna_mueller_hiv_positive.png", "ward 7/berta_schmidt.png"]
    assert Path("names.json").stat().st_mode & 0o777 == 0o600
    again = ("protect", "in", "-o", "again", "--epsilon", "4", "--names-file", "names.json")
    assert "exists; name a new file" in called(*again).sentence
    assert not Path("again").exists()
    assert called("verify", "out").code == 0
    page = ("report", "out", "--original", "in", "-o", "page.html", "--show-originals", "2")
    assert "no released picture of in" in called(*page).sentence
    assert called(*page, "--names-file", "names.json").code == 0
    assert "berta_schmidt" in Path("page.html").read_text()
