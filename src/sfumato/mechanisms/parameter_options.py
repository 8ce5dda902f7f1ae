"""Parameters of mechanisms as doors offer them, from the index: what each is called, takes and means.

Nothing here imports a mechanism, so that help can be printed and a request read before one is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.errors import Door

__all__ = [
    "Option",
    "describe_defaults",
    "describe_parameter",
    "mechanism_places",
    "options_at",
    "refuse_other_doors",
    "typed_value",
]

# Of how many mechanisms a parameter is that is described without a list of them.
_MANY = 4


class Place(NamedTuple):
    """The module and the class of a mechanism, and the kinds of data that it serves.

    ``default_for`` are the kinds that go through it unless another mechanism is named.
    """

    module: str
    name: str
    kinds: tuple[str, ...]
    default_for: tuple[str, ...] = ()


class Option(NamedTuple):
    """A parameter as the mechanisms ``of`` declare it, for the ``doors`` that have it beside Python."""

    of: tuple[str, ...]
    help: str = ""
    symbol: str = ""
    types: tuple[str, ...] = ()
    several: bool = False
    array: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    bound: bool = False
    doors: tuple[str, ...] = ()


def mechanism_places() -> dict[str, Place]:
    """Return the mechanisms that every door offers, by name: where each is, and what it serves."""
    from sfumato.mechanisms.index import PLACES

    return PLACES


def describe_defaults() -> str:
    """Return which mechanism each kind of data goes through unless one is named, as help lists them."""
    return ", ".join(
        f"{name} for {' and '.join(f'{kind}s' for kind in place.default_for)}"
        for name, place in mechanism_places().items()
        if place.default_for
    )


def options_at(door: Door) -> dict[str, tuple[Option, ...]]:
    """Return the parameters that ``door`` has, by name; mechanisms that declare the same share an option."""
    from sfumato.mechanisms.index import OPTIONS

    found = {name: tuple(one for one in every if door in one.doors) for name, every in OPTIONS.items()}
    return {name: options for name, options in found.items() if options}


def refuse_other_doors(given: Iterable[str], door: Door) -> None:
    """Refuse the first parameter of ``given`` that mechanisms declare, but for other doors than ``door``."""
    from sfumato.mechanisms.index import OPTIONS

    for name in given:
        doors = {other: None for one in OPTIONS.get(name, ()) for other in one.doors}
        if doors and door not in doors:
            raise BadInput(f"`{name}` is a parameter of the {' and the '.join(doors)} alone.", parameter=name)


def typed_value(options: Sequence[Option], texts: Sequence[str]) -> Any:
    """Return the value of a parameter for which ``texts`` were typed.

    Numbers are read where numbers are meant. What is none stays a text: whether it fits is for the mechanism
    to say.
    """
    types = {kind for one in options for kind in one.types}
    values = [_number(types, text) for text in texts]
    several = any(one.several for one in options)
    return values if several and not (len(values) == 1 and isinstance(values[0], str)) else values[0]


def _number(types: set[str], text: str) -> Any:
    for kind, make in (("whole number", int), ("number", float)):
        if kind in types:
            try:
                return make(text)
            except ValueError:
                continue
    return text


def describe_parameter(options: Sequence[Option]) -> str:
    """Return what mechanisms say of a parameter; those that say the same are named together."""
    said: dict[str, list[Option]] = {}
    for one in options:
        choices = f" {', '.join(one.choices[:-1])} or {one.choices[-1]}." if one.choices else ""
        said.setdefault(one.help + choices, []).append(one)
    texts: list[str] = []
    for text, same in sorted(said.items(), key=lambda part: -sum(len(one.of) for one in part[1])):
        of = [name for one in same for name in one.of]
        # The rule needs no names; exceptions do.
        named = "" if not texts and len(of) > _MANY else f"{', '.join(of)}: "
        texts.append(f"{named}{text}{_defaults(same)}")
    return " ".join(texts)


def _defaults(same: Sequence[Option]) -> str:
    """Return the default, or the defaults with the mechanisms that have them."""
    shown = [(one.of, one.default) for one in same if one.default is not None]
    if not shown:
        return ""
    texts = [f"{default:g}" if isinstance(default, float) else str(default) for _, default in shown]
    if len(same) > 1:
        texts = [f"{text} for {', '.join(of)}" for (of, _), text in zip(shown, texts, strict=True)]
    return f" {', '.join(texts)} unless given."
