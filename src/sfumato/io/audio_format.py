"""What every sound file has: a suffix and a format, a sample rate, and a library that reads and writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import BadInput

__all__ = [
    "CHANNELS",
    "FORMATS",
    "SOUND_SUFFIXES",
    "check_rate",
    "decoding",
    "opened",
    "sound_suffix",
    "soundfile_module",
]

#: What a sound file may be called.
SOUND_SUFFIXES = (".wav", ".flac", ".ogg")
#: What the library calls the format of each suffix when it is written.
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
#: The most channels that a sound may have.
CHANNELS = 32

_RATES = (1_000, 768_000)


def sound_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of a sound file that ``path`` ends with, in lower case; any other is refused."""
    name = Path(path).name
    suffix = Path(name).suffix.lower()
    if suffix not in SOUND_SUFFIXES:
        raise BadInput(f"{name!r} has none of the suffixes of a sound, {', '.join(SOUND_SUFFIXES)}.")
    return suffix


def check_rate(rate: int, name: str) -> int:
    """``rate`` in hertz, if it is one that sounds have."""
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer) or not _RATES[0] <= rate <= _RATES[1]:
        raise BadInput(
            f"the sample rate of {name} was {rate!r}: whole numbers from {_RATES[0]} to {_RATES[1]} hertz "
            "are accepted."
        )
    return int(rate)


def soundfile_module() -> Any:
    """The library that decodes and encodes."""
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
