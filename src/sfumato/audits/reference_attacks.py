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
GAMMA, A = 2.0, 0.3  # of RMIA, as its authors choose them


def lira_scores(
    target: npt.ArrayLike, shadows: npt.ArrayLike, inside: npt.ArrayLike, *, online: bool = True
) -> Floats:
    """Return one score for each record, higher for members.

    ``target`` (n,) are the target's scaled logits of n records, ``shadows`` (models, n) those of the shadow
    models on the same records, and ``inside`` (models, n) says which model was trained on which record.

    Online, the score is the log-likelihood ratio of the two normals, and each record needs a model inside
    and one outside. Offline, only models without the record are used, and the score is the one-sided test
    statistic z = (logit − mean)/deviation, which orders records as the paper's 1 − Pr[N > logit] does.

    The variance is a record's own where every record has at least 32 models on the side, and otherwise one
    for all records, pooled around their own means.
    """
    logits, answers = _aligned(target, shadows, "logits")
    trained = _mask(inside, answers.shape)
    mean, variance = _normal(answers, ~trained, "outside")
    from_outside = (logits - mean) / np.sqrt(variance)
    if not online:
        return np.asarray(from_outside)
    mean, inner = _normal(answers, trained, "inside")
    from_inside = (logits - mean) / np.sqrt(inner)
    return np.asarray(0.5 * (from_outside**2 - from_inside**2 + np.log(variance) - np.log(inner)))


def lira(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    shadows: npt.ArrayLike,
    inside: npt.ArrayLike,
    *,
    online: bool = True,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `lira_scores`; ``members`` (n,) says which records it was trained on."""
    return _finding(
        f"LiRA {'online' if online else 'offline'}",
        f"sees the probability the model gives to the true label, and trained "
        f"{len(np.asarray(inside))} models like it {'with and without' if online else 'without'} each record",
        lira_scores(target, shadows, inside, online=online),
        members,
        confidence,
    )


def _normal(answers: Floats, chosen: Booleans, side: str) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each record over the chosen models, both (n,)."""
    counts = chosen.sum(axis=0)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise BadInput(
            f"{empty.size} of {counts.size} records have no shadow model {side}, first record {empty[0]}: "
            "each needs one at least."
        )
    means = np.where(chosen, answers, 0.0).sum(axis=0) / counts
    squares = np.where(chosen, (answers - means) ** 2, 0.0).sum(axis=0)
    freedom = int(np.sum(counts - 1))
    if freedom == 0 or not squares.any():
        raise BadInput(
            f"the shadow models {side} show no spread: some record needs two of them with different logits."
        )
    pooled = squares.sum() / freedom
    if counts.min() < ENOUGH:
        return means, np.full(means.shape, pooled)
    # A record on which the shadow models happen to agree is not thereby certain.
    return means, np.maximum(squares / (counts - 1), 1e-4 * pooled)


def rmia_scores(
    target: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
) -> Floats:
    """Return one score for each record in [0, 1], higher for members: the share of z with LR(x, z) ≥ 2.

    ``target`` (n,) are the target's probabilities of the true label of n records and ``references``
    (models, n) those of the reference models; ``population`` (k,) and ``population_references`` (models, k)
    are the same for records z that the target was not trained on.

    Offline (``inside`` is None) no reference model was trained on any of the n records. p(x) is the mean of
    what models with x and without x say, and the former is taken to be a·p_out(x) + 1 − a for a = 0.3, so
    that p(x) = ((1 + a)·p_out(x) + 1 − a)/2. Online, ``inside`` (models, n) says which model was trained on
    which record; p(x) is the mean of the two averages. ``population_inside`` (models, k) says the same of z.
    """
    groups = [
        _aligned(target, references, "probabilities of records"),
        _aligned(population, population_references, "probabilities of the population"),
    ]
    if any(((values < 0.0) | (values > 1.0 + 1e-6)).any() for group in groups for values in group):
        raise BadInput("probabilities for RMIA lie outside 0 to 1.")
    if len(groups[0][1]) != len(groups[1][1]):
        raise BadInput(
            f"{len(groups[0][1])} reference models answered about the records and {len(groups[1][1])} about "
            "the population: they must be the same models."
        )
    ratios, others = (
        _ratio(values, _average(answers, mask))
        for (values, answers), mask in zip(groups, (inside, population_inside), strict=True)
    )
    return np.asarray(np.searchsorted(np.sort(GAMMA * others), ratios, side="right") / others.size)


def rmia(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `rmia_scores`; ``members`` (n,) says which records it was trained on."""
    return _finding(
        f"RMIA {'offline' if inside is None else 'online'}",
        f"sees the probability the model gives to the true label, also for {np.size(population)} other "
        f"records, and trained {len(np.asarray(references))} models like it",
        rmia_scores(
            *(target, references, population, population_references),
            inside=inside,
            population_inside=population_inside,
        ),
        members,
        confidence,
    )


def _average(answers: Floats, inside: npt.ArrayLike | None) -> Floats:
    if inside is None:
        return np.asarray(((1.0 + A) * answers.mean(axis=0) + (1.0 - A)) / 2.0)
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
    return np.asarray((within + without) / 2.0)


def _ratio(values: Floats, average: Floats) -> Floats:
    # A label that only the target predicts is infinitely suspicious; one that no model predicts is not.
    ratio = np.where(values > 0.0, np.inf, 0.0)
    return np.divide(values, average, out=ratio, where=average > 0.0)


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


def _aligned(target: npt.ArrayLike, models: npt.ArrayLike, name: str) -> tuple[Floats, Floats]:
    """Return values of the target (n,) and of other models (models, n) on the same records, all finite."""
    own, others = numbers(target, f"the target's {name}"), numbers(models, f"the other models' {name}")
    if own.ndim != 1 or own.size == 0 or others.ndim != 2 or others.shape[1] != own.size or len(others) == 0:
        raise BadInput(
            f"{name} must be (n,) for the target and (models, n) for one other model or more: "
            f"got {own.shape} and {others.shape}."
        )
    for values, whose in ((own, "target"), (others, "other models")):
        bad = np.argwhere(~np.isfinite(values))
        if bad.size:
            raise BadInput(
                f"{name} of the {whose} hold NaN or infinity in {len(bad)} places, first for record "
                f"{bad[0, -1]}."
            )
    return own, others
