"""Media that is refused: one sentence that names the file, nothing written, and nothing spent."""

import base64
import io
import json
import os
import signal
import struct
import subprocess
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import small_media
import soundfile
from PIL import Image
from skimage import data

PINNED = ("--unit", "region:16", "--epsilon", "4", "--public-names")


@pytest.fixture(autouse=True)
def fresh_home(tmp_path_factory, monkeypatch):
    """Keys and a ledger of this test's own."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SFUMATO_HOME", str(home))
    return home


@pytest.fixture
def balance(called):
    """What 'budget show' says of a dataset, as JSON."""
    return lambda name: called("budget", "show", name, "--json").result


def by_pillow(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def bomb():
    """A PNG of a few hundred bytes that says it is of 100,000 × 100,000 pixels."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def half(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def cut_jpeg(path):
    small_media.jpeg(path)
    half(path)


def cut_png(path):
    small_media.png(path)
    half(path)


def cut_wave(path):
    small_media.sound(path)
    half(path)


def cut_video(path):
    small_media.video(path)
    half(path)


def of_nothing(path):
    soundfile.write(path, np.zeros((0, 1)), 8_000)


def not_a_number(path):
    samples = small_media.tone()
    samples[100] = np.nan
    soundfile.write(path, samples, 8_000, "FLOAT")


def of_inks(path):
    path.write_bytes(by_pillow(Image.fromarray(small_media.photograph()).convert("CMYK"), "JPEG"))


def moving(path):
    first, second = (Image.fromarray(small_media.photograph(20, 28, left)) for left in (180, 220))
    path.write_bytes(by_pillow(first, path.suffix[1:], save_all=True, append_images=[second]))


BAD = {
    "text.jpg": (lambda path: path.write_text("dear diary"), "is not a JPEG picture"),
    "text.wav": (lambda path: path.write_text("dear diary"), "cannot be read as a sound"),
    "text.mp4": (lambda path: path.write_text("dear diary" * 50), "is no"),
    "empty.png": (lambda path: path.write_bytes(b""), "is empty."),
    "cut.jpg": (cut_jpeg, "is truncated"),
    "cut.png": (cut_png, "is truncated"),
    "cut.wav": (cut_wave, "is truncated"),
    "cut.mp4": (cut_video, "cut"),
    "bomb.png": (lambda path: path.write_bytes(bomb()), "pixels"),
    "inks.jpg": (of_inks, "CMYK"),
    "moving.png": (moving, "animated"),
    "moving.webp": (moving, "animated"),
    "a.png": (
        lambda path: path.write_bytes(by_pillow(Image.fromarray(small_media.photograph()), "JPEG")),
        "holds a JPEG, which its name denies",
    ),
    "silence.wav": (of_nothing, "no samples"),
    "nan.wav": (not_a_number, "no finite number at sample 100"),
    "heard.mp4": (small_media.sound_only, "has no video stream."),
    "folder.jpg": (lambda path: path.symlink_to("nowhere"), "does not exist."),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_naming_the_file_and_spends_nothing(called, folder, balance, name):
    make, said = BAD[name]
    make(folder / name)
    called("budget", "open", "album", "--epsilon", 8, "--delta", "1e-6", "--unit", "item")
    words = (name, "-o", f"out{Path(name).suffix}", "--epsilon", "4", "--unit", "item")
    sentence = called("protect", *words, "--dataset", "album").sentence
    assert name in sentence
    assert said in sentence
    assert str(folder) not in sentence
    assert balance("album")["used"] == 0.0
    # The rest of a folder goes on without it.
    (folder / "in").mkdir()
    os.replace(name, f"in/{name}")
    small_media.png(folder / "in" / "whole.png", small_media.photograph(16, 16))
    done = called("protect", "in", "-o", "out", *PINNED, "--json").partial
    assert [entry["file"] for entry in done["released"]] == ["whole.png"]
    (skipped,) = done["skipped"]
    assert skipped["file"] == name
    assert name in skipped["why"]
    assert str(folder) not in skipped["why"]
    assert sorted(os.listdir("out")) == ["manifest.json", "manifest.json.cert.json", "whole.png"]


@pytest.mark.parametrize("words", [["-o", "out.jpg"], ["-o", "out.jpg", "--unit", "window:20"]])
def test_a_refusal_in_json_is_an_object_and_names_no_folder(called, folder, words):
    (folder / "text.jpg").write_text("dear diary")
    ran = called("protect", folder / "text.jpg", *words, "--epsilon", "4", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, ran.err, ran.appeared, answer["exit_code"]) == (2, "", frozenset(), 2)
    assert "text.jpg" in answer["error"]
    assert str(folder) not in ran.out


def test_nothing_that_is_written_tells_where_the_originals_stand(called, folder):
    (folder / "in").mkdir()
    small_media.png(folder / "in" / "a.png", small_media.photograph(16, 16))
    small_media.sound(folder / "in" / "a.wav")
    assert called("protect", folder / "in", "-o", folder / "out", *PINNED).code == 0
    assert called("protect", folder / "in" / "a.png", "-o", folder / "out.png", *PINNED).code == 0
    for file in (*Path("out").iterdir(), Path("out.png.cert.json")):
        content = file.read_bytes()
        if file.suffix == ".json":
            document = json.loads(content)
            content = base64.b64decode(document["payload"]) if "payload" in document else content
        assert str(folder).encode() not in content


def test_a_folder_without_anything_to_release_is_refused(called, folder):
    (folder / "in").mkdir()
    assert called("protect", "in", "-o", "out", *PINNED).sentence == "the folder in holds no files."
    assert called("plan", "in", *PINNED).sentence == "the folder in holds no files."
    (folder / "in" / "a.txt").write_text("dear diary")
    (folder / "in" / "b.jpg").write_text("dear diary")
    said = (
        "nothing in in can be released: a.txt: a.txt is no picture, sound or video (1 more were refused too)."
    )
    assert called("protect", "in", "-o", "out", *PINNED).sentence == said
    assert called("plan", "in", *PINNED).sentence == said


@pytest.fixture
def kinds(folder):
    """One picture, one sound, one video, one array, and a folder."""
    (folder / "in").mkdir()
    small_media.png(folder / "a.png")
    small_media.png(folder / "in" / "a.png")
    small_media.png(folder / "deep.png", data.moon()[:20, :30].astype(np.uint16) * 257)
    small_media.sound(folder / "a.wav")
    small_media.video(folder / "a.mp4")
    np.save(folder / "X.npy", np.zeros((4, 3)))
    (folder / "boxes.json").write_text(
        '{"a.png": {"boxes": [{"category": "person", "bbox_xywh": [0, 0, 1]}]}}'
    )
    (folder / "list.json").write_text("[1, 2]")
    (folder / "taken").write_text("a file")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["a.png", "-o", "out.wav", *PINNED],
            "a.png is read as a picture, so the output out.wav must end in",
        ),
        (["a.png", "-o", "out.jpg", *PINNED], "out.jpg"),
        (["deep.png", "-o", "out.jpg", *PINNED], "out.jpg"),
        (["a.png", "-o", "out.png"], "plane-means needs a privacy budget (--epsilon 1)."),
        (["a.wav", "-o", "out.wav"], "band-noise needs a privacy budget (--epsilon 1)."),
        (["in", "-o", "out"], "plane-means needs a privacy budget (--epsilon 1)."),
        (["a.png", "-o", "a.png", *PINNED], "would overwrite the input a.png"),
        (["in", "-o", "in", *PINNED], "lie in one another"),
        (["in", "-o", "in/out", *PINNED], "lie in one another"),
        (["in", "-o", ".", *PINNED], "lie in one another"),
        (["in", "-o", "taken", *PINNED], "taken exists and is not a folder"),
        (["a.png", "-o", "in", *PINNED], "-o in is a folder: name the file in it, as in in/a.png."),
        (["a.png", "-o", "nowhere/out.png", *PINNED], "the folder nowhere does not exist."),
        (["a.png", "-o", "out.png", "--epsilon", "0"], "--epsilon must be a positive number"),
        (["a.png", "-o", "out.png", "--epsilon", "1", "2"], "one number, as in --epsilon 1, not 1 2."),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--unit", "window:20"],
            "is one of sounds, and a.png is a picture.",
        ),
        (
            ["a.wav", "-o", "out.wav", "--epsilon", "4", "--unit", "region:16"],
            "one of pictures, and a.wav is a sound.",
        ),
        (
            ["a.wav", "-o", "out.wav", "--epsilon", "4", "--unit", "frame"],
            "one of videos, and a.wav is a sound.",
        ),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--unit", "frame"],
            "--unit frame is one of videos, and a.png is a picture.",
        ),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--unit", "clip"],
            "--unit clip is one of sounds and videos, and a.png is a picture.",
        ),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--unit", "record"],
            "--unit record is not one of media",
        ),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--unit", "region:0"],
            "it takes a positive whole number",
        ),
        (["a.png", "-o", "out.png", "--epsilon", "4", "--sound-unit", "clip"], "--sound-unit is for sounds"),
        (
            ["a.mp4", "-o", "out.mp4", "--epsilon", "4", "--unit", "window:20", "--sound-unit", "clip"],
            "are both of sounds; give one of them.",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--clip", "1"],
            "plane-means has no --clip; it takes --epsilon,",
        ),
        (["a.wav", "-o", "out.wav", "--epsilon", "4", "--block", "8"], "band-noise has no --block; it takes"),
        (
            ["a.png", "-o", "out.png", *PINNED, "--bounds", "0", "1"],
            "--bounds is for records, and a.png holds",
        ),
        (["a.png", "-o", "out.png", *PINNED, "--schema", "x.toml"], "--schema is for records"),
        (["in", "-o", "out", *PINNED, "--array", "X"], "--array is for records"),
        (
            ["X.npy", "-o", "out.npy", "--epsilon", "1", "--clip", "1", "--sigma", "2"],
            "--sigma is for pictures or sounds",
        ),
        (
            ["X.npy", "-o", "out.npy", "--epsilon", "1", "--clip", "1", "--map", "private"],
            "--map is for pictures or sounds, and X.npy",
        ),
        (
            ["X.npy", "-o", "out.npy", "--mechanism", "blur"],
            "blur is for pictures or sounds in files of their own",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--mechanism", "laplace"],
            "laplace is for records, and a.png is a",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--mechanism", "mel-laplace"],
            "mel-laplace is for sounds, and a.png",
        ),
        (["a.wav", "-o", "out.wav", "--epsilon", "4", "--mechanism", "blurr"], "did you mean blur?"),
        (
            ["in", "-o", "out", "--epsilon", "4", "--mechanism", "gaussian"],
            "is a folder of pictures, sounds or videos; accepted are",
        ),
        (
            ["a.png", "-o", "out.png", "--epsilon", "4", "--mechanism", "blur"],
            "blur has no --epsilon; it takes",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--mechanism", "content-adaptive"],
            "content-adaptive needs --map:",
        ),
        (
            ["a.png", "-o", "out.png", "--mechanism", "mask", "--map", "private"],
            "--map takes a .json of public",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--map", "boxes.json"],
            "boxes.json declares boxes for a.png that",
        ),
        (
            ["a.png", "-o", "out.png", *PINNED, "--map", "list.json"],
            "list.json must map the names of pictures",
        ),
        (["a.png", "-o", "out.png", *PINNED, "--map", "privat"], "privat does not exist."),
        (["a.png", "-o", "out.png", *PINNED, "--restore", "magic"], "--restore must be"),
        (["a.png", "-o", "out.png", *PINNED, "--block", "0"], "block"),
        (
            ["a.png", "-o", "out.png", *PINNED, "--mechanism", "selective-noise", "--strategy", "luck"],
            "--strategy must be",
        ),
        (["a.png", "-o", "out.png", *PINNED, "--request", "r"], "name it with --dataset."),
        (["b.png", "-o", "out.png", *PINNED], "b.png does not exist."),
        (["gone", "-o", "out", *PINNED], "gone does not exist."),
    ],
)
def test_options_that_do_not_fit_are_answered_in_one_sentence(called, kinds, words, said):
    sentence = called("protect", *words).sentence
    assert said in sentence
    assert os.getcwd() not in sentence


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show-originals", "-1"], "--show-originals was -1: 0 to 24 are accepted."),
        (["--show-originals", "25"], "--show-originals was 25: 0 to 24 are accepted."),
        (["--labels", "y"], "--labels is for records, and in holds pictures or sound."),
        (["--schema", "s.toml"], "--schema is for records"),
    ],
)
def test_options_of_a_page_that_do_not_fit_are_answered_in_one_sentence(called, kinds, words, said):
    assert said in called("report", "in", "--original", "in", "-o", "page.html", *words).sentence


def test_a_page_of_what_does_not_exist_is_refused(called, kinds):
    for words, missing in ((["none.jpg"], "none.jpg"), (["a.png", "--original", "gone.png"], "gone.png")):
        ran = called("report", *words, "-o", "page.html")
        assert (ran.code, ran.sentence) == (2, f"{missing} does not exist.")
        assert not Path("page.html").exists()


def test_a_contact_sheet_is_of_pictures_and_of_their_releases(called, kinds):
    assert called("protect", "a.wav", "-o", "out.wav", "--epsilon", "4").code == 0
    shown = ("-o", "page.html", "--show-originals", "1")
    sentence = called("report", "out.wav", "--original", "a.wav", *shown).sentence
    assert sentence.startswith("out.wav holds no released picture of a.wav, so there is nothing to show")
    sentence = called("report", "a.png", "--original", "deep.png", *shown).sentence
    assert sentence == "a.png is not a release of the picture of the same name: their sizes differ."
    sentence = called("report", "a.png", "-o", "page.html", "--show-originals", "2").sentence
    assert sentence.endswith("are about the original: add --original.")


@pytest.fixture
def pictures(folder):
    """Two pictures in the folder in."""
    (folder / "in").mkdir()
    small_media.png(folder / "in" / "a.png", small_media.photograph(32, 40))
    small_media.jpeg(folder / "in" / "b.jpg", small_media.photograph(32, 32))


@pytest.fixture
def album(called, pictures):
    """A budget of ε = 10 per region of 16 × 16 pixels."""
    words = ("--epsilon", 10, "--delta", "1e-6", "--unit", "region(16)")
    assert called("budget", "open", "album", *words).code == 0
    return ("--dataset", "album")


def spends(called):
    return called("budget", "history", "album", "--json").result


def test_a_folder_is_paid_for_once_and_refused_when_the_budget_is_used_up(called, album, balance):
    planned = called("plan", "in", *PINNED, *album, "--json").result
    assert planned["cost"]["fits"]
    assert balance("album")["used"] == 0.0
    done = called("protect", "in", "-o", "out", *PINNED, *album, "--json").result
    assert done["paid"]["number"] == 2
    once = balance("album")["used"]
    assert 0.0 < once <= 0.401
    assert once == pytest.approx(planned["cost"]["balance"]["used"])
    for name in ("out", "out/a.png", "out/b.jpg"):
        checked = called("verify", name, "--json").result
        assert {check["what"]: check["outcome"] for check in checked["checks"]}["ledger"] == "holds"
    assert called("protect", "in/a.png", "-o", "a.png", *PINNED, *album).code == 0
    assert balance("album")["used"] == pytest.approx(2 * once)
    refused = called("protect", "in", "-o", "again", *PINNED, *album)
    assert refused.code == 3
    assert (refused.out, refused.appeared) == ("", frozenset())
    assert refused.err.count("\n") == 1
    assert balance("album")["used"] == pytest.approx(2 * once)
    assert "Cost: refused" in called("plan", "in", *PINNED, *album).out
    released = {path: path.read_bytes() for path in Path("out").rglob("*")}
    assert called("protect", "in", "-o", "out", *PINNED, *album).code == 2
    assert {path: path.read_bytes() for path in Path("out").rglob("*")} == released


def test_a_budget_per_region_refuses_sounds_and_one_per_item_pays_for_all(called, album, balance):
    small_media.sound(Path("in/c.wav"))
    for command, words in (("protect", ["-o", "out"]), ("plan", [])):
        sentence = called(command, "in", *words, *PINNED, *album).sentence
        assert "a.png is paid for per region(16) and c.wav per window(20)" in sentence
    assert (
        "cannot be charged" in called("protect", "in/c.wav", "-o", "c.wav", "--epsilon", 1, *album).sentence
    )
    assert balance("album")["used"] == 0.0
    words = ("--epsilon", 10, "--delta", "1e-6", "--unit", "item")
    assert called("budget", "open", "files", *words).code == 0
    done = called(
        "protect", "in", "-o", "out", "--unit", "item", "--epsilon", 4, "--dataset", "files", "--json"
    ).result
    assert len(done["released"]) == 3
    assert 0.0 < balance("files")["used"] <= 0.401


def test_a_repeated_request_gives_the_same_bytes_and_is_charged_once(called, album, balance):
    small_media.video(Path("in/c.mp4"), frames=3)
    words = (*PINNED, *album, "--request", "r1")
    assert called("protect", "in", "-o", "out", *words).code == 0
    used, names = balance("album")["used"], ("a.png", "b.jpg", "c.mp4")
    first = {name: Path("out", name).read_bytes() for name in names}
    assert called("protect", "in", "-o", "out", *words).code == 0
    assert {name: Path("out", name).read_bytes() for name in names} == first
    assert balance("album")["used"] == used
    assert called("verify", "out").code == 0
    # Another spelling of the unit, and of the folder, is the same request.
    again = called("protect", "./in/", "-o", "out", "--unit", "region(16)", "--epsilon", "4.0", *words[4:])
    assert again.code == 0
    assert {name: Path("out", name).read_bytes() for name in names} == first
    for change in (
        lambda: small_media.png(Path("in/a.png"), small_media.photograph(32, 40, 181)),
        lambda: Path("in/b.jpg").rename("in/b2.jpg"),
        lambda: Path("in/b2.jpg").unlink(),
    ):
        change()
        sentence = called("protect", "in", "-o", "out", *words).sentence
        assert "request 'r1' was made from other content" in sentence
    assert {name: Path("out", name).read_bytes() for name in names} == first
    assert balance("album")["used"] == used
    assert called("protect", "in", "-o", "out", *words[:-1], "r2").code == 2
    assert balance("album")["used"] == used
    assert called("protect", "in", "-o", "out2", *words[:-1], "r2").code == 0
    assert balance("album")["used"] == pytest.approx(2 * used)
    assert Path("out2/c.mp4").read_bytes() != first["c.mp4"]


def test_equal_pictures_of_one_request_get_noise_of_their_own(called, album):
    # Packed in three ways: files of equal bytes are refused.
    names = ["x.png", "y.png", os.fsdecode(b"\xff.png")]
    for level, name in enumerate(names):
        Image.fromarray(small_media.photograph(32, 32)).save(Path("in", name), "PNG", compress_level=level)
    assert called("protect", "in", "-o", "out", *PINNED, *album, "--request", "r").code == 0
    assert len({Path("out", name).read_bytes() for name in names}) == 3


def test_what_draws_no_noise_cannot_be_requested(called, album, balance):
    words = ("--mechanism", "blur", *album, "--request", "r")
    assert "Blur draws no noise" in called("protect", "in/a.png", "-o", "a.png", *words).sentence
    assert balance("album")["used"] == 0.0
    sentence = called("protect", "in/a.png", "-o", "a.png", "--mechanism", "blur", *album).sentence
    assert "nothing is proven" in sentence or "proves nothing" in sentence


def test_a_folder_with_a_file_that_ends_early_is_checked_before_it_is_paid_for(called, album, balance):
    for name in ("a.png", "b.jpg"):
        half(Path("in", name))
    assert "nothing in in can be released" in called("protect", "in", "-o", "out", *PINNED, *album).sentence
    assert balance("album")["used"] == 0.0


def test_a_process_that_is_stopped_leaves_no_output(executable, folder):
    small_media.video(folder / "a.avi", frames=400, sides=(240, 320))
    process = subprocess.Popen(
        [executable, "protect", "a.avi", "-o", "out.avi", "--epsilon", "4"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 60
    while not [name for name in os.listdir() if name.startswith(".")] and time.monotonic() < until:
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + signal.SIGTERM, b"")
    assert err.startswith(b"sfumato: stopped by SIGTERM before it was done;")
    assert os.listdir() == ["a.avi"]
