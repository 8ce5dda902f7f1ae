"""Sounds written to files that appear whole or not at all, without a word beside the samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput, StorageFailed
from sfumato.io.atomic import AtomicSink
from sfumato.io.audio_format import CHANNELS, FORMATS, check_rate, opened, sound_suffix, soundfile_module
from sfumato.io.audio_header import check_whole

__all__ = ["SoundSink"]

Array = NDArray[np.float64]

# The depth a release is written in, by that of its source. Floating point would carry a time stamp.
_DEPTHS = {"PCM_24": "PCM_24", "PCM_32": "PCM_32", "FLOAT": "PCM_24", "DOUBLE": "PCM_24"}
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)


class SoundSink(AtomicSink):
    """A sound of known length, written by blocks to a .wav, .flac or .ogg file.

    ``with SoundSink(path, rate, channels, samples) as sink: sink.write(block)``. The file appears at ``path``
    when the block ends and exactly ``samples`` samples were written; otherwise nothing appears and an older
    file stays. ``depth`` is that of the source, or the nearest the format has: 16 bits, 24 bits for 24, 32 in
    FLAC, and floating point. WAV and FLAC: equal samples give equal bytes.
    """

    def __init__(
        self, path: str | os.PathLike[str], rate: int, channels: int, samples: int, depth: str = "PCM_16"
    ) -> None:
        super().__init__(path)
        self._suffix = sound_suffix(self.path)
        self.rate, self.channels, self.samples = check_rate(rate, self.path.name), channels, samples
        if not 1 <= channels <= CHANNELS or samples < 1:
            raise BadInput(
                f"{self.path.name} cannot hold {samples} samples in {channels} channels; 1 sample or more in "
                f"1 to {CHANNELS} channels are accepted."
            )
        self.depth = _depth(self._suffix, depth, rate)
        self._file: Any = None

    def write(self, block: Array) -> None:
        """Append samples (k, channels), or (k,) of one channel; what exceeds [−1, 1] is clipped."""
        block = block[:, None] if block.ndim == 1 else block
        if block.ndim != 2 or block.shape[1] != self.channels:
            raise BadInput(f"{self.path.name} takes blocks (k, {self.channels}), not {block.shape}.")
        if not np.isfinite(block).all():
            raise BadInput(f"{self.path.name} takes finite numbers only.")
        if self.rows_written + len(block) > self.samples:
            raise BadInput(f"{self.path.name} takes {self.samples} samples, and more were written.")
        with self._appending(len(block)), _encoding(self.path.name):
            self._file.write(np.clip(block, -1.0, 1.0))

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        kind, where = FORMATS[self._suffix], {"samplerate": self.rate, "channels": self.channels}
        with _encoding(self.path.name):
            # By its number: the library then writes by itself, and says when the disk is full.
            self._file = soundfile_module().SoundFile(
                file.fileno(), "w", subtype=self.depth, format=kind, closefd=False, **where
            )
        layers.callback(self._close)

    def _close(self) -> None:
        """End the file, and see that all of it is there: an encoder may lose its last bytes silently."""
        with _encoding(self.path.name):
            self._file.close()
        if self._output is not None and self.rows_written == self.samples:
            written = self._output.written()
            check_whole(written, self.path.name)
            with opened(written, self.path.name) as file:
                if file.frames != self.samples:
                    raise StorageFailed(
                        f"{self.path.name} cannot be written as a sound; is there room for it?"
                    )

    def _check_complete(self) -> None:
        if self.rows_written != self.samples:
            raise BadInput(
                f"{self.path.name} was to hold {self.samples} samples, and {self.rows_written} were written."
            )


def _depth(suffix: str, depth: str, rate: int) -> str:
    """How samples are stored in a file with ``suffix`` that stands for one stored as ``depth``."""
    if suffix == ".ogg":
        return "OPUS" if depth == "OPUS" and rate in _OPUS_RATES else "VORBIS"
    chosen = _DEPTHS.get(depth, "PCM_16")
    return "PCM_24" if suffix == ".flac" and chosen == "PCM_32" else chosen


@contextmanager
def _encoding(name: str) -> Iterator[None]:
    """Say in a sentence that the encoder refused, or that less was written than was given."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        if isinstance(error, BadInput):
            raise
        raise _no_room(name) from None


def _no_room(name: str) -> StorageFailed:
    return StorageFailed(f"{name} cannot be written as a sound; is there room for it?")
