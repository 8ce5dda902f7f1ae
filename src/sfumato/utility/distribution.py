"""Distributional utility: Fréchet distance, inception-style score and cosine similarity, over extractors.

Feature extractors have names, and every measure over one carries its name.

Cosine similarity compares the embedding of each record before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.paired_records import numbers, rows_of

__all__ = ["Extractor", "frechet_distance", "inception_style_score", "pixels", "principal_components"]


@dataclass(frozen=True)
class Extractor:
    """A function from n records to features (n, d), and the name that every measure over it will carry.

    Set ``inception_v3`` only where the features are those of the Inception-v3 network trained on ImageNet:
    the names *FID* and *Inception score* belong to that network and are printed for no other.
    """

    name: str
    compute: Callable[[NDArray[Any]], Any]
    inception_v3: bool = False

    def __call__(self, records: Any) -> NDArray[np.float64]:
        """Features (n, d) in float64, finite, one row for each record."""
        given = np.asarray(records)
        features = rows_of(self.compute(given), f"{self.name} feature").astype(np.float64)
        if len(features) != len(given):
            raise BadInput(
                f"the extractor {self.name!r} made {len(features)} rows of features from {len(given)} "
                "records; it must make one for each."
            )
        return features


def columns() -> Extractor:
    """Return the extractor of the records themselves."""
    return Extractor("columns", lambda records: records)


def pixels() -> Extractor:
    """Return the extractor of the flattened pictures."""
    return Extractor("pixels", lambda records: records)


def principal_components(public: Any, components: int = 50, *, seed: int = 0) -> Extractor:
    """Return the extractor of the leading principal components of ``public`` (not private) records."""
    from sklearn.decomposition import PCA

    rows = rows_of(public, "public")
    if not 1 <= components <= min(rows.shape):
        raise BadInput(
            f"`components` was {components}; {rows.shape[0]} public records of {rows.shape[1]} columns have "
            f"between 1 and {min(rows.shape)}.",
            parameter="components",
        )
    model = PCA(components, random_state=seed).fit(rows.astype(np.float64))

    def project(records: NDArray[Any]) -> Any:
        given = _as_wide(records, rows.shape[1], f"PCA-{components}")
        return (given - model.mean_) @ model.components_.T

    return Extractor(f"PCA-{components}", project)


def probabilities(classifier: Any, name: str | None = None) -> Extractor:
    """Return the extractor of the class probabilities of a fitted scikit-learn classifier."""
    called = name or f"{_called(classifier)} probabilities"
    if not hasattr(classifier, "predict_proba"):
        raise BadInput(f"{_called(classifier)} gives no class probabilities: it has no predict_proba.")
    wide = getattr(classifier, "n_features_in_", None)
    return Extractor(called, lambda records: classifier.predict_proba(_as_wide(records, wide, called)))


def _called(model: Any) -> str:
    last = model[-1] if hasattr(model, "steps") else model
    return type(last).__name__


def _as_wide(records: NDArray[Any], width: int | None, name: str) -> NDArray[np.float64]:
    rows = rows_of(records, "given")
    if width is not None and rows.shape[1] != width:
        raise BadInput(f"the extractor {name!r} reads {width} columns, and the records have {rows.shape[1]}.")
    return rows.astype(np.float64)


def cosine_similarity(
    original: Any, released: Any, *, extractor: Extractor | None = None
) -> NDArray[np.float64]:
    """Return the cosine between a record's embedding before and after, from −1 to 1, for each record.

    ``extractor`` makes the embeddings (default: the columns themselves). An embedding of length zero has no
    direction and is refused.
    """
    extractor = extractor or columns()
    spaces = []
    first, second = numbers(original, "original"), numbers(released, "released")
    for name, records in (("original", first), ("released", second)):
        features = extractor(records)
        largest = np.abs(features).max(axis=1, keepdims=True)
        if not largest.all():
            row = int(np.flatnonzero(largest == 0.0)[0]) + 1
            raise BadInput(
                f"row {row} of the {name} array has an embedding ({extractor.name}) of length zero, which "
                "has no direction; leave such rows out."
            )
        features = features / largest  # so that no square over- or underflows
        spaces.append(features / np.linalg.norm(features, axis=1, keepdims=True))
    if spaces[0].shape != spaces[1].shape:
        raise BadInput(
            f"the embeddings ({extractor.name}) have shapes {spaces[0].shape} and {spaces[1].shape}; row by "
            "row both must hold the same records in the same space."
        )
    return np.asarray(np.clip(np.einsum("ij,ij->i", *spaces), -1.0, 1.0))


@dataclass(frozen=True)
class Distributional:
    """A number about a whole distribution; ``name`` says over which features it was taken."""

    name: str
    value: float
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


def inception_style_score(released: Any, *, extractor: Extractor) -> Distributional:
    """The exponential of the mean divergence of p(class | record) from p(class): 1 to the number of classes.

    ``extractor`` gives class probabilities. High where records are of clear and varied classes. Named
    Inception score where the extractor is Inception-v3, and after the extractor otherwise.
    """
    from scipy.special import rel_entr

    given = extractor(released)
    if given.min() < 0.0 or not np.allclose(given.sum(axis=1), 1.0, atol=1e-4):
        raise BadInput(
            f"the extractor {extractor.name!r} gave rows that are no probabilities: each must sum to 1."
        )
    return Distributional(
        name="Inception score" if extractor.inception_v3 else f"inception-style score over {extractor.name}",
        value=math.exp(float(rel_entr(given, given.mean(axis=0)).sum(axis=1).mean())),
    )
