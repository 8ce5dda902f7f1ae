"""Publishers by the names people type, made from the options they give; imported when they are asked for."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.noise import Randomness
from sfumato.publish import CertifiedPublisher, Publisher

__all__ = ["METHODS", "PublicFacts", "leaves_out_as_null", "make_publisher", "seconds_of"]

#: Names on the command line, and where the class behind each of them stands.
METHODS: Mapping[str, tuple[str, str]] = {
    "certified": ("certified", "CertifiedPublisher"),
    "curvature": ("curvature_publisher", "CurvaturePublisher"),
    "pixelation": ("obscuring", "PixelationPublisher"),
    "blur": ("obscuring", "BlurPublisher"),
    "k-anonymity": ("k_anonymity", "KAnonymityPublisher"),
    "vaegan-dp": ("vaegan_dp", "VAEGANDPPublisher"),
    "dpdm": ("dpdm", "DPDMPublisher"),
}

# What the extra learn adds, and which methods import one of these only when they fit: too late to refuse.
_LEARN = ("torch", "opacus")
_LATER = {"vaegan-dp": "opacus"}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True)
class PublicFacts:
    """What is declared about a dataset, and may stand in a statement.

    ``shape`` is that of a picture, ``top`` its largest value. ``classes`` is None where nobody declared how
    many there are, ``records`` the number of pictures, public under ``replace`` and ``zero-out`` neighbours.
    """

    shape: tuple[int, ...]
    top: float
    classes: int | None
    records: int


def make_publisher(
    name: str,
    options: Mapping[str, Any],
    facts: PublicFacts,
    *,
    randomness: Randomness | None = None,
) -> Publisher:
    """The publisher called ``name`` with those ``options`` that are not None, for a dataset of ``facts``.

    ``options`` are parameters of publishers; one that this publisher does not take is refused, and so are a
    missing ε and, where the publisher is told the number of classes, that nobody declared it. A time budget
    is a limit that publishers which do not train keep anyway; those that take a number of steps refuse it.
    """
    kind = _kind(name)
    accepted = inspect.signature(kind).parameters
    given = {option: value for option, value in options.items() if value is not None}
    if "time_budget" not in accepted and "steps" in accepted and "time_budget" in given:
        raise BadInput(f"{name} has no --time-budget: it takes --steps, which its guarantee depends on.")
    if "time_budget" not in accepted:
        given.pop("time_budget", None)
    for option in given:
        if option not in accepted:
            flags = ", ".join(_flag(each) for each in options if each in accepted)
            raise BadInput(f"{name} has no {_flag(option)}; it takes {flags or 'no options'}.")
    if "epsilon" in accepted and not {"epsilon", "multiplier"} & set(given):
        raise BadInput(f"{name} needs a privacy budget (--epsilon 1).")
    known: dict[str, Any] = {
        "shape": facts.shape,
        "top": facts.top,
        "classes": facts.classes,
        "records": facts.records,
        "randomness": randomness,
    }
    if "classes" in accepted and facts.classes is None:
        raise BadInput(
            f"{name} needs --classes N: how many classes there are is public, and must not be read off the "
            "labels."
        )
    return kind(**given, **{fact: value for fact, value in known.items() if fact in accepted})


def leaves_out_as_null(publisher: Publisher) -> bool:
    """Whether a record that is not fitted is to ``publisher`` what a null record would be.

    True of sums to which a null record adds nothing. Publishers that learn by noisy steps divide them by the
    number of records, in which a null record counts and one that is not fitted does not.
    """
    return isinstance(publisher, CertifiedPublisher)


def seconds_of(duration: str) -> float:
    """``90s``, ``20m``, ``1h`` or ``1h30m`` in seconds."""
    match = _DURATION.fullmatch(duration.strip().lower())
    parts = match.groups() if match else ()
    seconds = sum(
        float(number) * unit for number, unit in zip(parts, _UNITS.values(), strict=False) if number
    )
    if seconds <= 0.0:
        raise BadInput(f"--time-budget was {duration!r}: a time such as 90s, 20m or 1h30m is accepted.")
    return seconds


def _kind(name: str) -> type[Publisher]:
    if name not in METHODS:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), METHODS, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(METHODS)}."
        raise BadInput(f"there is no method {name!r}; {hint}")
    module, kind = METHODS[name]
    try:
        found: type[Publisher] = getattr(importlib.import_module(f"sfumato.publish.{module}"), kind)
        if name in _LATER:
            importlib.import_module(_LATER[name])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LEARN:
            raise
        raise BadInput(f"the method {name} needs {missing}: pip install 'sfumato[learn]'.") from None
    return found


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
