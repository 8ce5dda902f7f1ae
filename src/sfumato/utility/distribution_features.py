"""Feature extractors by name: what a distance between distributions or embeddings is measured over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.paired_records import rows_of

__all__ = ["Extractor", "columns", "hidden_layer", "pixels", "principal_components", "probabilities"]


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
    """The records themselves."""
    return Extractor("columns", lambda records: records)


def pixels() -> Extractor:
    """The pictures themselves, flattened."""
    return Extractor("pixels", lambda records: records)


def principal_components(public: Any, components: int = 50, *, seed: int = 0) -> Extractor:
    """The leading principal components of ``public`` records, which must not be the private ones."""
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
    """The class probabilities that a fitted scikit-learn classifier gives."""
    called = name or f"{_called(classifier)} probabilities"
    if not hasattr(classifier, "predict_proba"):
        raise BadInput(f"{_called(classifier)} gives no class probabilities: it has no predict_proba.")
    wide = getattr(classifier, "n_features_in_", None)
    return Extractor(called, lambda records: classifier.predict_proba(_as_wide(records, wide, called)))


def hidden_layer(classifier: Any, name: str | None = None) -> Extractor:
    """The last hidden layer of a fitted scikit-learn ``MLPClassifier``, alone or at the end of a pipeline."""
    from sklearn.neural_network._base import ACTIVATIONS
    from sklearn.pipeline import Pipeline

    before, network = (
        (classifier[:-1], classifier[-1]) if isinstance(classifier, Pipeline) else (None, classifier)
    )
    if not hasattr(network, "coefs_"):
        raise BadInput(f"{_called(network)} has no hidden layers to read; fit an MLPClassifier first.")
    called = name or f"hidden layer of {_called(network)}"
    wide = getattr(classifier, "n_features_in_", None)

    def forward(records: NDArray[Any]) -> Any:
        values = _as_wide(records, wide, called)
        if before is not None and len(before):
            values = before.transform(values)
        for weights, offset in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
            values = values @ weights + offset
            ACTIVATIONS[network.activation](values)  # in place
        return values

    return Extractor(called, forward)


def _called(model: Any) -> str:
    last = model[-1] if hasattr(model, "steps") else model
    return type(last).__name__


def _as_wide(records: NDArray[Any], width: int | None, name: str) -> NDArray[np.float64]:
    rows = rows_of(records, "given")
    if width is not None and rows.shape[1] != width:
        raise BadInput(f"the extractor {name!r} reads {width} columns, and the records have {rows.shape[1]}.")
    return rows.astype(np.float64)
