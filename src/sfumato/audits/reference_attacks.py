"""Reference-model attacks on membership: LiRA and RMIA, online and offline, on plain arrays.

**LiRA**, the likelihood ratio attack (Carlini et al. 2022). Over models trained with a record, the scaled
logit log p/(1 − p) of its true label is close to normal, and so it is over models trained without it. Shadow
models give the two means and variances of each record, and the target's own logit is judged by them.

**RMIA**, the robust membership inference attack (Zarifzadeh, Liu & Shokri 2024).

A record x is compared with many records z of the population that the target has not seen. With p(·|θ) the
target's probability of the true label and p(·) its average over reference models,

    LR(x, z) = (p(x|θ) / p(x)) / (p(z|θ) / p(z)),

and the score of x is the share of z with LR(x, z) ≥ γ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audits.findings import Finding
from sfumato.audits.predictions import numbers
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["lira", "rmia"]

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
ENOUGH = 32  # shadow models on a side from which a record's own variance is trusted


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
    """Return one score for each record in [0, 1], higher for members.

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
    asked, answers = _rmia_checked(target, references, "records")
    others, other_answers = _rmia_checked(population, population_references, "population")
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
    confidence: float = 0.99,
    **options: Any,
) -> Finding:
    """Attack the target with `rmia_scores`, which takes the ``options``.

    ``members`` (n,) says which records it was trained on.
    """
    scores = rmia_scores(target, references, population, population_references, **options)
    return _finding(
        f"RMIA {'offline' if options.get('inside') is None else 'online'}",
        f"sees the probability the model gives to the true label, also for {np.size(population)} other "
        f"records, and trained {len(np.asarray(references))} models like it",
        scores,
        members,
        confidence,
    )


def _rmia_checked(target: npt.ArrayLike, references: npt.ArrayLike, name: str) -> tuple[Floats, Floats]:
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
    trained = _mask(inside, answers.shape)
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


def lira_scores(
    target: npt.ArrayLike,
    shadows: npt.ArrayLike,
    inside: npt.ArrayLike,
    *,
    online: bool = True,
    enough: int = ENOUGH,
) -> Floats:
    """Return one score for each record, higher for members.

    ``target`` (n,) or (n, queries) are the target's scaled logits of n records, or of several copies of each;
    ``shadows`` (models, n) or (models, n, queries) those of the shadow models on the same records, and
    ``inside`` (models, n) says which model was trained on which record.

    Online, the score is the log-likelihood ratio of the two normals, and each record needs a model inside
    and one outside. Offline, only models without the record are used, and the score is the one-sided test
    statistic z = (logit − mean)/deviation, which orders records as the paper's 1 − Pr[N > logit] does.
    Copies are treated as independent: log-ratios and z add up.

    The variance is a record's own where every record has at least ``enough`` models on the side, and
    otherwise one for all records, pooled around their own means.
    """
    asked, answers, trained = _checked(target, shadows, inside)
    outside = _normal(answers, ~trained, "outside", enough)
    if not online:
        z: Floats = np.sum((asked - outside[0]) / np.sqrt(outside[1]), axis=1)
        return z
    within = _normal(answers, trained, "inside", enough)
    ratios: Floats = np.sum(_log_density(asked, *within) - _log_density(asked, *outside), axis=1)
    return ratios


def lira(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    shadows: npt.ArrayLike,
    inside: npt.ArrayLike,
    *,
    online: bool = True,
    enough: int = ENOUGH,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `lira_scores`; ``members`` (n,) says which records it was trained on."""
    return _finding(
        f"LiRA {'online' if online else 'offline'}",
        f"sees the probability the model gives to the true label, and trained "
        f"{len(np.asarray(inside))} models like it {'with and without' if online else 'without'} each record",
        lira_scores(target, shadows, inside, online=online, enough=enough),
        members,
        confidence,
    )


def _finding(attack: str, threat: str, scores: Floats, members: npt.ArrayLike, confidence: float) -> Finding:
    truth = np.asarray(members)
    if truth.dtype != np.bool_ or truth.shape != scores.shape or truth.all() or not truth.any():
        raise BadInput(
            f"`members` must be True or False for each of the {scores.size} records, some of each: "
            f"got {truth.dtype} of shape {truth.shape}.",
            parameter="members",
        )
    return finding_from_scores(attack, threat, scores[truth], scores[~truth], confidence=confidence)


def _mask(inside: npt.ArrayLike, shape: tuple[int, ...]) -> Booleans:
    """Return which model was trained on which record, (models, n); raise for another shape."""
    trained = np.asarray(inside)
    if trained.dtype != np.bool_ or trained.shape != shape:
        raise BadInput(
            f"the mask must be True or False for each model and record, shape {shape}: "
            f"got {trained.dtype} of shape {trained.shape}."
        )
    return trained


def _checked(
    target: npt.ArrayLike, shadows: npt.ArrayLike, inside: npt.ArrayLike
) -> tuple[Floats, Floats, Booleans]:
    asked, answers = numbers(target, "the target's logits"), numbers(shadows, "the shadow models' logits")
    shape = asked.shape
    if asked.ndim == 1 and answers.ndim == 2:
        asked, answers = asked[:, np.newaxis], answers[:, :, np.newaxis]
    if asked.ndim != 2 or answers.ndim != 3 or answers.shape[1:] != asked.shape or asked.size == 0:
        raise BadInput(
            f"the target's logits must be (n,) or (n, queries) and the shadow models' the same behind an "
            f"axis of models: got {shape} and {np.shape(shadows)}."
        )
    trained = _mask(inside, answers.shape[:2])
    for values, name, axis in ((asked, "the target's logits", 0), (answers, "the shadow models' logits", 1)):
        bad = np.argwhere(~np.isfinite(values))
        if bad.size:
            raise BadInput(
                f"{name} hold NaN or infinity in {len(bad)} places, first for record {bad[0, axis]}: "
                "raise probabilities of 0 to a floor first."
            )
    return asked, answers, trained


def _normal(answers: Floats, chosen: Booleans, side: str, enough: int) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each record and query over the chosen models, both (n, queries)."""
    counts = chosen.sum(axis=0)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise BadInput(
            f"{empty.size} of {counts.size} records have no shadow model {side}, first record {empty[0]}: "
            "each needs one at least."
        )
    weights = chosen[:, :, np.newaxis].astype(np.float64)
    means = (answers * weights).sum(axis=0) / counts[:, np.newaxis]
    squares = (weights * (answers - means) ** 2).sum(axis=0)
    freedom = int(np.sum(counts - 1))
    if freedom == 0 or not squares.any():
        raise BadInput(
            f"the shadow models {side} show no spread: some record needs two of them with different logits."
        )
    pooled = squares.sum(axis=0) / freedom
    if counts.min() < max(2, enough):
        return means, np.broadcast_to(pooled, means.shape)
    # A record on which the shadow models happen to agree is not thereby certain.
    return means, np.maximum(squares / (counts - 1)[:, np.newaxis], 1e-4 * pooled)


def _log_density(values: Floats, mean: Floats, variance: Floats) -> Floats:
    density: Floats = -0.5 * ((values - mean) ** 2 / variance + np.log(variance))
    return density
