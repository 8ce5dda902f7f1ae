"""Counts against exact probabilities: a χ² test with a stated false-alarm rate."""

import numpy as np
from scipy.stats import chi2

# The χ² law is a limit. With at least this many expected in every cell, and a threshold of 1e-7, the
# false-alarm rate stays below the 1e-6 that the tests state.
SMALLEST_CELL = 500.0
CHANCE = 1e-7


def fits(counts, probabilities):
    """Whether ``counts`` may well have these ``probabilities``; rare neighbouring cells are put together."""
    total = int(np.sum(counts))
    merged_counts, merged_expected = [0.0], [0.0]
    for count, probability in zip(counts, probabilities, strict=True):
        if merged_expected[-1] >= SMALLEST_CELL:
            merged_counts.append(0.0)
            merged_expected.append(0.0)
        merged_counts[-1] += count
        merged_expected[-1] += probability * total
    if merged_expected[-1] < SMALLEST_CELL and len(merged_expected) > 1:
        count, expected = merged_counts.pop(), merged_expected.pop()
        merged_counts[-1] += count
        merged_expected[-1] += expected
    observed, expected = np.array(merged_counts), np.array(merged_expected)
    assert len(expected) > 1, "a test with one cell tests nothing"
    np.testing.assert_allclose(expected.sum(), total, rtol=1e-9)
    return float((np.square(observed - expected) / expected).sum()) < chi2.isf(CHANCE, len(expected) - 1)
