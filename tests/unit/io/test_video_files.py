"""Videos in and out: what is kept, what is refused, what is never copied, and how much memory it takes."""

import io
import struct
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from real_data import real
from sfumato.errors import BadInput
from sfumato.io import video_files
from sfumato.io.video_files import _FORMATS, VideoSink, open_video

av = pytest.importorskip("av")

RATE, WIDTH, HEIGHT = 25, 64, 48


def scene(t, height=HEIGHT, width=WIDTH):
    """A picture with a bright top left corner, a coloured gradient, and a bar that moves with time."""
    y, x = np.mgrid[:height, :width]
    picture = np.stack([x * 200 // width, y * 200 // height, np.full_like(x, 60)], axis=2)
    picture[: height // 3, : width // 3] = 250
    picture[height // 2 :, (4 * t) % width : (4 * t) % width + 6] = (20, 220, 40)
    return picture.astype(np.uint8)


def make(
    path,
    count=20,
    *,
    codec="libx264",
    ticks=None,
    base=Fraction(1, RATE),
    size=(HEIGHT, WIDTH),
    turn=None,
    aspect=None,
    sound=None,
    video=True,
    metadata=None,
):
    """A clip written by PyAV itself, so that the reader is not tested against the writer alone."""
    with av.open(str(path), "w") as container:
        for key, value in (metadata or {}).items():
            container.metadata[key] = value
        stream = None
        if video:
            stream = container.add_stream(codec, rate=RATE)
            stream.height, stream.width = size
            stream.pix_fmt = "yuv420p" if not (size[0] % 2 or size[1] % 2) else "yuv444p"
            stream.codec_context.time_base = base
            if aspect is not None:
                stream.codec_context.sample_aspect_ratio = aspect
            if turn is not None:
                stream.set_display_rotation(turn)
        track = None
        if sound is not None:
            rate, channels, seconds = sound
            track = container.add_stream("aac", rate=rate, layout="mono" if channels == 1 else "stereo")
        for t in range(count if video else 0):
            frame = av.VideoFrame.from_ndarray(scene(t, *size), format="rgb24")
            frame = frame.reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = (t if ticks is None else ticks[t]), base
            container.mux(stream.encode(frame))
        if video and count:
            container.mux(stream.encode(None))
        if track is not None:
            wave = np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate).astype(np.float32) * 0.5
            planes, layout = np.tile(wave, (channels, 1)), track.layout.name
            frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
            container.mux(track.encode(frame))
            container.mux(track.encode(None))
    return path


def duration(source):
    """Seconds from the first frame to the end of the last, which lasts as long as an average one."""
    return float(source.last_ticks * source.time_base + 1 / source.rate)


def copy(source, path):
    """Every frame and all sound of ``source`` written to ``path``."""
    with VideoSink(path, source) as sink:
        for block in source.sound_blocks():
            sink.write_sound(block)
        for frame in source.pictures():
            sink.write(frame.pixels, frame.ticks)
    return open_video(path)


@pytest.fixture
def clip(tmp_path):
    return make(tmp_path / "clip.mp4", sound=(44_100, 2, 0.8))


def test_what_a_video_is_stands_in_its_source(clip):
    source = open_video(clip)
    assert (source.height, source.width, source.frames) == (HEIGHT, WIDTH, 20)
    assert source.rate == RATE
    assert source.constant
    assert source.aspect == 1
    assert duration(source) == pytest.approx(20 / RATE)
    assert (source.sound.rate, source.sound.channels) == (44_100, 2)
    frames = list(source.pictures())
    assert len(frames) == 20
    assert frames[0].ticks == 0
    assert frames[3].pixels.dtype == np.uint8
    assert np.abs(frames[3].pixels.astype(int) - scene(3)).mean() < 12


def test_sound_comes_in_step_and_whole(clip):
    source = open_video(clip)
    sound = np.concatenate(list(source.sound_blocks()))
    assert sound.shape == (source.sound.samples, 2)
    assert sound.dtype == np.float32
    assert abs(len(sound) / 44_100 - 0.8) < 1 / RATE
    assert np.abs(sound).max() <= 1.0
    spectrum = np.abs(np.fft.rfft(sound[:, 0]))
    assert abs(np.argmax(spectrum) * 44_100 / len(sound) - 440) < 3


@pytest.mark.parametrize("suffix", [*_FORMATS])
def test_frames_times_size_and_sound_survive_in_every_container(clip, tmp_path, suffix):
    source = open_video(clip)
    out = copy(source, tmp_path / f"out{suffix}")
    assert (out.frames, out.height, out.width, out.rate) == (20, HEIGHT, WIDTH, RATE)
    assert abs(duration(out) - duration(source)) <= 1 / RATE
    assert out.sound.channels == 2
    assert abs(out.sound.samples / out.sound.rate - source.sound.samples / source.sound.rate) < 1 / RATE
    for before, after in zip(source.pictures(), out.pictures(), strict=True):
        assert abs(before.ticks * source.time_base - after.ticks * out.time_base) <= Fraction(1, 1000)
        assert np.abs(before.pixels.astype(int) - after.pixels).mean() < 10
    heard = np.concatenate(list(out.sound_blocks()))[:, 0]
    assert abs(np.argmax(np.abs(np.fft.rfft(heard))) * out.sound.rate / len(heard) - 440) < 3


@pytest.mark.parametrize("suffix", [*_FORMATS])
@pytest.mark.parametrize("colour", [(200, 30, 30), (20, 180, 60), (90, 90, 200), (250, 250, 250), (5, 5, 5)])
def test_colours_come_back_as_they_were(tmp_path, suffix, colour):
    source = open_video(make(tmp_path / "any.mp4", count=3))
    with VideoSink(tmp_path / f"flat{suffix}", source) as sink:
        for t in range(3):
            sink.write(np.full((HEIGHT, WIDTH, 3), colour, dtype=np.uint8), t * 512)
    for frame in open_video(tmp_path / f"flat{suffix}").pictures():
        assert np.abs(frame.pixels.astype(int) - colour).max() <= 5


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm"])
def test_a_variable_frame_rate_is_kept(tmp_path, suffix):
    ticks = [0, 40, 50, 200, 210, 500, 900, 910, 1500, 2000]
    path = make(tmp_path / "uneven.mp4", len(ticks), ticks=ticks, base=Fraction(1, 1000))
    source = open_video(path)
    assert not source.constant
    out = copy(source, tmp_path / f"out{suffix}")
    times = [round(float(frame.ticks * out.time_base), 3) for frame in out.pictures()]
    assert times == [tick / 1000 for tick in ticks]
    assert abs(duration(out) - duration(source)) < 0.5


def test_an_avi_cannot_keep_a_variable_frame_rate_and_says_so(tmp_path):
    path = make(tmp_path / "uneven.mp4", 3, ticks=[0, 40, 500], base=Fraction(1, 1000))
    with pytest.raises(BadInput, match=r"uneven\.mp4 has a variable frame rate"):
        VideoSink(tmp_path / "out.avi", open_video(path))
    assert not (tmp_path / "out.avi").exists()


def test_an_avi_keeps_frames_that_are_shown_longer(tmp_path):
    ticks = [0, 1, 2, 5, 6, 10]
    source = open_video(make(tmp_path / "gaps.avi", len(ticks), codec="mpeg4", ticks=ticks))
    assert not source.constant
    out = copy(source, tmp_path / "out.avi")
    assert [frame.ticks for frame in out.pictures()] == ticks
    assert out.time_base == Fraction(1, RATE)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270, -90])
def test_a_turned_video_ends_upright_exactly_once(tmp_path, degrees):
    path = make(tmp_path / "turned.mp4", 4, turn=degrees, aspect=Fraction(4, 3))
    with av.open(str(path)) as container:
        shown = next(container.decode(video=0))
        expected = np.rot90(shown.to_ndarray(format="rgb24"), shown.rotation // 90)
    source = open_video(path)
    sideways = degrees % 180 != 0
    assert (source.width, source.height) == ((HEIGHT, WIDTH) if sideways else (WIDTH, HEIGHT))
    assert source.aspect == (Fraction(3, 4) if sideways else Fraction(4, 3))
    first = next(iter(source.pictures())).pixels
    assert np.abs(first.astype(int) - expected).mean() < 2
    out = copy(source, tmp_path / "upright.mp4")
    assert out.orientation == 1
    assert out.aspect == source.aspect
    assert np.abs(next(iter(out.pictures())).pixels.astype(int) - first).mean() < 10


@pytest.mark.parametrize("size", [(49, 63), (48, 63), (33, 64)])
@pytest.mark.parametrize("suffix", [*_FORMATS])
def test_odd_sizes_are_kept(tmp_path, suffix, size):
    source = open_video(make(tmp_path / "odd.mp4", 3, size=size))
    out = copy(source, tmp_path / f"out{suffix}")
    assert (out.height, out.width, out.frames) == (*size, 3)


def test_nothing_but_pictures_and_sound_is_copied(tmp_path):
    secrets = {"title": "secret-title", "comment": "secret-comment", "location": "+52.5+013.4/"}
    path = make(tmp_path / "told.mp4", 5, sound=(48_000, 1, 0.2), metadata=secrets)
    for suffix in [*_FORMATS]:
        out = tmp_path / f"out{suffix}"
        copy(open_video(path), out)
        raw = out.read_bytes()
        assert b"secret" not in raw
        assert b"+52.5" not in raw
        with av.open(str(out)) as container:
            assert [stream.type for stream in container.streams] == ["video", "audio"]


def test_equal_frames_give_equal_bytes(clip, tmp_path):
    source = open_video(clip)
    for suffix in [*_FORMATS]:
        one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
        copy(source, one)
        copy(source, two)
        assert one.read_bytes() == two.read_bytes(), suffix


def test_a_sink_without_sound_writes_none(clip, tmp_path):
    out = copy(replace(open_video(clip), sound=None), tmp_path / "silent.mp4")
    assert out.sound is None
    assert out.frames == 20


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"once upon a time there was a video" * 40, "is not a video"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n/etc/passwd\n#EXT-X-ENDLIST\n", "is not a video"),
        (b"", "is empty"),
        (b"\x00\x00\x00\x20ftypisom" + b"\x00" * 4, "is truncated"),
        (b"\x1a\x45\xdf\xa3\x84" + b"\x00" * 40, "is damaged|is truncated"),
        (b"RIFF\x10\x00\x00\x00AVI LIST" + b"\x00" * 8, "is damaged|no video stream"),
    ],
)
def test_what_is_no_video_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "told.mp4"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=rf"told\.mp4.*({words})"):
        open_video(path)


def test_a_video_without_pictures_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"heard\.mp4 has no video stream"):
        open_video(make(tmp_path / "heard.mp4", video=False, sound=(44_100, 1, 1.0)))


def test_a_video_without_a_frame_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"none\.mkv (holds no frame|is damaged)"):
        open_video(make(tmp_path / "none.mkv", count=0, sound=(44_100, 1, 0.5)))


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm", ".avi"])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.97])
def test_a_truncated_video_is_refused(clip, tmp_path, suffix, share):
    whole = tmp_path / f"whole{suffix}"
    copy(open_video(clip), whole)
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    with pytest.raises(BadInput, match=rf"cut\{suffix} is (truncated|damaged)"):
        open_video(cut)


def test_limits_are_kept(clip, monkeypatch):
    monkeypatch.setattr(video_files, "MAX_PIXELS", 3000)
    with pytest.raises(BadInput, match=r"clip\.mp4 has frames of 64 × 48 pixels: at most 3000"):
        open_video(clip)
    monkeypatch.setattr(video_files, "MAX_PIXELS", 64 * 48)
    assert open_video(clip).frames == 20
    monkeypatch.setattr(video_files, "MAX_FRAMES", 19)
    with pytest.raises(BadInput, match=r"clip\.mp4 has more than 19 frames"):
        open_video(clip)


def test_frames_beyond_the_announced_size_are_not_decoded(tmp_path, monkeypatch):
    """Two kilobytes of black hold 48 million pixels, and a header that admits to three thousand of them."""
    file = io.BytesIO()
    Image.new("RGB", (8_000, 6_000)).save(file, "AVIF", speed=10)
    lie = bytearray(file.getvalue())
    struct.pack_into(">II", lie, lie.index(b"ispe") + 8, 64, 48)
    (tmp_path / "a.mp4").write_bytes(lie)
    monkeypatch.setattr(video_files, "MAX_PIXELS", 64 * 48)
    began = time.process_time()
    with pytest.raises(BadInput, match=r"^a\.mp4 is damaged"):
        open_video(tmp_path / "a.mp4")
    assert time.process_time() - began < 0.2


def test_other_suffixes_are_refused(clip, tmp_path):
    with pytest.raises(BadInput, match=r"'out\.gif' has none of the supported suffixes of videos \.mp4"):
        VideoSink(tmp_path / "out.gif", open_video(clip))


def test_what_fails_leaves_nothing_behind_and_the_older_file_alone(clip, tmp_path):
    source = open_video(clip)
    out = tmp_path / "out.mp4"
    out.write_bytes(b"older")
    frames = list(source.pictures())

    def write(*given):
        with VideoSink(out, replace(source, sound=None)) as sink:
            for pixels, ticks in given:
                sink.write(pixels, ticks)

    first, second = frames[0].pixels, frames[1].pixels
    with pytest.raises(BadInput, match="was to hold 20 frames, and 1 were written"):
        write((first, 0))
    with pytest.raises(BadInput, match="in the order"):
        write((second, 512), (first, 0))
    with pytest.raises(BadInput, match=r"takes frames of shape \(48, 64, 3\)"):
        write((first[:-1], 0))
    assert out.read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mp4", "out.mp4"]


def test_mutated_files_are_read_or_refused_and_nothing_else(clip):
    """Bytes of a small file changed at random: a video, or a sentence that names it."""
    raw = bytearray(clip.read_bytes())
    generator = np.random.default_rng(0)
    read = 0
    for trial in range(150):
        changed = bytearray(raw)
        for place in generator.integers(0, len(raw), size=1 + trial % 12):
            changed[place] = int(generator.integers(0, 256))
        path = clip.with_name("mutated.mp4")
        path.write_bytes(bytes(changed))
        sentence = None
        try:
            source = open_video(path)
            assert sum(1 for _ in source.pictures()) == source.frames
        except BadInput as error:
            sentence = str(error)
        read += sentence is None
        assert sentence is None or sentence.startswith("mutated.mp4")
    assert 0 < read < 150


_STREAM = """
import resource, sys
from sfumato.io.video_files import VideoSink
from sfumato.io.video_files import open_video
peaks = []
for path in sys.argv[1:]:
    source = open_video(path)
    with VideoSink(path + ".out.mp4", source) as sink:
        sound, written = source.sound_blocks(), 0
        for frame in source.pictures():
            while written < (frame.ticks * source.time_base + 1) * 44_100:
                block = next(sound, None)
                if block is None:
                    break
                sink.write_sound(block)
                written += len(block)
            sink.write(frame.pixels, frame.ticks)
        for block in sound:
            sink.write_sound(block)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(peaks[1] - peaks[0])
"""


def test_memory_does_not_depend_on_length(tmp_path):
    """Twenty times as many frames (58 MB in all) and as much sound (14 MB), in at most 16 MB more memory."""
    clips = []
    for count in (50, 1000):
        path, sound = tmp_path / f"{count}.mp4", (44_100, 2, count / 25)
        clips.append(str(make(path, count, codec="mpeg4", size=(120, 160), sound=sound)))
    done = subprocess.run([sys.executable, "-c", _STREAM, *clips], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 16 * 1024


@pytest.mark.parametrize("name", ["R6llTwEh07w.mp4", "SchoolRulesHowTheyHelpUs_wave_f_nm_np1_ba_med_0.avi"])
def test_real_clips_keep_their_frames_and_duration(tmp_path, name):
    source = open_video(real(f"videos/{name}"))
    out = copy(source, tmp_path / name)
    assert out.frames == source.frames
    assert out.rate == source.rate == 30
    assert abs(duration(out) - duration(source)) <= 1 / 30
