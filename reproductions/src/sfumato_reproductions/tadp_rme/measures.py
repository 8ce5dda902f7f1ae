"""What is measured on one release: utility, the paper's attacks, and the attacks that it leaves out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import (
    informed_inverter,
    membership_attacks,
    posterior_mean,
    recover_pairs,
    ridge_reconstruction,
)
from sfumato.mechanisms.transforms import ReverseManifold
from sfumato.utility import linear_probe, structure
from sfumato_reproductions.tadp_rme.settings import Released

__all__ = ["GROUPS", "Case", "measure", "pairs_recovered", "paper_membership"]

_ITERATIONS = 100
_MEMBERS = 2_000  # on each side of the membership attacks
_PAIRED = 64  # records that the pairing attack sees
_ORDER = b"a secret column order"


@dataclass(frozen=True, eq=False)
class Case:
    """One release of one seed, and the rows that the probe learns from and is tested on.

    ``uniform`` is False where these two are released differently; the attack on attributes then keeps to
    the rows that the probe learns from.
    """

    released: Released
    labels: NDArray[np.int64]
    learned: NDArray[np.intp]
    held: NDArray[np.intp]
    seed: int
    asked: int
    uniform: bool = True


def measure(group: str, case: Case) -> dict[str, float]:
    """The numbers of one of ``GROUPS``."""
    return GROUPS[group](case)


def _probe(case: Case) -> dict[str, float]:
    begun = time.process_time()
    found = linear_probe(case.released.value, case.labels, seed=case.seed, iterations=_ITERATIONS)
    seconds = time.process_time() - begun
    attack = found
    if not case.uniform:
        inside = case.released.value[case.learned], case.labels[case.learned]
        attack = linear_probe(*inside, seed=case.seed, iterations=_ITERATIONS)
    chance = 1.0 / attack.classes
    return {
        "accuracy": 100.0 * found.accuracy,
        "attribute": 1.0 - (attack.accuracy - chance) / (1.0 - chance),
        "probe seconds": seconds,
    }


def _plain_probe(case: Case) -> dict[str, float]:
    found = linear_probe(
        case.released.value, case.labels, seed=case.seed, iterations=_ITERATIONS, standardise=False
    )
    return {"plain accuracy": 100.0 * found.accuracy}


def _ridge(case: Case) -> dict[str, float]:
    rows = case.learned
    found = ridge_reconstruction(case.released.original[rows], case.released.value[rows], seed=case.seed)
    return {"error": found.value}


def _membership(case: Case) -> dict[str, float]:
    sides = (case.released.value[side[:_MEMBERS]] for side in (case.learned, case.held))
    return {"membership": paper_membership(*sides, seed=case.seed)}


def paper_membership(members: NDArray[Any], nonmembers: NDArray[Any], *, seed: int = 0) -> float:
    """Return the privacy score 1 − 2|AUC − 1/2| of the paper's attack (section 6.2.2), 1 being a guess.

    Logistic regression learns to tell protected members (n, d′) from protected non-members (m, d′) on a
    random half of both and is scored on the other. Where each row is protected by itself, a protected row
    carries no trace of which set it belongs to, so the score is about 1 whatever the mechanism, even if it
    does nothing.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    halves = []
    for rows in (members, nonmembers):
        order = rng.permutation(len(rows))
        halves.append((rows[order[: round(len(rows) / 2)]], rows[order[round(len(rows) / 2) :]]))
    learned, tested = ([side[half] for side in halves] for half in (0, 1))
    # The squared coefficients weigh as much as there are features, so that noise is not learned by heart.
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0 / members.shape[1], max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.concatenate(learned), np.repeat([1, 0], [len(side) for side in learned]))
    scores = model.decision_function(np.concatenate(tested))
    auc = roc_auc_score(np.repeat([1, 0], [len(side) for side in tested]), scores)
    return 1.0 - 2.0 * abs(float(auc) - 0.5)


def _structure(case: Case) -> dict[str, float]:
    found = structure(
        case.released.original,
        case.released.value,
        neighbours=(5, 10),
        most_rows=case.asked,
        seed=case.seed,
    )
    return {"overlap 5": found.overlap[5], "overlap 10": found.overlap[10], "spearman": found.spearman}


def _informed(case: Case) -> dict[str, float]:
    """Readers who know how the release was made: what inversion, a prior and all candidates give them."""
    released = case.released
    inverted = released.value if released.embedding is None else released.embedding.inverse(released.value)
    numbers: dict[str, float] = {}
    if released.noised is not None and released.embedding is not None:
        numbers["inversion error"] = informed_inverter(released.noised, inverted).value
    if released.sigma:
        numbers["posterior error"] = posterior_mean(
            released.original, inverted, sigma=released.sigma, seed=case.seed
        ).value
    numbers["likelihood AUC"] = membership_attacks(
        released.original,
        inverted,
        sigma=released.sigma or None,
        limit=2 * _MEMBERS,
        seed=case.seed,
    )[1].value
    return numbers


def _pairing(case: Case) -> dict[str, float]:
    """The same release with its columns in a secret order, and no α told: the share of pairs recovered."""
    released = case.released
    if released.noised is None or released.embedding is None:
        return {}
    rows = released.noised[:_PAIRED]
    shuffled = ReverseManifold(released.embedding.alpha, key=_ORDER).fit(rows)
    return {"pairs recovered": pairs_recovered(shuffled.transform(rows), shuffled)}


def pairs_recovered(released: NDArray[Any], transform: ReverseManifold) -> float:
    """Return the share of recovered columns that equal one that the holder of the key gets by inverting."""
    found = recover_pairs(released)
    truth = transform.inverse(released)
    true = truth.astype(np.float64)
    # The sign of a value is uncertain where its cosine vanishes, so sizes are compared there.
    known = np.abs(np.cos(found.alpha * np.abs(found.rows))) > 1e-4
    slack = 64.0 * float(np.finfo(truth.dtype).eps)
    count = 0
    for column, sure in zip(found.rows.T, known.T, strict=True):
        own = np.where(sure, column, np.abs(column))[:, None]
        theirs = np.where(sure[:, None], true, np.abs(true))
        count += bool((np.abs(own - theirs) <= slack * np.abs(column)[:, None]).all(axis=0).any())
    return count / len(found.pairs)


#: Each group shares its work; a table or figure asks for groups.
GROUPS: Mapping[str, Callable[[Case], dict[str, float]]] = {
    "probe": _probe,
    "plain probe": _plain_probe,
    "ridge": _ridge,
    "membership": _membership,
    "structure": _structure,
    "informed": _informed,
    "pairing": _pairing,
}
