"""Publishers by the names people type, made from the options they give; imported when they are asked for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from sfumato.errors import BadInput
from sfumato.noise import Randomness
from sfumato.publishers import CertifiedPublisher, Publisher
from sfumato.release.public_facts import PublicFacts
from sfumato.release.suggestions import chosen, imported, refuse_foreign

__all__ = [
    "METHODS",
    "PublicFacts",
    "kind_of_publisher",
    "leaves_out_as_null",
    "make_publisher",
    "seconds_of",
]

#: Names on the command line, and where the class behind each of them stands.
METHODS: Mapping[str, tuple[str, str]] = {
    "certified": ("certified_publisher", "CertifiedPublisher"),
    "curvature": ("curvature_publisher", "CurvaturePublisher"),
    "pixelation": ("baseline_publishers", "PixelationPublisher"),
    "blur": ("baseline_publishers", "BlurPublisher"),
    "k-anonymity": ("k_anonymity", "KAnonymityPublisher"),
    "vaegan-dp": ("vaegan_dp", "VAEGANDPPublisher"),
    "dpdm": ("dpdm", "DPDMPublisher"),
}

# Which methods import something of the extra learn only when they fit: too late to refuse.
_LATER = {"vaegan-dp": "opacus"}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


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
    kind = kind_of_publisher(name)
    accepted = inspect.signature(kind).parameters
    given = {option: value for option, value in options.items() if value is not None}
    if "time_budget" not in accepted and "steps" in accepted and "time_budget" in given:
        raise BadInput(
            f"{name} has no `time_budget`: it takes `steps`, which its guarantee depends on.",
            parameter="time_budget",
        )
    if "time_budget" not in accepted:
        given.pop("time_budget", None)
    refuse_foreign(name, given, [option for option in options if option in accepted])
    if "epsilon" in accepted and not {"epsilon", "multiplier"} & set(given):
        raise BadInput(f"{name} needs a privacy budget, as in `epsilon=1`.", parameter="epsilon")
    known: dict[str, Any] = {
        "shape": facts.shape,
        "top": facts.top,
        "classes": facts.classes,
        "records": facts.records,
        "randomness": randomness,
    }
    if "classes" in accepted and facts.classes is None:
        raise BadInput(
            f"{name} needs `classes=N`: the number of classes is public, and must not be read off the "
            "labels.",
            parameter="classes",
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
        raise BadInput(
            f"`time_budget` was {duration!r}",
            parameter="time_budget",
            accepted="a time such as 90s, 20m or 1h30m",
        )
    return seconds


def kind_of_publisher(name: str) -> type[Publisher]:
    """Return the class behind the method ``name``."""
    module, kind = METHODS[chosen(name, METHODS, "method")]
    found: type[Publisher] = imported(f"sfumato.publishers.{module}", kind, f"the method {name}")
    if name in _LATER:
        imported(_LATER[name], None, f"the method {name}")
    return found
