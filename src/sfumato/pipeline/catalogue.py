"""Mechanisms by the names people type, made from the options they give."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    AdditiveNoise,
    Gaussian,
    Laplace,
    Mechanism,
    Personalised,
    RandomisedResponse,
    TrustAdaptive,
)
from sfumato.transforms import BinaryEncoding, RandomProjection, ReconstructionResistant

__all__ = ["MECHANISMS", "make_mechanism"]


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


#: Class names in kebab case.
MECHANISMS: Mapping[str, type[Mechanism]] = {
    _kebab(kind.__name__): kind
    for kind in (
        AdditiveNoise,
        BinaryEncoding,
        Gaussian,
        Laplace,
        Personalised,
        RandomProjection,
        RandomisedResponse,
        ReconstructionResistant,
        TrustAdaptive,
    )
}


def make_mechanism(name: str, options: Mapping[str, Any]) -> Mechanism:
    """The mechanism called ``name`` with those ``options`` that are not None.

    An option the mechanism does not take is refused, and so is ε given as a range where one number is
    meant, or the reverse.
    """
    if name not in MECHANISMS:
        near = difflib.get_close_matches(name, MECHANISMS, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise BadInput(f"there is no mechanism {name!r}: choose one of {', '.join(MECHANISMS)}{hint}")
    kind = MECHANISMS[name]
    accepted = [p for p in inspect.signature(kind).parameters if p != "randomness"]
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in accepted:
            flags = ", ".join(f"--{p}" for p in accepted if p in options)
            raise BadInput(f"{name} has no --{option}; it takes {flags}.")
    if "epsilon" in given:
        given["epsilon"] = _epsilon(name, kind, given["epsilon"])
        if kind is BinaryEncoding:
            given.setdefault("flip", None)
    return kind(**given)


def _epsilon(name: str, kind: type[Mechanism], values: Any) -> Any:
    wanted = 2 if kind is TrustAdaptive else 1
    if len(values) == 1 and not isinstance(values[0], float):
        if kind is not Personalised:
            raise BadInput(f"{name} has one ε for all records; --epsilon-file is for personalised.")
        return values[0]
    if len(values) != wanted:
        form = "a range, as in --epsilon 1 8" if wanted == 2 else "one number, as in --epsilon 1"
        raise BadInput(f"{name} takes {form}, not {' '.join(f'{v:g}' for v in values)}.")
    return tuple(values) if wanted == 2 else values[0]
