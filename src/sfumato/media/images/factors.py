"""The four factors of sensitivity, and their weights: declared, by default, or learned from annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import numeric, shown

__all__ = ["DEFAULT_WEIGHTS", "FACTORS", "factor_weights", "learned_weights"]

FACTORS = ("identity", "location", "behaviour", "preference")

#: The paper learns its weights and does not print them; these put identity first.
DEFAULT_WEIGHTS = {"identity": 0.7, "location": 0.1, "behaviour": 0.1, "preference": 0.1}

# Weights written with a few decimals sum to one no better than this.
_ROUNDING = 1e-9


def factor_weights(
    weights: Mapping[str, float] | Sequence[float] | None, known: Sequence[str]
) -> dict[str, float]:
    """The α of all four factors: none negative, and their sum one.

    Left out, they are :data:`DEFAULT_WEIGHTS`, shared out among the ``known`` factors. Four numbers stand in
    the order of :data:`FACTORS`.
    """
    if weights is None:
        total = sum(DEFAULT_WEIGHTS[name] for name in known)
        return {name: DEFAULT_WEIGHTS[name] / total if name in known else 0.0 for name in FACTORS}
    if isinstance(weights, str) or not isinstance(weights, Mapping | Sequence | np.ndarray):
        raise BadInput(
            f"`weights` must be numbers for {', '.join(FACTORS)}, not {shown(weights)}.", parameter="weights"
        )
    given = dict(weights) if isinstance(weights, Mapping) else dict(zip(FACTORS, weights, strict=False))
    values = numeric(list(given.values()))
    named = set(given) <= set(FACTORS) and (isinstance(weights, Mapping) or len(weights) == len(FACTORS))
    if not named or values is None or not (values >= 0.0).all() or abs(values.sum() - 1.0) > _ROUNDING:
        raise BadInput(
            f"`weights` must be numbers ≥ 0 that sum to 1, for {', '.join(FACTORS)}, not {shown(weights)}.",
            parameter="weights",
        )
    return {name: float(given.get(name, 0.0)) for name in FACTORS}


def learned_weights(scores: Any, annotated: Any) -> dict[str, float]:
    """The weights whose S is nearest, in squares, to ``annotated`` sensitivities (n,); a global optimum.

    ``scores`` (n, 4) are those of the four factors. Weights learned from private annotations are private.
    """
    given, target = numeric(scores), numeric(annotated)
    if given is None or target is None or given.ndim != 2 or given.shape[1] != len(FACTORS):
        raise BadInput("learned weights need scores of shape (n, 4) and n annotated sensitivities.")
    if target.shape != given.shape[:1] or not target.size:
        raise BadInput(f"{given.shape[0]} rows of scores do not go with annotations of shape {target.shape}.")
    if not (np.isfinite(given).all() and np.isfinite(target).all()):
        raise BadInput("learned weights need finite scores and annotations.")
    candidates = [
        found
        for size in range(1, len(FACTORS) + 1)
        for chosen in combinations(range(len(FACTORS)), size)
        if (found := _on_face(given, target, chosen)) is not None
    ]
    best = min(candidates, key=lambda weights: float(np.square(given @ weights - target).sum()))
    return dict(zip(FACTORS, (float(weight) for weight in best), strict=True))


def _on_face(
    scores: NDArray[np.float64], target: NDArray[np.float64], chosen: tuple[int, ...]
) -> NDArray[np.float64] | None:
    """The best weights that sum to one over ``chosen`` and are zero elsewhere, if none is negative.

    The optimum over the simplex is the optimum of the face it lies in, and there are fifteen faces.
    """
    base, rest = scores[:, chosen[0]], scores[:, list(chosen[1:])] - scores[:, [chosen[0]]]
    solved = np.linalg.lstsq(rest, target - base, rcond=None)[0]
    weights = np.zeros(scores.shape[1])
    weights[list(chosen[1:])] = solved
    weights[chosen[0]] = 1.0 - solved.sum()
    return weights if (weights >= 0.0).all() else None
