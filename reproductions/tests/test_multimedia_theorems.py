"""Table 2 and table 1 by theorem, and how what is proven is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.privacy import Guarantee, gaussian_epsilon
from sfumato_reproductions.multimedia_dp.allocation import moved_by_sensitivity, paper_objective
from sfumato_reproductions.multimedia_dp.calibration_table import CLAIMED, readings, readings_grid
from sfumato_reproductions.multimedia_dp.part import Grid, held, proven_epsilon
from sfumato_reproductions.multimedia_dp.points import fails, holds
from sfumato_reproductions.multimedia_dp.published import CALIBRATION, DELTA

PIXELS = 224 * 224


@pytest.fixture(scope="module")
def named():
    """Readings of table 2 by feature and reading."""
    return {(one.row.feature, one.name): one for one in readings()}


def test_laplace_rows_are_the_claim_over_the_factor(named) -> None:
    value, region, item = named["RGB pixels", "pixels"].proven
    assert value == pytest.approx(CLAIMED / 0.3)
    assert region == pytest.approx(256 * 3 / 0.3)
    assert item == pytest.approx(PIXELS * 3 / 0.3)
    flow = named["optical flow", "two-sided"].proven
    assert flow == pytest.approx((1 / 0.6, 512 / 0.6, 2 * PIXELS / 0.6))


def test_gaussian_rows_are_the_analytic_gaussian(named) -> None:
    one = named["DCT coefficients", "coefficients, Gaussian"]
    assert one.delta == DELTA
    # The transform keeps lengths, so one value moves the coefficients by 255 under noise of 0.5·√N; what
    # rounding to a grid adds is certified too.
    exact = gaussian_epsilon(255 / (0.5 * 224), DELTA)
    assert exact <= one.proven[0] <= 1.02 * exact
    words = named["word embeddings", "word replaced, Δ = 2"].proven
    assert words[0] == pytest.approx(gaussian_epsilon(10.0, DELTA))
    assert words[2] == pytest.approx(gaussian_epsilon(100.0, DELTA))
    assert math.isnan(words[1])


def test_no_row_of_table_two_proves_its_claim(named) -> None:
    assert {one.row.feature for one in named.values()} == {row.feature for row in CALIBRATION.values()}
    for one in named.values():
        assert all(epsilon > 1.5 * CLAIMED for epsilon in one.proven if not math.isnan(epsilon))


def test_one_sided_noise_proves_nothing_and_says_at_which_delta(named) -> None:
    """Draws of exponential noise on two values Δ apart; false alarms below 1e-6 (4.9 deviations)."""
    one = named["optical flow", "one-sided, as printed"]
    assert all(math.isinf(epsilon) for epsilon in one.proven)
    assert "0.811" in one.note
    draws = np.random.default_rng(0).exponential(0.6, 100_000)
    # What one input gives with this chance, the other, Δ = 1 higher, never does.
    share, expected = (draws < 1.0).mean(), 1 - math.exp(-1 / 0.6)
    assert abs(share - expected) < 4.9 * math.sqrt(expected * (1 - expected) / draws.size)


def test_fading_costs_more_than_it_hides(named) -> None:
    fading = named["MFCC features", "levels, fading noise"].proven
    steady = named["MFCC features", "levels, noise that does not fade"].proven
    assert fading[0] == steady[0] >= CLAIMED / 0.4
    assert fading[1] > 1e9 * steady[1]
    assert steady[2] > steady[1]


def test_the_grid_prints_every_reading() -> None:
    grid = readings_grid(readings())
    assert len(grid.rows) == len(readings()) == 9
    assert all(len(row) == len(grid.heads) for row in grid.rows)
    assert "nothing (one value of a vector)" in grid.markdown()
    assert "λ(1 + f/f_max)^0.6" in grid.text() or "λ(1" in grid.text()


def test_sensitivity_moves_no_optimum() -> None:
    assert moved_by_sensitivity() < 1e-5


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [(math.inf, "nothing"), (1.0, "1"), (10 / 3, "3.334"), (501_760.0, "501,800"), (6.3801e15, "6.381e15")],
)
def test_an_epsilon_still_holds_as_printed(epsilon, printed) -> None:
    assert proven_epsilon(epsilon) == printed


@pytest.mark.parametrize(
    ("guarantee", "printed"),
    [
        (Guarantee.pure(2.0), "2"),
        (Guarantee.nothing("no theorem"), "nothing"),
        (Guarantee.approximate(1.0, 1e-6), "(1, 1e-06)"),
        (Guarantee.approximate(1.0, 1.0), "nothing"),
    ],
)
def test_what_is_proven_is_printed(guarantee, printed) -> None:
    assert held(guarantee) == printed


def test_a_grid_is_a_markdown_table() -> None:
    lines = Grid("Numbers", ("a", "b"), (("1", "2"),)).markdown().splitlines()
    assert lines == ["Numbers:", "", "| a | b |", "| --- | --- |", "| 1 | 2 |"]


def test_the_ten_points_are_told_without_any_measurement() -> None:
    told = fails({})
    assert len(told) == 10
    text = " ".join(told)
    for words in (
        *("3.334", "does not depend on sensitivity", "only if the map is public", "proven 2, not 1", "0.214"),
        *("90th percentile", "3.09", "fades", "Safe Harbor", "0.67 bit"),
    ):
        assert words in text
    assert len(holds(None)) == 4
    assert "anonymous" not in text


def test_an_element_without_utility_adds_nothing_to_the_objective() -> None:
    assert paper_objective([0.0, 1.0], [0.0, 2.0], [1.0, 0.5]) == pytest.approx(2.0 * math.log(2.0))
