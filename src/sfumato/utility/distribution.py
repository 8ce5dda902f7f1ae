"""Distributional utility: Fréchet distance, inception-style score and cosine similarity of feature rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.paired_records import paired, rows_of

__all__ = ["frechet_distance", "inception_style_score"]


def cosine_similarity(original: Any, released: Any) -> NDArray[np.float64]:
    """Return the cosine between a record before and after, from −1 to 1, for each record.

    A record of length zero has no direction and is refused.
    """
    spaces = []
    for name, rows in zip(("original", "released"), paired(original, released), strict=True):
        largest = np.abs(rows.astype(np.float64)).max(axis=1, keepdims=True)
        if not largest.all():
            row = int(np.flatnonzero(largest == 0.0)[0]) + 1
            raise BadInput(
                f"row {row} of the {name} array has length zero and no direction; leave such rows out."
            )
        scaled = rows / largest  # so that no square over- or underflows
        spaces.append(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
    if spaces[0].shape != spaces[1].shape:
        raise BadInput(f"rows of {spaces[0].shape[1]} and {spaces[1].shape[1]} columns have no cosine.")
    return np.asarray(np.clip(np.einsum("ij,ij->i", *spaces), -1.0, 1.0))


def frechet_distance(original: Any, released: Any) -> tuple[float, str]:
    """‖μ₁ − μ₂‖² + Tr(Σ₁ + Σ₂ − 2(Σ₁^½ Σ₂ Σ₁^½)^½) of Gaussians fitted to feature rows (n, d) and (m, d).

    With fewer records than features the estimate is far too large, and the note that is returned says so.

    The trace of the square root is the sum of the singular values of R₁R₂ᵀ, where RᵀR = Σ comes from a QR
    decomposition of the centred features: no covariance is formed and no root of a rounding error taken.
    """
    means, factors, counts = [], [], []
    for name, values in (("original", original), ("released", released)):
        features = rows_of(values, name).astype(np.float64)
        if len(features) < 2:
            raise BadInput(f"the {name} array has one record; a covariance needs at least two.")
        mean = features.mean(axis=0)
        means.append(mean)
        counts.append(len(features))
        factors.append(np.asarray(np.linalg.qr((features - mean) / math.sqrt(len(features) - 1), mode="r")))
    if means[0].shape != means[1].shape:
        raise BadInput(
            f"features have {len(means[0])} columns for the original and {len(means[1])} for the release; "
            "both must lie in one space."
        )
    gap = means[0] - means[1]
    spreads = [float(np.einsum("ij,ij->", factor, factor)) for factor in factors]
    joint = float(np.linalg.svd(factors[0] @ factors[1].T, compute_uv=False).sum())
    value = max(0.0, float(gap @ gap) + spreads[0] + spreads[1] - 2.0 * joint)
    few = min(counts) <= len(gap)
    return value, f"{min(counts)} records for {len(gap)} features: biased upwards" if few else ""


def inception_style_score(probabilities: Any) -> float:
    """Return exp of the mean divergence of p(class | record) from p(class): 1 to the number of classes.

    ``probabilities`` are those of each record's classes, (n, classes). The score is high where records are of
    clear and varied classes.
    """
    from scipy.special import rel_entr

    given = rows_of(probabilities, "probabilities").astype(np.float64)
    if given.min() < 0.0 or not np.allclose(given.sum(axis=1), 1.0, atol=1e-4):
        raise BadInput("rows of probabilities must not be negative and must each sum to 1.")
    return math.exp(float(rel_entr(given, given.mean(axis=0)).sum(axis=1).mean()))
