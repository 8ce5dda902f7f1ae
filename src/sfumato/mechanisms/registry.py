"""Mechanisms by name, what each declares of its parameters, and how doors offer them.

Names are class names in kebab case. The index, written by ``make index``, says which module has the class;
that module alone is imported, when the class is needed. So help can be printed and a request read without
loading NumPy.

``Annotated[float, Parameter("Standard deviation of the noise.")]`` says once what a parameter is. Options of
the command line, schemas, forms, ``sf.mechanism`` and the reference are derived from it.

A parameter has a **wire name**. Wire names, not Python names, enter keyed noise and ledger commitments. A
renamed parameter keeps its wire name, so every release made before keeps its bytes and its price.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from sfumato.errors import BadInput, Door, quoted

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Mechanism

__all__ = [
    "MECHANISMS",
    "Option",
    "Parameter",
    "accepted_by",
    "chosen",
    "default_mechanism",
    "describe_defaults",
    "describe_parameter",
    "make_mechanism",
    "mechanism",
    "mechanism_names",
    "mechanism_places",
    "options_at",
    "parameters_of",
    "refuse_foreign",
    "shown",
    "typed_value",
]

_DOORS: tuple[Door, ...] = ("python", "command line", "service")
# Whole numbers beyond it are no floats of use.
_LARGEST = 1e100
# A parameter of more mechanisms is described without a list of them.
_MANY = 4


@dataclass(frozen=True)
class Parameter:
    """Declaration of a parameter beyond its type and default.

    Args:
        help: One line that says what it is.
        symbol: What stands for its value in help, such as ``ε``.
        choices: The words that it accepts.
        arity: How many values are typed for it; None for any number of them.
        array: Whether it may be an array, which the command line reads from a .npy file.
        file: A further option of the command line that names a file with one value for each record.
        doors: The doors that have it.
        bound: For one that bounds the records: what is missing where no such parameter is given.
        instead_of: The parameter that it replaces.
        wire: Its wire name, by default its Python name.
        added: Whether it was added after releases had been made: then it enters keyed noise and commitments
            only where it is not at its default.
        type: Its type at the doors, where Python takes more.
        renamed: For one whose wire name people used to type: what to give instead.
        of_kinds: For one of a request, whatever its mechanism: the kinds of data that have it, or all.

    ``name``, ``default`` and, unless given, ``type`` are filled in by :func:`parameters_of`.
    """

    help: str = ""
    symbol: str = ""
    choices: tuple[str, ...] = ()
    arity: int | None = 1
    array: bool = False
    file: str = ""
    doors: tuple[Door, ...] = _DOORS
    bound: str = ""
    instead_of: str = ""
    wire: str = ""
    added: bool = False
    renamed: str = ""
    of_kinds: tuple[str, ...] = ()
    name: str = ""
    type: Any = None
    default: Any = None


@cache
def parameters_of(kind: type) -> Mapping[str, Parameter]:
    """Return the declaration of every parameter of ``kind``, by Python name, with its type and default."""
    # Parameters stand in the body of a class that is a dataclass, else in the signature of ``__init__``.
    owner = next(base for base in kind.__mro__ if "__init__" in vars(base))
    declaring: Any = owner if "__dataclass_fields__" in vars(owner) else owner.__init__  # type: ignore[misc]
    hints = get_type_hints(declaring, include_extras=True)
    found: dict[str, Parameter] = {}
    for name, taken in inspect.signature(kind).parameters.items():
        metadata = getattr(hints.get(name), "__metadata__", ())
        given = next((item for item in metadata if isinstance(item, Parameter)), Parameter())
        typed = get_args(hints[name])[0] if metadata else hints.get(name)
        named = replace(given, wire=given.wire or name, name=name)
        found[name] = replace(named, type=given.type or typed, default=taken.default)
    if len({declared.wire for declared in found.values()}) < len(found):
        raise TypeError(f"two parameters of {kind.__name__} have one wire name.")
    return found


def shown(value: Any) -> str:
    """Return ``value`` as it stands in an error message: on one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes out no whole number of more than some thousand digits
        text = "a whole number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."


def _in_range(name: str, value: Any) -> Any:
    """Return ``value``, unless it is or holds a whole number beyond ±1e100; the mechanism checks the rest."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, int) and abs(one) > _LARGEST:
            raise BadInput(
                f"`{name}` must be given in numbers within ±{_LARGEST:g}, not {shown(value)}.", parameter=name
            )
    return value


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


def typed_value(options: Sequence[Option], texts: Sequence[str]) -> Any:
    """Return the value of a parameter for which ``texts`` were typed.

    Numbers are read where numbers are meant. What is none stays a text: whether it fits is for the mechanism
    to say.
    """
    types = {kind for one in options for kind in one.types}
    values = [_typed_number(types, text) for text in texts]
    several = any(one.several for one in options)
    return values if several and not (len(values) == 1 and isinstance(values[0], str)) else values[0]


def _typed_number(types: set[str], text: str) -> Any:
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


class _Classes(Mapping[str, "type[Mechanism]"]):
    """Classes by name; the module of a class is imported when the class is asked for."""

    def __getitem__(self, name: str) -> type[Mechanism]:
        place = mechanism_places()[name]
        found: type[Mechanism] = getattr(importlib.import_module(place.module), place.name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in mechanism_places()

    def __iter__(self) -> Iterator[str]:
        return iter(mechanism_places())

    def __len__(self) -> int:
        return len(mechanism_places())


#: The mechanisms that every door offers.
MECHANISMS: Mapping[str, type[Mechanism]] = _Classes()


def mechanism_names(kind: str | None = None) -> tuple[str, ...]:
    """Return the names of the mechanisms for data of ``kind``, such as ``"table"``, or of all mechanisms."""
    return tuple(name for name, place in mechanism_places().items() if kind is None or kind in place.kinds)


def default_mechanism(kind: str) -> str:
    """Return the name of the mechanism that data of ``kind`` goes through unless one is named."""
    return next(name for name, place in mechanism_places().items() if kind in place.default_for)


def mechanism(name: str, /, **parameters: Any) -> Mechanism:
    """Return the mechanism called ``name`` with ``parameters``, as ``mechanism("gaussian", epsilon=1.0)``.

    A parameter that it does not take is refused, with the mechanisms that take it; so is a missing ε.
    """
    kind = _class_of(name)
    _check_taken(name, kind, parameters, parameters_of(kind), list(parameters_of(kind)))
    _check_complete(name, kind, parameters, bounded=True)
    return kind(**_without_replaced(kind, parameters))


def make_mechanism(name: str, options: Mapping[str, Any], *, bounded: bool = False) -> Mechanism:
    """Return the mechanism called ``name`` with those ``options`` that are not None.

    ``options`` are the mechanism's parameters as doors give them: ``epsilon`` is the list of numbers that was
    typed, ``epsilon_file`` an array with one ε a record. A parameter that the mechanism does not take is
    refused, and so is a missing ε, a range of ε where one number is meant or the reverse, and a missing bound
    on the records, unless it is ``bounded`` by other means. Whole numbers beyond ±1e100 are refused whatever
    they are for.
    """
    kind = _class_of(name)
    given = {option: _in_range(option, value) for option, value in options.items() if value is not None}
    listed = [one.name for one in parameters_of(kind).values() if "command line" in one.doors]
    listed += [option for option in accepted_by(kind) if option not in parameters_of(kind)]
    _check_taken(name, kind, given, accepted_by(kind), listed)
    _check_complete(name, kind, given, bounded=bounded)
    for parameter in parameters_of(kind).values():
        if parameter.name == "epsilon" and parameter.name in given:
            given[parameter.name] = _typed(name, parameter, given[parameter.name])
        if parameter.file in given:
            if parameter.name in given:
                raise BadInput(
                    f"give either `{parameter.name}` or `{parameter.file}`, not both.",
                    parameter=parameter.file,
                )
            given[parameter.name] = given.pop(parameter.file)
    return kind(**_without_replaced(kind, given))


def accepted_by(kind: type[Mechanism]) -> list[str]:
    """Return the parameters that ``kind`` takes, and the options that name a file with one of them."""
    declared = parameters_of(kind)
    return [*declared, *(parameter.file for parameter in declared.values() if parameter.file)]


def chosen(name: str, names: Iterable[str], what: str, *, meant: str | None = None) -> str:
    """Return ``name`` if it is one of ``names``; otherwise refuse it with the nearest, or with all of them.

    ``meant`` is how somebody would have spelled it who knew the manner of the names.
    """
    known = list(names)
    if name not in known:
        typed = (name.lower() if meant is None else meant).replace("_", "-")
        near = difflib.get_close_matches(typed, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}."
        raise BadInput(f"there is no {what} {name!r}; {hint}", parameter=what)
    return name


def refuse_foreign(
    name: str, given: Iterable[str], taken: Sequence[str], others: Mapping[str, type[Mechanism]] | None = None
) -> None:
    """Refuse the first parameter of ``given`` that ``name`` does not take, saying which ones it does.

    ``others`` are mechanisms by name; those that take the parameter are named too.
    """
    for option in given:
        if option not in taken:
            takers = [other for other, kind in (others or {}).items() if option in accepted_by(kind)]
            known = ", ".join(map(quoted, taken)) or "no parameters"
            theirs = f"; {quoted(option)} is for {', '.join(takers)}" if takers else ""
            raise BadInput(f"{name} has no {quoted(option)}; it takes {known}{theirs}.", parameter=option)


def _class_of(name: str) -> type[Mechanism]:
    # A capital begins a word after a small letter, and before one at the end of capitals: TensorLDP.
    meant = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
    return MECHANISMS[chosen(name, MECHANISMS, "mechanism", meant=meant)]


def _check_taken(
    name: str, kind: type[Mechanism], given: Iterable[str], taken: Collection[str], listed: Sequence[str]
) -> None:
    """Refuse what is not ``taken``, with what is: the parameters ``listed``."""
    for parameter in parameters_of(kind).values():
        if parameter.renamed and parameter.wire in given:
            raise BadInput(
                f"{name} has no `{parameter.wire}`; give `{parameter.name}`, {parameter.renamed}.",
                parameter=parameter.wire,
            )
    refuse_foreign(name, [option for option in given if option not in taken], listed, MECHANISMS)


def _check_complete(name: str, kind: type[Mechanism], given: Mapping[str, Any], *, bounded: bool) -> None:
    """Refuse what has no default that is right for everybody and is missing: a budget, a bound on records."""
    declared, missing = parameters_of(kind), {}
    budget = declared.get("epsilon")
    if budget is not None:
        others = [budget.file] if budget.file else []
        others += [one.name for one in declared.values() if one.instead_of == "epsilon"]
        if not {"epsilon", *others} & set(given):
            example = "`epsilon=(1, 8)`" if budget.arity == 2 else "`epsilon=1`"
            ways = [f"a privacy budget ({example})", *(f"`{other}`" for other in others)]
            missing["epsilon"] = " or ".join(ways)
    bounds = {one.name: one.bound for one in declared.values() if one.bound}
    if bounds and not bounded and not set(bounds) & set(given):
        bound = " or ".join(bounds.values())
        missing[next(iter(bounds))] = f"a bound on the records, {bound}, which must not be read off the data"
    if missing:
        raise BadInput(f"{name} needs {' and '.join(missing.values())}.", parameter=next(iter(missing)))


def _typed(name: str, parameter: Parameter, values: Sequence[Any]) -> Any:
    """Return what was typed for ``parameter``: one value, or as many as it takes."""
    if len(values) != parameter.arity:
        form = "a range, as in `epsilon=(1, 8)`" if parameter.arity == 2 else "one number, as in `epsilon=1`"
        given = " ".join(f"{value:g}" if isinstance(value, int | float) else shown(value) for value in values)
        raise BadInput(f"{name} takes {form}, not {given or 'none'}.", parameter=parameter.name)
    return values[0] if parameter.arity == 1 else tuple(values)


def _without_replaced(kind: type[Mechanism], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` without the default of a parameter that stands instead of one that is given."""
    replaced = [
        one.name for one in parameters_of(kind).values() if one.instead_of in given and one.name not in given
    ]
    return dict.fromkeys(replaced) | dict(given)
