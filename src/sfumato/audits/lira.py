"""The likelihood ratio attack (LiRA, Carlini et al. 2022), online and offline, on plain arrays of logits.

Over models trained with a record, the scaled logit log p/(1 − p) of its true label is close to normal, and so
it is over models trained without it. Shadow models give the two means and variances of each record, and the
target's own logit is judged by them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.audits.findings import Finding
from sfumato.audits.predictions import numbers
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["lira", "lira_scores"]

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

ENOUGH = 32  # shadow models on a side from which a record's own variance is trusted


def lira_scores(
    target: npt.ArrayLike,
    shadows: npt.ArrayLike,
    inside: npt.ArrayLike,
    *,
    online: bool = True,
    enough: int = ENOUGH,
) -> Floats:
    """One score a record, higher for members.

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
    scores = lira_scores(target, shadows, inside, online=online, enough=enough)
    truth = np.asarray(members)
    if truth.dtype != np.bool_ or truth.shape != scores.shape or truth.all() or not truth.any():
        raise BadInput(
            f"`members` must be True or False for each of the {scores.size} records, some of each: "
            f"got {truth.dtype} of shape {truth.shape}.",
            parameter="members",
        )
    count = len(np.asarray(inside))
    return finding_from_scores(
        f"LiRA {'online' if online else 'offline'}",
        f"sees the probability the model gives to the true label, and trained {count} models like it "
        f"{'with and without' if online else 'without'} each record",
        scores[truth],
        scores[~truth],
        confidence=confidence,
    )


def _checked(
    target: npt.ArrayLike, shadows: npt.ArrayLike, inside: npt.ArrayLike
) -> tuple[Floats, Floats, Booleans]:
    asked, answers = numbers(target, "the target's logits"), numbers(shadows, "the shadow models' logits")
    trained = np.asarray(inside)
    shape = asked.shape
    if asked.ndim == 1 and answers.ndim == 2:
        asked, answers = asked[:, np.newaxis], answers[:, :, np.newaxis]
    if asked.ndim != 2 or answers.ndim != 3 or answers.shape[1:] != asked.shape or asked.size == 0:
        raise BadInput(
            f"the target's logits must be (n,) or (n, queries) and the shadow models' the same behind an "
            f"axis of models: got {shape} and {np.shape(shadows)}."
        )
    if trained.dtype != np.bool_ or trained.shape != answers.shape[:2]:
        raise BadInput(
            f"the mask must be True or False for each model and record, shape {answers.shape[:2]}: "
            f"got {trained.dtype} of shape {trained.shape}."
        )
    for values, name, axis in ((asked, "the target's logits", 0), (answers, "the shadow models' logits", 1)):
        bad = np.argwhere(~np.isfinite(values))
        if bad.size:
            raise BadInput(
                f"{name} hold NaN or infinity in {len(bad)} places, first for record {bad[0, axis]}: "
                "raise probabilities of 0 to a floor first."
            )
    return asked, answers, trained


def _normal(answers: Floats, chosen: Booleans, side: str, enough: int) -> tuple[Floats, Floats]:
    """The mean and the variance of each record and query over the chosen models, both (n, queries)."""
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
