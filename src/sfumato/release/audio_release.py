"""Sounds, released block by block at their own rate, length and depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.io.atomic import First
from sfumato.io.audio_files import SoundSink, open_sound
from sfumato.media.audio.audio_mechanism import SoundMechanism
from sfumato.release.protected_file import Report
from sfumato.release.source_file import MediaFile, per_item

__all__ = ["SoundFile"]


# By how samples are stored; the most that others take is a double.
_SAMPLE_BYTES = {"PCM_16": 3, "PCM_24": 4, "PCM_32": 5, "FLOAT": 5, "VORBIS": 3, "OPUS": 3}


class SoundFile(MediaFile):
    """A sound that goes through ``mechanism``."""

    mechanism: SoundMechanism

    def __init__(self, path: Path, mechanism: SoundMechanism) -> None:
        self.source = open_sound(path)
        self.path, self.values = path, self.source.samples * self.source.channels
        self.mechanism = mechanism.shaped(self.source.shape, self.source.rate)
        self.what = f"a sound of {self.source.seconds:.1f} seconds at {self.source.rate:,} Hz"
        self.statement = per_item(self.mechanism.statement(self.values))
        self.mechanism.prepare(self.values, np.dtype(np.float64))

    def fits(self, output: Path) -> None:
        """Any format of sound holds any sound."""
        self._sink(output)

    def decode(self, report: Report) -> None:
        """Decode it to its end."""
        done = 0
        for block in self.source.blocks():
            self.mechanism.check(block, done)
            done += len(block)
            report("checking", done / self.source.samples)

    def most_bytes(self, output: Path) -> int:
        """Every sample in full; no format makes it larger."""
        return self.values * _SAMPLE_BYTES.get(self._sink(output).depth, 8) + (64 << 10)

    def write(self, output: Path, first: First, report: Report) -> None:
        """Decode, perturb and encode, block by block."""
        with self._sink(output) as sink:
            sink.accompany(*first)
            for block in self.mechanism.blocks(self.source.blocks()):
                sink.write(block)
                report("drawing", sink.rows_written / self.source.samples)

    def _sink(self, output: Path) -> SoundSink:
        source = self.source
        return SoundSink(output, source.rate, source.channels, source.samples, source.depth)
