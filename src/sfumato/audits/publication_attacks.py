"""Attacks on a published dataset: membership, a lower bound on ε, and re-identification.

The attacker knows every record and the method, and wants to know which canaries were fitted. Where pictures
are drawn anew, a canary that lies nearer to what was published of its class than to the records that surely
were fitted is taken for a member. Where each published picture was made from one record, the attacker learns
the map from records to publications (ridge regression, on records that surely were fitted) and looks for the
image of each canary.

**Canaries** are records that coins keep out of a publication, so that what it shows of them can be measured
in one run. Each is fitted or left out by its own fair coin, drawn independently of the data; the coins and
who was chosen stay secret. Records that are left out cost utility and nothing else:

**Guarantee.** Whatever the coins say, what is fitted of two neighbouring datasets is the same or is
neighbouring, because the choice never depends on a record: under ``replace`` and ``zero-out`` it depends on
the number of records alone, which is public there; under ``add/remove`` every record is chosen by coins of
its own, with a probability that is a constant. So a guarantee of what is fitted holds for all records.

**The games.** Under ``add/remove`` and ``zero-out`` the coin of a canary says whether it is there. A record
that is left out is one that is zeroed out for publishers which a null record adds nothing to, and which know
the number of records; for all others it is absent, and the game is that of ``add/remove``
(:meth:`Canaries.absent`). Under ``replace`` the coin says which of two records takes a place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.one_run import contradicts, guess_bound
from sfumato.audits.record_attacks import nearest_matching
from sfumato.audits.roc import Placements
from sfumato.errors import BadInput
from sfumato.mechanisms import whole
from sfumato.privacy import Guarantee, Neighbours

__all__ = ["Canaries", "audit_publication", "nearest_of_class", "refutable", "surely_more"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Report = Callable[[str, float], None]

Indices = NDArray[np.intp]

# One record in ten is left out, and no more than this many, where the number of records is public.
_SHARE, _MOST = 10, 1000
# Where it is not: one record in ten is a canary, so that one in twenty is left out, whatever their number.
_PROBABILITY = 0.1
# Fewer coins than this bound nothing.
_FEWEST = 10

_LEARNED = 2000  # records that the map is learned from; beyond them it hardly gets better
_RIDGE = 1e-3  # of the mean variance
_TRIALS = 4  # numbers of guesses that are tried, at most, the best of which is found
_PICTURES = "knows every record, the method and what was published, and not which records were left out"
_MAP = f"{_PICTURES}; learned from other records what becomes of one"


@dataclass(frozen=True, eq=False)
class Canaries:
    """``certain`` records are fitted; of each canary the ``first`` if its coin is 1, else the ``second``.

    ``second`` is None where nothing takes the place of a record that is left out. ``inside`` are the canaries
    that are fitted, in random order.
    """

    neighbours: Neighbours
    certain: Indices
    first: Indices
    second: Indices | None
    coins: NDArray[np.int64]
    inside: Indices

    @classmethod
    def drawn(cls, records: int, neighbours: Neighbours, rng: np.random.Generator) -> Canaries:
        """Return canaries among ``records`` records; none if their public number is too small."""
        whole("records", records)
        second: Indices | None = None
        if neighbours is Neighbours.ADD_REMOVE:
            first = np.flatnonzero(rng.random(records) < _PROBABILITY)
        else:
            count = cls.most(records, neighbours) or 0
            first = rng.permutation(records)[: 2 * count if neighbours is Neighbours.REPLACE else count]
            if neighbours is Neighbours.REPLACE:
                first, second = first[:count], first[count:]
        coins = rng.integers(0, 2, first.size)
        taken = first[coins == 1] if second is None else np.where(coins == 1, first, second)
        outside = np.zeros(records, dtype=bool)
        outside[first] = True
        if second is not None:
            outside[second] = True
        return cls(neighbours, np.flatnonzero(~outside), first, second, coins, rng.permutation(taken))

    @staticmethod
    def most(records: int, neighbours: Neighbours) -> int | None:
        """Return how many coins are drawn among ``records`` records; None if their number is not public."""
        if neighbours is Neighbours.ADD_REMOVE:
            return None
        count = min(_MOST, records // _SHARE)
        count = count if count >= _FEWEST else 0
        return count if neighbours is Neighbours.REPLACE else 2 * count

    def absent(self) -> Canaries:
        """Return the same canaries, those left out being absent instead of null: a game of add/remove."""
        return replace(self, neighbours=Neighbours.ADD_REMOVE) if self.second is None else self

    @property
    def fitted(self) -> Indices:
        """Return the records to fit: the certain ones, in their order, then the canaries that are in."""
        return np.concatenate([self.certain, self.inside])

    @property
    def left_out(self) -> Indices:
        """Return the records that are not fitted."""
        out: Indices = self.first[self.coins == 0]
        if self.second is not None:
            out = np.where(self.coins == 1, self.second, self.first)
        return out

    @property
    def enough(self) -> bool:
        """Return whether there are enough coins to say anything, and both sides of them came up."""
        return self.coins.size >= _FEWEST and 0 < int(self.coins.sum()) < self.coins.size


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
            found = nearest_matching(image(rows[canaries.inside]), last, confidence=confidence, seed=seed)
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
    certainty = first - np.median(first) if second is None else first - second
    bound = guess_bound(certainty, canaries.coins, delta=delta, confidence=confidence)
    threat = _MAP if one_to_one else _PICTURES
    decided = "who was there" if second is None else "which of two records was there"
    note = f"fair coins decided {decided}"
    tell("records looked for", 1.0)
    return (
        Finding.of_guesses("one-run audit", threat, bound, "record", canaries.neighbours, note),
        _membership(first, second, canaries.coins, one_to_one, confidence),
        *linked,
    )


def surely_more(finding: Finding, proven: Guarantee, chance: float) -> bool:
    """Return whether a one-run ``finding`` has a probability of at most ``chance`` if ``proven`` holds.

    ``proven`` is asked at a δ far below ``chance``, so one with slack is never refuted, nor is any by a
    ``chance`` of 0.
    """
    correct, guesses, canaries = (int(finding.numbers[name]) for name in ("correct", "guesses", "canaries"))
    return contradicts(correct, guesses, canaries, proven, chance / _TRIALS)


def refutable(proven: Guarantee, records: int, chance: float) -> bool:
    """Return whether any outcome of an audit of ``records`` records is :func:`surely_more` than ``proven``.

    That is what every coin guessed right would be. *Proof.* r of g guesses among m coins have a chance of
    t + (m/r)·δ·b with t = P(Binomial(g, e^ε/(1 + e^ε)) ≥ r) and b ≥ 1 − t (:func:`one_run_chance`), which
    grows with t and falls with r; t is smallest, and r largest, at r = g = m. ∎ Under
    add/remove neighbours the number of canaries has no bound, and the answer is True.
    """
    most = Canaries.most(records, proven.neighbours)
    return most is None or (most > 0 and contradicts(most, most, most, proven, chance / _TRIALS))


def nearest_of_class(
    rows: NDArray[Any], labels: Labels, targets: NDArray[Any], target_labels: Labels
) -> tuple[Floats, NDArray[np.intp]]:
    """Return each row's distance to the nearest target of its label, and which; (∞, −1) without any."""
    from sklearn.metrics import pairwise_distances_argmin

    far = np.full(len(rows), np.inf)
    which = np.full(len(rows), -1, dtype=np.intp)
    for label in np.unique(labels):
        mine, theirs = np.flatnonzero(labels == label), np.flatnonzero(target_labels == label)
        if theirs.size:
            own, others = (np.asarray(part, dtype=np.float64) for part in (rows[mine], targets[theirs]))
            centre = others.mean(axis=0)  # rounding is then relative to the spread
            nearest = pairwise_distances_argmin(own - centre, others - centre)
            which[mine] = theirs[nearest]
            far[mine] = np.linalg.norm(own - others[nearest], axis=1)
    return far, which


def learned_map(rows: NDArray[Any], images: NDArray[Any]) -> Callable[[NDArray[Any]], Floats]:
    """Return the affine map that best sends ``rows`` to ``images``, by ridge regression."""
    from sklearn.linear_model import Ridge

    given, wanted = np.asarray(rows, dtype=np.float64), np.asarray(images, dtype=np.float64)
    penalty = _RIDGE * max(float(given.var(axis=0).sum()), 1e-12)
    learned = Ridge(alpha=penalty).fit(given, wanted)
    return lambda more: np.asarray(learned.predict(np.asarray(more, dtype=np.float64)))


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
    """Return the logarithm of distances, kept finite: a missing one counts as ten times the farthest."""
    known = distances[np.isfinite(distances)]
    most = float(known.max()) if known.size and known.max() > 0.0 else 1.0
    return np.asarray(np.log(np.clip(distances, 1e-9 * most, 10.0 * most)))


def _flat(pictures: NDArray[Any]) -> NDArray[np.float32]:
    rows = np.asarray(pictures, dtype=np.float32).reshape(len(pictures), -1)
    if not math.isfinite(float(rows.sum(dtype=np.float64))):
        raise BadInput("pictures hold values that are not finite.")
    return rows
