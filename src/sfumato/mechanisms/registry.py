"""Mechanisms by the names people type, made from the parameters they give.

Names are class names in kebab case. The index, written by ``make index``, says which module has the class;
that module alone is imported. What a mechanism takes is read from its declaration.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sfumato.errors import BadInput, quoted
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.index import PLACES
from sfumato.mechanisms.parameters import Parameter, in_range, parameters_of, shown

__all__ = [
    "MECHANISMS",
    "accepted_by",
    "chosen",
    "default_mechanism",
    "make_mechanism",
    "mechanism",
    "mechanism_names",
    "refuse_foreign",
]


class _Classes(Mapping[str, type[Mechanism]]):
    """Classes by name; the module of a class is imported when the class is asked for."""

    def __getitem__(self, name: str) -> type[Mechanism]:
        place = PLACES[name]
        found: type[Mechanism] = getattr(importlib.import_module(place.module), place.name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


#: The mechanisms that every door offers.
MECHANISMS: Mapping[str, type[Mechanism]] = _Classes()


def mechanism_names(kind: str | None = None) -> tuple[str, ...]:
    """Return the names of the mechanisms for data of ``kind``, such as ``"table"``, or of all mechanisms."""
    return tuple(name for name, place in PLACES.items() if kind is None or kind in place.kinds)


def default_mechanism(kind: str) -> str:
    """Return the name of the mechanism that data of ``kind`` goes through unless one is named."""
    return next(name for name, place in PLACES.items() if kind in place.default_for)


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
    given = {option: in_range(option, value) for option, value in options.items() if value is not None}
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
