"""Videos, released frame by frame with their sound, in their own size, times and length."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io.atomic import First
from sfumato.io.video_files import open_video
from sfumato.io.video_sink import VideoSink
from sfumato.mechanisms import ExpectedError
from sfumato.media.audio.audio_mechanism import SoundMechanism
from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.media.video.clip_noise import ClipNoise
from sfumato.media.video.video_stream import soften_video
from sfumato.privacy import Unit
from sfumato.release.protected_file import Report
from sfumato.release.source_file import MediaFile, per_item

__all__ = ["VideoFile"]


class VideoFile(MediaFile):
    """A video whose frames go through ``picture`` and whose sound goes through ``sound``.

    ``unit`` is the headline; by default, and where it is of sounds and there is none, that of the pictures.
    """

    def __init__(
        self,
        path: Path,
        picture: PictureMechanism,
        sound: SoundMechanism | None,
        *,
        unit: Unit | None = None,
    ) -> None:
        # Opening decodes it to its end: frames have to be counted, and a video that is cut off is refused.
        self.source = open_video(path)
        if self.source.sound is not None and sound is None:
            raise BadInput(f"{path.name} has a sound track, and no mechanism for sounds was given.")
        if unit is not None and unit.name == "window" and self.source.sound is None:
            unit = None
        self.noise = ClipNoise.of(picture, sound, unit=unit).shaped(self.source)
        self.path, self.mechanism = path, self.noise.picture
        self.values = self.source.frames * self.source.height * self.source.width * 3
        self.what = (
            f"a video of {self.source.frames:,} frames of {self.source.width} × {self.source.height} pixels"
        )
        self.statement = per_item(self.noise.statement())
        self.noise.prepare()

    def expected(self) -> tuple[ExpectedError, ...]:
        """That of one frame, and that of the sound."""
        pixels = self.source.height * self.source.width * 3
        sound, track = self.noise.sound, self.source.sound
        heard = () if sound is None or track is None else sound.expected_error(track.samples * track.channels)
        return (*self.mechanism.expected_error(pixels), *heard)

    def fits(self, output: Path) -> None:
        """Refuse, say, an AVI for frames that are not equally long."""
        self._sink(output)

    def decode(self, report: Report) -> None:
        """Decode its sound; its frames were decoded when it was opened."""
        for _ in self.source.sound_blocks():
            pass

    def most_bytes(self, output: Path) -> int:
        """Half of what the frames are unpacked: an estimate, not a bound, since encoders promise none."""
        track = self.source.sound
        heard = 0 if track is None else 4 * track.samples * track.channels
        return self.values // 4 + heard + (1 << 20)

    def write(self, output: Path, first: First, report: Report) -> None:
        """Decode, perturb, filter and encode, frame by frame."""
        with self._sink(output) as sink:
            sink.accompany(*first)
            soften_video(self.source, sink, self.noise, report=lambda stage, share: report("drawing", share))

    def _sink(self, output: Path) -> VideoSink:
        return VideoSink(output, self.source)
