"""What is measured on one release: utility, the paper's attacks, and the attacks that it leaves out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import (
    informed_inverter,
    membership_attacks,
    pairing_attack,
    paper_membership,
    posterior_mean,
    ridge_reconstruction,
)
from sfumato.mechanisms.transforms import ReverseManifold
from sfumato.utility import linear_probe, structure
from sfumato_reproductions.tadp_rme.settings import Released

__all__ = ["GROUPS", "Case", "measure"]

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
    return {"membership": paper_membership(*sides, seed=case.seed).numbers["privacy_score"]}


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
    view = None if released.embedding is None else released.embedding.inverse
    numbers: dict[str, float] = {}
    if released.noised is not None and view is not None:
        numbers["inversion error"] = informed_inverter(released.noised, released.value, view=view).value
    if released.sigma:
        numbers["posterior error"] = posterior_mean(
            released.original, released.value, sigma=released.sigma, view=view, seed=case.seed
        ).value
    numbers["likelihood AUC"] = membership_attacks(
        released.original,
        released.value,
        view=view,
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
    found = pairing_attack(shuffled.transform(rows), transform=shuffled)
    return {"pairs recovered": found.value}


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
