"""Which mechanism each kind of media goes through."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sfumato.errors import BadInput
from sfumato.io.formats import kind_of
from sfumato.mechanisms import Mechanism
from sfumato.media.audio.audio_mechanism import SoundMechanism
from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.noise import Keyed
from sfumato.privacy import Unit
from sfumato.release.audio_release import SoundFile
from sfumato.release.combined_statement import INSIDE_ONE_FILE
from sfumato.release.declared_maps import DeclaredMaps
from sfumato.release.image_release import PictureFile
from sfumato.release.source_file import MediaFile
from sfumato.release.video_release import VideoFile

__all__ = ["MediaMechanisms"]

_M = TypeVar("_M", PictureMechanism, SoundMechanism)


@dataclass(frozen=True)
class MediaMechanisms:
    """A mechanism for pictures, which the frames of videos go through too, and one for sounds.

    Files of a kind without a mechanism are refused, one by one. ``maps`` are public annotations that a
    content-adaptive mechanism for pictures follows, or a mask covers. ``unit`` is the one
    that was asked for: the headline of a video that has it, by default that of its pictures, and of a folder.
    """

    records = False

    picture: PictureMechanism | None = None
    sound: SoundMechanism | None = None
    maps: DeclaredMaps | None = None
    unit: Unit | None = None

    @classmethod
    def of(cls, mechanism: Mechanism | MediaMechanisms) -> MediaMechanisms:
        """``mechanism`` for the media that it is for."""
        if isinstance(mechanism, MediaMechanisms):
            return mechanism
        if isinstance(mechanism, PictureMechanism):
            return cls(picture=mechanism)
        if isinstance(mechanism, SoundMechanism):
            return cls(sound=mechanism)
        raise BadInput(
            f"{type(mechanism).__name__} is for records; pictures and videos go through PlaneMeans and its "
            "kin, sounds through BandNoise.",
            parameter="mechanism",
        )

    @property
    def apart(self) -> str:
        """Why no unit is in two files of a folder."""
        return INSIDE_ONE_FILE

    @property
    def of_folders(self) -> Unit | None:
        """The headline of a folder: what is a clip in a sound or a video is an item in any file."""
        return Unit("item") if self.unit == Unit("clip") else self.unit

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw some of the noise again."""
        return any(part.reproducible for part in (self.picture, self.sound) if part is not None)

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that noise is drawn from, if all of it is."""
        keys = [part.keyed for part in self._drawing_noise()]
        return None if None in keys else next(iter(keys), None)

    @property
    def draws_noise(self) -> bool:
        """Whether there is any randomness in a release."""
        return bool(self._drawing_noise())

    def keyed_by(self, noise: Keyed) -> MediaMechanisms:
        """The same mechanisms with noise from a secret."""
        picture = None if self.picture is None else _drawing(self.picture, noise)
        sound = None if self.sound is None else _drawing(self.sound, noise)
        return replace(self, picture=picture, sound=sound)

    def _drawing_noise(self) -> list[PictureMechanism | SoundMechanism]:
        return [part for part in (self.picture, self.sound) if part is not None and _draws(part)]

    def open(self, path: Path, name: str | None = None) -> MediaFile:
        """The file at ``path``; ``name``, its name in a folder, keeps the keyed noise of many files apart."""
        kind = None
        with suppress(BadInput):  # a suffix that is not known
            kind = kind_of(path)
        if kind == "picture":
            return PictureFile(path, _named(self._for_pictures(path), name), maps=self.maps, name=name)
        if kind == "sound":
            return SoundFile(path, _named(self._for_sounds(path), name))
        if kind == "video":
            if self.maps is not None:
                raise BadInput(f"{path.name} is a video, and boxes are declared for pictures alone.")
            picture, sound = _named(self._for_pictures(path), name), self.sound
            return VideoFile(path, picture, None if sound is None else _named(sound, name), unit=self.unit)
        by_itself = "" if kind is None else "; release it by itself"
        raise BadInput(f"{path.name} is no picture, sound or video{by_itself}.")

    def _for_pictures(self, path: Path) -> PictureMechanism:
        if self.picture is None:
            raise BadInput(f"{path.name} has pictures, and no mechanism for them was given.")
        return self.picture

    def _for_sounds(self, path: Path) -> SoundMechanism:
        if self.sound is None:
            raise BadInput(f"{path.name} is a sound, and no mechanism for sounds was given.")
        return self.sound


def _named(mechanism: _M, name: str | None) -> _M:
    """``mechanism`` with keyed noise of its own for the file ``name``."""
    keyed = mechanism.keyed
    # A name need not be text that can be encoded; what ascii makes of it can, and no two become the same.
    return mechanism if keyed is None or name is None else _drawing(mechanism, keyed.part(ascii(name)))


def _draws(mechanism: PictureMechanism | SoundMechanism) -> bool:
    return "randomness" in mechanism.get_params(deep=False)


def _drawing(mechanism: _M, noise: Keyed) -> _M:
    if not _draws(mechanism):
        raise BadInput(
            f"{type(mechanism).__name__} draws no noise, so none of it can be keyed to a request.",
            parameter="request",
        )
    return type(mechanism)(**(mechanism.get_params(deep=False) | {"randomness": noise}))
