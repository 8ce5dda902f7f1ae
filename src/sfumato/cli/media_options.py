"""What ``sfumato protect`` and ``sfumato plan`` make of their options for pictures, sounds and videos."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.mechanisms import Mechanism
    from sfumato.privacy import Unit
    from sfumato.release.declared_maps import DeclaredMaps
    from sfumato.release.locations import Located
    from sfumato.release.media_mechanisms import MediaMechanisms

__all__ = ["is_media", "media_mechanisms", "refuse_for_records"]

# Options that pictures and sounds share, and those of one of them where a source may hold both.
_BOTH = ("epsilon", "delta")
_OWN = {"picture": ("block", "restore", "map", "sigma", "strategy", "noise"), "sound": ("clip",)}
# Whose units these are; those of a whole file are of all media.
_UNITS = {"picture": ("region", "pixels"), "sound": ("window", "channel")}
_WHOLE = ("item", "clip", "frame")
_MAPS = ("private", "unaccounted")
_BOXES = "a .json of public boxes, as in --map boxes.json"
_OF_RECORDS = (
    *(
        "epsilon_file",
        "neighbours",
        "bounds",
        "bounds_from_data",
        "schema",
        "distrust",
        "calibration",
        "array",
    ),
    *("categories", "bits", "flip", "components", "scale", "retain", "weights", "levels", "outside", "alpha"),
    *("coordinates", "disjoint"),
)
_OF_MEDIA = ("sound_unit", "sigma", "strategy", "map", "block", "restore")


def is_media(source: Located) -> bool:
    """Whether ``source`` is by its name a picture, a sound or a video, or a folder not of records alone."""
    from sfumato.io.formats import known_kinds

    if source.name is not None:
        return source.of_media
    found = known_kinds(source.store.names())
    return not found or not found <= {"array", "table"}


def media_mechanisms(options: Mapping[str, Any]) -> MediaMechanisms:
    """The mechanisms that the options of protect describe: for pictures, for sounds, or one for each.

    The mechanism that is named is for one of them. Where the source may hold both, the other goes through
    its default, and ε and δ go to those that take them.
    """
    from sfumato.media.audio.audio_mechanism import SoundMechanism
    from sfumato.media.images.image_mechanism import PictureMechanism
    from sfumato.release.media_mechanisms import MediaMechanisms

    source = options["source"]
    for option in _OF_RECORDS:
        if options[option] not in (None, False):
            raise BadInput(f"{_flag(option)} is for records, and {source.word} holds pictures or sound.")
    holds = _held(source)
    units = _units(options, holds)
    named = _named(options["mechanism"], source, holds)
    given, maps = _with_boxes(options, named.get("picture"))
    names = {"picture": "plane-means" if given["map"] is None else "content-adaptive", "sound": "band-noise"}
    made = _made({part: (names | named)[part] for part in holds}, given, units, named)
    picture, sound = made.get("picture"), made.get("sound")
    assert picture is None or isinstance(picture, PictureMechanism)
    assert sound is None or isinstance(sound, SoundMechanism)
    return MediaMechanisms(picture, sound, maps, units["asked"])


def refuse_for_records(options: Mapping[str, Any]) -> None:
    """Refuse what is for media alone where the source holds records."""
    from sfumato.release.catalogue import MECHANISMS

    name, source = options["mechanism"], options["source"].word
    if name in MECHANISMS and MECHANISMS[name].of_media:
        raise BadInput(f"{name} is for pictures or sounds in files of their own, and {source} holds records.")
    for option in _OF_MEDIA:
        if options[option] is not None:
            raise BadInput(f"{_flag(option)} is for pictures or sounds, and {source} holds records.")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _held(source: Located) -> tuple[str, ...]:
    """What a source may hold."""
    kind = source.kind
    return (kind,) if kind in ("picture", "sound") else ("picture", "sound")


def _named(name: str | None, source: Located, holds: tuple[str, ...]) -> dict[str, str]:
    """The mechanism that --mechanism names, and what it is for."""
    from sfumato.media.audio.audio_mechanism import SoundMechanism
    from sfumato.media.images.image_mechanism import PictureMechanism
    from sfumato.release.catalogue import MECHANISMS, make_mechanism

    if name is None:
        return {}
    if name not in MECHANISMS:
        make_mechanism(name, {})  # which says so, and what was meant
    kinds = {"picture": PictureMechanism, "sound": SoundMechanism}
    part = next((part for part, kind in kinds.items() if issubclass(MECHANISMS[name], kind)), "record")
    if part not in holds:
        fitting = tuple(kinds[other] for other in holds)
        others = ", ".join(other for other, kind in MECHANISMS.items() if issubclass(kind, fitting))
        what = f"is a {holds[0]}" if len(holds) == 1 else "holds pictures and sound"
        raise BadInput(f"{name} is for {part}s, and {source.word} {what}; accepted are {others}.")
    return {part: name}


def _units(options: Mapping[str, Any], holds: tuple[str, ...]) -> dict[str, Unit | None]:
    """What --unit and --sound-unit say of pictures and of sounds, and what was asked for, if it was."""
    from sfumato.privacy import Unit

    # Parsed, since two spellings of one unit are one parameter of the release.
    unit, sound_unit = (
        None if options[name] is None else Unit.parse(options[name]) for name in ("unit", "sound_unit")
    )
    source = options["source"].word
    if sound_unit is not None and "sound" not in holds:
        raise BadInput(f"--sound-unit is for sounds, and {source} is a picture.")
    found: dict[str, Unit | None] = {"picture": None, "sound": sound_unit, "asked": None}
    if unit is None:
        return found
    if unit.name == "frame" and "picture" not in holds:
        raise BadInput(f"--unit frame is one of videos, and {source} is a sound.")
    if unit.name in _WHOLE:
        of_sounds = None if unit.name == "frame" else Unit("clip")
        return {"picture": Unit("item"), "sound": sound_unit or of_sounds, "asked": unit}
    part = next((part for part, names in _UNITS.items() if unit.name in names), None)
    if part is None:
        raise BadInput(
            f"--unit {unit} is not one of media: region:16, pixels:16, frame, window:20, channel, item and "
            "clip are."
        )
    if part not in holds:
        raise BadInput(f"--unit {unit} is one of {part}s, and {source} is a {holds[0]}.")
    if part == "sound" and sound_unit is not None:
        raise BadInput(f"--unit {unit} and --sound-unit {sound_unit} are both of sounds; give one of them.")
    return found | {part: unit, "asked": unit}


def _with_boxes(options: Mapping[str, Any], named: str | None) -> tuple[dict[str, Any], DeclaredMaps | None]:
    """Options of mechanisms for media as they were given, and the boxes in the file that --map names."""
    from sfumato.release.declared_maps import DeclaredMaps

    given = {option: options[option] for option in (*_BOTH, *_OWN["picture"], *_OWN["sound"])}
    if named == "mask" and given["map"] in _MAPS:
        raise BadInput(f"mask paints over what is declared: --map takes {_BOXES}.")
    if named == "content-adaptive" and given["map"] is None:
        raise BadInput(f"content-adaptive needs --map: private, unaccounted, or {_BOXES}.")
    if given["map"] is None or given["map"] in _MAPS:
        return given, None
    # What is painted over is an argument of its own; noise that follows a map is told what kind it is.
    return given | {"map": None if named == "mask" else "public"}, DeclaredMaps.load(given["map"])


def _made(
    names: Mapping[str, str],
    given: Mapping[str, Any],
    units: Mapping[str, Unit | None],
    named: Mapping[str, str],
) -> dict[str, Mechanism]:
    """The mechanisms called ``names``; those ``named`` were asked for, and the others need not be there."""
    from sfumato.release.catalogue import MECHANISMS, make_mechanism

    takes = {part: inspect.signature(MECHANISMS[name]).parameters for part, name in names.items()}
    made = {}
    for part, name in names.items():
        if (
            given["epsilon"] is None
            and named
            and part not in named
            and "epsilon" not in takes[next(iter(named))]
        ):
            # Blurred pictures need no budget, and sounds beside them are refused one by one.
            continue
        own = _OWN[part] if len(names) > 1 else (*_OWN["picture"], *_OWN["sound"])
        wanted = {option: given[option] for option in own} | {"unit": units[part]}
        for option in _BOTH:
            # What nobody takes is refused by name; what one takes is not for the other.
            if option in takes[part] or not any(option in each for each in takes.values()):
                wanted[option] = given[option]
        made[part] = make_mechanism(name, wanted, bounded=True)
    return made
