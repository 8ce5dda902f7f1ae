"""Learners and publishers by the names people type, made from the options they give.

Each is imported when it is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import BadInput, Forewarning
from sfumato.mechanisms import chosen, refuse_foreign
from sfumato.noise import Randomness
from sfumato.publishers import CertifiedPublisher, Publisher
from sfumato.release.public_facts import PublicFacts

if TYPE_CHECKING:
    from sfumato.learners import Learner

__all__ = ["LEARNERS", "METHODS", "seconds_of"]

# What the extra learn adds.
_LEARN = ("torch", "safetensors")


def imported(module: str, attribute: str | None, what: str) -> Any:
    """``attribute`` of ``module`` (or the module), or the pip line that adds what is missing for ``what``."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LEARN:
            raise
        raise BadInput(f"{what} needs {missing}: pip install 'sfumato[learn]'.") from None
    return found if attribute is None else getattr(found, attribute)


#: Names on the command line, and where the class behind each of them stands.
LEARNERS: Mapping[str, tuple[str, str]] = {
    "dp-sgd": ("private_softmax", "PrivateSoftmax"),
    "compact-certified": ("certified_compact", "CertifiedCompact"),
    "compact": ("compact.compact_classifier", "CompactClassifier"),
    "compact-private": ("compact.compact_private", "CompactPrivate"),
}

#: What a kept model may be: what was learned here, or by clients together.
KEPT: Mapping[str, tuple[str, str]] = {
    **LEARNERS,
    "federated": ("federated.rounds", "FederatedClassifier"),
}

# The promise that is asked for. A method that adds no noise cannot make one, and says so instead of refusing.
_PROMISE = ("epsilon", "delta", "neighbours")


def kind_of_learner(name: str) -> type[Learner]:
    """The class behind the method ``name``."""
    module, kind = LEARNERS[chosen(name, LEARNERS, "method")]
    found: type[Learner] = imported(f"sfumato.learners.{module}", kind, f"the method {name}")
    return found


def kind_of_kept(name: str) -> type[Learner]:
    """The class behind the method ``name`` of a kept model."""
    module, kind = KEPT[name]
    found: type[Learner] = imported(f"sfumato.learners.{module}", kind, f"the method {name}")
    return found


def make_learner(
    name: str,
    options: Mapping[str, Any],
    *,
    classes: int | None,
    reach: float | None,
    randomness: Randomness | None = None,
) -> Learner:
    """The learner called ``name`` with those ``options`` that are not None.

    ``options`` are parameters of learners; one that this learner does not take is refused, except the ε, δ
    and neighbours of one that promises nothing (see :func:`unheeded`). ``classes`` and ``reach``, the length
    of features, are declared: where the learner is told them, they must not be missing.
    """
    kind = kind_of_learner(name)
    accepted = inspect.signature(kind).parameters
    ignored = unheeded(kind, options)
    given = {
        option: value for option, value in options.items() if value is not None and option not in ignored
    }
    refuse_foreign(name, given, [option for option in options if option in accepted])
    if "epsilon" in accepted and "epsilon" not in given:
        raise BadInput(f"{name} needs a privacy budget, as in `epsilon=1`.", parameter="epsilon")
    if classes is None:
        raise BadInput(
            f"{name} needs `classes=N`: the number of classes is public, and must not be read off the "
            "labels.",
            parameter="classes",
        )
    if classes < 2:
        raise BadInput(f"`classes` was {classes}", parameter="classes", accepted="2 or more")
    if "reach" in accepted and reach is None:
        raise BadInput(
            f"{name} needs `reach=LENGTH` for features: longer ones are scaled back to it, and it must not "
            "be "
            "read off the data.",
            parameter="reach",
        )
    for option in ("steps", "epochs", "batch"):
        if given.get(option, 1) < 1:
            raise BadInput(
                f"`{option}` was {given[option]}", parameter=option, accepted="a whole number, 1 or more"
            )
    known = {"classes": classes, "reach": reach, "randomness": randomness}
    made = kind(**given, **{fact: value for fact, value in known.items() if fact in accepted})
    made.guarantee()  # what is wrong with the parameters is said before any record is read
    return made


def rehearse(learner: Learner, dimension: int) -> None:
    """Fit a twin of ``learner`` to a few made-up records, so that parameters it refuses cost nothing.

    What a parameter does to a fit is found out by fitting; done with private records, it would be paid for.
    """
    count = 2 * learner.classes
    made_up = np.zeros((count, dimension))
    made_up[np.arange(count), np.arange(count) % dimension] = getattr(learner, "reach", 1.0)
    twin = type(learner)(**learner.public(), randomness=learner.randomness)
    if not twin.guarantee().proves_nothing:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Forewarning)  # so few records would be warned of
            twin.fit(made_up, np.arange(count) % learner.classes)


def unheeded(kind: type[Learner], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of a given ε, δ and neighbours that a learner without noise cannot heed."""
    accepted = inspect.signature(kind).parameters
    if "epsilon" in accepted:
        return ()
    return tuple(name for name in _PROMISE if name not in accepted and options.get(name) is not None)


def unheeded_note(names: tuple[str, ...]) -> str:
    """A sentence for the statement about what was asked for in vain."""
    return f"{' and '.join(names)} cannot be heeded: this method adds no noise and promises nothing"


#: Names on the command line, and where the class behind each of them stands.
METHODS: Mapping[str, tuple[str, str]] = {
    "certified": ("certified_publisher", "CertifiedPublisher"),
    "curvature": ("curvature_publisher", "CurvaturePublisher"),
    "pixelation": ("baseline_publishers", "PixelationPublisher"),
    "blur": ("baseline_publishers", "BlurPublisher"),
    "k-anonymity": ("baseline_publishers", "KAnonymityPublisher"),
    "vaegan-dp": ("vaegan_dp", "VAEGANDPPublisher"),
    "dpdm": ("dpdm", "DPDMPublisher"),
}

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
    return found
