"""What a client asks for: a mechanism with its public parameters; nothing of it names a file of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.io.formats import Kind
from sfumato.mechanisms import Mechanism
from sfumato.media import PictureMechanism, SoundMechanism
from sfumato.noise import Keyed
from sfumato.privacy import Unit
from sfumato.release import MediaMechanisms, make_mechanism

__all__ = ["Asked", "keyed_by"]

_DEFAULTS: Mapping[str, str] = {"picture": "plane-means", "sound": "band-noise"}
# What the two mechanisms of a video share.
_BOTH = ("epsilon", "delta")


@dataclass(frozen=True)
class Asked:
    """``mechanism`` by its name (the default of the kind unless given) and its ``parameters``.

    ``schema`` declares a table, ``array`` names one of several in an archive. Parameters are numbers, words
    and lists of numbers: none is ever read as the name of a file.
    """

    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    array: str | None = None

    def made(self, kind: Kind) -> Mechanism | MediaMechanisms:
        """The mechanism for files of ``kind``."""
        options = {name: _plain(name, value) for name, value in self.parameters.items()}
        if "epsilon" in options and not isinstance(options["epsilon"], list):
            options["epsilon"] = [options["epsilon"]]
        if "bounds" in options:
            options["bounds"] = _pair(options["bounds"])
        if kind in ("array", "table"):
            return make_mechanism(self.mechanism or "gaussian", options, bounded=kind == "table")
        unit = Unit.parse(options["unit"]) if "unit" in options else None
        options |= {} if unit is None else {"unit": unit}
        if kind == "video":
            shared = {name: options[name] for name in _BOTH if name in options}
            picture = _picture(make_mechanism(_name(self, "picture"), options, bounded=True))
            sound = _sound(make_mechanism("band-noise", shared, bounded=True))
            return MediaMechanisms(picture, sound, None, unit)
        made = make_mechanism(_name(self, kind), options, bounded=True)
        if kind == "picture":
            return MediaMechanisms(picture=_picture(made), unit=unit)
        return MediaMechanisms(sound=_sound(made), unit=unit)

    def declared(self) -> Schema | None:
        """The schema of a table."""
        return None if self.schema is None else Schema.from_dict(self.schema)


def keyed_by(mechanism: Mechanism | MediaMechanisms, noise: Keyed) -> Mechanism | MediaMechanisms:
    """``mechanism`` with noise that gives the same bytes whenever the same is asked for."""
    if isinstance(mechanism, MediaMechanisms):
        return mechanism.keyed_by(noise)
    parameters = mechanism.get_params(deep=False)
    if "randomness" not in parameters:
        raise BadInput(
            f"the noise of {type(mechanism).__name__} cannot be keyed: ask without a request.",
            parameter="request",
        )
    return type(mechanism)(**(parameters | {"randomness": noise}))


def _name(asked: Asked, kind: str) -> str:
    return asked.mechanism or _DEFAULTS[kind]


def _picture(made: Mechanism) -> PictureMechanism:
    if not isinstance(made, PictureMechanism):
        raise BadInput(f"{type(made).__name__} is not for pictures.", parameter="mechanism")
    return made


def _sound(made: Mechanism) -> SoundMechanism:
    if not isinstance(made, SoundMechanism):
        raise BadInput(f"{type(made).__name__} is not for sounds.", parameter="mechanism")
    return made


def _plain(name: str, value: Any) -> Any:
    """``value`` if it is a number, a word or a list of numbers."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and all(isinstance(one, int | float) for one in value):
        return value
    raise BadInput(f"`{name}` must be a number, a word or a list of numbers.", parameter=name)


def _pair(bounds: Any) -> tuple[float, float]:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise BadInput("`bounds` must be two numbers, the lowest and the highest value.", parameter="bounds")
    return bounds[0], bounds[1]
