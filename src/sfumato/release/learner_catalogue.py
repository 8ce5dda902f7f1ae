"""Learners by the names people type, made from the options they give; imported when they are asked for."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import BadInput, Forewarning
from sfumato.noise import Randomness
from sfumato.release.suggestions import chosen, imported, refuse_foreign

if TYPE_CHECKING:
    from sfumato.learners import Learner

__all__ = [
    "KEPT",
    "LEARNERS",
    "kind_of_kept",
    "kind_of_learner",
    "make_learner",
    "rehearse",
    "unheeded",
    "unheeded_note",
]

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
    "federated": ("federated.federated_classifier", "FederatedClassifier"),
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
