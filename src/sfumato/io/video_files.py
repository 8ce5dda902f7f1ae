"""Videos as streams of upright pictures with their time stamps, and of blocks of sound.

A video is decoded twice: once when it is opened, to know that all of it can be decoded and how much there is,
and once when it is read. Neither holds more than a few pictures in memory. Only the first picture stream and
the first sound track are read; titles, places, dates, subtitles, data and cover pictures are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import file_to_read
from sfumato.io.video_container import container_of
from sfumato.io.video_orientation import Turn, turn_of
from sfumato.io.video_soundtrack import SoundTrack, aligned_sound, sound_stream

__all__ = ["MAX_FRAMES", "MAX_PIXELS", "Frame", "VideoSource", "open_video"]

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

    ``height`` and ``width`` are those of the upright picture: its pixels are turned by ``turned`` when read.
    ``aspect`` is width over height of one pixel. ``last_ticks`` is when the last frame appears, ``rate`` the
    number of frames a second; ``constant`` says whether every frame but the last is shown equally long.
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
    turned: Turn
    sound: SoundTrack | None
    _container: str = field(repr=False)
    _start: Fraction = field(repr=False)

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last, which lasts as long as an average one."""
        return float(self.last_ticks * self.time_base + 1 / self.rate)

    def pictures(self) -> Iterator[Frame]:
        """All frames in the order in which they are shown; every call decodes the file anew."""
        count, shape = 0, (self.height, self.width, 3)
        for frame, ticks in _decoded(self.path, self._container, self.height * self.width):
            upright = np.ascontiguousarray(self.turned.upright(_rgb(frame)))
            if upright.shape != shape or count == self.frames:
                break
            count += 1
            yield Frame(upright, ticks)
        if count != self.frames:
            raise BadInput(f"{self.path.name} has changed since it was opened.")

    def sound_blocks(self) -> Iterator[NDArray[np.float32]]:
        """The sound track as blocks (samples, channels) within [-1, 1], from the first frame on.

        Sound from before the first frame is left out; where the track starts later or pauses, there is
        silence. More than two channels are mixed down to two.
        """
        if self.sound is None:
            return
        with _opened(self.path, self._container) as container:
            yield from aligned_sound(container, self.path.name, self._start)


def open_video(
    path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS, max_frames: int = MAX_FRAMES
) -> VideoSource:
    """The video in ``path``, decoded once to its end.

    Refuses, in a sentence that names the file, what is no video, holds no picture stream or no frame, was cut
    off, cannot be decoded to its end, changes its size on the way, is turned by anything but quarter turns,
    or exceeds ``max_pixels`` a frame or ``max_frames``.
    """
    path = file_to_read(path)
    kind = container_of(path)
    with _opened(path, kind) as container:
        stream = _picture_stream(container, path.name, max_pixels)
        time_base = Fraction(stream.time_base or Fraction(1, 1000))
        nominal = Fraction(stream.average_rate or stream.guessed_rate or 25)
        aspect = Fraction(stream.sample_aspect_ratio or 1)
        has_sound = sound_stream(container) is not None
    turn, shape, start = Turn(), (0, 0), Fraction(0)
    count, last, shortest, longest = 0, 0, 0, 0
    for frame, ticks in _decoded(path, kind, max_pixels):
        if count == 0:
            turn, shape = turn_of(frame, path.name), (frame.height, frame.width)
            start = (_stamp(frame, kind) or 0) * time_base
        elif (frame.height, frame.width) != shape:
            raise BadInput(f"{path.name} changes the size of its pictures at frame {count}.")
        else:
            shortest = min(shortest or ticks - last, ticks - last)
            longest = max(longest, ticks - last)
        count, last = count + 1, ticks
        if count > max_frames:
            raise BadInput(f"{path.name} has more than {max_frames} frames: that many are accepted.")
    if not count:
        raise BadInput(f"{path.name} holds no frame that can be decoded.")
    # A container that counts in milliseconds cannot keep thirty frames a second equally long.
    constant = longest - shortest <= (1 if shortest >= 8 else 0)
    rate = Fraction(count - 1) / (last * time_base) if last else nominal
    if constant and abs(rate / nominal - 1) < Fraction(1, 100):
        rate = nominal
    source = VideoSource(
        path=path,
        height=shape[1] if turn.sideways else shape[0],
        width=shape[0] if turn.sideways else shape[1],
        frames=count,
        time_base=time_base,
        last_ticks=last,
        rate=rate.limit_denominator(100_000),
        constant=constant,
        aspect=1 / aspect if turn.sideways else aspect,
        turned=turn,
        sound=None,
        _container=kind,
        _start=start,
    )
    return _with_sound(source) if has_sound else source


def _with_sound(source: VideoSource) -> VideoSource:
    """``source`` with its sound track, decoded once to its end; a track without a sample is none."""
    samples, channels = 0, 0
    with _opened(source.path, source._container) as container:
        for block in aligned_sound(container, source.path.name, source._start):
            samples, channels = samples + len(block), block.shape[1]
        rate = int(container.streams.audio[0].codec_context.sample_rate)
    return replace(source, sound=SoundTrack(rate, channels, samples)) if samples else source


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[Any]:
    """The container in ``path``, read by the demuxer ``kind`` and no other; failures become a sentence."""
    try:
        import av
    except ImportError:
        raise BadInput("reading and writing videos needs PyAV: pip install 'sfumato[media]'.") from None
    try:
        # Metadata is not used, so its spelling must not matter.
        with av.open(str(path), format=kind, metadata_errors="ignore") as container:
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
    # The decoder refuses larger ones that the header does not tell of, before it makes room for them; it
    # counts whole macroblocks and margins.
    context.options = {"max_pixels": str(2 * max_pixels + (1 << 17))}
    context.thread_type = "AUTO"
    return stream


def _check_size(picture: Any, name: str, max_pixels: int) -> None:
    if picture.width * picture.height > max_pixels:
        raise BadInput(
            f"{name} has frames of {picture.width} × {picture.height} pixels: at most {max_pixels} pixels a "
            "frame are accepted."
        )


def _decoded(path: Path, kind: str, max_pixels: int) -> Iterator[tuple[Any, int]]:
    """Decoded frames, each with its time since the first one in time bases, which always grows."""
    with _opened(path, kind) as container:
        stream = _picture_stream(container, path.name, max_pixels)
        first = last = None
        rate, base = Fraction(stream.average_rate or stream.guessed_rate or 25), Fraction(stream.time_base)
        step = max(1, round(1 / (rate * base)))
        for frame in container.decode(stream):
            if frame.is_corrupt:
                raise BadInput(f"{path.name} is damaged: a frame cannot be decoded.")
            _check_size(frame, path.name, max_pixels)
            stamp = _stamp(frame, kind)
            if first is None or last is None:
                first, last = stamp or 0, 0
            else:
                # A missing time stamp is one usual frame later, one that does not grow a moment later.
                last = max(last + 1, last + step if stamp is None else stamp - first)
            yield frame, last


def _stamp(frame: Any, kind: str) -> int | None:
    # An AVI holds no time stamps of pictures: those that FFmpeg makes up for reordered ones are out of order.
    stamp = frame.dts if kind == "avi" else frame.pts
    return None if stamp is None else int(stamp)


def _rgb(frame: Any) -> NDArray[np.uint8]:
    space = int(frame.colorspace)
    if space == _UNLABELLED:
        space = _BT709 if min(frame.height, frame.width) >= _LARGE else _BT601
    return np.asarray(frame.reformat(format="rgb24", src_colorspace=space).to_ndarray(), dtype=np.uint8)
