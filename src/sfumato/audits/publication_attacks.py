"""What a published dataset gives away about the records it was made from: membership, ε, re-identification.

The attacker knows every record and the method, and wants to know which canaries (:mod:`~.canaries`) were
fitted. Where pictures are drawn anew, a canary that lies nearer to what was published of its class than to
the records that surely were fitted speaks for itself. Where each published picture was made from one record,
the attacker learns the map from records to publications (ridge regression, on records that surely were
fitted) and looks for the image of each canary; pixelation and blur are linear and give every coin away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.canaries import Canaries
from sfumato.audits.findings import Finding
from sfumato.audits.one_run import best_guesses, one_run_bound, one_run_chance
from sfumato.audits.reidentification import nearest_matching
from sfumato.audits.roc import Placements
from sfumato.errors import BadInput
from sfumato.privacy import Guarantee

__all__ = ["audit_publication", "learned_map", "nearest_of_class", "refutable", "surely_more"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Report = Callable[[str, float], None]

_BLOCK = 1 << 22  # distances held in memory at once
_LEARNED = 2000  # records that the map is learned from; beyond them it hardly gets better
_RIDGE = 1e-3  # of the mean variance
_TRIALS = 4  # numbers of guesses that are tried, at most
_PICTURES = "knows every record, the method and what was published, and not which records were left out"
_MAP = f"{_PICTURES}; learned from other records what becomes of one"


def audit_publication(
    pictures: NDArray[Any],
    labels: Labels,
    canaries: Canaries,
    released: NDArray[Any],
    released_labels: Labels,
    *,
    one_to_one: bool,
    delta: float,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> tuple[Finding, ...]:
    """Attack the publication of ``pictures`` (n, …) and ``labels`` of which ``canaries.fitted`` were fitted.

    ``released`` holds pictures in the range of the originals; with ``one_to_one`` one for each fitted record,
    in that order. The findings: a lower bound on ε at ``delta`` by the one-run theorem, for a record under
    the neighbours of the canaries; the AUC of the membership score; with ``one_to_one`` how many of the
    canaries' publications are linked to their record. None where there are too few canaries.
    """
    if not canaries.enough:
        return ()
    tell = report or (lambda stage, share: None)
    rows, published = _flat(pictures), _flat(released)
    if rows.shape[1] != published.shape[1]:
        raise BadInput(
            f"published pictures have {published.shape[1]} values and the originals {rows.shape[1]}: they "
            "must be of one shape."
        )
    sure = canaries.certain
    linked: tuple[Finding, ...] = ()
    if one_to_one:
        if len(published) != len(canaries.fitted):
            raise BadInput(
                f"{len(published)} pictures were published of {len(canaries.fitted)} fitted records: one for "
                "each is needed."
            )
        tell("learning what becomes of a record", 0.0)
        chosen = np.random.default_rng(seed).permutation(sure.size)[:_LEARNED]
        image = learned_map(rows[sure[chosen]], published[chosen])
        last, last_labels = published[sure.size :], released_labels[sure.size :]

        def score(who: NDArray[np.intp]) -> Floats:
            return -_logarithm(nearest_of_class(image(rows[who]), labels[who], last, last_labels)[0])

        if canaries.inside.size >= 10 and np.ptp(rows[canaries.inside], axis=0).any():
            found = nearest_matching(
                image(rows[canaries.inside]), last, confidence=confidence, seed=seed, report=None
            )
            linked = tuple(
                replace(item, attack="linkage by a learned map", threat=_MAP, note="among the canaries")
                for item in found
            )
    else:

        def score(who: NDArray[np.intp]) -> Floats:
            near = nearest_of_class(rows[who], labels[who], published, released_labels)[0]
            usual = nearest_of_class(rows[who], labels[who], rows[sure], labels[sure])[0]
            return _logarithm(usual) - _logarithm(near)

    tell("looking for the records", 0.3)
    first = score(canaries.first)
    second = None if canaries.second is None else score(canaries.second)
    tell("records looked for", 1.0)
    return (
        _bound(first, second, canaries, one_to_one, delta, confidence),
        _membership(first, second, canaries.coins, one_to_one, confidence),
        *linked,
    )


def surely_more(finding: Finding, proven: Guarantee, chance: float) -> bool:
    """Whether a one-run ``finding`` is one that comes with at most ``chance`` if ``proven`` holds.

    ``proven`` is asked at a δ far below ``chance``, so one with slack is never refuted, nor is any by a
    ``chance`` of 0.
    """
    correct, guesses, canaries = (int(finding.numbers[name]) for name in ("correct", "guesses", "canaries"))
    return _surely_more(correct, guesses, canaries, proven, chance)


def refutable(proven: Guarantee, records: int, chance: float) -> bool:
    """Whether any outcome of an audit of ``records`` records is :func:`surely_more` than ``proven``.

    That is what every coin guessed right would be. *Proof.* r of g guesses among m coins have a chance of
    t + (m/r)·δ·b with t = P(Binomial(g, e^ε/(1 + e^ε)) ≥ r) and b ≥ 1 − t (:func:`one_run_chance`), which
    grows with t and falls with r; t is smallest, and r largest, at r = g = m. ∎ Under
    add/remove neighbours the number of canaries has no bound, and the answer is True.
    """
    most = Canaries.most(records, proven.neighbours)
    return most is None or (most > 0 and _surely_more(most, most, most, proven, chance))


def _surely_more(correct: int, guesses: int, canaries: int, proven: Guarantee, chance: float) -> bool:
    each = chance / _TRIALS  # the best of the trials is what was found
    # At δ itself no guesses have a chance below δ; the proof covers every δ, and a smaller one lets them.
    smaller = 0.1 * each / canaries
    epsilon = proven.epsilon(smaller) if smaller > 0.0 else math.inf
    return math.isfinite(epsilon) and one_run_chance(correct, guesses, canaries, epsilon, smaller) <= each


def nearest_of_class(
    rows: NDArray[Any], labels: Labels, targets: NDArray[Any], target_labels: Labels
) -> tuple[Floats, NDArray[np.intp]]:
    """The distance from each row to the nearest target of its label, and which one; (∞, −1) without any."""
    far = np.full(len(rows), np.inf)
    which = np.full(len(rows), -1, dtype=np.intp)
    for label in np.unique(labels):
        mine, theirs = np.flatnonzero(labels == label), np.flatnonzero(target_labels == label)
        if not theirs.size:
            continue
        others = np.asarray(targets[theirs], dtype=np.float64)
        centre = others.mean(axis=0)
        others = others - centre
        half = np.einsum("ij,ij->i", others, others) / 2.0
        for start in range(0, mine.size, max(1, _BLOCK // theirs.size)):
            part = mine[start : start + max(1, _BLOCK // theirs.size)]
            block = np.asarray(rows[part], dtype=np.float64) - centre
            nearest = (half - block @ others.T).argmin(axis=1)
            which[part] = theirs[nearest]
            far[part] = np.linalg.norm(block - others[nearest], axis=1)
    return far, which


def learned_map(rows: NDArray[Any], images: NDArray[Any]) -> Callable[[NDArray[Any]], Floats]:
    """The affine map that best sends ``rows`` to ``images``, by ridge regression in its dual form."""
    given, wanted = np.asarray(rows, dtype=np.float64), np.asarray(images, dtype=np.float64)
    centre, middle = given.mean(axis=0), wanted.mean(axis=0)
    given = given - centre
    inner = given @ given.T
    inner[np.diag_indices_from(inner)] += _RIDGE * max(float(np.trace(inner)), 1e-12) / len(inner)
    weights = given.T @ np.linalg.solve(inner, wanted - middle)
    return lambda more: (np.asarray(more, dtype=np.float64) - centre) @ weights + middle


def _bound(
    first: Floats,
    second: Floats | None,
    canaries: Canaries,
    one_to_one: bool,
    delta: float,
    confidence: float,
) -> Finding:
    """The largest of several one-run bounds, which hold together with ``confidence``."""
    certainty = first - np.median(first) if second is None else first - second
    size = canaries.coins.size
    usual = min(size, round(1.5 * size ** (2.0 / 3.0)))
    counts = sorted({max(1, size // 10), usual, max(1, size // 2), size})
    assert len(counts) <= _TRIALS
    each = 1.0 - (1.0 - confidence) / len(counts)
    found = []
    for count in counts:
        hits = best_guesses(certainty, canaries.coins, guesses=count)
        found.append((one_run_bound(*hits, delta=delta, confidence=each).epsilon, hits))
    epsilon, (correct, guesses, total) = max(found)
    what = "was there" if second is None else "of two records was there"
    return Finding(
        attack="one-run audit",
        threat=_MAP if one_to_one else _PICTURES,
        measure="share of correct guesses",
        value=correct / guesses,
        chance=0.5,
        confidence=confidence,
        epsilon_lower=epsilon,
        delta=delta,
        unit="record",
        neighbours=str(canaries.neighbours),
        numbers={"correct": float(correct), "guesses": float(guesses), "canaries": float(total)},
        note=f"fair coins decided which {what}" if second is not None else f"fair coins decided who {what}",
    )


def _membership(
    first: Floats, second: Floats | None, coins: NDArray[np.int64], one_to_one: bool, confidence: float
) -> Finding:
    if second is None:
        members, others = first[coins == 1], first[coins == 0]
    else:
        members, others = np.where(coins == 1, first, second), np.where(coins == 1, second, first)
    placed = Placements.of(members, others)
    return Finding(
        attack="membership by a learned map" if one_to_one else "membership by the nearest picture",
        threat=_MAP if one_to_one else _PICTURES,
        measure="AUC",
        value=placed.auc,
        chance=0.5,
        interval=placed.interval(confidence),
        confidence=confidence,
        numbers={"members": float(members.size), "nonmembers": float(others.size)},
        note="one publication is one run, so this bounds no ε",
    )


def _logarithm(distances: Floats) -> Floats:
    """Of distances, kept finite: what is missing counts as ten times the farthest."""
    there = distances[np.isfinite(distances)]
    most = float(there.max()) if there.size and there.max() > 0.0 else 1.0
    return np.asarray(np.log(np.clip(distances, 1e-9 * most, 10.0 * most)))


def _flat(pictures: NDArray[Any]) -> NDArray[np.float32]:
    rows = np.asarray(pictures, dtype=np.float32).reshape(len(pictures), -1)
    if not math.isfinite(float(rows.sum(dtype=np.float64))):
        raise BadInput("pictures hold values that are not finite.")
    return rows
