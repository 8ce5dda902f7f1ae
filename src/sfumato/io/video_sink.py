"""Videos written frame by frame: the file appears whole or not at all, and holds nothing but what was given.

H.264 and AAC in MP4, MOV and Matroska, VP9 and Opus in WebM, MPEG-4 and plain samples in AVI. Every frame
keeps its time stamp (to the millisecond in Matroska and WebM; an AVI knows one frame rate only). No metadata
is written, and equal frames and sound give equal bytes under one version of FFmpeg.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import AtomicSink
from sfumato.io.video_files import VideoSource
from sfumato.io.video_soundtrack import SoundTrack

__all__ = ["VIDEO_SUFFIXES", "VideoSink"]


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
    ".m4v": _Format("mp4", "libx264", _H264, "aac", _AAC),
    ".mov": _Format("mov", "libx264", _H264, "aac", _AAC),
    ".mkv": _Format("matroska", "libx264", _H264, "aac", _AAC),
    ".webm": _Format(
        *("webm", "libvpx-vp9", {"crf": "24", "b": "0", "deadline": "realtime", "cpu-used": "6"}),
        *("libopus", (48_000, 24_000, 16_000, 12_000, 8_000)),
    ),
    ".avi": _Format("avi", "mpeg4", {"qmin": "2", "qmax": "3"}, "pcm_s16le", None),
}
#: Suffixes under which a video can be written.
VIDEO_SUFFIXES = tuple(_FORMATS)

# One thread count everywhere, since the bytes depend on it.
_THREADS = 4
_BT709, _BT601, _LIMITED = 1, 5, 1
# Ticks of this length or longer can be the frames of an AVI, some of them shown for several.
_COARSE = Fraction(1, 240)


class VideoSink(AtomicSink):
    """A video of ``frames`` frames in the size, times and shape of pixel of ``source``, written to ``path``.

    ``with VideoSink(path, source) as sink: sink.write(pixels, ticks); sink.write_sound(block)``. ``sound``
    says what sound track is written: by default one like the source's, None for none. Sound should be
    written up to a frame's time before that frame, or what is written waits in memory for the other.
    """

    def __init__(
        self, path: str | os.PathLike[str], source: VideoSource, *, sound: SoundTrack | str | None = "source"
    ) -> None:
        super().__init__(path)
        suffix = self.path.suffix.lower()
        if suffix not in _FORMATS:
            raise BadInput(f"{self.path.name!r} has none of the suffixes {', '.join(_FORMATS)} of videos.")
        self.source = source
        self.sound = source.sound if isinstance(sound, str) else sound
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
            frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=_layout(self.sound))
            frame.sample_rate, frame.pts = self.sound.rate, self._samples
            frame.time_base = Fraction(1, self.sound.rate)
            self._container.mux(self._track.encode(frame))
        self._samples += len(block)

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        try:
            import av
        except ImportError:
            raise BadInput("reading and writing videos needs PyAV: pip install 'sfumato[media]'.") from None
        source, form = self.source, self._format
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
            self._track = self._container.add_stream(form.sound, rate=rate, layout=_layout(self.sound))
            if rates is not None:
                self._track.codec_context.bit_rate = 96_000 * self.sound.channels
        layers.callback(self._flush)

    def _flush(self) -> None:
        """What the encoders still hold; called before the container is closed."""
        if self.rows_written:
            self._container.mux(self._picture.encode(None))
            if self._track is not None:
                self._container.mux(self._track.encode(None))

    def _check_complete(self) -> None:
        wanted = self.source.frames
        if self.rows_written != wanted:
            raise BadInput(
                f"{self.path.name} was to hold {wanted} frames, and {self.rows_written} were written."
            )
        if self.sound is not None and self._samples != self.sound.samples:
            raise BadInput(
                f"{self.path.name} was to hold {self.sound.samples} samples of sound, and {self._samples} "
                "were written."
            )


def _layout(sound: SoundTrack) -> str:
    return "mono" if sound.channels == 1 else "stereo"
