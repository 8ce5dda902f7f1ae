"""Attacks on released rows: re-identification, membership, attribute inference and reconstruction.

Rows of ``original`` and ``released`` correspond. Where the mechanism clips records into declared bounds, pass
the clipped originals: the bounds are public and the attacker would clip too.

**Re-identification** matches every released row to the originals.

**Membership inference** asks whether a record is among those that were released. Members and non-members come
from one distribution: either the caller brings ``nonmembers``, or the rows are split in two at random, the
released rows of one half are hidden, and their originals are the non-members. For releases made row by row
both ways are the same. Three attackers compare a candidate with the released rows that they see:

* nearest neighbour: the distance to the nearest released row;
* likelihood: how many released rows the candidate is expected to have given rise to, under Gaussian noise
  and among all candidates, Σ_j p(y_j | c) / Σ_c′ p(y_j | c′), which is much stronger than the distance;
* logistic regression, the classifier of *TADP-RME*, on both of these numbers and on the candidate's distance
  from the centre; it learns from a third of the candidates and is scored on the others.

**Attribute inference** (*TADP-RME*, section 6.2.2): a logistic regression infers a sensitive attribute (there
the class label) from the protected rows; its privacy score is 1 − (Acc − 1/C)/(1 − 1/C).

**Reconstruction**: how closely a record can be recovered from its released row, by the measure of *TADP-RME*,
section 6.2.2: ‖x̂ − x‖/‖x‖, averaged over records that are not all zero. A small error is a strong attack;
chance is the error of the average record. Three attackers: ridge regression, as in the paper; the informed
inverter, who undoes a public transform exactly; and the posterior mean under a Gaussian prior of public mean
and covariance, the best linear attack against noise of known deviation.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import failure_chance
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput
from sfumato.mechanisms import finite_array, positive, whole

__all__ = ["informed_inverter", "membership_attacks", "posterior_mean", "ridge_reconstruction"]

Floats = NDArray[np.float64]

# The fewest rows, and the fewest candidates of a membership attack.
_FEWEST, _FEWEST_CANDIDATES = 10, 20
# The share of rows that attacks which learn are tested on.
_HELD_OUT = 0.2
# Released rows that are matched, at most.
_LIMIT = 10_000
# Single precision does not resolve squared distances below this share of the squared norms.
_RESOLVED = 1e-6
# The originals among which the L1 distance decides: those nearest by the L2 distance, which BLAS computes.
_SHORTLIST = 50
# Distances held in memory at once.
_BLOCK = 1 << 22
# Scores closer than this share of their size are ties: double precision does not order them.
_TIE = 1e-12
_TOP = (1, 5)


def rows_of(values: ArrayLike, name: str, *, fewest: int = 1) -> NDArray[Any]:
    """Return ``values`` as a finite array (n, d), n ≥ ``fewest``; float32 stays, all else becomes float64."""
    table = finite_array(values, f"the {name}")
    if table.ndim != 2:
        raise BadInput(f"the {name} has shape {table.shape}, but attacks need records as rows: (n, d).")
    if table.shape[0] < fewest:
        raise BadInput(f"the {name} has {table.shape[0]} rows, but this attack needs at least {fewest}.")
    return table if table.dtype == np.float32 else table.astype(np.float64)


def equal_rows(original: ArrayLike, released: ArrayLike, *, fewest: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both tables; raise unless they have equally many rows."""
    before = rows_of(original, "original", fewest=fewest)
    after = rows_of(released, "release", fewest=fewest)
    if len(before) != len(after):
        raise BadInput(
            f"the original has {len(before)} rows and the release {len(after)}: row i of one must be made "
            "from row i of the other."
        )
    return before, after


def corresponding(original: ArrayLike, released: ArrayLike, *, fewest: int = 2) -> tuple[Floats, Floats]:
    """Return both tables in float64; raise unless rows and columns correspond."""
    before, after = equal_rows(original, released, fewest=fewest)
    if before.shape != after.shape:
        raise BadInput(
            f"the original has {before.shape[1]} columns and the release {after.shape[1]}: map released rows "
            "back to the original's columns, as ReverseManifold.inverse does."
        )
    return before.astype(np.float64), after.astype(np.float64)


def nearest_matching(
    original: ArrayLike,
    released: ArrayLike,
    *,
    law: str = "gaussian",
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Return how often a row's own original is the most likely of all, and among the five most likely.

    ``law`` is that of the noise, ``"gaussian"`` or ``"laplace"``. For Gaussian noise the most likely original
    is the nearest one. For Laplace noise the L1 distance decides among the fifty originals that are nearest
    by the L2 distance; an original outside of them counts as missed. At most 10,000 released rows, drawn at
    random, are matched against all n originals. Equal distances are ordered at random.
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    if (before == before[0]).all():
        raise BadInput("every original record is the same: there is nobody to tell apart.")
    rng = np.random.default_rng(seed)
    rows = np.arange(len(before))
    if len(before) > _LIMIT:
        rows = np.sort(rng.permutation(len(before))[:_LIMIT])
    ranks = _ranks(before, after, rows, rng, _SHORTLIST if law == "laplace" else None)
    threat = "holds every original record and the release; matches each released row to the nearest original"
    if law == "laplace":
        threat = f"{threat}, by the likelihood under the noise, which he knows"
    findings = []
    for top in _TOP:
        matched = int(np.count_nonzero(ranks < top))
        numbers = {"matched": matched, "rows": ranks.size, "originals": len(before)}
        findings.append(
            Finding.of_count(
                *("re-identification", threat, f"top-{top} matches", matched, ranks.size, confidence),
                chance=min(1.0, top / len(before)),
                numbers={name: float(count) for name, count in numbers.items()},
            )
        )
    return tuple(findings)


def _ranks(
    before: Floats,
    after: Floats,
    rows: NDArray[np.intp],
    rng: np.random.Generator,
    shortlist: int | None,
) -> NDArray[np.int64]:
    """Return for each of ``rows`` how many originals are nearer than its own, ties ordered at random."""
    centre = before.mean(axis=0)
    before, after = before - centre, after - centre
    half = np.einsum("ij,ij->i", before, before) / 2.0
    reach = math.sqrt(2.0 * float(half.max()))
    ranks = np.empty(rows.size, dtype=np.int64)
    size = max(1, _BLOCK // len(before))
    for start in range(0, rows.size, size):
        own = rows[start : start + size]
        block = after[own]
        # −‖y − x‖²/2 without ‖y‖², which all originals share and which would drown the rest under much noise.
        score = block @ before.T - half
        if shortlist is None:
            true = score[np.arange(own.size), own][:, None]
            slack = _TIE * reach * (np.linalg.norm(block, axis=1)[:, None] + reach)
            nearer = np.count_nonzero(score > true + slack, axis=1)
            level = np.count_nonzero(score >= true - slack, axis=1) - nearer
            ranks[start : start + size] = nearer + rng.integers(0, level)
        else:
            count = min(shortlist, len(before))
            short = np.argpartition(-score, count - 1, axis=1)[:, :count]
            for place, (row, mine, among) in enumerate(zip(block, own, short, strict=True), start):
                ranks[place] = _rank_in(before, row, mine, among, rng)
    return ranks


def _rank_in(
    before: Floats, row: Floats, own: np.intp, among: NDArray[np.intp], rng: np.random.Generator
) -> int:
    """The rank of the own original by L1 distance in a shortlist; beyond all where it is not in it."""
    if own not in among:
        return len(before)
    distance = np.abs(before[among] - row).sum(axis=1)
    true = distance[among == own][0]
    slack = _TIE * float(np.abs(row).sum() + np.abs(before[own]).sum())
    nearer = int(np.count_nonzero(distance < true - slack))
    return nearer + int(rng.integers(0, np.count_nonzero(distance <= true + slack) - nearer))


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
    before, after = corresponding(original, released, fewest=_FEWEST_CANDIDATES)
    whole("limit", limit, smallest=_FEWEST_CANDIDATES)
    order = rng.permutation(len(before))
    if nonmembers is None:
        inside, others = np.array_split(order[:limit], 2)
        outside = before[others]
        sees = "the released rows of a random half of them"
        note = "valid for a release made row by row: the other half of its rows was hidden"
    else:
        outside = rows_of(nonmembers, "table of non-members", fewest=_FEWEST_CANDIDATES).astype(np.float64)
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


def attribute_inference(
    released: ArrayLike,
    labels: ArrayLike,
    *,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Return the accuracy with which logistic regression on released rows (n, d′) infers ``labels`` (n,).

    The attacker knows the labels of some released rows and infers those of the rest: a stratified fifth.
    Chance is the share of the most frequent label, which somebody names who has seen no
    release. ``numbers`` holds the paper's privacy score, which compares with 1/C instead.
    """
    features = rows_of(released, "release")
    codes = _codes(labels, len(features))
    counts = np.bincount(codes)
    test = _held_out(codes, np.random.default_rng(seed))
    train = np.setdiff1d(np.arange(len(codes)), test)
    guess = logistic_regression(features[train], codes[train]).predict(features[test])
    right, even = int(np.count_nonzero(guess == codes[test])), 1.0 / counts.size
    return Finding.of_count(
        "attribute inference",
        "knows the label of some released rows and infers it for the others by logistic regression",
        "accuracy",
        right,
        test.size,
        confidence,
        chance=float(counts.max()) / len(codes),
        numbers={
            "privacy_score": 1.0 - (right / test.size - even) / (1.0 - even),
            "classes": float(counts.size),
            "rows": float(test.size),
        },
    )


def logistic_regression(features: NDArray[Any], codes: NDArray[np.integer]) -> Any:
    """Return a scikit-learn pipeline fitted to classes 0, 1, …; features that are all constant are refused.

    Features are standardised. The squared coefficients weigh as much as there are features: that holds from
    clean data to data that is mostly noise, where scikit-learn's default learns the noise by heart.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    if (features == features[0]).all():
        raise BadInput("every feature is constant over the rows that the attack learns from.")
    single = FunctionTransformer(partial(np.asarray, dtype=np.float32))
    model = LogisticRegression(C=1.0 / features.shape[1], max_iter=200)
    with warnings.catch_warnings():
        # An attack that is stopped early is still an attack; how well it does is measured on other rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), single, model).fit(features, codes)


def _codes(labels: ArrayLike, rows: int) -> NDArray[np.intp]:
    """Return the number of each row's class."""
    names = np.asarray(labels)
    if names.shape != (rows,):
        raise BadInput(f"labels have shape {names.shape}: one for each of {rows} released rows is needed.")
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        row = int(np.flatnonzero(~np.isfinite(names))[0]) + 1
        raise BadInput(f"the label of row {row} is not a finite number.")
    classes, codes = np.unique(names.astype(str) if names.dtype.kind == "O" else names, return_inverse=True)
    if classes.size < 2:
        raise BadInput("all labels are of one class: there is nothing to infer.")
    if classes.size > rows // 2:
        raise BadInput(
            f"there are {classes.size} different labels for {rows} rows; attribute inference needs classes, "
            "each with at least two rows on average."
        )
    return codes


def _held_out(codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the rows to test: a fifth of every class, never the whole class."""
    test = []
    for label in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == label))
        test.append(rows[: min(round(_HELD_OUT * rows.size), rows.size - 1)])
    chosen = np.sort(np.concatenate(test))
    if not chosen.size:
        raise BadInput(f"no class has enough rows to hold out a share of {_HELD_OUT:g}; give more rows.")
    return chosen


def ridge_reconstruction(
    original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Run the paper's attack: ridge regression from released rows (n, d′) to originals (n, d).

    Learned on a random part of the pairs, scored on the fifth that is held out. ``numbers`` holds the paper's
    privacy score, the error cut at 1.
    """
    from sklearn.linear_model import Ridge

    both = equal_rows(original, released, fewest=_FEWEST)
    before, after = (side.astype(np.float64) for side in both)
    order = np.random.default_rng(seed).permutation(len(before))
    cut = round((1.0 - _HELD_OUT) * len(order))
    known, tested = order[:cut], order[cut:]
    if (after[known] == after[known[0]]).all():
        raise BadInput("every released column is constant over the rows that the attack learns from.")
    guess = Ridge(alpha=1.0).fit(after[known], before[known]).predict(after[tested])
    return error_finding(
        "reconstruction by ridge regression",
        f"knows {len(known)} records with their released rows; reconstructs the others by ridge regression",
        before[tested],
        guess,
        before[known].mean(axis=0),
        confidence,
    )


def informed_inverter(original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99) -> Finding:
    """Take the released row, any public transform undone, as the record.

    The guess without a release is the mean of the originals, which flatters the guess.
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    return error_finding(
        "reconstruction by inversion",
        "knows every public parameter, inverts any transform, and takes the noisy value as it stands",
        before,
        after,
        before.mean(axis=0),
        confidence,
    )


def posterior_mean(
    original: ArrayLike, released: ArrayLike, *, sigma: float, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Estimate a record by its mean given its released row, for a Gaussian prior and noise of ``sigma``.

    Mean m and covariance S of the prior are those of a random half of the originals, which is declared
    public; the attack is scored on the other half. The posterior mean is m + S (S + σ²I)⁻¹ (y − m).
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    sigma = positive("sigma", sigma)
    order = np.random.default_rng(seed).permutation(len(before))
    prior, tested = before[order[::2]], order[1::2]
    before, after = before[tested], after[tested]
    mean = prior.mean(axis=0)
    spread = (prior - mean) / sigma
    # In units of the noise the posterior shrinks each principal axis by s/(s + 1).
    values, axes = np.linalg.eigh(spread.T @ spread / (len(prior) - 1))
    shrink = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + 1.0)
    guess = mean + (((after - mean) @ axes) * shrink) @ axes.T
    return error_finding(
        "reconstruction by posterior mean",
        "knows the deviation of the noise, and mean and covariance of a random half of the originals, "
        "declared public",
        before,
        guess,
        mean,
        confidence,
    )


def error_finding(
    attack: str, threat: str, truth: Floats, guess: Floats, prior: Floats, confidence: float, note: str = ""
) -> Finding:
    """Return the mean of ‖x̂ − x‖/‖x‖ over records with Student's interval; ``prior`` is the blind guess."""
    size = np.linalg.norm(truth, axis=1)
    counted = size > 0.0
    if np.count_nonzero(counted) < 2:
        raise BadInput("fewer than two records differ from zero: a relative error needs at least two.")
    errors, blind = (
        np.linalg.norm((each - truth)[counted], axis=1) / size[counted]
        for each in (guess, np.broadcast_to(prior, truth.shape))
    )
    value = float(errors.mean())
    reach = -float(stdtrit(errors.size - 1, failure_chance(confidence) / 2.0))
    reach *= float(errors.std(ddof=1)) / math.sqrt(errors.size)
    return Finding(
        attack=attack,
        threat=threat,
        measure="normalised error",
        value=value,
        chance=float(blind.mean()),
        interval=(max(0.0, value - reach), value + reach),
        confidence=confidence,
        higher_is_worse=False,
        numbers={
            "privacy_score": min(1.0, value),
            "records": float(errors.size),
            "zero_records": float(np.count_nonzero(~counted)),
        },
        note=note,
    )
