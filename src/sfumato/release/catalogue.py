"""Mechanisms by the names people type, made from the options they give."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import in_range, shown
from sfumato.release.suggestions import chosen, refuse_foreign

if TYPE_CHECKING:
    from sfumato.mechanisms import Mechanism

__all__ = ["MECHANISMS", "make_mechanism"]


def _kebab(name: str) -> str:
    # A capital begins a word after a small letter, and before one at the end of capitals: TensorLDP.
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


# The room that each class stands in.
_ROOMS = {
    "mechanisms": (
        *("AdditiveNoise", "Duchi", "Gaussian", "GridTensorLDP", "Hybrid", "Laplace", "Personalised"),
        *("Piecewise", "PrivUnit", "PrivUnitG", "RandomisedResponse", "TensorLDP", "TrustAdaptive"),
        "WeightedTensorLDP",
    ),
    "media": (
        *("BandNoise", "Blur", "ContentAdaptive", "DPPix", "Mask", "MelLaplace", "Pixelate", "PlaneBands"),
        *("PlaneMeans", "ScaledPixels", "SelectiveNoise", "SpectralLaplace", "UniformPixels"),
    ),
    "mechanisms.transforms": ("BinaryEncoding", "RandomProjection", "ReconstructionResistant"),
}


class _Classes(Mapping[str, "type[Mechanism]"]):
    """Classes by their names in kebab case; the module of a class is loaded when the class is asked for."""

    def __init__(self, rooms: Mapping[str, Sequence[str]]) -> None:
        named = {name: room for room, names in rooms.items() for name in names}
        self._places = {_kebab(name): (named[name], name) for name in sorted(named)}

    def __getitem__(self, name: str) -> type[Mechanism]:
        room, kind = self._places[name]
        loaded: type[Mechanism] = getattr(importlib.import_module(f"sfumato.{room}"), kind)
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


#: Class names in kebab case.
MECHANISMS: Mapping[str, type[Mechanism]] = _Classes(_ROOMS)


def make_mechanism(name: str, options: Mapping[str, Any], *, bounded: bool = False) -> Mechanism:
    """The mechanism called ``name`` with those ``options`` that are not None.

    ``options`` are the mechanism's parameters, with ``epsilon`` as the list of numbers that was typed, and
    ``epsilon_file``, an array with one ε a record. An option that the mechanism does not take is refused, and
    so is a missing ε, a range of ε where one number is meant or the reverse, and a missing bound on the
    records, unless it is ``bounded`` by other means. Whole numbers beyond ±1e100 are refused
    whatever they are for.
    """
    kind = MECHANISMS[chosen(name, MECHANISMS, "mechanism", meant=_kebab(name))]
    accepted = list(inspect.signature(kind).parameters)
    if kind.__name__ == "Personalised":
        accepted.append("epsilon_file")
    given = {option: in_range(option, value) for option, value in options.items() if value is not None}
    if "trust" in given and "distrust" in accepted:
        raise BadInput(
            f"{name} has no `trust`; give `distrust`, 0 for the most trusted reader.", parameter="trust"
        )
    refuse_foreign(name, given, [parameter for parameter in accepted if parameter in options], MECHANISMS)
    missing = _missing(kind, accepted, given, bounded)
    if missing:
        raise BadInput(f"{name} needs {' and '.join(missing.values())}.", parameter=next(iter(missing)))
    if "epsilon" in given:
        given["epsilon"] = _epsilon(name, kind, given["epsilon"])
        if kind.__name__ == "BinaryEncoding":
            # It has a flip by default; a flip beside an ε is for the mechanism itself to refuse.
            given.setdefault("flip", None)
    if "epsilon_file" in given:
        if "epsilon" in given:
            raise BadInput("give either `epsilon` or `epsilon_file`, not both.", parameter="epsilon_file")
        given["epsilon"] = given.pop("epsilon_file")
    return kind(**given)


def _missing(
    kind: type[Mechanism], accepted: Sequence[str], given: Mapping[str, Any], bounded: bool
) -> dict[str, str]:
    """Return what has no default that is right for everybody, by parameter: a budget, a bound on records."""
    missing = {}
    if "epsilon" in accepted and not {"epsilon", "epsilon_file", "flip"} & set(given):
        others = [f"`{other}`" for other in ("epsilon_file", "flip") if other in accepted]
        example = "`epsilon=(1, 8)`" if "distrust" in accepted else "`epsilon=1`"
        missing["epsilon"] = " or ".join([f"a privacy budget ({example})", *others])
    ways = {
        "clip": "a radius (`clip=1.0`)",
        "bounds": "the lowest and highest value (`bounds=(0, 255)`)",
    }
    possible = [way for option, way in ways.items() if option in accepted]
    if possible and not bounded and not set(ways) & set(given) and kind.__name__ != "BinaryEncoding":
        bound = f"a bound on the records, {' or '.join(possible)}, which must not be read off the data"
        missing["clip" if "clip" in accepted else "bounds"] = bound
    return missing


def _epsilon(name: str, kind: type[Mechanism], values: Sequence[Any]) -> float | tuple[float, float]:
    wanted = 2 if kind.__name__ == "TrustAdaptive" else 1
    if len(values) != wanted:
        form = "a range, as in `epsilon=(1, 8)`" if wanted == 2 else "one number, as in `epsilon=1`"
        given = " ".join(f"{value:g}" if isinstance(value, int | float) else shown(value) for value in values)
        raise BadInput(f"{name} takes {form}, not {given or 'none'}.", parameter="epsilon")
    return (values[0], values[1]) if wanted == 2 else values[0]
