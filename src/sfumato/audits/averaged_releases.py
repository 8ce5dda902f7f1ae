"""Averaging: what several releases of the same records add up to.

The mean of k releases with independent noise of variance σ² carries noise of variance σ²/k, so each release
must be paid for. Keyed noise returns the same bytes for the same request: then the mean teaches nothing new
and nothing is owed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.reconstruction import error_finding
from sfumato.audits.reidentification import View, corresponding
from sfumato.errors import BadInput

__all__ = ["averaging_attack"]


def averaging_attack(
    original: ArrayLike,
    releases: Sequence[ArrayLike],
    *,
    view: View | None = None,
    confidence: float = 0.99,
) -> Finding:
    """The normalised error ‖x̂ − x‖/‖x‖ of the mean over ``releases``, two or more of the same records.

    ``numbers`` holds the mean squared error of a value after k releases (``mse_1``, ``mse_2``, ``mse_4``, …
    and that after the last) and the law a + b/k that it follows: ``falling`` is b, the variance of the noise
    that is fresh in each release, ``staying`` is a, the shared noise and the bias of clipping, which no
    averaging removes. ``misfit`` is the largest difference between law and measurement, as a share of a + b;
    ``identical`` is 1 where all releases are the same. ``error_of_one`` is the normalised error of the first
    release alone.
    """
    if len(releases) < 2:
        raise BadInput(f"averaging needs at least two releases of the same records, not {len(releases)}.")
    before, first = corresponding(original, releases[0], view)
    # Errors are summed rather than released values, so that the originals drop out exactly.
    total: NDArray[np.float64] = np.zeros_like(before)
    alone, identical = 0.0, True
    measured: dict[int, float] = {}
    for count, release in enumerate(releases, start=1):
        after = corresponding(original, release, view)[1]
        identical = identical and np.array_equal(after, first)
        error = after - before
        total += error
        alone += float(np.mean(error**2)) / len(releases)
        if count & (count - 1) == 0 or count == len(releases):
            measured[count] = float(np.mean((total / count) ** 2))
    # The mean of the errors and their spread add up to what they are alone.
    falling = 0.0 if identical else (alone - measured[count]) * count / (count - 1)
    staying = alone - falling
    misfit = max(abs(value - staying - falling / k) for k, value in measured.items())
    found = error_finding(
        "averaging",
        f"sees {count} releases of the same records and takes their mean",
        before,
        before + total / count,
        before.mean(axis=0),
        confidence,
        "the releases are identical: averaging gains nothing and nothing more is owed"
        if identical
        else "the error falls with every further release: each must be paid for",
    )
    one = error_finding("", "", before, first, before.mean(axis=0), confidence)
    numbers = {f"mse_{k}": value for k, value in measured.items()} | {
        "falling": falling,
        "staying": staying,
        "misfit": misfit / alone if alone > 0.0 else 0.0,
        "identical": float(identical),
        "error_of_one": one.value,
        "releases": float(count),
    }
    return replace(found, numbers=dict(found.numbers) | numbers)
