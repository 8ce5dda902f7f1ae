"""How well a selective perturbation chose, and what was left: the columns of Table 5, measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.images import SelectiveNoise
from sfumato.noise import Secure

__all__ = ["PUBLISHED_SELECTION", "SelectionMeasures", "selection_measures"]

#: Table 5 as printed: coverage, precision, utility retention, privacy loss in ε, overhead.
PUBLISHED_SELECTION = {
    "uniform": (1.00, 0.153, 0.587, 1.00, 1.0),
    "random": (0.50, 0.287, 0.712, 0.82, 0.6),
    "gradient": (0.35, 0.674, 0.843, 0.91, 1.8),
    "attention": (0.42, 0.718, 0.871, 0.93, 2.1),
    "hybrid": (0.38, 0.742, 0.896, 0.90, 1.9),
}


@dataclass(frozen=True)
class SelectionMeasures:
    """``coverage``: the share of pixels chosen; ``precision``: of these, the share that is sensitive.

    ``recall``: of sensitive pixels, the share that was chosen; ``shown``: the share of sensitive pixels that
    were released as they are. ``retention`` is the structural similarity of release and picture, our reading
    of the paper's "utility retention", which it does not define. ``error`` is the root mean square error in
    255ths of white, ``seconds`` what choosing and noise took.
    """

    coverage: float
    precision: float
    recall: float
    shown: float
    retention: float
    error: float
    seconds: float


def selection_measures(
    mechanism: SelectiveNoise, picture: NDArray[Any], boxes: Iterable[Sequence[float]]
) -> SelectionMeasures:
    """Release ``picture`` (h, w) or (h, w, c) once and compare with the sensitive ``boxes`` (x, y, w, h).

    Precision and recall are NaN where nothing was chosen, or nothing is sensitive. Random choices are
    measured on a draw of their own.
    """
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise BadInput("structural similarity needs scikit-image: pip install 'sfumato[media]'.") from None
    array = np.asarray(picture)
    stack = array.reshape(1, *array.shape[:2], -1)
    high = 1.0 if array.dtype.kind == "f" else float(np.iinfo(array.dtype).max)
    sensitive = np.zeros(array.shape[:2], dtype=np.bool_)
    for x, y, wide, tall in boxes:
        rows = slice(max(int(np.floor(y)), 0), max(int(np.ceil(y + tall)), 0))
        sensitive[rows, max(int(np.floor(x)), 0) : max(int(np.ceil(x + wide)), 0)] = True
    start = perf_counter()
    released = mechanism.release(array).value
    seconds = perf_counter() - start
    chosen = mechanism.chosen(stack, high, [Secure().stream(b"")])[0]
    both = int((chosen & sensitive).sum())
    planes = {} if array.ndim == 2 else {"channel_axis": 2}
    similar = structural_similarity(array, released, data_range=high, **planes)  # type: ignore[no-untyped-call]
    moved = (released.astype(np.float64) - array) * (255.0 / high)
    found, hidden = int(chosen.sum()), int(sensitive.sum())
    return SelectionMeasures(
        coverage=float(chosen.mean()),
        precision=both / found if found else float("nan"),
        recall=both / hidden if hidden else float("nan"),
        shown=1.0 - both / hidden if hidden else float("nan"),
        retention=float(similar),
        error=float(np.sqrt(np.square(moved).mean())),
        seconds=seconds,
    )
