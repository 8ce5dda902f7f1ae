"""Whether a release is spread as the data was: Fréchet distance and an inception-style score, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.distribution_features import Extractor

__all__ = ["Distributional", "frechet_distance", "inception_style_score"]


@dataclass(frozen=True)
class Distributional:
    """A number about a whole distribution; ``name`` says over which features it was taken."""

    name: str
    value: float
    deviation: float | None = None
    note: str = ""


def frechet_distance(original: Any, released: Any, *, extractor: Extractor) -> Distributional:
    """‖μ₁ − μ₂‖² + Tr(Σ₁ + Σ₂ − 2(Σ₁^½ Σ₂ Σ₁^½)^½) of Gaussians fitted to the features of both.

    The numbers of records may differ. Named FID where the extractor is Inception-v3, and after the extractor
    otherwise. With fewer records than features the estimate is far too large, and ``note`` says so.

    The trace of the square root is the sum of the singular values of R₁R₂ᵀ, where RᵀR = Σ comes from a QR
    decomposition of the centred features: no covariance is formed and no root of a rounding error taken.
    """
    means, factors = [], []
    for name, records in (("original", original), ("released", released)):
        features = extractor(records)
        if len(features) < 2:
            raise BadInput(f"the {name} array has one record; a covariance needs at least two.")
        mean = features.mean(axis=0)
        means.append(mean)
        factors.append(np.asarray(np.linalg.qr((features - mean) / math.sqrt(len(features) - 1), mode="r")))
    if means[0].shape != means[1].shape:
        raise BadInput(
            f"the {extractor.name} features have {len(means[0])} columns for the original and "
            f"{len(means[1])} for the release; both must lie in one space."
        )
    gap = means[0] - means[1]
    spreads = [float(np.einsum("ij,ij->", factor, factor)) for factor in factors]
    joint = float(np.linalg.svd(factors[0] @ factors[1].T, compute_uv=False).sum())
    fewest, width = min(len(original), len(released)), len(gap)
    return Distributional(
        name="FID" if extractor.inception_v3 else f"Fréchet distance over {extractor.name}",
        value=max(0.0, float(gap @ gap) + spreads[0] + spreads[1] - 2.0 * joint),
        note=f"{fewest} records for {width} features: biased upwards" if fewest <= width else "",
    )


def inception_style_score(released: Any, *, extractor: Extractor, splits: int = 1) -> Distributional:
    """The exponential of the mean divergence of p(class | record) from p(class): 1 to the number of classes.

    ``extractor`` gives class probabilities. High where records are of clear and varied classes. Named
    Inception score where the extractor is Inception-v3, and after the extractor otherwise. With ``splits``
    the records are cut into so many parts, and mean and standard deviation over the parts are given.
    """
    from scipy.special import rel_entr

    given = extractor(released)
    if given.min() < 0.0 or not np.allclose(given.sum(axis=1), 1.0, atol=1e-4):
        raise BadInput(
            f"the extractor {extractor.name!r} gave rows that are no probabilities: each must sum to 1."
        )
    if not 1 <= splits <= len(given):
        raise BadInput(
            f"`splits` was {splits}; {len(given)} records can be cut into 1 to {len(given)} parts.",
            parameter="splits",
        )

    def score(part: NDArray[np.float64]) -> float:
        return math.exp(float(rel_entr(part, part.mean(axis=0)).sum(axis=1).mean()))

    scores = [score(part) for part in np.array_split(given, splits)]
    return Distributional(
        name="Inception score" if extractor.inception_v3 else f"inception-style score over {extractor.name}",
        value=float(np.mean(scores)),
        deviation=float(np.std(scores, ddof=1)) if splits > 1 else None,
    )
