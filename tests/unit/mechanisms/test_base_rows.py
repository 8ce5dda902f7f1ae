"""Rows of a table: the composition of a numeric and a coded part, with shares by public weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import Rows
from sfumato.privacy import Guarantee


def test_a_row_costs_its_numeric_and_its_coded_part() -> None:
    rows = Rows(sf.Gaussian(4.0, 1e-6), [(0.0, 1.0), (18.0, 90.0)], [3, 5], [1.0, 1.0, 1.0, 1.0])
    numeric = sf.Gaussian(2.0, 1e-6, clip=1.0).guarantee()
    coded = sf.RandomisedResponse(2.0, [3, 5]).guarantee()
    assert rows.guarantee() == Guarantee.compose([numeric, coded])
    assert rows.guarantee().at_delta == 1e-6
    assert rows.guarantee().epsilon() <= 4.0
    assert rows.statement().proven == rows.guarantee()


@pytest.mark.parametrize("mechanism", [sf.Laplace(6.0), sf.TrustAdaptive(0.5, (4.0, 8.0), 1e-6)])
def test_weights_share_out_the_budget(mechanism) -> None:
    rows = Rows(mechanism, [(0.0, 1.0)], [2, 4], [3.0, 1.0, 2.0])
    statement = rows.statement()
    assert statement.parameters["coded_epsilon"] == pytest.approx(3.0)
    assert np.mean(statement.parameters["numeric_epsilon"]) == pytest.approx(3.0)
    assert (statement.parameters["numeric_columns"], statement.parameters["coded_columns"]) == (1, 2)
    assert statement.claimed.epsilon == pytest.approx(6.0)
    np.testing.assert_allclose(rows.coded._budgets(2), [1.0, 2.0])


def test_a_heavier_column_gets_less_noise_in_proportion() -> None:
    """Seeded, so it cannot fail by chance; the bounds are five standard errors."""
    count = 40_000
    mechanism = sf.Gaussian(5.0, 1e-6, randomness=sf.Seeded(1))
    rows = Rows(mechanism, [(-2.0, 2.0), (100.0, 1100.0)], [], [1.0, 4.0])
    numeric = np.tile([1.0, 600.0], (count, 1))
    released, codes = rows.perturb(numeric, np.empty((count, 0), dtype=np.int64))
    assert codes.shape == (count, 0)
    # By hand: columns on ±w have an L2 sensitivity of 2‖w‖, and noise σ/w in units of their half width.
    weights = np.array([0.4, 1.6])
    sigma = sf.Gaussian(5.0, 1e-6, clip=float(np.linalg.norm(weights))).sigma(2)
    expected = sigma / weights * np.array([2.0, 500.0])
    np.testing.assert_allclose(released.std(axis=0), expected, rtol=5.0 / math.sqrt(2 * count))
    assert (np.abs(released.mean(axis=0) - [1.0, 600.0]) < 5.0 * expected / math.sqrt(count)).all()


def test_values_outside_the_bounds_are_clipped_and_codes_are_answered() -> None:
    mechanism = sf.Laplace(1e6, randomness=sf.Seeded(2))
    rows = Rows(mechanism, [(0.0, 10.0)], [3], [1.0, 1.0])
    numeric, codes = np.array([[-50.0], [5.0], [1e9]]), np.array([[0], [1], [2]])
    released, answers = rows.perturb(numeric, codes)
    np.testing.assert_allclose(released, [[0.0], [5.0], [10.0]], atol=0.05)
    np.testing.assert_array_equal(answers, codes)
    assert answers.dtype == np.int64


def test_tables_of_one_kind_of_column_say_so() -> None:
    numeric = Rows(sf.Gaussian(1.0, 1e-6), [(0.0, 1.0)], [], [1.0])
    assert numeric.statement().mechanism == "Gaussian on numeric columns"
    assert numeric.guarantee() == sf.Gaussian(1.0, 1e-6, clip=1.0).guarantee()
    coded = Rows(sf.Gaussian(1.0, 1e-6), [], [2], [1.0])
    assert coded.statement().mechanism == "RandomisedResponse on coded columns"
    assert coded.guarantee().epsilon(0.0) <= 1.0


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (sf.AdditiveNoise(), "not by AdditiveNoise"),
        (sf.RandomisedResponse(epsilon=1.0), "not by RandomisedResponse"),
        (sf.Personalised([1.0, 2.0]), "not by Personalised"),
        (sf.Gaussian(clip=1.0, epsilon=1.0), "leave out `clip` and `bounds`"),
        (sf.Laplace(bounds=(0.0, 1.0), epsilon=1.0), "leave out `clip` and `bounds`"),
        (sf.Gaussian(-1.0), "`epsilon` must be a positive number"),
        (sf.TrustAdaptive(2.0, epsilon=(1.0, 8.0)), "`distrust` must lie between 0 and 1"),
        (sf.TrustAdaptive(0.5, calibration="paper", epsilon=(1.0, 8.0)), "declare `clip`, not `bounds`"),
    ],
)
def test_refused_tables(mechanism, message) -> None:
    with pytest.raises(BadInput, match=message):
        Rows(mechanism, [(0.0, 1.0)], [2], [1.0, 1.0])


def test_a_coded_column_is_not_released_under_zero_out() -> None:
    rows = Rows(sf.Gaussian(neighbours="zero-out", epsilon=1.0), [(0.0, 1.0)], [2], [1.0, 1.0])
    with pytest.raises(BadInput, match="zero-out cannot be added to one per record under replace"):
        rows.guarantee()
