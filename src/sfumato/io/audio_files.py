"""Sound files as streams of sample blocks: WAV, FLAC and Ogg, mono to many channels, any rate and depth.

Samples are read as numbers in [−1, 1] and written in the depth of the source, to a file that appears whole or
not at all. Titles, comments, pictures and all other metadata stay behind: nothing but rate, channels, depth
and length passes from a source to a sink.

Before a file is decoded, its first bytes must be those that its suffix names, and its own lengths must say
that it is whole: the decoder would play a cut file to its new end, and tries what it does not know as MPEG,
complaining aloud.

Sound is resampled block by block with the filter of :func:`scipy.signal.resample_poly`: a low-pass with a
Kaiser window, ten zero crossings of the slower rate on either side. Each block is filtered with as many
samples of its neighbours as the filter reaches over, so the blocks together are the whole sound resampled at
once. A sample spreads over twenty of the slower rate's, so a window of the sound before is a longer one after
it: a guarantee for windows of the resampled sound covers, of the original, windows shorter by that much.
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
from sfumato.io.formats import file_to_read

__all__ = ["SoundSink", "open_sound"]

Array = NDArray[np.float64]


#: What a sound file may be called.
SOUND_SUFFIXES = (".wav", ".flac", ".ogg")
#: What the library calls the format of each suffix when it is written.
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
#: The most channels that a sound may have.
CHANNELS = 32

_RATES = (1_000, 768_000)


def sound_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a sound file that ``path`` ends with, in lower case; any other is refused."""
    name = Path(path).name
    suffix = Path(name).suffix.lower()
    if suffix not in SOUND_SUFFIXES:
        raise BadInput(f"{name!r} has none of the suffixes of a sound, {', '.join(SOUND_SUFFIXES)}.")
    return suffix


def check_rate(rate: int, name: str) -> int:
    """Return ``rate`` in hertz, if it is one that sounds have."""
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer) or not _RATES[0] <= rate <= _RATES[1]:
        raise BadInput(
            f"the sample rate of {name} was {rate!r}: whole numbers from {_RATES[0]} to {_RATES[1]} hertz "
            "are accepted."
        )
    return int(rate)


def soundfile_module() -> Any:
    """Return the library that decodes and encodes."""
    try:
        import soundfile
    except ImportError:
        raise BadInput("a sound file needs soundfile: pip install 'sfumato[media]'.") from None
    return soundfile


@contextmanager
def opened(path: Path, name: str | None = None) -> Iterator[Any]:
    """The decoder of ``path``, which messages call ``name``."""
    module = soundfile_module()
    with decoding(name or path.name):
        file = module.SoundFile(os.fspath(path))
    with file:
        yield file


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Say in a sentence what the decoder objected to."""
    try:
        yield
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{name} cannot be read as a sound: it is damaged, cut off or no sound.") from None


_STARTS = {".wav": (b"RIFF", b"RF64"), ".flac": (b"fLaC",), ".ogg": (b"OggS",)}

# A WAV written to a pipe cannot know its length and says one of these.
_UNKNOWN = (0, 0xFFFFFFFF)
# A page of an Ogg stream is at most 27 + 255 + 255·255 bytes.
_OGG_PAGE = 27 + 255 + 255 * 255


def check_start(path: Path, name: str, suffix: str) -> None:
    """Refuse a file that does not start as those called ``suffix`` do."""
    with path.open("rb") as file:
        start = file.read(4)
    if start not in _STARTS[suffix]:
        kind = suffix[1:].upper()
        raise BadInput(f"{name} cannot be read as a sound: it does not start like a {kind} file.")


def check_whole(path: Path, name: str) -> None:
    """Refuse a WAV or Ogg file that ends before it should; FLAC says so itself when it is decoded."""
    with path.open("rb") as file:
        start = file.read(12)
        size = os.fstat(file.fileno()).st_size
        if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
            _check_wave(file, size, name)
        elif start[:4] == b"OggS":
            _check_ogg(file, size, name)


def _check_wave(file: IO[bytes], size: int, name: str) -> None:
    """Walk the chunks up to ``data``: what it announces must be there."""
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
    """The last page must be marked as the last, and end where the file does."""
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
        super().__init__(path, expected=samples, what="samples")
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
                    raise _no_room(self.path.name)


def _depth(suffix: str, depth: str, rate: int) -> str:
    """Return how samples are stored in a file with ``suffix`` that stands for one stored as ``depth``."""
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

    def blocks(self, size: int = _BLOCK) -> Iterator[Array]:
        """Return consecutive blocks (k, channels) of up to ``size`` samples.

        Every call reads the file anew. Values that are not finite, and a file that ends early or cannot be
        decoded, are refused where they are met.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BadInput(
                f"`size` was {size!r}: a block has a whole number of samples, 1 or more.", parameter="size"
            )
        return self._read(size)

    def read(self) -> Array:
        """Return the whole sound, (samples, channels)."""
        return np.concatenate(list(self.blocks()))

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
    """Return sound in ``path``, of at most ``longest`` seconds; its header is read and its lengths compared.

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
