"""The noise of certified contraction is what its guarantee counts on: a fifth less would be seen."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.learn.certified_compact import CertifiedCompact
from sfumato.mechanisms.gaussian import noise_multiplier

RUNS, RECORDS, FEATURES = 600, 40, 3
FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("neighbours", "anchor", "gradient"), [("zero-out", 1.0, 1.0), ("replace", None, 2.0)]
)
def test_anchors_and_gradients_have_the_noise_that_is_proven(neighbours, anchor, gradient) -> None:
    """χ² over all runs; false-alarm rate 1e-6 each; a fifth less noise is 36% less variance.

    Records are zero, in two equal classes: class sums are noise alone, and so is the one gradient sum, since
    contracted records are all alike and residuals at weight zero cancel.
    """
    whole = noise_multiplier(2.0, 1e-5)
    labels = np.arange(RECORDS) % 2
    means, weights = [], []
    for _ in range(RUNS):
        made = CertifiedCompact(
            2.0, classes=2, neighbours=neighbours, steps=1, pace=1.0, anchors=0.3, moments=0.3, clip=0.2
        ).fit(np.zeros((RECORDS, FEATURES)), labels)
        means.append(made.tensors()["mean"] * RECORDS)
        weights.append(made.tensors()["weights"] * RECORDS)
    # Counts and sums together have length √(1 + ¼) at most; of two records in one class, 2 in the sums.
    length = math.sqrt(1.25) if anchor else max(2.0, math.sqrt(2.5))
    deviation = math.sqrt(2.0) * length * whole / math.sqrt(0.3)
    _check(np.concatenate(means), deviation)
    _check(np.concatenate(weights).ravel(), gradient * whole / math.sqrt(0.4) * 0.2)


def _check(drawn, deviation) -> None:
    total = float(((drawn / deviation) ** 2).sum())
    low, high = chi2.ppf([FALSE_ALARM / 2, 1.0 - FALSE_ALARM / 2], drawn.size)
    assert low < total < high
    assert 0.64 * total < low  # the test would see a fifth less noise
