"""Duchi, Piecewise and Hybrid: exact laws, unbiased means, the error that is planned, and refusals."""

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import box_reports
from sfumato.mechanisms.box_reports import chosen_coordinates

KINDS = [sf.Duchi, sf.Piecewise, sf.Hybrid]
COIN, CELLS = 1 << 64, 1 << 20


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.01, 1.0, 5.0, 20.0, 34.0, 100.0, 1e4, 1e100])
def test_the_epsilon_of_one_report_is_exact_and_at_most_what_was_asked(epsilon):
    """To 50 digits from the whole numbers that are drawn with."""
    two, window = box_reports._two(epsilon), box_reports._window(epsilon)
    with mpmath.workdps(50):
        coin = mpmath.log(mpmath.mpf(two.high) / (COIN - two.high))
        inside = mpmath.mpf(window.hit) / window.width
        outside = mpmath.mpf(COIN - window.hit) / (CELLS - window.width)
        cell = mpmath.log(inside / outside)
        for part, exact in ((two, coin), (window, cell)):
            assert exact <= part.epsilon <= exact * (1 + mpmath.mpf("3e-14"))
            assert part.epsilon <= epsilon
            if 1e-5 <= epsilon <= 5.0:
                assert part.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_an_epsilon_too_small_for_its_coin_is_refused():
    for kind in (sf.Duchi, sf.Piecewise, sf.Hybrid):
        with pytest.raises(BadInput, match=r"for one coordinate is too small for .*\.$"):
            kind(1e-20).release(np.zeros((1, 3)))


@pytest.mark.parametrize("t", [-1.0, -0.3, 0.0, 0.5, 1.0])
def test_duchi_answers_with_a_probability_linear_in_the_value(t):
    """400,000 answers; false alarm 1e-6 by the binomial law."""
    report = box_reports._two(1.2)
    drawn = report.draw(sf.Seeded(4).stream(b"duchi"), np.full(400_000, t))
    assert set(np.unique(drawn)) == {-report.size, report.size}
    high = report.high / COIN
    up = (1.0 - high) + (2.0 * high - 1.0) * (t + 1.0) / 2.0
    count = int((drawn > 0).sum())
    assert binom.isf(1 - 5e-7, 400_000, up) <= count <= binom.isf(5e-7, 400_000, up)
    assert report.size * (2.0 * up - 1.0) == pytest.approx(t, abs=1e-12)  # its mean is the value


def test_duchi_never_leaves_its_two_ends():
    """Whatever floats make of values between and beyond −1 and 1, thresholds stay in whole numbers."""
    for epsilon in (1e-8, 0.1, 3.0, 40.0):
        report = box_reports._two(epsilon)
        low = COIN - report.high
        t = np.concatenate([np.linspace(-1.0, 1.0, 1001), [-1.0 - 1e-15, 1.0 + 1e-15]])
        # The lowest words always fall up, the highest never; the two ends are reached exactly.
        assert (report.draw(only(low - 1), t) > 0).all()
        assert (report.draw(only(report.high), t) < 0).all()
        assert (report.draw(only(low), t[:1]) < 0).all()
        assert (report.draw(only(report.high - 1), t[1000:1001]) > 0).all()


@pytest.mark.parametrize("t", [-1.0, 0.0, 0.37, 1.0])
def test_piecewise_falls_in_its_window_and_is_flat_on_both_parts(t):
    """Hits by the binomial law, and χ² over 64 parts of each side; 1e-6 false alarms each."""
    report = box_reports._window(1.5)
    draws = 400_000
    drawn = report.draw(sf.Seeded(6).stream(b"piecewise"), np.full(draws, t))
    cells = np.rint(((drawn * report._slope + 1.0) * CELLS - 1.0) / 2.0).astype(np.int64)
    assert cells.min() >= 0
    assert cells.max() < CELLS
    start = round((t + 1.0) / 2.0 * (CELLS - report.width))
    inside = (cells >= start) & (cells < start + report.width)
    hits = int(inside.sum())
    assert binom.isf(1 - 5e-7, draws, report.hit / COIN) <= hits <= binom.isf(5e-7, draws, report.hit / COIN)
    rest = cells[~inside]
    rest = np.where(rest >= start, rest - report.width, rest)
    for part, size in ((cells[inside] - start, report.width), (rest, CELLS - report.width)):
        edges = (np.arange(65) * size) // 64
        expected = part.size * np.diff(edges) / size
        seen = np.histogram(part, bins=edges)[0]
        assert (np.square(seen - expected) / expected).sum() < chi2.isf(1e-6, 63)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])
@pytest.mark.parametrize("kind", KINDS)
def test_reports_have_the_record_as_their_mean_and_the_planned_error(kind, epsilon):
    """Four of five columns, 150,000 records; 1e-6 false alarms over the columns, and for the worst error."""
    record = np.array([10.0, 12.5, 14.0, 15.0, 11.0])
    made = kind(epsilon, (10.0, 15.0), coordinates=4)
    Z = made.release(np.tile(record, (150_000, 1))).value
    limit = norm.isf(1e-7) * Z.std(axis=0) / math.sqrt(len(Z))
    assert (np.abs(Z.mean(axis=0) - record) < limit + 1e-4).all()
    squares = np.square(Z - record)
    (planned,) = made.expected_error(5)
    means, spreads = squares.mean(axis=0), squares.std(axis=0) / math.sqrt(len(Z))
    worst = int(means.argmax())
    assert means[worst] < planned.value**2 + norm.isf(1e-7) * spreads[worst]
    # The middle and an end are in the record, and one of the two is the value with the largest error.
    assert means[worst] > planned.value**2 - norm.isf(1e-7) * spreads[worst]


def test_a_mean_of_ten_thousand_users_is_as_good_as_planned():
    """64 columns of real images; n·MSE of the mean stays below the worst value's. False alarm 1e-6."""
    from sklearn.datasets import load_digits

    X = np.tile(load_digits().data / 16.0, (6, 1))[:10_000]
    made = sf.Hybrid(4.0, (0.0, 1.0))
    error = made.release(X).value.mean(axis=0) - X.mean(axis=0)
    (planned,) = made.expected_error(64)
    found = len(X) * float(np.square(error).mean())
    assert found < planned.value**2 * (1.0 + norm.isf(1e-6) * math.sqrt(2.0 / 64))
    assert found > 0.2 * planned.value**2


@pytest.mark.parametrize("count", [1, 2, 6])
def test_every_choice_of_coordinates_is_as_likely(count):
    """Which of six are reported, over 60,000 records: χ² over all choices, false alarm 1e-6."""
    made = sf.Duchi(1.0, (-1.0, 1.0), coordinates=count)
    Z = made.release(np.zeros((60_000, 6))).value
    chosen = Z != 0.0
    assert (chosen.sum(axis=1) == count).all()
    codes, seen = np.unique(chosen @ (1 << np.arange(6)), return_counts=True)
    assert codes.size == math.comb(6, count)
    expected = 60_000 / codes.size
    assert (np.square(seen - expected) / expected).sum() < chi2.isf(1e-6, max(1, codes.size - 1))


def test_coordinates_follow_from_epsilon_unless_they_are_declared():
    assert [chosen_coordinates(e, 10) for e in (0.1, 2.4, 2.5, 7.6, 100.0)] == [1, 1, 1, 3, 10]
    assert sf.Piecewise(7.6, coordinates=2).count(10) == 2
    assert sf.Piecewise(7.6).count(10) == 3
    # Several coordinates share ε.
    assert sf.Duchi(7.6).guarantee(10).epsilon() == pytest.approx(7.6, rel=1e-9)
    assert sf.Duchi(7.6).guarantee(10).epsilon() <= 7.6


def test_hybrid_is_duchi_for_small_epsilon_and_mixes_beyond():
    """Its share of windows is 1 − e^{−ε/2}; the window's values are hardly ever ±a. False alarm 1e-6."""
    assert np.unique(sf.Hybrid(0.5).release(np.full((1000, 1), 0.25)).value).size == 2
    made = sf.Hybrid(2.0)
    Z = made.release(np.full((100_000, 1), 0.25)).value
    size = box_reports._two(2.0).size
    windows = int((np.abs(np.abs(Z) - size) > 1e-9).sum())
    share = -math.expm1(-1.0)
    assert binom.isf(1 - 5e-7, len(Z), share) - 3 <= windows <= binom.isf(5e-7, len(Z), share)


@pytest.mark.parametrize("epsilon", [50.0, 100.0, 2000.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_epsilon_for_one_coordinate_is_no_trouble(kind, epsilon):
    """Coins have 64 bits: no more than about 45 is ever spent, and the value comes back almost as it was."""
    made = kind(epsilon, (-1.0, 1.0))
    assert made.guarantee(1).epsilon() <= min(epsilon, 46.0)
    Z = made.release(np.full((100, 1), 1.0)).value
    assert np.abs(Z - 1.0).max() < 1e-4


def test_what_was_not_chosen_stays_at_the_centre():
    Z = sf.Piecewise(1.0, (0.0, 10.0)).release(np.full((50, 20), 3.0)).value
    assert ((Z == 5.0).sum(axis=1) == 19).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"coordinates": 0}, "`coordinates` must be a whole number from 1 to 4, not 0."),
        ({"coordinates": 5}, "`coordinates` must be a whole number from 1 to 4, not 5."),
        ({"coordinates": 1.5}, "`coordinates` must be a whole number"),
        ({"coordinates": True}, "`coordinates` must be a whole number"),
        ({"bounds": (1.0, 1.0)}, "each lower bound must lie below its upper bound"),
        ({"bounds": (2.0, 1.0)}, "each lower bound must lie below its upper bound"),
        ({"bounds": ([0.0], [1.0])}, "two numbers for all components"),
        ({"epsilon": -1.0}, "`epsilon` must be a positive number"),
        ({"outside": "ignore"}, "`outside` must be one of refuse, clip"),
    ],
)
def test_refusals(kind, change, sentence):
    given = {"epsilon": 1.0, "bounds": (0.0, 1.0)} | change
    with pytest.raises(BadInput, match=sentence) as refusal:
        kind(**given).release(np.full((3, 4), 0.5))
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", KINDS)
def test_values_outside_the_bounds_are_refused_by_place_or_clipped(kind):
    X = np.full((2, 3), 0.5)
    X[1, 2] = 7.25
    with pytest.raises(BadInput, match=r"row 2, component 3 lies outside the bounds 0 to 1") as refusal:
        kind(1.0, (0.0, 1.0)).release(X)
    assert "7.25" not in str(refusal.value)
    clipped = kind(100.0, (0.0, 1.0), outside="clip").release(X).value
    assert clipped[1, 2] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_reports_that_single_precision_cannot_hold_are_refused(kind):
    with pytest.raises(BadInput, match=r"do not fit in float32; give the records as float64\.$"):
        kind(1.0, (0.0, 1e38)).release(np.zeros((2, 30), dtype=np.float32))
    assert np.isfinite(kind(1.0, (0.0, 1e38)).release(np.zeros((2, 30))).value).all()


def only(word):
    """A stream in which every word is the same one."""
    return SimpleNamespace(words=lambda count: np.full(count, word, dtype=np.uint64))
