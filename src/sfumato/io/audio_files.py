"""Sound files as streams of sample blocks: WAV, FLAC and Ogg, mono to many channels, any rate and depth.

Samples are read as numbers in [−1, 1] and written in the depth of the source. Titles, comments, pictures and
all other metadata stay behind: nothing but rate, channels, depth and length passes from a source to a sink.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.audio_format import (
    CHANNELS,
    SOUND_SUFFIXES,
    check_rate,
    decoding,
    opened,
    sound_suffix,
)
from sfumato.io.audio_header import check_start, check_whole
from sfumato.io.audio_sink import SoundSink
from sfumato.io.formats import file_to_read
from sfumato.io.resampling import resampled

__all__ = ["LONGEST", "SOUND_SUFFIXES", "SoundSink", "SoundSource", "open_sound", "sound_suffix"]

Array = NDArray[np.float64]

#: The longest sound that is read unless another limit is declared, in seconds: four hours.
LONGEST = 4.0 * 3600.0

_BLOCK = 1 << 16


@dataclass(frozen=True)
class SoundSource:
    """A sound in a file, read by blocks; :func:`open_sound` makes one.

    ``rate`` in hertz, ``samples`` a channel, and ``depth`` the file's own name of how samples are stored.
    """

    path: Path
    rate: int
    channels: int
    samples: int
    depth: str

    @property
    def seconds(self) -> float:
        """How long it plays."""
        return self.samples / self.rate

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and channels."""
        return self.samples, self.channels

    def blocks(self, size: int = _BLOCK, *, rate: int | None = None) -> Iterator[Array]:
        """Consecutive blocks (k, channels) of up to ``size`` samples, resampled to ``rate`` where it differs.

        Every call reads the file anew. Values that are not finite, and a file that ends early or cannot be
        decoded, are refused where they are met.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BadInput(
                f"`size` was {size!r}: a block has a whole number of samples, 1 or more.", parameter="size"
            )
        if rate is None or rate == self.rate:
            return self._read(size)
        return resampled(self._read(size), self.rate, check_rate(rate, "rate"), self.channels)

    def read(self, *, rate: int | None = None) -> Array:
        """The whole sound, (samples, channels)."""
        return np.concatenate([np.zeros((0, self.channels)), *self.blocks(rate=rate)])

    def _read(self, size: int) -> Iterator[Array]:
        name, done = self.path.name, 0
        with opened(self.path) as file:
            if (file.samplerate, file.channels, file.frames) != (self.rate, self.channels, self.samples):
                raise BadInput(f"{name} has changed since it was opened.")
            while done < self.samples:
                with decoding(name):
                    block = file.read(min(size, self.samples - done), dtype="float64", always_2d=True)
                if not len(block):
                    raise BadInput(f"{name} is truncated: {self.samples} samples were announced.")
                if not np.isfinite(block).all():
                    place = done + int(np.argmin(np.isfinite(block).all(axis=1)))
                    raise BadInput(f"{name} holds a value that is no finite number at sample {place}.")
                done += len(block)
                yield block


def open_sound(path: str | os.PathLike[str], *, longest: float = LONGEST) -> SoundSource:
    """The sound in ``path``, of at most ``longest`` seconds; its header is read and its lengths compared.

    Refused in a sentence: a suffix other than .wav, .flac and .ogg, an empty or truncated file, contents
    that are not what the suffix says, no samples at all, and more than ``longest`` seconds of them.
    """
    suffix = sound_suffix(path)
    path = file_to_read(path)
    name = path.name
    check_start(path, name, suffix)
    with opened(path) as file:
        rate, channels, samples, depth = (
            int(file.samplerate),
            int(file.channels),
            int(file.frames),
            str(file.subtype),
        )
    check_whole(path, name)
    check_rate(rate, name)
    if not 1 <= channels <= CHANNELS:
        raise BadInput(f"{name} has {channels} channels; 1 to {CHANNELS} are accepted.")
    if samples < 1:
        raise BadInput(f"{name} holds no samples: a sound of zero length cannot be released.")
    if samples > longest * rate:
        raise BadInput(
            f"{name} plays for {samples / rate:.0f} seconds, and {longest:g} are accepted; declare a larger "
            "limit for longer sounds."
        )
    return SoundSource(path, rate, channels, samples, depth)
