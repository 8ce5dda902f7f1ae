"""Released values are the clipped values on average, and vary as much as the noise says."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sfumato.mechanisms import Gaussian, Laplace, Personalised, RandomisedResponse, TrustAdaptive

ROWS = 400_000
# Both ends of a mean and of a variance make 4e-7; the rest of 1e-6 is for sums that are only nearly normal.
LIMIT = float(norm.isf(1e-7))

CASES = [
    (Gaussian(1.0, 1e-6, 1.0), [0.25, -0.5], [0.25, -0.5]),
    (Gaussian(1.0, 1e-6, 1.0, neighbours="zero-out"), [3.0, 4.0], [0.6, 0.8]),
    (Gaussian(3.0, 1e-6, bounds=((0.0, -1.0), (2.0, 1.0))), [5.0, 0.5], [2.0, 0.5]),
    (TrustAdaptive(0.5, (1.0, 8.0), 1e-6, 1.0), [0.0, 0.125], [0.0, 0.125]),
    (TrustAdaptive(0.5, (1.0, 8.0), 1e-6, 1.0, calibration="paper"), [0.0, 2.0], [0.0, 1.0]),
    (Laplace(1.0, 1.0), [0.5, -0.25], [0.5, -0.25]),
    (Laplace(2.0, bounds=(-1.0, 1.0)), [-7.0, 1.0], [-1.0, 1.0]),
    (Personalised(2.0, 1e-6, 1.0), [1.0, 0.0], [1.0, 0.0]),
]


@pytest.mark.parametrize(("mechanism", "record", "clipped"), CASES)
def test_mean_and_variance_are_those_of_the_clipped_value_and_the_noise(mechanism, record, clipped):
    """False-alarm rate 1e-6 a column; 400 000 rows. Rounding toward zero may move the mean by a grid step."""
    released = mechanism.release(np.tile(record, (ROWS, 1))).value
    laplace = isinstance(mechanism, Laplace)
    scale = mechanism.scale(2) if laplace else mechanism.sigma(2)
    deviation = scale * (math.sqrt(2.0) if laplace else 1.0)
    step = min(scale / 4096.0, 0.5 / 128.0)  # at least the step of the grid
    for column, true in enumerate(clipped):
        errors = released[:, column] - true
        assert abs(errors.mean()) < LIMIT * deviation / math.sqrt(ROWS) + step
        # The variance of a squared deviation is (κ − 1)σ⁴, with kurtosis κ = 3 (normal) or 6 (Laplace).
        spread = math.sqrt((6.0 if laplace else 3.0) - 1.0)
        assert abs(errors.var() / deviation**2 - 1.0) < LIMIT * spread / math.sqrt(ROWS) + 1e-4


def test_columns_and_rows_are_uncorrelated():
    """False-alarm rate 1e-6; three correlations of 400 000 products, each with a limit of 5.1 deviations."""
    errors = Gaussian(1.0, 1e-6, 1.0).release(np.zeros((ROWS, 2))).value
    pairs = [(errors[:, 0], errors[:, 1]), (errors[1:, 0], errors[:-1, 0]), (errors[1:, 0], errors[:-1, 1])]
    for one, two in pairs:
        assert abs(np.corrcoef(one, two)[0, 1]) < float(norm.isf(1.6e-7)) / math.sqrt(ROWS)


@pytest.mark.parametrize(("epsilon", "categories"), [(1.0, 2), (2.0, 5)])
def test_answers_are_kept_and_spread_as_often_as_they_should(epsilon, categories):
    """False-alarm rate 1e-6; 400 000 answers, a Bonferroni bound over all categories."""
    answers = RandomisedResponse(epsilon, categories).release(np.ones((ROWS, 1))).value[:, 0]
    for answer in range(categories):
        p = math.exp(epsilon * (answer == 1)) / (math.exp(epsilon) + categories - 1)
        limit = float(norm.isf(5e-7 / categories)) * math.sqrt(p * (1.0 - p) / ROWS)
        assert abs(np.mean(answers == answer) - p) < limit + 1e-4
