"""Sound files in and out: what is kept, what is left behind, what is refused."""

import math
import struct
import sys
import tracemalloc

import numpy as np
import pytest

from sfumato.errors import BadInput, StorageFailed
from sfumato.io import audio_files
from sfumato.io.audio_files import SoundSink, open_sound

soundfile = pytest.importorskip("soundfile")


def tone(samples, channels=1, rate=8000):
    time = np.arange(samples)[:, None] / rate
    return 0.5 * np.sin(2 * math.pi * 440.0 * time + np.arange(channels))


def written(path, sound, rate=8000, depth="PCM_16"):
    soundfile.write(path, sound, rate, subtype=depth)
    return path


def read(source):
    """The whole sound."""
    return np.concatenate(list(source.blocks()))


@pytest.mark.parametrize(
    ("suffix", "depth", "step"),
    [
        (".wav", "PCM_16", 2.0**-15),
        (".wav", "PCM_24", 2.0**-23),
        (".wav", "PCM_32", 2.0**-31),
        (".flac", "PCM_16", 2.0**-15),
        (".flac", "PCM_24", 2.0**-23),
    ],
)
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_a_sound_comes_back_to_the_last_bit(tmp_path, suffix, depth, step, channels):
    sound = np.rint(tone(5000, channels) / step) * step
    path = written(tmp_path / f"a{suffix}", sound, 96000, depth)
    source = open_sound(path)
    assert (source.rate, source.channels, source.samples, source.depth) == (96000, channels, 5000, depth)
    assert source.shape == (5000, channels)
    assert source.seconds == pytest.approx(5000 / 96000)
    with SoundSink(tmp_path / f"b{suffix}", source.rate, channels, source.samples, source.depth) as sink:
        for block in np.array_split(read(source), 7):
            sink.write(block)
    again = open_sound(tmp_path / f"b{suffix}")
    assert (again.rate, again.depth) == (96000, depth)
    assert np.array_equal(read(again), sound)


@pytest.mark.parametrize("depth", ["VORBIS", "OPUS"])
def test_ogg_keeps_rate_and_length_and_nearly_the_sound(tmp_path, depth):
    path = written(tmp_path / "a.ogg", tone(48000, 2, 48000), 48000, depth)
    source = open_sound(path)
    assert source.depth == depth
    with SoundSink(tmp_path / "b.ogg", source.rate, 2, source.samples, source.depth) as sink:
        for block in source.blocks():
            sink.write(block)
    again = open_sound(tmp_path / "b.ogg")
    assert (again.rate, again.shape, again.depth) == (48000, (48000, 2), depth)
    # Coded twice at about 100 kbit/s: within 5% of the amplitude.
    assert np.sqrt(np.mean((read(again) - tone(48000, 2, 48000)) ** 2)) < 0.05


@pytest.mark.parametrize(
    ("suffix", "depth", "stored"),
    [
        (".wav", "FLOAT", "PCM_24"),
        (".wav", "DOUBLE", "PCM_24"),
        (".wav", "ULAW", "PCM_16"),
        (".flac", "PCM_32", "PCM_24"),
        (".ogg", "PCM_16", "VORBIS"),
        (".flac", "VORBIS", "PCM_16"),
    ],
)
def test_a_depth_that_the_output_lacks_becomes_the_nearest(tmp_path, suffix, depth, stored):
    with SoundSink(tmp_path / f"a{suffix}", 8000, 1, 100, depth) as sink:
        sink.write(tone(100)[:, 0])
    assert open_sound(tmp_path / f"a{suffix}").depth == stored


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_equal_sounds_give_equal_bytes(tmp_path, suffix):
    for name in "ab":
        with SoundSink(tmp_path / f"{name}{suffix}", 8000, 1, 4000, "FLOAT") as sink:
            sink.write(tone(4000))
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg"])
def test_titles_and_comments_stay_behind(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with soundfile.SoundFile(path, "w", 8000, 1) as file:
        file.title, file.artist, file.comment = "at the clinic", "a patient", "room four"
        file.write(tone(4000))
    assert b"at the clinic" in path.read_bytes()
    source = open_sound(path)
    with SoundSink(tmp_path / f"b{suffix}", source.rate, 1, source.samples, source.depth) as sink:
        for block in source.blocks():
            sink.write(block)
    released = (tmp_path / f"b{suffix}").read_bytes()
    assert not any(words in released for words in (b"at the clinic", b"a patient", b"room four"))


def test_a_long_sound_is_read_in_bounded_memory(tmp_path):
    path = tmp_path / "a.wav"
    with soundfile.SoundFile(path, "w", 8000, 1) as file:
        for _ in range(100):
            file.write(np.zeros(80000))
    source = open_sound(path)
    tracemalloc.start()
    total = sum(len(block) for block in source.blocks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 8_000_000
    assert peak < 16 << 20  # all of it would take 128 MB


def damaged(folder, kind):
    good = written(folder / "good.wav", tone(8000)).read_bytes()
    if kind == "empty":
        return _file(folder / "a.wav", b"")
    if kind == "text":
        return _file(folder / "a.wav", b"once upon a time there was a text\n" * 20)
    if kind == "truncated wav":
        return _file(folder / "a.wav", good[: len(good) // 2])
    if kind == "header only":
        return _file(folder / "a.wav", good[:44])
    if kind == "no samples":
        return written(folder / "a.wav", np.zeros((0, 1)))
    if kind == "truncated flac":
        whole = written(folder / "good.flac", np.random.default_rng(0).uniform(-1, 1, 20000)).read_bytes()
        return _file(folder / "a.flac", whole[: len(whole) // 2])
    if kind == "truncated ogg":
        whole = written(folder / "good.ogg", tone(80000), depth="VORBIS").read_bytes()
        return _file(folder / "a.ogg", whole[: len(whole) - 100])
    if kind == "not finite":
        sound = tone(8000)
        sound[4321] = np.nan
        return written(folder / "a.wav", sound, depth="FLOAT")
    if kind == "another format":
        soundfile.write(folder / "a.aiff", tone(100), 8000)
        return (folder / "a.aiff").rename(folder / "a.wav")
    if kind == "absurd rate":
        return _file(folder / "a.wav", good[:24] + struct.pack("<I", 3) + good[28:])
    raise AssertionError(kind)


def _file(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("empty", "is empty"),
        ("text", "cannot be read as a sound"),
        ("truncated wav", "is truncated"),
        ("header only", "is truncated"),
        ("no samples", "zero length"),
        ("truncated flac", "cannot be read as a sound"),
        ("truncated ogg", "is truncated"),
        ("not finite", "no finite number at sample 4321"),
        ("another format", "does not start like a WAV file"),
        ("absurd rate", "sample rate"),
    ],
)
def test_a_damaged_sound_is_refused_by_name(tmp_path, kind, says):
    path = damaged(tmp_path, kind)
    with pytest.raises(BadInput, match=rf"{path.name}.*{says}|{says}.*{path.name}"):
        read(open_sound(path))


def test_a_sound_that_is_too_long_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "a.wav", tone(8001))
    assert open_sound(path).samples == 8001
    monkeypatch.setattr(audio_files, "_LONGEST", 1)
    with pytest.raises(BadInput, match=r"a\.wav plays for .* seconds, and up to 1 are accepted"):
        open_sound(path)


@pytest.mark.parametrize("name", ["a.mp3", "a", "wav", "a.wav.txt"])
def test_other_suffixes_are_refused(name):
    with pytest.raises(BadInput, match="suffixes of sounds"):
        open_sound(name)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    source = open_sound(written(tmp_path / "a.wav", tone(8000)))
    written(tmp_path / "a.wav", tone(4000))
    with pytest.raises(BadInput, match="changed since it was opened"):
        read(source)


def test_a_wav_from_a_pipe_is_read_to_its_end(tmp_path):
    good = written(tmp_path / "good.wav", tone(8000)).read_bytes()
    endless = good[:40] + struct.pack("<I", 0xFFFFFFFF) + good[44:]
    assert open_sound(_file(tmp_path / "a.wav", endless)).samples == 8000


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (np.zeros((4, 2)), "takes blocks"),
        (np.full((4, 1), np.nan), "finite"),
        (np.zeros((11, 1)), "more were written"),
    ],
)
def test_a_sink_refuses_what_does_not_fit_and_nothing_appears(tmp_path, block, says):
    with pytest.raises(BadInput, match=says), SoundSink(tmp_path / "a.wav", 8000, 1, 10) as sink:
        sink.write(block)
    assert list(tmp_path.iterdir()) == []


def test_a_sink_that_is_not_full_leaves_the_older_file(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"older")
    with (
        pytest.raises(BadInput, match="was to hold 10 samples, and 4"),
        SoundSink(tmp_path / "a.wav", 8000, 1, 10) as sink,
    ):
        sink.write(np.zeros((4, 1)))
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    assert (tmp_path / "a.wav").read_bytes() == b"older"


@pytest.mark.parametrize(
    ("rate", "channels", "samples"), [(10, 1, 1), (8000, 0, 1), (8000, 33, 1), (8000, 1, 0)]
)
def test_a_sink_of_no_sound_is_refused(tmp_path, rate, channels, samples):
    with pytest.raises(BadInput):
        SoundSink(tmp_path / "a.wav", rate, channels, samples)


def test_what_exceeds_full_scale_is_clipped(tmp_path):
    with SoundSink(tmp_path / "a.wav", 8000, 1, 2, "PCM_24") as sink:
        sink.write(np.array([[3.0], [-3.0]]))
    assert read(open_sound(tmp_path / "a.wav")).ravel() == pytest.approx([1.0, -1.0], abs=1e-6)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg"])
def test_a_full_disk_is_a_sentence_and_nothing_appears(tmp_path, suffix):
    """A limit on the size of files stands in for a full disk; writing beyond it fails in the same way."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, (200_000, 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(StorageFailed, match=f"a{suffix}"):
            write_all(tmp_path / f"a{suffix}", noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def write_all(path, sound):
    with SoundSink(path, 8000, 1, len(sound)) as sink:
        sink.write(sound)


def test_a_missing_library_is_named_with_the_line_that_adds_it(tmp_path, monkeypatch):
    path = written(tmp_path / "a.wav", tone(10))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(BadInput, match=r"pip install 'sfumato\[media\]'"):
        open_sound(path)
    with pytest.raises(BadInput, match=r"pip install 'sfumato\[media\]'"):
        write_all(tmp_path / "b.wav", tone(10))
    assert [found.name for found in tmp_path.iterdir()] == ["a.wav"]
