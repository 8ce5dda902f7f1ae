"""Read and write sound files block by block: WAV, FLAC and Ogg, of any sample rate, depth and channels.

Samples are read as numbers in [−1, 1] and written in the depth of the source, to a file that appears whole or
not at all. Titles, comments, pictures and all other metadata stay behind: nothing but rate, channels, depth
and length passes from a source to a sink.

Before a file is decoded, its first bytes must be those that its suffix names, and its own lengths must say
that it is whole: the decoder would play a cut file to its new end, and tries what it does not know as MPEG,
complaining aloud.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput, StorageFailed
from sfumato.io.atomic import AtomicSink
from sfumato.io.formats import file_to_read, library, suffix_of

__all__ = ["SoundSink", "open_sound"]

Array = NDArray[np.float64]

_LONGEST = 4 * 3600  # seconds
_RATES = range(1_000, 768_001)
_MOST_CHANNELS = 32
_BLOCK = 1 << 16
# What files start with.
_STARTS = {".wav": (b"RIFF", b"RF64"), ".flac": (b"fLaC",), ".ogg": (b"OggS",)}
# The depth a release is written in, by that of its source. Floating point would carry a time stamp.
_DEPTHS = {"PCM_24": "PCM_24", "PCM_32": "PCM_32", "FLOAT": "PCM_24", "DOUBLE": "PCM_24"}
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
# A WAV written to a pipe cannot know its length and says one of these.
_UNKNOWN = (0, 0xFFFFFFFF)
# A page of an Ogg stream is at most 27 + 255 + 255·255 bytes.
_OGG_PAGE = 27 + 255 + 255 * 255


def _check_format(name: str, rate: int, channels: int, samples: int) -> None:
    """Refuse a sound of no samples, or of a sample rate or a number of channels that no sound has."""
    if rate not in _RATES:
        raise BadInput(
            f"the sample rate of {name} was {rate!r}: whole numbers from {_RATES[0]} to {_RATES[-1]} hertz "
            "are accepted."
        )
    if not 1 <= channels <= _MOST_CHANNELS:
        raise BadInput(f"{name} has {channels} channels; 1 to {_MOST_CHANNELS} are accepted.")
    if samples < 1:
        raise BadInput(f"{name} holds no samples: a sound of zero length cannot be released.")


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Any]:
    """Yield the decoder of ``path``, which messages call ``name``."""
    soundfile = library("soundfile", "a sound file")
    with _decoding(name):
        file = soundfile.SoundFile(os.fspath(path))
    with file:
        yield file


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn any error of the decoder into one sentence."""
    try:
        yield
    except (RuntimeError, OSError, ValueError, TypeError):
        raise BadInput(f"{name} cannot be read as a sound: it is damaged, cut off or no sound.") from None


def _check_whole(path: Path, name: str) -> None:
    """Refuse a WAV or Ogg file that ends before it should; FLAC says so itself when it is decoded."""
    with path.open("rb") as file:
        start = file.read(12)
        size = os.fstat(file.fileno()).st_size
        if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
            _check_wave(file, size, name)
        elif start[:4] == b"OggS":
            _check_ogg(file, size, name)


def _check_wave(file: IO[bytes], size: int, name: str) -> None:
    """Refuse a WAV file of which the chunk ``data`` is missing or longer than the file."""
    long_size: int | None = None
    while len(head := file.read(8)) == 8:
        length = int.from_bytes(head[4:], "little")
        if head[:4] == b"ds64":
            body = file.read(24)
            long_size = int.from_bytes(body[8:16], "little")
            file.seek(length - len(body) + length % 2, os.SEEK_CUR)
            continue
        if head[:4] == b"data":
            if length in _UNKNOWN and long_size is None:
                return
            length = long_size if length == 0xFFFFFFFF and long_size is not None else length
            left = size - file.tell()
            if length > left:
                raise BadInput(
                    f"{name} is truncated: its header says {length} bytes of sound, and {left} are there."
                )
            return
        file.seek(length + length % 2, os.SEEK_CUR)
    raise BadInput(f"{name} is truncated: it ends before its sound begins.")


def _check_ogg(file: IO[bytes], size: int, name: str) -> None:
    """Refuse an Ogg file unless its last page is marked as the last, and ends where the file does."""
    begin = max(0, size - _OGG_PAGE)
    file.seek(begin)
    tail = file.read()
    place = tail.rfind(b"OggS")
    while place >= 0:
        page = tail[place:]
        if len(page) >= 27 and len(page) >= 27 + page[26]:
            length = 27 + page[26] + sum(page[27 : 27 + page[26]])
            if length == len(page) and page[5] & 4:
                return
        place = tail.rfind(b"OggS", 0, place)
    raise BadInput(f"{name} is truncated: its last page is missing or cut off.")


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
        super().__init__(path, expected=samples, what="samples")
        self._suffix = suffix_of(path, "sound")
        _check_format(self.path.name, rate, channels, samples)
        self.rate, self.channels, self.samples = rate, channels, samples
        self.depth = _depth(self._suffix, depth, rate)
        self._file: Any = None

    def write(self, block: Array) -> None:
        """Append samples (k, channels), or (k,) of one channel; what exceeds [−1, 1] is clipped."""
        block = block[:, None] if block.ndim == 1 else block
        if block.ndim != 2 or block.shape[1] != self.channels:
            raise BadInput(f"{self.path.name} takes blocks (k, {self.channels}), not {block.shape}.")
        if not np.isfinite(block).all():
            raise BadInput(f"{self.path.name} takes finite numbers only.")
        with self._appending(len(block)), _encoding(self.path.name):
            self._file.write(np.clip(block, -1.0, 1.0))

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        soundfile, kind = library("soundfile", "a sound file"), self._suffix[1:].upper()
        with _encoding(self.path.name):
            # By its number: the library then writes by itself, and says when the disk is full.
            self._file = soundfile.SoundFile(
                *(file.fileno(), "w", self.rate, self.channels),
                subtype=self.depth,
                format=kind,
                closefd=False,
            )
        layers.callback(self._close)

    def _close(self) -> None:
        """Close the file and check that all of it is there: an encoder may lose its last bytes silently."""
        with _encoding(self.path.name):
            self._file.close()
        if self._output is not None and self.rows_written == self.samples:
            written = self._output.written()
            _check_whole(written, self.path.name)
            with _opened(written, self.path.name) as file:
                if file.frames != self.samples:
                    raise _no_room(self.path.name)


def _depth(suffix: str, depth: str, rate: int) -> str:
    """Return how samples are stored in a file with ``suffix`` that stands for one stored as ``depth``."""
    if suffix == ".ogg":
        return "OPUS" if depth == "OPUS" and rate in _OPUS_RATES else "VORBIS"
    chosen = _DEPTHS.get(depth, "PCM_16")
    return "PCM_24" if suffix == ".flac" and chosen == "PCM_32" else chosen


@contextmanager
def _encoding(name: str) -> Iterator[None]:
    """Turn a refusal of the encoder, or a write that was cut short, into one sentence."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, AssertionError):
        raise _no_room(name) from None


def _no_room(name: str) -> StorageFailed:
    return StorageFailed(f"{name} cannot be written as a sound; is there room for it?")


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

    def blocks(self) -> Iterator[Array]:
        """Yield consecutive blocks of samples (k, channels).

        Every call reads the file anew. Values that are not finite, and a file that ends early or cannot be
        decoded, are refused where they are met.
        """
        name, done = self.path.name, 0
        with _opened(self.path, name) as file:
            if (file.samplerate, file.channels, file.frames) != (self.rate, self.channels, self.samples):
                raise BadInput(f"{name} has changed since it was opened.")
            while done < self.samples:
                with _decoding(name):
                    block = file.read(min(_BLOCK, self.samples - done), dtype="float64", always_2d=True)
                if not len(block):
                    raise BadInput(f"{name} is truncated: {self.samples} samples were announced.")
                if not np.isfinite(block).all():
                    place = done + int(np.argmin(np.isfinite(block).all(axis=1)))
                    raise BadInput(f"{name} holds a value that is no finite number at sample {place}.")
                done += len(block)
                yield block


def open_sound(path: str | os.PathLike[str]) -> SoundSource:
    """Return the sound in ``path``, of which only the header and the lengths are read.

    Refused in a sentence: a suffix other than .wav, .flac and .ogg, an empty or truncated file, contents
    that are not what the suffix says, no samples at all, and more than four hours of them.
    """
    suffix = suffix_of(path, "sound")
    path = file_to_read(path)
    name = path.name
    with path.open("rb") as start:
        if start.read(4) not in _STARTS[suffix]:
            raise BadInput(
                f"{name} cannot be read as a sound: it does not start like a {suffix[1:].upper()} file."
            )
    with _opened(path, name) as file:
        sound = SoundSource(path, file.samplerate, file.channels, file.frames, file.subtype)
    _check_whole(path, name)
    _check_format(name, sound.rate, sound.channels, sound.samples)
    if sound.seconds > _LONGEST:
        raise BadInput(
            f"{name} plays for {sound.seconds:.0f} seconds, and up to {_LONGEST} are accepted; cut it into "
            "shorter sounds."
        )
    return sound
