"""Cosine similarity of embeddings: whether a record still points the way it did."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.distribution_features import Extractor, columns
from sfumato.utility.paired_records import numbers

__all__ = ["cosine_similarity"]


def cosine_similarity(
    original: Any, released: Any, *, extractor: Extractor | None = None
) -> NDArray[np.float64]:
    """The cosine between a record's embedding before and after, from −1 to 1, for each record.

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
