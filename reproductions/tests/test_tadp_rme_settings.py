"""What is released for the tables: the paper's noise, its embedding, and its baselines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato_reproductions.datasets import load
from sfumato_reproductions.tadp_rme import baselines, parameters
from sfumato_reproductions.tadp_rme.protocol import budget, clipped, distortion
from sfumato_reproductions.tadp_rme.settings import baseline, gaussian, release, tadp_rme
from sfumato_reproductions.tadp_rme.theory_figures import recovery_probability

HELD = np.arange(40, 50)


@pytest.fixture(scope="module")
def records():
    """Fifty digits, which are longer than the ball."""
    return load("digits").sample(50, 0)[0]


def test_the_budget_falls_and_the_embedding_fades_with_trust() -> None:
    assert (budget(0.0), budget(0.5), budget(1.0)) == (80.0, 47.5, 15.0)
    assert (distortion(0.0), distortion(1.0)) == (2.0 * math.pi, 0.0)


@pytest.mark.parametrize(("epsilon", "proven"), [(15.0, 44.8), (47.5, 275.0), (80.0, 685.0)])
def test_the_papers_noise_proves_less_than_it_names(epsilon, proven) -> None:
    trust = (80.0 - epsilon) / 65.0
    assert gaussian(trust).proven(784) == pytest.approx(proven, rel=2e-3)
    assert tadp_rme(trust, noiseless=False).proven(784) == gaussian(trust).proven(784)
    assert gaussian(trust).proven(3072) == gaussian(trust).proven(784)


def test_what_the_baselines_prove() -> None:
    laplace = baseline("Laplace DP", 15.0).proven(784)
    assert laplace == pytest.approx(2.0 * 28.0 * 15.0, rel=1e-4)
    assert laplace <= 2.0 * 28.0 * 15.0 * (1.0 + 1e-9)
    assert baseline("Personalised DP", 47.5).proven(784) == pytest.approx(47.5, rel=1e-9)
    assert baseline("Binary encoding").proven(784) == pytest.approx(784 * math.log(9.0), rel=1e-6)
    for method in ("Additive noise", "Random projection", "LSH", "Reconstruction-resistant"):
        assert baseline(method).proven(784) is None
    assert tadp_rme(0.0).proven(784) is None


def test_without_noise_the_clipped_records_are_embedded(records) -> None:
    released = release(tadp_rme(0.0), records, 0, HELD)
    x = clipped(records, 1.0)
    assert np.linalg.norm(x, axis=1) == pytest.approx(np.ones(50), rel=1e-6)
    angle = 2.0 * math.pi * x.astype(np.float64)
    assert released.value == pytest.approx(np.hstack([x * np.cos(angle), x * np.sin(angle)]), abs=1e-6)
    assert (released.noised == x).all()


def test_noise_has_the_papers_deviation_and_is_drawn_again_by_its_seed(records) -> None:
    """The deviation of 50·64 draws against 6 standard errors; a false alarm below 1e-8."""
    sigma = math.sqrt(2.0 * math.log(1.25e5)) / 47.5
    first, again, other = (release(gaussian(0.5), records, seed, HELD) for seed in (0, 0, 1))
    noise = first.value.astype(np.float64) - first.original
    assert first.sigma == pytest.approx(sigma)
    assert abs(noise.std() / sigma - 1.0) < 6.0 / math.sqrt(2.0 * noise.size)
    assert (first.value == again.value).all()
    assert not (first.value == other.value).any(axis=1).all()
    second = release(replace(gaussian(0.5), draw=1), records, 0, HELD)
    assert not (first.value == second.value).all()


def test_the_radius_changes_the_records_and_not_the_noise(records) -> None:
    usual, wide = (release(parameters.setting("clip C", radius), records, 0, HELD) for radius in (1.0, 2.0))
    assert wide.sigma == pytest.approx(usual.sigma)
    assert np.linalg.norm(wide.original, axis=1) == pytest.approx(np.full(50, 2.0), rel=1e-6)


def test_laplace_noise_has_scale_one_over_epsilon(records) -> None:
    """The mean size of 50·64 draws against 6 standard errors; a false alarm below 1e-8."""
    released = release(baseline("Laplace DP", 15.0), records, 0, HELD)
    size = np.abs(released.value.astype(np.float64) - released.original).mean() * 15.0
    assert abs(size - 1.0) < 6.0 / math.sqrt(released.value.size)


@pytest.mark.parametrize("method", ["Random projection", "LSH", "Reconstruction-resistant"])
def test_two_bases_differ_on_the_rows_that_are_tested(records, method) -> None:
    one, two = (release(replace(baseline(method), bases=n), records, 0, HELD).value for n in (1, 2))
    same = (one == two).all(axis=1)
    assert same[:40].all()
    assert not same[HELD].any()


def test_every_method_of_table_two_releases(records) -> None:
    for methods in (*baselines.BUDGETS.values(), baselines.others()):
        for setting in methods.values():
            value = release(setting, records, 0, HELD).value
            assert len(value) == 50
            assert np.isfinite(value).all()


@pytest.mark.parametrize(
    ("dimensions", "known", "ways"), [(2, 0.0, 3), (3, 0.0, 15), (10, 0.5, 945), (5, 1.0, 1), (4, 0.75, 1)]
)
def test_the_papers_odds_are_one_over_the_number_of_pairings(dimensions, known, ways) -> None:
    assert recovery_probability(dimensions, known) == pytest.approx(1.0 / ways)
