"""The class profile against definitions written out."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import multivariate_normal

from sfumato.learners.compact import ClassProfile

RNG = np.random.default_rng(4)
SIZES = (9, 25, 14)
BEFORE = [RNG.normal(size=(size, 3)) + 50.0 for size in SIZES]
AFTER = [0.1 * rows + 0.01 * RNG.normal(size=rows.shape) for rows in BEFORE]
PROFILE = ClassProfile.of(zip(BEFORE, AFTER, strict=True), bandwidth=0.8, contracted_bandwidth=0.09)


def mean_density(rows, h):
    """ρ of the class: the mean over its records of the mean of all kernels."""
    return np.mean([[multivariate_normal.pdf(one, other, h * h) for other in rows] for one in rows])


def test_every_column_is_what_its_equation_says() -> None:
    d = np.array([pdist(rows).max() for rows in BEFORE])
    contracted = np.array([pdist(rows).max() for rows in AFTER])
    np.testing.assert_allclose(PROFILE.diameter, d, rtol=1e-9)
    np.testing.assert_allclose(PROFILE.contracted_diameter, contracted, rtol=1e-9)
    np.testing.assert_allclose(PROFILE.eta, contracted / d, rtol=1e-9)
    np.testing.assert_allclose(PROFILE.kappa, 1 - contracted / d, rtol=1e-9)
    np.testing.assert_allclose(PROFILE.rho, [mean_density(rows, 0.8) for rows in BEFORE], rtol=1e-9)
    np.testing.assert_allclose(
        np.exp(PROFILE.contracted_log_rho), [mean_density(rows, 0.09) for rows in AFTER], rtol=1e-9
    )
    np.testing.assert_allclose(PROFILE.vulnerability, d / np.array(SIZES) ** (1 / 7), rtol=1e-9)


def test_rows_name_all_of_one_class_and_a_kept_table_reads_back() -> None:
    row = PROFILE.rows()[1]
    assert (row["class"], row["count"], row["eta"]) == (1, 25, PROFILE.eta[1])
    assert {"diameter", "contracted_diameter", "kappa", "rho", "vulnerability"} <= set(row)
    assert ClassProfile.from_table(PROFILE.table()).rows() == PROFILE.rows()


def test_many_dimensions_leave_a_finite_logarithm() -> None:
    rows = RNG.normal(size=(30, 4000))
    profile = ClassProfile.of([(rows, 0.05 * rows)], bandwidth=60.0, contracted_bandwidth=3.0)
    assert np.isfinite([profile.log_rho, profile.contracted_log_rho]).all()
    assert profile.rho[0] == 0.0  # below the smallest float; its logarithm is not
    assert profile.eta[0] == pytest.approx(0.05)
    # The same records under another ruler: as dense, once the ruler is taken into account.
    assert profile.contracted_log_rho[0] - profile.log_rho[0] == pytest.approx(4000 * np.log(20.0))


def test_records_that_coincide_have_nothing_to_contract() -> None:
    same = np.ones((4, 2))
    assert ClassProfile.of([(same, same)], bandwidth=1.0, contracted_bandwidth=1.0).eta.tolist() == [1.0]
