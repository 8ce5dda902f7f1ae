"""Membership inference on a data release: whether a record is among those that were released.

The honest question: members and non-members come from one distribution, and the attacker is scored on
candidates whose membership was not used to build the attack. Either the caller brings ``nonmembers``
(records of the same distribution that were not released), or the rows are split in two at random: the
released rows of one half are shown, those of the other half hidden, and their originals are members and
non-members. For releases made row by row the second way is the first: such a release of half of the records
is just half of the rows.

Three attackers compare a candidate with the released rows that they see:

* nearest neighbour: the distance to the nearest released row;
* likelihood: how many released rows the candidate is expected to have given rise to, under Gaussian noise
  and among all candidates, Σ_j p(y_j | c) / Σ_c′ p(y_j | c′). It is much stronger than the distance, since
  it asks whether the candidate explains a released row *better than others do*;
* logistic regression, the classifier of *TADP-RME*, on both of these numbers and on the candidate's distance
  from the centre; it learns from a third of the candidates and is scored on the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.attribute_attack import logistic_regression
from sfumato.audits.findings import Finding
from sfumato.audits.reidentification import corresponding, rows_of
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput
from sfumato.mechanisms import positive

__all__ = ["membership_attacks"]

Floats = NDArray[np.float64]

# Distances held in memory at once.
_BLOCK = 1 << 22
# Single precision does not resolve squared distances below this share of the squared norms.
_RESOLVED = 1e-6
_FEWEST = 20


def membership_attacks(
    original: ArrayLike,
    released: ArrayLike,
    *,
    nonmembers: ArrayLike | None = None,
    sigma: float | None = None,
    limit: int = 10_000,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Run the nearest neighbour, likelihood and logistic regression attacks in one pass over the distances.

    ``sigma`` is the deviation of the noise; without it the attacker estimates it from the release. At most
    ``limit`` candidates, drawn at random, take part. Chance is an AUC of one half, or, where the caller's
    ``nonmembers`` differ from the members already without the release, what that alone gives.
    """
    rng = np.random.default_rng(seed)
    game = _game(original, released, nonmembers, limit, rng)
    nearest, explained, size = _compare(game, sigma)
    features = np.column_stack([np.log(nearest), np.log(explained), size])
    attackers = (
        ("nearest neighbour", "trusts the distance to the nearest released row", game.sides(-nearest)),
        ("likelihood", "weighs which explains it best under Gaussian noise", game.sides(explained)),
        (
            "logistic regression",
            "learns from a third of them, whose membership is known",
            _held_out_scores(*game.sides(features), 1.0 / 3.0, rng),
        ),
    )
    held = f"holds all candidate records and sees {game.sees};"
    found = tuple(
        _scored(f"membership by {attack}", f"{held} {way}", scores, confidence, game.note)
        for attack, way, scores in attackers
    )
    if nonmembers is None:
        return found
    scores = _held_out_scores(*game.sides(game.candidates), 0.5, rng)
    blind = _scored("without the release", "", scores, confidence, "")
    return tuple(_against(item, blind) for item in found)


@dataclass(frozen=True)
class _Game:
    """Candidates, whether each is a member, the released rows that are shown, and words about them."""

    candidates: Floats
    member: NDArray[np.bool_]
    shown: Floats
    sees: str
    note: str

    def sides(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """What stands for the members, and what for the non-members."""
        return values[self.member], values[~self.member]


def _game(
    original: ArrayLike,
    released: ArrayLike,
    nonmembers: ArrayLike | None,
    limit: int,
    rng: np.random.Generator,
) -> _Game:
    """The honest split; see the head of this module."""
    before, after = corresponding(original, released, fewest=_FEWEST)
    if limit < _FEWEST:
        raise BadInput(
            f"`limit` was {limit}: at least {_FEWEST} candidates must take part.", parameter="limit"
        )
    order = rng.permutation(len(before))
    if nonmembers is None:
        inside, others = np.array_split(order[:limit], 2)
        outside = before[others]
        sees = "the released rows of a random half of them"
        note = "valid for a release made row by row: the other half of its rows was hidden"
    else:
        outside = rows_of(nonmembers, "table of non-members", fewest=_FEWEST).astype(np.float64)
        if outside.shape[1] != before.shape[1]:
            raise BadInput(
                f"the non-members have {outside.shape[1]} columns and the members {before.shape[1]}: both "
                "must be records of one distribution."
            )
        outside = outside[rng.permutation(len(outside))[: limit // 2]]
        inside, sees, note = order[: limit // 2], "the release", ""
    candidates = np.concatenate([before[inside], outside])
    if (candidates == candidates[0]).all():
        raise BadInput("every candidate record is the same: members cannot be told from others.")
    return _Game(candidates, np.arange(len(candidates)) < inside.size, after[inside], sees, note)


def _compare(game: _Game, sigma: float | None) -> tuple[Floats, Floats, Floats]:
    """Of each candidate: how near the nearest released row is, how many it explains, how far out it lies.

    The first and the last are squared distances. In single precision, measured from the centre of the
    candidates, so that rounding is relative to their spread.
    """
    scale = 1.0 if sigma is None else positive("sigma", sigma)
    middle = game.candidates.mean(axis=0)
    candidates, shown = (
        ((side - middle) / scale).astype(np.float32) for side in (game.candidates, game.shown)
    )
    size, lengths = (np.einsum("ij,ij->i", side, side) for side in (candidates, shown))
    least = _RESOLVED * float(size.mean() + lengths.mean())
    height = max(1, _BLOCK // len(candidates))
    variance = 1.0
    nearest = np.full(len(candidates), np.inf)
    explained = np.zeros(len(candidates))
    for start in range(0, len(shown), height):
        block = slice(start, start + height)
        distance = shown[block] @ candidates.T
        distance *= -2.0
        distance += size
        closest = distance.min(axis=1, keepdims=True)
        if sigma is None and start == 0:
            # The best of all candidates is about as far from a released row as its own record is.
            variance = float(np.median(closest[:, 0] + lengths[block])) / candidates.shape[1]
        np.minimum(nearest, (distance + lengths[block, None]).min(axis=0), out=nearest)
        distance -= closest
        distance *= -0.5 / max(variance, least)
        weight = np.exp(distance, out=distance)
        weight /= weight.sum(axis=1, keepdims=True)
        explained += weight.sum(axis=0)
    # Rounding may leave a distance of zero slightly negative; logarithms are taken of both.
    return np.maximum(nearest, least), np.maximum(explained, 1e-300), size.astype(np.float64)


def _against(found: Finding, blind: Finding) -> Finding:
    """The finding, with the AUC that needs no release as its chance where that is above a half."""
    numbers = dict(found.numbers) | {"auc_without_release": blind.value}
    if not blind.beats_chance:
        return replace(found, numbers=numbers)
    note = (
        "members differ from the given non-members already without the release, so they are not of one "
        "distribution and chance is what that alone gives"
    )
    joined = f"{note}; {found.note}" if found.note else note
    return replace(found, numbers=numbers, chance=blind.value, note=joined)


def _held_out_scores(
    members: NDArray[Any], others: NDArray[Any], trained: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Scores of logistic regression for the rows of both sides that it did not learn from."""
    learned, tested = [], []
    for side in (members, others):
        order = rng.permutation(len(side))
        cut = round(trained * len(side))
        learned.append(side[order[:cut]])
        tested.append(side[order[cut:]])
    codes = np.repeat([1, 0], [len(learned[0]), len(learned[1])])
    model = logistic_regression(np.concatenate(learned), codes)
    return model.decision_function(tested[0]), model.decision_function(tested[1])


def _scored(attack: str, threat: str, scores: tuple[Floats, Floats], confidence: float, note: str) -> Finding:
    """The scores as a finding, with the paper's privacy score 1 − 2|AUC − 1/2| beside them."""
    found = finding_from_scores(attack, threat, *scores, confidence=confidence, note=note)
    score = 1.0 - 2.0 * abs(found.value - 0.5)
    return replace(found, numbers=dict(found.numbers) | {"privacy_score": score})
