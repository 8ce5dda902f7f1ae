"""Learners and publishers by the names people type, made from the options they give.

Each is imported when it is needed.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput
from sfumato.mechanisms import chosen, refuse_foreign
from sfumato.release.verbs import PARAMETERS_OF_METHODS

if TYPE_CHECKING:
    from sfumato.learners import Learner
    from sfumato.noise import Randomness
    from sfumato.publishers import Publisher
    from sfumato.release.labelled_release import PublicFacts

__all__ = ["METHODS"]

#: The module and the class of each method of a verb, by its name on the command line.
METHODS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "learn": {
        "dp-sgd": ("learners.private_softmax", "PrivateSoftmax"),
        "compact-certified": ("learners.certified_compact", "CertifiedCompact"),
        "compact": ("learners.compact.compact_classifier", "CompactClassifier"),
        "compact-private": ("learners.compact.compact_private", "CompactPrivate"),
    },
    "publish": {
        "certified": ("publishers.certified_publisher", "CertifiedPublisher"),
        "curvature": ("publishers.curvature_publisher", "CurvaturePublisher"),
        "pixelation": ("publishers.baseline_publishers", "PixelationPublisher"),
        "blur": ("publishers.baseline_publishers", "BlurPublisher"),
        "k-anonymity": ("publishers.baseline_publishers", "KAnonymityPublisher"),
        "vaegan-dp": ("publishers.vaegan_dp", "VAEGANDPPublisher"),
        "dpdm": ("publishers.dpdm", "DPDMPublisher"),
    },
    "federate": {"federated": ("learners.federated.rounds", "FederatedClassifier")},
}

# Packages of the extra learn.
_LEARN = ("torch", "safetensors")
# The guarantee that is asked for. A method without noise cannot give one, and says so instead of refusing.
_GUARANTEE = ("epsilon", "delta", "neighbours")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def imported(module: str, attribute: str | None, what: str) -> Any:
    """Return ``attribute`` of ``module`` (or the module); refuse with the pip line that ``what`` needs."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LEARN:
            raise
        raise BadInput(f"{what} needs {missing}: pip install 'sfumato[learn]'.") from None
    return found if attribute is None else getattr(found, attribute)


def class_of(verb: str, name: str) -> Any:
    """Return the class of the method ``name`` of ``verb``."""
    known = METHODS[verb]
    module, kind = known[chosen(name, known, "method")]
    return imported(f"sfumato.{module}", kind, f"the method {name}")


def make_learner(
    name: str,
    options: Mapping[str, Any],
    *,
    classes: int | None,
    reach: float | None,
    randomness: Randomness | None = None,
) -> Learner:
    """Return the learner ``name`` with those ``options`` that are not None.

    ``options`` are parameters of learners; one that this learner does not take is refused, except ε, δ and
    neighbours of a learner without noise (see :func:`unheeded`). ``classes`` and ``reach``, the norm of
    features, are declared.
    """
    ignored = unheeded(class_of("learn", name), options)
    given = {option: value for option, value in options.items() if option not in ignored}
    if classes is not None and classes < 2:
        raise BadInput(f"`classes` was {classes}", parameter="classes", accepted="2 or more")
    for option in ("steps", "epochs", "batch"):
        count = given.get(option)
        if count is not None and count < 1:
            raise BadInput(f"`{option}` was {count}", parameter=option, accepted="a whole number, 1 or more")
    known = {"classes": classes, "reach": reach, "randomness": randomness}
    made: Learner = _made("learn", name, given, known)
    made.guarantee()  # bad parameters are refused before any record is read
    return made


def make_publisher(
    name: str, options: Mapping[str, Any], facts: PublicFacts, *, randomness: Randomness | None = None
) -> Publisher:
    """Return the publisher ``name`` with those ``options`` that are not None, for a dataset of ``facts``.

    ``options`` are parameters of publishers; one that this publisher does not take is refused. A time budget
    is a limit that publishers which do not train keep anyway; those that take a number of steps refuse it.
    """
    given, accepted = dict(options), inspect.signature(class_of("publish", name)).parameters
    if isinstance(given.get("time_budget"), str):
        given["time_budget"] = seconds_of(given["time_budget"])
    if "time_budget" not in accepted and given.pop("time_budget", None) is not None and "steps" in accepted:
        raise BadInput(
            f"{name} has no `time_budget`: it takes `steps`, which its guarantee depends on.",
            parameter="time_budget",
        )
    known = {"shape": facts.shape, "top": facts.top, "classes": facts.classes, "records": facts.records}
    made: Publisher = _made("publish", name, given, known | {"randomness": randomness})
    return made


def _made(verb: str, name: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """Return the method with ``options``, and with what is ``known`` of the dataset as far as it is taken."""
    kind = class_of(verb, name)
    accepted = inspect.signature(kind).parameters
    given = {option: value for option, value in options.items() if value is not None}
    offered = dict.fromkeys([*_GUARANTEE, "checkpoint", *PARAMETERS_OF_METHODS[verb], *given])
    refuse_foreign(name, given, [option for option in offered if option in accepted])
    if "epsilon" in accepted and not {"epsilon", "multiplier"} & set(given):
        raise BadInput(f"{name} needs a privacy budget, as in `epsilon=1`.", parameter="epsilon")
    if "classes" in accepted and known["classes"] is None:
        raise BadInput(
            f"{name} needs `classes=N`: the number of classes is public, and must not be read off the "
            "labels.",
            parameter="classes",
        )
    if "reach" in accepted and known["reach"] is None:
        raise BadInput(
            f"{name} needs `reach=NORM` for features: longer ones are scaled down to it, and it must not be "
            "read off the data.",
            parameter="reach",
        )
    return kind(**given, **{fact: value for fact, value in known.items() if fact in accepted})


def unheeded(kind: type[Learner], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of a given ε, δ and neighbours that a learner without noise ignores."""
    accepted = inspect.signature(kind).parameters
    if "epsilon" in accepted:
        return ()
    return tuple(name for name in _GUARANTEE if name not in accepted and options.get(name) is not None)


def seconds_of(duration: str) -> float:
    """Return ``90s``, ``20m``, ``1h`` or ``1h30m`` in seconds."""
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
