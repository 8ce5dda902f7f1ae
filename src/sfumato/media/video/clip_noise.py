"""Noise for a whole video, images and sound together: the joint guarantee, and the stream through both.

**Guarantee.** Pictures and sound of one clip are no disjoint data: whoever is seen is often heard. Per
``clip`` (and per ``item``, the file) both guarantees add up by composition. Per ``channel``, which is the
pictures or the sound but not both, each holds on its own, and the worse one is stated. ``region(m)``,
``pixels(m)`` and ``frame`` lie in the pictures, ``window(ms)`` in the sound.

**Edge cases.** Without a sound mechanism the sound track is left out and the notes say so; a video without
one is its pictures. Frame times, the length of the sound and the size of the pictures are public.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import NESTED, Mechanism, delta_between, positive, proper_share
from sfumato.media.audio.audio_mechanism import SoundMechanism
from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.media.video.frame_noise import IN_A_FRAME, FrameNoise
from sfumato.noise import Keyed
from sfumato.privacy import Claim, Guarantee, Statement, Unit

if TYPE_CHECKING:
    from sfumato.io import VideoSink, VideoSource

__all__ = ["ClipNoise", "soften_video"]


_IN_PICTURES, _WHOLE = (*IN_A_FRAME, "frame"), ("clip", "item")
_IN_SOUND = tuple(name for name in Unit.names("sound") if name != "channel")
_UNITS = (*_IN_PICTURES, *_IN_SOUND, "channel", *_WHOLE)
_SILENCED = "the sound track is left out"


@dataclass(frozen=True)
class ClipNoise:
    """Noise for videos: ``picture`` for the frames, ``sound`` for the sound track (None leaves it out).

    ``unit`` is the headline, by default that of the pictures. Where it is ``clip`` or ``item``, pictures get
    ``share`` of their mechanism's ε and δ, and the sound the rest of its own, so that equal budgets are the
    budget of both together (without sound, pictures get all). Where it is ``channel``, each mechanism's ε is
    for its channel; anything else leaves both as they are. ``silenced``: a sound track was left out.

    **Guarantee.** For a clip that of pictures and sound together, by composition; for a channel the worse
    one.
    """

    kinds = ()
    units = _UNITS

    picture: FrameNoise
    sound: SoundMechanism | None = None
    unit: str | Unit | None = None
    share: float = 0.5
    silenced: bool = False

    @classmethod
    def of(
        cls, picture: PictureMechanism | FrameNoise, sound: SoundMechanism | None, **options: Any
    ) -> ClipNoise:
        """Return noise for videos from a mechanism for pictures, or for frames, and one for sounds."""
        return cls(picture if isinstance(picture, FrameNoise) else FrameNoise(picture), sound, **options)

    def shaped(self, source: VideoSource) -> ClipNoise:
        """Return same noise for videos as long and as large as ``source``, calibrated for the asked unit."""
        headline = self.headline_unit
        picture = self.picture.shaped((source.height, source.width, 3), source.frames)
        track = source.sound
        sound = None if track is None else self.sound
        part = 1.0 if sound is None else proper_share("share", self.share)
        if headline.name in (*_WHOLE, "channel"):
            picture = replace(picture, unit=headline)
        if headline.name in _WHOLE:
            picture = replace(picture, mechanism=_part(picture._mechanism(), part))
        if sound is not None and track is not None:
            sound = sound.shaped((track.samples, track.channels), track.rate)
            if headline.name not in _IN_PICTURES:
                # A channel of a clip is its whole sound track, however many channels that has itself.
                own = headline if headline.name in _IN_SOUND else Unit("clip")
                sound = type(sound)(**(sound.get_params(deep=False) | {"unit": own}))
            if headline.name in _WHOLE:
                sound = _part(sound, 1.0 - part)
        elif headline.name in _IN_SOUND:
            raise BadInput(
                f"{headline} is a unit of sound, and there is no sound that is released.", parameter="unit"
            )
        silenced = track is not None and self.sound is None
        return ClipNoise(picture, sound, headline, self.share, silenced)

    @property
    def headline_unit(self) -> Unit:
        """The unit of the headline."""
        return self.picture._headline_unit() if self.unit is None else Unit.parse(self.unit)

    def guarantee(self) -> Guarantee:
        """Return what is proven of the headline's unit; for noise that is ``shaped``."""
        return self.proven(self.headline_unit)

    def proven(self, unit: Unit | str) -> Guarantee:
        """Return what is proven of ``unit``; for noise that is ``shaped``."""
        unit = Unit.parse(unit)
        picture, sound = self.picture, self.sound
        shape = picture._picture(None)
        if unit.name in _IN_PICTURES:
            return picture.proven(unit, shape)
        if unit.name in _IN_SOUND:
            if sound is None:
                raise BadInput(
                    f"{unit} is a unit of sound, and there is no sound that is released.", parameter="unit"
                )
            return sound.proven(unit, sound._clip(None))
        if unit.name not in (*_WHOLE, "channel"):
            raise BadInput(f"videos have the units {Unit.listed(_UNITS)}, not {unit}.", parameter="unit")
        parts = [picture.proven(Unit("clip"), shape)]
        if sound is not None:
            parts.append(sound.proven(Unit("clip"), sound._clip(None)))
        parts = [replace(part, unit=unit) for part in parts]
        return _worse(parts) if unit.name == "channel" else Guarantee.compose(parts)

    def statement(self) -> Statement:
        """Return three columns for one video; for noise that is ``shaped``."""
        parts: list[Mechanism] = [self.picture] + ([] if self.sound is None else [self.sound])
        headline = self.headline_unit
        units = [Unit("pixels", 1), Unit("pixels", 16), Unit("region", 8), Unit("region", 32), Unit("frame")]
        units += [] if self.sound is None else [self._window(), Unit("channel")]
        units += [Unit("clip"), Unit("item")]
        notes = [note for part in parts for note in part._notes()] + ([_SILENCED] if self.silenced else [])
        return Statement(
            mechanism=type(self).__name__,
            parameters=self.parameters(),
            claimed=self.claim(),
            proven=self.guarantee(),
            notes=tuple(dict.fromkeys(notes)),
            also_proven=tuple(self.proven(unit) for unit in units if unit != headline),
            terms={"mechanism": "ClipNoise", "parameters": self.terms()},
        )

    def prepare(self) -> None:
        """Refuse what could not be drawn, for noise that is ``shaped``; see :meth:`Mechanism.prepare`."""
        self.picture.prepare(math.prod(self.picture._picture(None)), np.dtype(np.uint8))
        if self.sound is not None:
            self.sound.prepare(math.prod(self.sound._clip(None)), np.dtype(np.float64))

    def claim(self) -> Claim | None:
        """Return that of the mechanism for pictures; a paper's claim for sound is about sound alone."""
        return self.picture.claim()

    def parameters(self) -> dict[str, Any]:
        """Return everything that shapes the bytes, by channel."""
        return {
            "unit": str(self.headline_unit),
            "share": self.share,
            "pictures": self.picture.parameters(),
            "sound": None
            if self.sound is None
            else {"mechanism": type(self.sound).__name__} | self.sound.parameters(),
        }

    def terms(self) -> dict[str, Any]:
        """Return what commitments are made of; see :meth:`Mechanism.terms`."""
        sound = self.sound
        return {
            "unit": str(self.headline_unit),
            "share": self.share,
            "pictures": self.picture.terms() | NESTED,
            "sound": None if sound is None else {"mechanism": sound.wire} | sound.terms() | NESTED,
        }

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw some of the noise again."""
        return self.picture.reproducible or (self.sound is not None and self.sound.reproducible)

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that the noise of the pictures is drawn from, if it is."""
        return self.picture.keyed

    def _window(self) -> Unit:
        own = Unit("window", 20) if self.sound is None else Unit.parse(self.sound.unit)
        return own if own.name in _IN_SOUND else Unit("window", 20)


def _worse(parts: list[Guarantee]) -> Guarantee:
    """Return the guarantee that holds of whichever part changes: the largest ε at the largest δ stated."""
    delta = max(part.at_delta for part in parts)
    without = [part for part in parts if part.proves_nothing]
    if without or len(parts) == 1:
        return (without or parts)[0]
    epsilon = max(part.epsilon(delta) for part in parts)
    theorem = "the worse of " + " and ".join(part.theorem for part in parts)
    if delta == 0.0:
        return Guarantee.pure(epsilon, unit=parts[0].unit, neighbours=parts[0].neighbours, theorem=theorem)
    return Guarantee.approximate(
        epsilon, delta, unit=parts[0].unit, neighbours=parts[0].neighbours, theorem=theorem
    )


def _part(mechanism: Any, part: float) -> Any:
    """Return ``mechanism`` with ``part`` of its ε and of its δ."""
    values = mechanism.get_params(deep=False)
    if "epsilon" not in values:
        raise BadInput(f"{type(mechanism).__name__} has no epsilon of which a clip could be given a part.")
    values["epsilon"] = part * positive("epsilon", values["epsilon"])
    if values.get("delta"):
        values["delta"] = part * delta_between(values["delta"])
    return type(mechanism)(**values)


# In seconds: how far sound is written ahead of the frame it belongs to.
_AHEAD = Fraction(1, 2)


def soften_video(
    source: VideoSource,
    sink: VideoSink,
    noise: ClipNoise,
    *,
    report: Callable[[str, float], None] | None = None,
) -> Statement:
    """Read ``source``, add ``noise``, filter, and write frames and sound to ``sink``; returns the statement.

    Memory does not depend on how long the video is. ``report`` is told "frames" and the share that is done.
    """
    shaped = noise.shaped(source)
    statement = shaped.statement()  # first, since it refuses bad parameters in a sentence
    times: deque[int] = deque()

    def frames() -> Iterator[NDArray[np.uint8]]:
        for frame in source.pictures():
            times.append(frame.ticks)
            yield frame.pixels

    sound = _SoundTrack(source, sink, shaped.sound)
    for done, pixels in enumerate(shaped.picture.released(frames()), start=1):
        ticks = times.popleft()
        sound.write_until(ticks * source.time_base + _AHEAD)
        sink.write(pixels, ticks)
        if report is not None:
            report("frames", done / source.frames)
    sound.write_until(None)
    return statement


class _SoundTrack:
    """Released sound, written as far as the pictures have come."""

    def __init__(self, source: VideoSource, sink: VideoSink, mechanism: SoundMechanism | None) -> None:
        self._sink = sink
        self._rate = 1 if source.sound is None else source.sound.rate
        self._blocks = iter(()) if mechanism is None else mechanism.blocks(source.sound_blocks())
        self._written = 0

    def write_until(self, time: Fraction | None) -> None:
        """Write the sound up to ``time`` seconds, or all that is left."""
        while time is None or Fraction(self._written, self._rate) < time:
            block = next(self._blocks, None)
            if block is None:
                return
            self._sink.write_sound(block)
            self._written += len(block)
