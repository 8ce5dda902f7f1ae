"""Release requests, which Python, the command line, REST, gRPC and the forms of the pages build alike.

A request holds plain values only: a door that may read files (a schema, boxes, an array of ε) reads them
before it builds the request, and nothing in a request is ever read as the name of a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from sfumato.errors import BadInput
from sfumato.io import (
    MEDIA,
    Kind,
    LocalStore,
    RemoteStore,
    Schema,
    Store,
    is_remote,
    kind_of,
    known_kinds,
)
from sfumato.mechanisms import (
    MECHANISMS,
    Mechanism,
    Parameter,
    accepted_by,
    default_mechanism,
    make_mechanism,
    mechanism_names,
    parameters_of,
    shown,
)
from sfumato.noise import Keyed
from sfumato.privacy import Unit

if TYPE_CHECKING:
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.media_files import DeclaredMaps, MediaMechanisms
    from sfumato.reports import KeyRing

__all__ = ["ReleaseRequest", "bounds_pair", "keyed", "located", "refuse_schema"]

_M = TypeVar("_M", bound="Mechanism | MediaMechanisms")
Part = Literal["picture", "sound"]
#: What a source holds: a file of one kind, or a folder of files with records or with media.
SourceKind = Kind | Literal["records", "media"]

#: Parameters of a request beside those of its mechanism; every door offers them as it offers those.
PARAMETERS: Mapping[str, Parameter] = {
    "sound_unit": Parameter(
        "Part of a sound that ε is for, where the unit is one of pictures.",
        symbol="UNIT",
        type=str,
        name="sound_unit",
        of_kinds=("sound",),
    ),
}
# Parameters that the mechanisms for images and for audio of one request share; others are of one of them.
_SHARED = ("epsilon", "delta")
_PARTS: tuple[Part, ...] = ("picture", "sound")
_MAPS = ("private", "unaccounted")
_BOXES = (
    'a .json of public boxes, as in {"a.jpg": {"boxes": [{"category": "person", "bbox_xywh": '
    "[10, 20, 50, 80]}]}}"
)
# What a digest leaves out: where the data is and what works on it.
_NOT_DIGESTED = ("source", "engine")


@dataclass(frozen=True)
class ReleaseRequest:
    """What is wanted of a release.

    Args:
        mechanism: Name of the mechanism; the default of the kind of data unless given.
        parameters: Parameters of the mechanism by name, each a number, a word or a list of numbers. ``unit``
            and, for sounds where ``unit`` is of pictures, ``sound_unit`` are words; ``map`` is ``private``,
            ``unaccounted`` or public boxes by the name of the picture. ``epsilon_file`` is one ε a record.
        schema: Columns of a table.
        array: Name of one of several arrays in an archive.
        alpha: Reverse manifold embedding, applied to the release.
        bounds_from_data: Whether the bounds are read off the data, after which nothing is proven.
        disjoint: Whether no record is in two files of a folder.
        public_names: Whether names of files and arrays are public.
        dataset: Whose budget is charged.
        request: Id under which the request may be repeated.
        data_version: Public name of the snapshot of the data, for ``request``.
        source: Where the data is; a path or a URL.
        engine: What works on many files.
    """

    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | Schema | None = None
    array: str | None = None
    alpha: float | None = None
    bounds_from_data: bool = False
    disjoint: bool = False
    public_names: bool = False
    dataset: str | None = None
    request: str | None = None
    data_version: str = "1"
    source: str | None = None
    engine: str | None = None

    def __post_init__(self) -> None:
        plain = {name: _plain(name, value) for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", plain)

    def refuse_beside(self, **given: Any) -> None:
        """Refuse the first keyword that was ``given`` beside this request, which has all of them itself.

        A dataset that is named in one place and not in the other would otherwise be released for nothing.
        """
        for name, value in given.items():
            if value is not None and value is not False:
                raise BadInput(
                    f"`{name}` was given beside a ReleaseRequest, which says it itself; give it there alone.",
                    parameter=name,
                )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ReleaseRequest:
        """Return the request that :meth:`to_dict` wrote."""
        unknown = set(content) - {one.name for one in fields(cls)}
        if unknown:
            raise BadInput(f"a request has no {', '.join(sorted(unknown))}.")
        return cls(**content)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON values; of what most requests leave out, only what is given."""
        always = ("mechanism", "parameters", "schema", "array")
        document = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name in always or getattr(self, one.name) != one.default
        }
        document["parameters"] = {name: _json(value) for name, value in self.parameters.items()}
        document["schema"] = _json(self.schema)
        return document

    def digest(self) -> str:
        """Return a SHA-256 of the request, the same at every door and independent of paths and engines.

        Two spellings of one number or of one unit are the same.
        """
        document = {name: value for name, value in self.to_dict().items() if name not in _NOT_DIGESTED}
        document["parameters"] = {
            name: _canonical(str(Unit.parse(value)) if name in ("unit", "sound_unit") else value)
            for name, value in document["parameters"].items()
        }
        table = self.declared()
        # In the order of its columns, which is that of what is drawn.
        document["schema"] = None if table is None else json.dumps(table.to_dict())
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def declared(self) -> Schema | None:
        """Return the schema of a table."""
        if self.schema is None or isinstance(self.schema, Schema):
            return self.schema
        return Schema.from_dict(self.schema)

    def options(self) -> dict[str, Any]:
        """Return what opens a source besides its mechanism, as the keywords of ``protect``."""
        then: Transform | None = None
        if self.alpha is not None:
            from sfumato.mechanisms.transforms import ReverseManifold

            then = ReverseManifold(self.alpha)
        return {
            "array": self.array,
            "schema": self.declared(),
            "then": then,
            "bounds_from_data": self.bounds_from_data,
            "disjoint": self.disjoint,
            "public_names": self.public_names,
        }

    def noise(self, keys: KeyRing) -> Keyed:
        """Return noise from the secret in ``keys``, the same for each repetition of the request."""
        if self.request is None or self.dataset is None:
            raise BadInput("`request` is paid from a budget; name it with `dataset`.", parameter="dataset")
        return Keyed(
            keys.noise_secret(), dataset=self.dataset, version=self.data_version, release=self.request
        )

    def make_mechanism(self, kind: SourceKind, name: str | None = None) -> Mechanism | MediaMechanisms:
        """Return the mechanism for a source of ``kind``, which refusals call ``name``.

        By default it is the default mechanism of the kind. A parameter that the mechanism does not take is
        refused, with the mechanisms that take it.
        """
        called = name or ("the file" if self.source is None else self.source.rstrip("/").rsplit("/", 1)[-1])
        if self.schema is not None:
            refuse_schema(kind, called)
        if kind in MEDIA or kind == "media":
            return _for_media(self, kind, called)
        return _for_records(self, kind, called)


@dataclass(frozen=True)
class Located:
    """The file ``name`` of ``store``, or all of its files if that is None; ``shown`` is as it was given."""

    store: Store
    name: str | None
    shown: str

    @property
    def word(self) -> str:
        """Its last name, for sentences."""
        return self.shown.rstrip("/").rsplit("/", 1)[-1] or self.shown

    @property
    def kind(self) -> Kind | None:
        """The kind of one file, by its name; None for a folder."""
        return None if self.name is None else kind_of(self.name)

    @property
    def holds(self) -> SourceKind:
        """What it holds; a folder holds media unless all files of known formats hold records."""
        if self.kind is not None:
            return self.kind
        found = known_kinds(self.store.names())
        return "records" if found and found <= {"array", "table"} else "media"

    @property
    def local(self) -> Path | None:
        """The path of a local file or folder; None in an object store."""
        if not isinstance(self.store, LocalStore):
            return None
        return self.store.folder if self.name is None else self.store.folder / self.name


def located(place: str | os.PathLike[str], *, folder: bool | None = None) -> Located:
    """Return the file or folder that ``place`` names, a path or a URL.

    A path is a folder if it is one; a URL, whose store may know no folders, if its name has no suffix of a
    file that can be released. ``folder`` says so for what does not exist yet; otherwise a path that does not
    exist is refused, unless it is named like a file, which its reader will refuse.
    """
    if not isinstance(place, str | os.PathLike):
        raise BadInput(
            f"`source` and `output` name files, not {type(place).__name__}; data in memory is released by a "
            "mechanism, as in `sf.Gaussian(epsilon=1.0, clip=1.0).release(X)`.",
            parameter="source",
        )
    text = os.fspath(place)
    if is_remote(text):
        whole = _is_prefix(text) if folder is None else folder
        base, _, name = text.rstrip("/").rpartition("/")
        return Located(RemoteStore(text), None, text) if whole else Located(RemoteStore(base), name, text)
    path = Path(text)
    if folder is None and _is_prefix(text) and not path.exists():
        raise BadInput(f"{path.name or path} does not exist.")
    whole = path.is_dir() if folder is None else folder
    if whole:
        return Located(LocalStore(path), None, text)
    return Located(LocalStore(path.parent), path.name, text)


def _is_prefix(text: str) -> bool:
    if not text.endswith("/"):
        with suppress(BadInput):
            kind_of(text)
            return False
    return True


def keyed(mechanism: _M, noise: Keyed) -> _M:
    """Return ``mechanism`` with noise that gives the same bytes each time."""
    if not isinstance(mechanism, Mechanism):
        return cast(_M, mechanism.keyed_by(noise))
    parameters = mechanism.get_params(deep=False)
    if "randomness" in parameters:
        return type(mechanism)(**(parameters | {"randomness": noise}))
    name = type(mechanism).__name__
    if "noise" in parameters:
        raise BadInput(
            f"the noise of {name} cannot be keyed, so it cannot be used with a request or on a cluster, "
            "where the same work may be done twice.",
            parameter="request",
        )
    raise BadInput(f"{name} draws no noise, so none of it can be keyed to a request.", parameter="request")


def keyed_for(mechanism: _M, name: str | None) -> _M:
    """Return ``mechanism``, whose keyed noise, if it has such, is that of the file ``name`` alone."""
    noise = mechanism.keyed
    # A name need not be text that can be encoded; what ascii makes of it can, and no two become the same.
    return mechanism if noise is None or name is None else keyed(mechanism, noise.part(ascii(name)))


def refuse_for_media(name: str, given: Iterable[str]) -> None:
    """Refuse the first parameter of ``given``, which are for records, for ``name``, which holds media."""
    for parameter in given:
        raise BadInput(
            f"`{parameter}` is for records, and {name} holds pictures or sound.", parameter=parameter
        )


def refuse_schema(kind: SourceKind, name: str) -> None:
    """Refuse a schema for ``name`` of ``kind`` if that holds no table."""
    if kind in MEDIA or kind == "media":
        refuse_for_media(name, ["schema"])
    if kind == "array":
        raise BadInput("`schema` declares a table; for an array give `clip` or `bounds`.", parameter="schema")


def _plain(name: str, value: Any) -> Any:
    """Return ``value`` if it is a number, a word, a list of numbers or, for ``map``, boxes by picture."""
    if name == "randomness":
        raise BadInput("`randomness` is no part of a request.", parameter=name)
    if isinstance(value, bool | int | float | str | np.ndarray):
        return value
    if isinstance(value, Unit):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, int | float) for one in value):
        return list(value)
    if name == "map":
        from sfumato.release.media_files import DeclaredMaps

        return value if isinstance(value, DeclaredMaps) else DeclaredMaps.of(value)
    raise BadInput(f"`{name}` must be a number, a word or a list of numbers.", parameter=name)


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.to_dict() if hasattr(value, "to_dict") else value


def _canonical(value: Any) -> Any:
    """Return ``value`` with whole numbers as such: 1 and 1.0 are one value, and so are 1 and [1]."""
    if isinstance(value, list):
        return _canonical(value[0]) if len(value) == 1 else [_canonical(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _for_records(request: ReleaseRequest, kind: SourceKind, called: str) -> Mechanism:
    given = _numbers(request.parameters)
    name = request.mechanism or default_mechanism("array")
    if _of_media(name):
        raise BadInput(
            f"{name} is for pictures or sounds in files of their own, and {called} holds records.",
            parameter="mechanism",
        )
    if request.bounds_from_data and "bounds" in given:
        raise BadInput(
            "`bounds_from_data` and `bounds` each give bounds; one of them is accepted.", parameter="bounds"
        )
    # The bounds of a table stand in its schema.
    bounded = kind == "table" or request.schema is not None or request.bounds_from_data
    return _made(name, given, called, bounded=bounded)


def _for_media(request: ReleaseRequest, kind: SourceKind, called: str) -> MediaMechanisms:
    """Return the mechanisms for images, for audio, or one for each.

    The mechanism that is named is for one of them. If the source may hold both, the other one is the default;
    ε and δ go to those that take them, and every other parameter to the first that takes it.
    """
    from sfumato.media.audio import SoundMechanism
    from sfumato.media.images import PictureMechanism
    from sfumato.release.media_files import MediaMechanisms

    options = {name: getattr(request, name) for name in ("array", "bounds_from_data", "disjoint")}
    options = {"array": options.pop("array"), "then": request.alpha} | options
    refuse_for_media(called, [name for name, value in options.items() if value not in (None, False)])
    holds = (kind,) if kind == "picture" or kind == "sound" else _PARTS
    given = _numbers(request.parameters)
    units = _units(given, kind, holds, called)
    named = _part_named(request.mechanism, kind, holds, called)
    given, maps = _with_boxes(given, named.get("picture"))
    names = {part: default_mechanism(part) for part in holds} | named
    if "map" in given and "picture" in holds and "picture" not in named:
        names["picture"] = "content-adaptive"
    if "epsilon" not in given and named and not _takes(next(iter(named.values())), "epsilon"):
        # Blurred images need no budget, and audio beside them is refused file by file.
        names = dict(named)
    made = {}
    for part in names:
        own = {
            parameter: value
            for parameter, value in given.items()
            if part in _parts_that_get(parameter, names, named)
        }
        if units[part] is not None:
            own["unit"] = units[part]
        made[part] = _made(names[part], own, called, bounded=True)
    picture, sound = made.get("picture"), made.get("sound")
    assert picture is None or isinstance(picture, PictureMechanism)
    assert sound is None or isinstance(sound, SoundMechanism)
    return MediaMechanisms(picture, sound, maps, units["given"])


def _parts_that_get(parameter: str, names: Mapping[Part, str], named: Mapping[Part, str]) -> list[Part]:
    takers = [part for part in names if _takes(names[part], parameter)]
    if not takers:
        return list(named or names)[:1]  # which refuses it
    return takers if parameter in _SHARED else takers[:1]


def _numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``parameters`` with ε as the numbers that were given, and bounds as a pair."""
    given = dict(parameters)
    if "epsilon" in given and not isinstance(given["epsilon"], list):
        given["epsilon"] = [given["epsilon"]]
    if "bounds" in given:
        given["bounds"] = bounds_pair(given["bounds"])
    return given


def bounds_pair(bounds: Any) -> tuple[float, float]:
    """Return ``bounds`` as the lowest and the highest value."""
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        given = len(bounds) if isinstance(bounds, list | tuple) else shown(bounds)
        raise BadInput(
            f"`bounds` takes two numbers, as in `bounds=(0, 255)`, not {given}.", parameter="bounds"
        )
    return bounds[0], bounds[1]


def _units(
    given: dict[str, Any], kind: SourceKind, holds: tuple[Part, ...], called: str
) -> dict[str, Unit | None]:
    """Take the units out of ``given``; return the unit of each part, and the one that was given."""
    # Parsed, since two spellings of one unit are one parameter of the release.
    unit, sound_unit = (
        Unit.parse(given.pop(name)) if name in given else None for name in ("unit", "sound_unit")
    )
    if sound_unit is not None and "sound" not in holds:
        raise BadInput(f"`sound_unit` is for sounds, and {called} is a picture.", parameter="sound_unit")
    found: dict[str, Unit | None] = {"picture": None, "sound": sound_unit, "given": None}
    if unit is None:
        return found
    shown_unit = f"`unit={str(unit)!r}`"
    part = unit.kind.of
    having = "videos" if part == "video" else "sounds and videos" if unit.name == "clip" else ""
    if having and (kind == "picture" or (kind == "sound" and part == "video")):
        raise BadInput(f"{shown_unit} is one of {having}, and {called} is a {kind}.", parameter="unit")
    if part == "file" or part == "video":
        of_sounds = Unit("clip") if part == "file" else None
        return {"picture": Unit("item"), "sound": sound_unit or of_sounds, "given": unit}
    if part == "records":
        known = Unit.listed(Unit.names("picture", "sound", "video", "file"), typed=True)
        raise BadInput(f"{shown_unit} is not one of media: {known} are.", parameter="unit")
    if part not in holds:
        raise BadInput(f"{shown_unit} is one of {part}s, and {called} is a {holds[0]}.", parameter="unit")
    if part == "sound" and sound_unit is not None:
        raise BadInput(
            f"{shown_unit} and `sound_unit={str(sound_unit)!r}` are both of sounds; give one of them.",
            parameter="sound_unit",
        )
    return found | {part: unit, "given": unit}


def _part_named(name: str | None, kind: SourceKind, holds: tuple[Part, ...], called: str) -> dict[Part, str]:
    """Return the mechanism called ``name`` by the part that it is for."""
    if name is None:
        return {}
    fitting: dict[Part, tuple[str, ...]] = {part: mechanism_names(part) for part in _PARTS}
    part = next((part for part, names in fitting.items() if name in names), None)
    if part is None or part not in holds:
        _of_media(name)  # which refuses an unknown name
        others = ", ".join(sorted(one for other in holds for one in fitting[other]))
        what = "folder of pictures, sounds or videos" if kind == "media" else kind
        raise BadInput(
            f"{name} is for {part or 'record'}s, and {called} is a {what}; accepted are {others}.",
            parameter="mechanism",
        )
    return {part: name}


def _with_boxes(given: dict[str, Any], named: str | None) -> tuple[dict[str, Any], DeclaredMaps | None]:
    """Return the parameters that mechanisms take, and the public boxes among them."""
    map_ = given.get("map")
    if named == "mask" and isinstance(map_, str):
        raise BadInput(f"mask paints over what is declared: `map` takes {_BOXES}.", parameter="map")
    if "map" not in given:
        if named == "content-adaptive":
            raise BadInput(
                f"content-adaptive needs `map`: private, unaccounted, or {_BOXES}.", parameter="map"
            )
        return given, None
    if isinstance(map_, str) and (map_ in _MAPS or (map_ == "public" and "declared" in given)):
        return given, None
    if isinstance(map_, str | bool | int | float | list | np.ndarray):
        raise BadInput(
            f"`map` must be private, unaccounted, or {_BOXES}, not {shown(map_)}.", parameter="map"
        )
    # A mask takes boxes as an argument of its own; noise that follows a map takes the kind of the map.
    kind = {} if named == "mask" else {"map": "public"}
    return {name: value for name, value in given.items() if name != "map"} | kind, map_


def _of_media(name: str) -> bool:
    """Return whether the mechanism called ``name`` is for media; refuse an unknown name."""
    if name not in MECHANISMS:
        make_mechanism(name, {})  # which refuses it, with the nearest name
    return any(name in mechanism_names(kind) for kind in MEDIA)


def _takes(name: str, parameter: str) -> bool:
    """Return whether the mechanism called ``name`` takes ``parameter``."""
    if parameter in PARAMETERS:
        kinds = PARAMETERS[parameter].of_kinds
        return not kinds or any(name in mechanism_names(kind) for kind in kinds)
    return parameter in accepted_by(MECHANISMS[name])


def _made(name: str, given: Mapping[str, Any], called: str, *, bounded: bool) -> Mechanism:
    """Return the mechanism ``name``; refuse parameters of records for media, and the reverse.

    A parameter that the mechanism declares for Python alone is refused too.
    """
    of_media, declared = _of_media(name), parameters_of(MECHANISMS[name])
    for parameter in given:
        if parameter in declared and declared[parameter].doors == ("python",):
            raise BadInput(
                f"`{parameter}` of {name} is given where the mechanism is made in Python, and is no part of "
                "a request.",
                parameter=parameter,
            )
        if _takes(name, parameter):
            continue
        takers = [other for other in MECHANISMS if _takes(other, parameter)]
        if takers and all(_of_media(other) != of_media for other in takers):
            kind, holds = ("records", "pictures or sound") if of_media else ("pictures or sounds", "records")
            verb = "takes" if len(takers) == 1 else "take"
            raise BadInput(
                f"`{parameter}` is for {kind}, and {called} holds {holds}; {', '.join(takers)} {verb} it.",
                parameter=parameter,
            )
    return make_mechanism(name, given, bounded=bounded)
