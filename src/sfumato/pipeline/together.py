"""Many releases of files as one: what is proven of each unit is what the worst of them proves.

The units of media lie inside one file: a region of a picture, a window of a sound, an item. Each takes part
in one release alone, so many files together promise, and cost, what the weakest of them does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dp_accounting import GaussianDpEvent, LaplaceDpEvent

from sfumato.errors import BadInput
from sfumato.pipeline.payment import Payment
from sfumato.privacy import Guarantee, Neighbours, Statement, Unit

__all__ = ["check_charge", "together"]

_PARTLY = "some of the files state nothing about this unit"
# Units that pictures, sounds or videos have and others of them do not.
_OF_SOME_MEDIA = ("region", "pixels", "window", "frame", "clip")


def together(
    statements: Sequence[Statement], unit: Unit | None = None, files: int | None = None
) -> Statement:
    """What releases with these ``statements``, each of another file, state as one.

    ``files`` is how many there are, where several share a statement, which then stands here once.

    The headline is about ``unit``, if one of them states something about it, else about that of the first.
    A unit that one of them says nothing about is left out, unless its kind of file has no such unit: there
    are no regions in a sound, and no windows in a picture.
    """
    first = statements[0]
    stated = [{_kind(part): part for part in (each.proven, *each.also_proven)} for each in statements]
    head = next((kind for parts in stated for kind in parts if kind[0] == unit), _kind(first.proven))
    worst = {}
    for kind in dict.fromkeys(kind for parts in stated for kind in parts):
        if all(kind in parts or _absent(kind[0], parts) for parts in stated):
            worst[kind] = _worst([parts[kind] for parts in stated if kind in parts])
    names = dict.fromkeys(statement.mechanism for statement in statements)
    parameters = first.parameters.items()
    return replace(
        first,
        mechanism=" and ".join(names),
        parameters={"files": len(statements) if files is None else files}
        | {name: value for name, value in parameters if _shared(name, value, statements)},
        proven=worst.get(head) or Guarantee.nothing(_PARTLY, *head),
        also_proven=tuple(part for kind, part in worst.items() if kind != head),
    )


def check_charge(names: Sequence[str], statements: Sequence[Statement], payment: Payment) -> None:
    """Refuse a budget whose unit one of the files does not have: that file would be released for nothing."""
    charged = [payment.charged(statement) for statement in statements]
    first = charged[0]
    for name, part in zip(names, charged, strict=True):
        if (part.unit, part.neighbours) != (first.unit, first.neighbours):
            raise BadInput(
                f"{names[0]} is paid for per {first.unit} and {name} per {part.unit}, and a budget counts "
                "one of them; release pictures and sounds from folders, and budgets, of their own."
            )


def _worst(parts: Sequence[Guarantee]) -> Guarantee:
    """What holds of whichever part it is.

    Of Gaussian, and of Laplace, noise the smaller is worse at every δ. Where curves may cross, what is left
    is the largest ε at the largest δ that is stated: each part has that ε there, or less.
    """
    worst = max(parts, key=Guarantee.epsilon)
    if not math.isfinite(worst.epsilon()) or all(_ordered(part, worst) for part in parts):
        return worst
    # Approximate guarantees at δ = 0 are pure ones.
    delta = max(part.at_delta for part in parts)
    return Guarantee.approximate(
        max(part.epsilon(delta) for part in parts),
        delta,
        unit=worst.unit,
        neighbours=worst.neighbours,
        theorem=f"the worst of: {worst.theorem}",
    )


def _ordered(part: Guarantee, worst: Guarantee) -> bool:
    """Whether ``worst`` bounds ``part``, which has no larger ε at its own δ, at every δ."""
    if replace(part, theorem="") == replace(worst, theorem=""):
        return True
    plain = part.slack == part.revealed == worst.slack == worst.revealed == 0.0
    alike = type(part.event) is type(worst.event) and part.at_delta == worst.at_delta
    return plain and alike and isinstance(part.event, GaussianDpEvent | LaplaceDpEvent)


def _kind(part: Guarantee) -> tuple[Unit, Neighbours]:
    return part.unit, part.neighbours


def _absent(unit: Unit, parts: Iterable[tuple[Unit, Neighbours]]) -> bool:
    """Whether a file that states ``parts`` has no unit of the kind of ``unit`` at all."""
    return unit.name in _OF_SOME_MEDIA and all(other.name != unit.name for other, _ in parts)


def _shared(name: str, value: object, statements: Sequence[Statement]) -> bool:
    return all(
        name in statement.parameters and statement.parameters[name] == value for statement in statements
    )
