"""Combine the statements of many files that are released together.

If no unit is in two files (a region of an image, a window of audio, an item, a row of one file that is cut
into parts), each unit takes part in one release alone, and all of them guarantee what the weakest does: for
neighbours that differ in one unit, every file but one is drawn from the same distribution under both.

Files of records differ. A person, and even a whole copy of a file, may be in each of them, so that neighbours
differ in every file. The releases are drawn independently, and the composition theorem bounds all of them:
the events of the files are composed, slacks add up. That is stated and paid, unless the owner declares that
no record is in two files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy import GaussianEvent, Guarantee, LaplaceEvent, Neighbours, Statement, Unit
from sfumato.release.path import Payment

#: Why no unit is in two files.
DECLARED_DISJOINT = "the owner declares that no record is in two of the files; nobody has checked it"
INSIDE_ONE_FILE = "each unit is taken to be in one of the files: where a file is there twice, so is its cost"
PARTS = "each record is in one of the files, which are parts of one"
_ADDED = "a record may be in each of the files, so what they cost is added up"
_PUBLIC = "how many files there are, and how large each is, counts as public"
_PARTLY = "some of the files state nothing about this unit"
# Units that pictures, sounds or videos have and others of them do not; sounds have channels, and state none.
_OF_SOME_MEDIA = {*Unit.names("picture", "sound", "video", "file")} - {"channel", "item"}


def combine_statements(
    statements: Iterable[Statement], unit: Unit | None = None, *, apart: str | None = None
) -> Statement:
    """Return what releases with these ``statements``, one for each file, state as one.

    ``apart`` says why no unit is in two files, and is noted; without it the files are composed, and the
    headline stays at the largest δ of a file if something finite is proven there.

    The headline is about ``unit``, if one of them states something about it, else about that of the first.
    A unit that one of them says nothing about is left out, unless its kind of file has no such unit: there
    are no regions in audio, and no windows in an image.
    """
    counted = _counted(statements)
    statements, files = list(counted), sum(counted.values())
    first = statements[0]
    stated = [{_kind(part): part for part in (each.proven, *each.also_proven)} for each in statements]
    head = next((kind for parts in stated for kind in parts if kind[0] == unit), _kind(first.proven))
    whole = {}
    for kind in dict.fromkeys(kind for parts in stated for kind in parts):
        if apart is None and all(kind in parts for parts in stated):
            whole[kind] = _composed([(p[kind], n) for p, n in zip(stated, counted.values(), strict=True)])
        elif apart is not None and all(kind in parts or _absent(kind[0], parts) for parts in stated):
            whole[kind] = _worst([parts[kind] for parts in stated if kind in parts])
    of_all = {"files": files} | ({"disjoint": True} if apart == DECLARED_DISJOINT else {})
    named = [{"mechanism": one.mechanism, "parameters": one.parameters} for one in statements]
    terms = [one.terms for one in statements if one.terms is not None]
    return replace(
        first,
        **_in_common(named, of_all),
        terms=_in_common(terms, of_all) if len(terms) == len(statements) else None,
        proven=whole.get(head) or Guarantee.nothing(_PARTLY, *head),
        also_proven=tuple(part for kind, part in whole.items() if kind != head),
        notes=(*first.notes, *(() if files == 1 else (_ADDED if apart is None else apart, _PUBLIC))),
    )


def note_for_each_file(whole: Statement, apart: str | None) -> str:
    """Return the note of one of several files about all of them, which state ``whole`` together."""
    parts = "; ".join(str(part) for part in (whole.proven, *whole.also_proven))
    why = _ADDED if apart is None else apart
    return f"one of {whole.parameters['files']} files that are released together; {why}; all of them: {parts}"


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


def _counted(statements: Iterable[Statement]) -> Counter[Statement]:
    """Return how often each of ``statements`` occurs: a million files of one kind share one object."""
    kept = list(statements)
    objects = {id(one): one for one in kept}
    counts: Counter[Statement] = Counter()
    for key, count in Counter(map(id, kept)).items():
        counts[objects[key]] += count
    return counts


def _composed(parts: Sequence[tuple[Guarantee, int]]) -> Guarantee:
    """Return the composition of ``parts``, each as often as it is given.

    It is stated at the largest δ of a part, so that many files are not stated at a large one; if nothing
    finite is proven there, at the sum of all.
    """
    counts: Counter[Guarantee] = Counter()
    for part, count in parts:
        counts[part] += count
    made = Guarantee.compose([part.times(count) for part, count in counts.items()])
    plain = replace(made, at_delta=max(part.at_delta for part in counts))
    if math.isfinite(plain.epsilon()) or made.proves_nothing:
        return plain
    if made.at_delta >= 1.0:
        return Guarantee.nothing(f"{made.theorem}: its δ reaches 1", made.unit, made.neighbours)
    return made


def _worst(parts: Sequence[Guarantee]) -> Guarantee:
    """Return what holds of every part.

    Of Gaussian, and of Laplace, noise the smaller is worse at every δ. If curves may cross, it is the largest
    ε at the largest δ that is stated: each part has that ε there, or less.
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
    """Return whether ``worst`` bounds ``part``, which has no larger ε at its own δ, at every δ."""
    if part.changed(theorem="") == worst.changed(theorem=""):
        return True
    plain = part.slack == part.revealed == worst.slack == worst.revealed == 0.0
    alike = type(part.described) is type(worst.described) and part.at_delta == worst.at_delta
    return plain and alike and isinstance(part.described, GaussianEvent | LaplaceEvent)


def _kind(part: Guarantee) -> tuple[Unit, Neighbours]:
    return part.unit, part.neighbours


def _absent(unit: Unit, parts: Iterable[tuple[Unit, Neighbours]]) -> bool:
    """Return whether a file that states ``parts`` has no unit of the kind of ``unit`` at all."""
    return unit.name in _OF_SOME_MEDIA and all(other.name != unit.name for other, _ in parts)


def _in_common(named: Sequence[Mapping[str, Any]], of_all: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of all mechanisms, and ``of_all`` with the parameters that they have in common."""
    first, *others = [each["parameters"] for each in named]
    alike = {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }
    mechanism = " and ".join(sorted({each["mechanism"] for each in named}))
    return {"mechanism": mechanism, "parameters": {**of_all, **alike}}
