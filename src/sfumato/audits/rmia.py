"""The robust membership inference attack (RMIA, Zarifzadeh, Liu & Shokri 2024), offline and online.

A record x is compared with many records z of the population that the target has not seen. With p(·|θ) the
target's probability of the true label and p(·) its average over reference models,

    LR(x, z) = (p(x|θ) / p(x)) / (p(z|θ) / p(z)),

and the score of x is the share of z with LR(x, z) ≥ γ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.audits.findings import Finding
from sfumato.audits.predictions import numbers
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["rmia", "rmia_scores"]

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


def rmia_scores(
    target: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
    gamma: float = 2.0,
    a: float = 0.3,
) -> Floats:
    """One score a record in [0, 1], higher for members.

    ``target`` (n,) are the target's probabilities of the true label of n records and ``references``
    (models, n) those of the reference models; ``population`` (k,) and ``population_references`` (models, k)
    are the same for records z that the target was not trained on.

    Offline (``inside`` is None) no reference model was trained on any of the n records. p(x) is the mean of
    what models with x and without x say, and the former is taken to be a·p_out(x) + 1 − a, so that
    p(x) = ((1 + a)·p_out(x) + 1 − a)/2. Online, ``inside`` (models, n) says which model was trained on which
    record; p(x) is the mean of the two averages. ``population_inside`` (models, k) says the same of z.
    """
    if not gamma > 0.0 or not np.isfinite(gamma):
        raise BadInput(
            f"`gamma` was {gamma!r}: it must be a positive number, and 1 or more is usual.", parameter="gamma"
        )
    if not 0.0 <= a <= 1.0:
        raise BadInput(f"`a` was {a!r}: it must lie in 0 to 1.", parameter="a")
    asked, answers = _checked(target, references, "records")
    others, other_answers = _checked(population, population_references, "population")
    if len(answers) != len(other_answers):
        raise BadInput(
            f"{len(answers)} reference models answered about the records and {len(other_answers)} about the "
            "population: they must be the same models."
        )
    ratios = _ratio(asked, _average(answers, inside, a))
    thresholds = np.sort(gamma * _ratio(others, _average(other_answers, population_inside, a)))
    share: Floats = np.searchsorted(thresholds, ratios, side="right") / thresholds.size
    return share


def rmia(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
    gamma: float = 2.0,
    a: float = 0.3,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `rmia_scores`; ``members`` (n,) says which records it was trained on."""
    scores = rmia_scores(
        target,
        references,
        population,
        population_references,
        inside=inside,
        population_inside=population_inside,
        gamma=gamma,
        a=a,
    )
    truth = np.asarray(members)
    if truth.dtype != np.bool_ or truth.shape != scores.shape or truth.all() or not truth.any():
        raise BadInput(
            f"`members` must be True or False for each of the {scores.size} records, some of each: "
            f"got {truth.dtype} of shape {truth.shape}.",
            parameter="members",
        )
    count = len(np.asarray(references))
    return finding_from_scores(
        f"RMIA {'offline' if inside is None else 'online'}",
        f"sees the probability the model gives to the true label, also for {np.size(population)} other "
        f"records, and trained {count} models like it",
        scores[truth],
        scores[~truth],
        confidence=confidence,
    )


def _checked(target: npt.ArrayLike, references: npt.ArrayLike, name: str) -> tuple[Floats, Floats]:
    asked = numbers(target, f"{name}: the target's probabilities")
    answers = numbers(references, f"{name}: the reference models' probabilities")
    if asked.ndim != 1 or asked.size == 0 or answers.ndim != 2 or answers.shape[1] != asked.size:
        raise BadInput(
            f"{name}: the target's probabilities must be (n,) and the reference models' (models, n): "
            f"got {asked.shape} and {answers.shape}."
        )
    if len(answers) == 0:
        raise BadInput(f"{name}: no reference model was given, and one at least is needed.")
    for values, whose in ((asked, "target"), (answers, "reference models")):
        bad = np.argwhere(~((values >= 0.0) & (values <= 1.0 + 1e-6)))
        if bad.size:
            raise BadInput(
                f"{name}: {len(bad)} probabilities of the {whose} are NaN or outside 0 to 1, first for "
                f"record {bad[0, -1]}."
            )
    return asked, answers


def _average(answers: Floats, inside: npt.ArrayLike | None, a: float) -> Floats:
    if inside is None:
        offline: Floats = ((1.0 + a) * answers.mean(axis=0) + (1.0 - a)) / 2.0
        return offline
    trained = np.asarray(inside)
    if trained.dtype != np.bool_ or trained.shape != answers.shape:
        raise BadInput(
            f"the mask must be True or False for each model and record, shape {answers.shape}: "
            f"got {trained.dtype} of shape {trained.shape}."
        )
    counts = trained.sum(axis=0)
    lacking = np.flatnonzero((counts == 0) | (counts == len(trained)))
    if lacking.size:
        raise BadInput(
            f"{lacking.size} of {counts.size} records lack a reference model inside or outside, first record "
            f"{lacking[0]}: each needs one of both."
        )
    within = np.where(trained, answers, 0.0).sum(axis=0) / counts
    without = np.where(trained, 0.0, answers).sum(axis=0) / (len(trained) - counts)
    online: Floats = (within + without) / 2.0
    return online


def _ratio(values: Floats, average: Floats) -> Floats:
    # A label that only the target believes in is infinitely suspicious; one that nobody does is not at all.
    ratio = np.where(values > 0.0, np.inf, 0.0)
    return np.divide(values, average, out=ratio, where=average > 0.0)
