"""Read and write videos as upright pictures with their time stamps, and blocks of sound.

A video is decoded twice: once when it is opened, to know that all of it can be decoded and how much there is,
and once when it is read. Neither holds more than a few pictures in memory. Only the first picture stream and
the first sound track, in step with the first frame, are read; titles, places, dates, subtitles, data and
cover pictures are not.

The demuxer is chosen from the first bytes and never guessed from the content, because some of what a guess
may find (playlists) opens other files. A file shorter than its container announces was cut off, and is
refused. Phones record sideways and say so in a display matrix: the pixels are turned once, when read, and no
matrix is written, so that a player has nothing left to turn.

Videos are written frame by frame to a file that appears whole or not at all, and holds nothing but what was
given: H.264 and AAC in MP4, MOV and Matroska, VP9 and Opus in WebM, MPEG-4 and plain samples in AVI. Every
frame keeps its time stamp (to the millisecond in Matroska and WebM; an AVI knows one frame rate only). No
metadata is written, and equal frames and sound give equal bytes under one version of FFmpeg.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import AtomicSink
from sfumato.io.formats import file_to_read, library, suffix_of
from sfumato.io.image_header import upright

__all__ = ["VideoSink", "VideoSource", "open_video", "video_container"]

_NEEDING = "reading and writing videos"
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")


def container_of(path: Path) -> str:
    """Return the demuxer of ``path``: "mov", "matroska" or "avi"; refuse all else, and a cut-off file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(12)
        reaches: Callable[[IO[bytes], int], bool]
        if start[4:8] in _BOXES:
            kind, reaches = "mov", boxes_fit
        elif start.startswith(_EBML):
            kind, reaches = "matroska", _segment_fits
        elif start[:4] == b"RIFF" and start[8:12] == b"AVI ":
            kind, reaches = "avi", _riff_fits
        else:
            raise BadInput(f"{path.name} is not a video: MP4, MOV, Matroska, WebM and AVI are accepted.")
        file.seek(0)
        if not reaches(file, size):
            raise BadInput(f"{path.name} is truncated: the file ends before what its container announces.")
    return kind


def boxes_fit(file: IO[bytes], size: int) -> bool:
    """Return whether every outermost box of an ISO base media file ends within ``size`` bytes."""
    position = 0
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if not all(32 <= byte < 127 or byte == 0xA9 for byte in name):
            return True  # other bytes after the last box
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            return True  # 0: the box runs to the end of the file
        position += length
    return position <= size


def _segment_fits(file: IO[bytes], size: int) -> bool:
    """Return whether the segment of a Matroska file ends within ``size`` bytes; a live one does not say."""
    position = 0
    while position + 12 <= size:
        file.seek(position)
        head = file.read(12)
        name, length, used = head[:4], *_vint(head[4:12])
        if length is None:
            return True
        position += 4 + used + length
        if name != _EBML:
            return name != _SEGMENT or position <= size
    return False


def _vint(raw: bytes) -> tuple[int | None, int]:
    """Return a number of variable length, None where it is marked unknown, and how many bytes it took."""
    used = 9 - raw[0].bit_length() if raw[0] else 8
    value = int.from_bytes(raw[:used], "big") & ((1 << 7 * used) - 1)
    return (None if value == (1 << 7 * used) - 1 else value), used


def _riff_fits(file: IO[bytes], size: int) -> bool:
    """Return whether every RIFF list of an AVI file ends within ``size`` bytes."""
    position = 0
    while position + 12 <= size:
        file.seek(position)
        head = file.read(8)
        if head[:4] != b"RIFF":
            break
        position += 8 + int.from_bytes(head[4:], "little")
        position += position % 2
    return position <= size + 1  # the last padding byte may be missing


# The matrix maps a stored position (x, y) to (a·x + c·y, b·x + d·y), with y pointing down. The signs of
# (a, b, c, d) are one pattern for each of the eight orientations of EXIF.
_ORIENTATIONS = {
    (1, 0, 0, 1): 1,
    (-1, 0, 0, 1): 2,
    (-1, 0, 0, -1): 3,
    (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5,
    (0, 1, -1, 0): 6,
    (0, -1, -1, 0): 7,
    (0, -1, 1, 0): 8,
}


def _orientation(frame: Any, name: str) -> int:
    """Return EXIF's number for the display matrix of a decoded frame of the file ``name``."""
    data = next((side for side in frame.side_data if side.type.name == "DISPLAYMATRIX"), None)
    if data is None:
        return 1
    matrix = np.frombuffer(bytes(data), dtype=np.int32)
    if matrix.size != 9:
        raise BadInput(f"{name} has a display matrix that cannot be read.")
    turning = matrix[[0, 1, 3, 4]].astype(np.float64)
    size = float(np.abs(turning).max())
    signs = tuple(int(sign) for sign in np.rint(turning / size)) if size else ()
    if signs not in _ORIENTATIONS or np.abs(turning - size * np.array(signs)).max() > 0.01 * size:
        raise BadInput(f"{name} is to be shown turned by something else than quarter turns.")
    return _ORIENTATIONS[signs]


# In seconds: time stamps this far off are rounding of the container; a longer silence in one place, or a
# longer track, is a damaged file.
_JITTER, _LONGEST_PAUSE, _LONGEST_TRACK = 0.05, 60.0, 86_400.0
_RATES = range(2_000, 400_001)


@dataclass(frozen=True)
class SoundTrack:
    """A track of ``samples`` samples a channel at ``rate`` a second; one channel, or two."""

    rate: int
    channels: int
    samples: int

    @property
    def layout(self) -> str:
        """FFmpeg's name of the channels."""
        return "mono" if self.channels == 1 else "stereo"


def _sound_track(stream: Any, name: str) -> SoundTrack:
    """Return the track that is read from ``stream``; its samples are not counted yet."""
    context = stream.codec_context
    if context is None:
        raise BadInput(f"{name} has a sound track in a format that cannot be decoded.")
    rate, channels = int(context.sample_rate), min(int(context.channels), 2)
    if rate not in _RATES or channels < 1:
        raise BadInput(
            f"{name} has a sound track of {rate} samples a second in {channels} channels: "
            f"{_RATES.start} to {_RATES.stop - 1} samples in one channel or more are accepted."
        )
    return SoundTrack(rate, channels, 0)


def _aligned_sound(container: Any, name: str, start: Fraction) -> Iterator[NDArray[np.float32]]:
    """Yield blocks (samples, channels) of the first sound track, the first sample at ``start`` seconds.

    More than two channels are mixed down to two. What comes before ``start`` or is there twice is left out,
    and where the track starts later or pauses there is silence. The blocks' values lie within [-1, 1].
    """
    from av import AudioResampler

    stream = container.streams.audio[0]
    track = _sound_track(stream, name)
    rate, channels = track.rate, track.channels
    resampler = AudioResampler("flt", track.layout, rate)
    position, began = 0, False
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise BadInput(f"{name} has a damaged sound track.")
        when = None if frame.pts is None else frame.pts * Fraction(frame.time_base) - start
        for block in resampler.resample(frame):
            samples = block.to_ndarray().reshape(-1, channels)
            offset = 0 if when is None else round(when * rate) - position
            when = None
            # What lies a little off in the middle of a track is rounding; at its start it counts.
            if began and abs(offset) <= _JITTER * rate:
                offset = 0
            if offset > _LONGEST_PAUSE * rate or position > _LONGEST_TRACK * rate:
                raise BadInput(f"{name} has a sound track whose time stamps cannot be followed.")
            if offset > 0:
                yield np.zeros((offset, channels), dtype=np.float32)
                position += offset
            samples = samples[max(0, -offset) :]
            if len(samples):
                began = True
                position += len(samples)
                yield np.clip(np.nan_to_num(samples), -1.0, 1.0).astype(np.float32, copy=False)


#: Pixels of one frame: a little more than 7680 × 4320.
MAX_PIXELS = 1 << 25
#: Frames of one video: nine hours at thirty a second.
MAX_FRAMES = 1_000_000

# swscale's numbers: without a label, small pictures are BT.601 and large ones BT.709.
_UNLABELLED, _BT601, _BT709, _LARGE = 2, 5, 1, 720


@dataclass(frozen=True)
class Frame:
    """One picture, uint8 of shape (height, width, 3), shown ``ticks`` time bases after the first one."""

    pixels: NDArray[np.uint8]
    ticks: int


@dataclass(frozen=True)
class VideoSource:
    """A video in a file; :func:`open_video` makes one.

    ``height`` and ``width`` are those of the upright picture; ``orientation`` is EXIF's number for how its
    pixels are stored. ``aspect`` is width over height of one pixel. ``last_ticks`` is when the last frame
    appears, ``rate`` the number of frames a second; ``constant`` says whether every frame but the last is
    shown equally long.
    """

    path: Path
    height: int
    width: int
    frames: int
    time_base: Fraction
    last_ticks: int
    rate: Fraction
    constant: bool
    aspect: Fraction
    orientation: int
    sound: SoundTrack | None
    _first_stamp: int = field(repr=False)

    def pictures(self) -> Iterator[Frame]:
        """Yield all frames in the order in which they are shown; every call decodes the file anew."""
        count, shape = 0, (self.height, self.width, 3)
        for frame, stamp in _decoded(self.path, self.height * self.width):
            pixels = upright(rgb_of(frame), self.orientation)
            if pixels.shape != shape or count == self.frames:
                break
            count += 1
            yield Frame(pixels, stamp - self._first_stamp)
        if count != self.frames:
            raise BadInput(f"{self.path.name} has changed since it was opened.")

    def sound_blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield the sound track as blocks (samples, channels) within [-1, 1], from the first frame on.

        Sound from before the first frame is left out; where the track starts later or pauses, there is
        silence. More than two channels are mixed down to two.
        """
        if self.sound is None:
            return
        with video_container(self.path, self.height * self.width) as container:
            yield from _aligned_sound(container, self.path.name, self._first_stamp * self.time_base)


def open_video(path: str | os.PathLike[str]) -> VideoSource:
    """Return the video in ``path``, decoded once to its end.

    Refuses, in a sentence that names the file, what is no video, holds no picture stream or no frame, was cut
    off, cannot be decoded to its end, changes its size on the way, is turned by anything but quarter turns,
    or exceeds ``MAX_PIXELS`` a frame or ``MAX_FRAMES``.
    """
    path = file_to_read(path)
    with video_container(path, MAX_PIXELS) as container:
        stream = _picture_stream(container, path.name, MAX_PIXELS)
        time_base = Fraction(stream.time_base or Fraction(1, 1000))
        nominal = Fraction(stream.average_rate or stream.guessed_rate or 25)
        aspect = Fraction(stream.sample_aspect_ratio or 1)
        has_sound = bool(container.streams.audio)
    orientation, shape = 1, (0, 0)
    count, first, last, shortest, longest = 0, 0, 0, 0, 0
    for frame, stamp in _decoded(path, MAX_PIXELS):
        if count == 0:
            orientation, shape, first = _orientation(frame, path.name), (frame.height, frame.width), stamp
        elif (frame.height, frame.width) != shape:
            raise BadInput(f"{path.name} changes the size of its pictures at frame {count}.")
        else:
            shortest = min(shortest or stamp - last, stamp - last)
            longest = max(longest, stamp - last)
        count, last = count + 1, stamp
        if count > MAX_FRAMES:
            raise BadInput(f"{path.name} has more than {MAX_FRAMES} frames: that many are accepted.")
    if not count:
        raise BadInput(f"{path.name} holds no frame that can be decoded.")
    # A container that counts in milliseconds cannot keep thirty frames a second equally long.
    constant = longest - shortest <= (1 if shortest >= 8 else 0)
    rate = Fraction(count - 1) / ((last - first) * time_base) if last > first else nominal
    if constant and abs(rate / nominal - 1) < Fraction(1, 100):
        rate = nominal
    sideways = orientation >= 5
    return VideoSource(
        path=path,
        height=shape[1] if sideways else shape[0],
        width=shape[0] if sideways else shape[1],
        frames=count,
        time_base=time_base,
        last_ticks=last - first,
        rate=rate.limit_denominator(100_000),
        constant=constant,
        aspect=1 / aspect if sideways else aspect,
        orientation=orientation,
        sound=_decoded_track(path, shape[0] * shape[1], first * time_base) if has_sound else None,
        _first_stamp=first,
    )


def _decoded_track(path: Path, max_pixels: int, start: Fraction) -> SoundTrack | None:
    """Return the sound track, decoded once to its end; one without a sample is none."""
    with video_container(path, max_pixels) as container:
        samples = sum(len(block) for block in _aligned_sound(container, path.name, start))
        track = _sound_track(container.streams.audio[0], path.name)
    return replace(track, samples=samples) if samples else None


@contextmanager
def video_container(path: Path, max_pixels: int = MAX_PIXELS) -> Iterator[Any]:
    """Yield PyAV's container of the video in ``path``; errors become a sentence.

    It is read by the demuxer of its first bytes and no other; frames beyond the limit are not decoded.
    """
    kind, av = container_of(path), library("av", _NEEDING)
    try:
        # Metadata is not used, so its spelling must not matter. A frame may be decoded to learn what is in a
        # stream, so the limit counts from here on.
        limit = pixel_limit(max_pixels)
        with av.open(str(path), format=kind, metadata_errors="ignore", options=limit) as container:
            yield container
    except BadInput:
        raise
    except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
        raise BadInput(f"{path.name} is damaged: it cannot be decoded to its end.") from error


def _picture_stream(container: Any, name: str, max_pixels: int) -> Any:
    from av.stream import Disposition

    cover = Disposition.attached_pic
    stream = next((each for each in container.streams.video if not each.disposition & cover), None)
    if stream is None:
        raise BadInput(f"{name} has no video stream.")
    context = stream.codec_context
    if context is None:
        raise BadInput(f"{name} has a video stream in a format that cannot be decoded.")
    _check_size(context, name, max_pixels)
    context.options = pixel_limit(max_pixels)
    context.thread_type = "AUTO"
    return stream


def pixel_limit(max_pixels: int) -> dict[str, str]:
    """Return the options by which FFmpeg refuses larger frames before it makes room for them.

    It counts whole macroblocks and margins.
    """
    return {"max_pixels": str(2 * max_pixels + (1 << 17))}


def _check_size(picture: Any, name: str, max_pixels: int) -> None:
    if picture.width * picture.height > max_pixels:
        raise BadInput(
            f"{name} has frames of {picture.width} × {picture.height} pixels: at most {max_pixels} pixels a "
            "frame are accepted."
        )


def _decoded(path: Path, max_pixels: int) -> Iterator[tuple[Any, int]]:
    """Yield decoded frames, each with its time stamp in time bases, which always grows."""
    with video_container(path, max_pixels) as container:
        stream = _picture_stream(container, path.name, max_pixels)
        # An AVI holds no time stamps of pictures: those that FFmpeg makes up for reordered ones are out of
        # order.
        stamp_name = "dts" if container.format.name == "avi" else "pts"
        last: int | None = None
        rate, base = Fraction(stream.average_rate or stream.guessed_rate or 25), Fraction(stream.time_base)
        step = max(1, round(1 / (rate * base)))
        for frame in container.decode(stream):
            if frame.is_corrupt:
                raise BadInput(f"{path.name} is damaged: a frame cannot be decoded.")
            _check_size(frame, path.name, max_pixels)
            stamp = getattr(frame, stamp_name)
            if last is None:
                last = int(stamp or 0)
            else:
                # A missing time stamp is one usual frame later, one that does not grow a moment later.
                last = max(last + 1, last + step if stamp is None else int(stamp))
            yield frame, last


def rgb_of(frame: Any) -> NDArray[np.uint8]:
    """Return the pixels (h, w, 3) of a decoded frame, by the colour space that it names."""
    space = int(frame.colorspace)
    if space == _UNLABELLED:
        space = _BT709 if min(frame.height, frame.width) >= _LARGE else _BT601
    return np.asarray(frame.reformat(format="rgb24", src_colorspace=space).to_ndarray(), dtype=np.uint8)


@dataclass(frozen=True)
class _Format:
    """A container, the codecs that go into it, and how they are told to keep the picture."""

    container: str
    picture: str
    options: dict[str, str]
    sound: str
    sound_rates: tuple[int, ...] | None


_H264 = {"crf": "18", "preset": "veryfast"}
_AAC = (96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000)
_FORMATS = {
    ".mp4": _Format("mp4", "libx264", _H264, "aac", _AAC),
    ".mov": _Format("mov", "libx264", _H264, "aac", _AAC),
    ".mkv": _Format("matroska", "libx264", _H264, "aac", _AAC),
    ".webm": _Format(
        *("webm", "libvpx-vp9", {"crf": "24", "b": "0", "deadline": "realtime", "cpu-used": "6"}),
        *("libopus", (48_000, 24_000, 16_000, 12_000, 8_000)),
    ),
    ".avi": _Format("avi", "mpeg4", {"qmin": "2", "qmax": "3"}, "pcm_s16le", None),
}

# One thread count everywhere, since the bytes depend on it.
_THREADS = 4
_LIMITED = 1  # FFmpeg's number of the range 16 to 235
# Ticks of this length or longer can be the frames of an AVI, some of them shown for several.
_COARSE = Fraction(1, 240)


class VideoSink(AtomicSink):
    """A video of ``frames`` frames in the size, times and shape of pixel of ``source``, written to ``path``.

    ``with VideoSink(path, source) as sink: sink.write(pixels, ticks); sink.write_sound(block)``. Its sound
    track is like the source's. Sound should be written up to a frame's time before that frame, or what is
    written waits in memory for the other.
    """

    def __init__(self, path: str | os.PathLike[str], source: VideoSource) -> None:
        super().__init__(path, expected=source.frames, what="frames")
        suffix = suffix_of(path, "video")
        self.source, self.sound = source, source.sound
        self._format = _FORMATS[suffix]
        # An AVI shows each frame for a whole number of ticks of one length, and cannot say when.
        grid = source.time_base if source.time_base >= _COARSE else 1 / source.rate
        if suffix == ".avi" and not source.constant and grid != source.time_base:
            raise BadInput(
                f"{source.path.name} has a variable frame rate, which an .avi cannot keep: write "
                f"{Path(self.path.stem).with_suffix('.mkv')} or an .mp4 instead."
            )
        self._base = grid if suffix == ".avi" else source.time_base
        self._last_ticks = -1
        self._samples = 0
        self._container: Any = None
        self._picture: Any = None
        self._track: Any = None

    def write(self, pixels: NDArray[np.uint8], ticks: int) -> None:
        """Append one frame, uint8 (height, width, 3), shown ``ticks`` time bases after the first one."""
        import av

        shape = (self.source.height, self.source.width, 3)
        if pixels.shape != shape or pixels.dtype != np.uint8:
            raise BadInput(
                f"{self.path.name} takes frames of shape {shape} in uint8, not {pixels.shape} in "
                f"{pixels.dtype}."
            )
        if ticks <= self._last_ticks:
            raise BadInput(f"{self.path.name} takes frames in the order in which they are shown.")
        with self._appending(1):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            space = _BT601 if self._format.picture == "mpeg4" else _BT709
            form = self._picture.pix_fmt
            frame = frame.reformat(format=form, dst_colorspace=space, dst_color_range=_LIMITED)
            frame.pts = round(ticks * self.source.time_base / self._base)
            frame.time_base = self._base
            self._container.mux(self._picture.encode(frame))
        self._last_ticks = ticks

    def write_sound(self, block: NDArray[Any]) -> None:
        """Append samples of the sound track, floating point (samples, channels) within [-1, 1]."""
        import av

        if self.sound is None or self._track is None:
            raise BadInput(f"{self.path.name} was opened without a sound track.")
        if block.ndim != 2 or block.shape[1] != self.sound.channels:
            raise BadInput(
                f"{self.path.name} takes sound of {self.sound.channels} channels, not {block.shape}."
            )
        with self._appending(0):
            planes = np.ascontiguousarray(np.clip(block, -1.0, 1.0).T, dtype=np.float32)
            frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=self.sound.layout)
            frame.sample_rate, frame.pts = self.sound.rate, self._samples
            frame.time_base = Fraction(1, self.sound.rate)
            self._container.mux(self._track.encode(frame))
        self._samples += len(block)

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        av, source, form = library("av", _NEEDING), self.source, self._format
        # Neither versions of programs nor random identifiers.
        self._container = av.open(file, "w", format=form.container, options={"fflags": "+bitexact"})
        layers.callback(self._container.close)
        odd = form.picture == "libx264" and (source.height % 2 or source.width % 2)
        picture = self._container.add_stream(form.picture, rate=source.rate, options=dict(form.options))
        picture.width, picture.height = source.width, source.height
        # H.264 halves the sides of its colour planes, or keeps them; odd sides cannot be halved.
        picture.pix_fmt = "yuv444p" if odd else "yuv420p"
        context = picture.codec_context
        context.time_base, context.sample_aspect_ratio = self._base, source.aspect
        context.thread_count = _THREADS
        if form.picture != "mpeg4":
            context.colorspace = context.color_primaries = context.color_trc = _BT709
            context.color_range = _LIMITED
        self._picture = picture
        if self.sound is not None:
            rates = form.sound_rates
            rate = self.sound.rate if rates is None or self.sound.rate in rates else 48_000
            self._track = self._container.add_stream(form.sound, rate=rate, layout=self.sound.layout)
            if rates is not None:
                self._track.codec_context.bit_rate = 96_000 * self.sound.channels
        layers.callback(self._flush)

    def _flush(self) -> None:
        """Write what the encoders still hold, before the container is closed."""
        if self.rows_written:
            self._container.mux(self._picture.encode(None))
            if self._track is not None:
                self._container.mux(self._track.encode(None))

    def _check_complete(self) -> None:
        super()._check_complete()
        if self.sound is not None and self._samples != self.sound.samples:
            raise BadInput(
                f"{self.path.name} was to hold {self.sound.samples} samples of sound, and {self._samples} "
                "were written."
            )
