"""Small pictures, sounds and videos of real scenes, with secrets in their metadata."""

from functools import cache

import av
import numpy as np
import soundfile
from PIL import Image, PngImagePlugin
from skimage import data

from sfumato.io import encode_picture

#: Written into every place for metadata; it may stand in no output.
SECRET = "Avenue-Secrete-27"
SIDES = (64, 88)


@cache
def _portrait():
    return data.astronaut()


def photograph(height=SIDES[0], width=SIDES[1], left=180):
    """A part of a portrait."""
    return _portrait()[20 : 20 + height, left : left + width].copy()


def jpeg(path, pixels=None, orientation=1, **options):
    """A JPEG whose Exif tells maker, place and orientation; of 64 × 88 pixels unless others are given."""
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = orientation, SECRET
    place = tags.get_ifd(0x8825)
    place[1], place[2] = "N", (48.0, 51.0, 30.0)
    given = photograph() if pixels is None else pixels
    Image.fromarray(given).save(
        path, "JPEG", quality=92, exif=tags.tobytes(), comment=SECRET.encode(), **options
    )


def png(path, pixels=None):
    """A PNG with words in it; colour with transparency unless pixels are given, which may have 16 bits."""
    if pixels is None:
        alpha = np.tile(np.linspace(40, 255, SIDES[1]).astype(np.uint8), (SIDES[0], 1))
        pixels = np.dstack([photograph(), alpha])
    if pixels.dtype == np.uint16:
        path.write_bytes(encode_picture(pixels, ".png"))
        return
    words = PngImagePlugin.PngInfo()
    words.add_text("Author", SECRET)
    words.add_itxt("Comment", SECRET, zip=True)
    Image.fromarray(pixels).save(path, "PNG", pnginfo=words)


def tone(seconds=0.5, rate=8_000, channels=1):
    """A tone that swells, within [−0.4, 0.4]."""
    time = np.arange(int(seconds * rate)) / rate
    wave = 0.4 * np.sin(2 * np.pi * 330 * time) * np.linspace(0.2, 1, len(time))
    return np.stack([wave] * channels, axis=1)


def sound(path, samples=None, rate=8_000, depth="PCM_16"):
    """A WAV or FLAC with a title and an artist."""
    given = tone(rate=rate) if samples is None else samples
    with soundfile.SoundFile(path, "w", rate, given.shape[1], depth) as file:
        file.title, file.artist = SECRET, SECRET
        file.write(given)


def video(path, frames=8, rate=20, heard=True, sides=(48, 64), ticks=None):
    """A view that moves, titled; with sound at 16 kHz, if it is ``heard``; frames appear at ``ticks``."""
    plain = path.suffix == ".avi"
    scene = photograph(*sides)
    with av.open(str(path), "w") as container:
        container.metadata["title"] = SECRET
        pictures = container.add_stream("mpeg4" if plain else "libx264", rate=rate)
        pictures.height, pictures.width, pictures.pix_fmt = *sides, "yuv420p"
        track = (
            container.add_stream("pcm_s16le" if plain else "aac", rate=16_000, layout="mono")
            if heard
            else None
        )
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.roll(scene, 2 * number, axis=1), format="rgb24")
            frame.pts = number if ticks is None else ticks[number]
            container.mux(pictures.encode(frame))
        container.mux(pictures.encode())
        if track is not None:
            _add_sound(container, track, tone(frames / rate, 16_000), plain)


def _add_sound(container, track, samples, plain):
    whole = av.AudioFrame.from_ndarray((samples.T * 32_767).astype(np.int16), format="s16", layout="mono")
    whole.rate, whole.pts = 16_000, 0
    blocks = [whole]
    if not plain:
        blocks = av.AudioResampler("fltp", "mono", 16_000, 1024)
        blocks = [*blocks.resample(whole), *blocks.resample(None)]
    for block in blocks:
        container.mux(track.encode(block))
    container.mux(track.encode())


def sound_only(path):
    """An MP4 that holds sound and no pictures."""
    with av.open(str(path), "w") as container:
        track = container.add_stream("aac", rate=16_000, layout="mono")
        _add_sound(container, track, tone(0.3, 16_000), plain=False)


def album(folder):
    """A folder of mixed files, some in folders of their own, some that have to be refused."""
    below = folder / "from the sea"
    below.mkdir(parents=True)
    jpeg(folder / "portrait.jpg", orientation=6)
    png(below / "glass.png")
    png(below / "deep.png", data.moon()[100:150, 100:170].astype(np.uint16) * 257)
    sound(folder / "tone.wav")
    sound(below / "tone.flac", tone(0.25, 44_100, 2), 44_100, "PCM_24")
    video(folder / "walk.mp4")
    video(below / "walk.avi", heard=False)
    (folder / "notes.txt").write_text("what was said that day")
    (folder / "text.jpg").write_text("no picture at all")
    whole = (folder / "portrait.jpg").read_bytes()
    (below / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / ".hidden.jpg").write_bytes(whole)
    return folder


#: What is released of the album, and what is not.
RELEASED = [
    *("from the sea/deep.png", "from the sea/glass.png", "from the sea/tone.flac", "from the sea/walk.avi"),
    *("portrait.jpg", "tone.wav", "walk.mp4"),
]
REFUSED = {
    "from the sea/cut.jpg": "cut.jpg is truncated: its JPEG data has no end.",
    "notes.txt": "notes.txt is no picture, sound or video.",
    "text.jpg": "text.jpg is not a JPEG picture: it does not start like one.",
}
