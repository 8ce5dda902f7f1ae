"""PrivUnit and PrivUnitG: the optimum, unbiased means, exact caps and coins, and what is refused."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import privunit

BOTH = [sf.PrivUnit, sf.PrivUnitG]
IMAGE = 784


def error_of(mechanism, columns):
    """E‖Z − x‖²/d of a report of a unit vector, as it is planned."""
    (each,) = mechanism.expected_error(columns)
    return each.value**2


@pytest.mark.parametrize(
    ("epsilon", "optimum", "gain"), [(1.0, 6.3, 8.3), (2.0, 1.6, 9.0), (4.0, 0.43, 9.0), (8.0, 0.13, 9.0)]
)
@pytest.mark.parametrize("kind", BOTH)
def test_the_planned_error_is_the_analytic_optimum_and_far_below_gaussian_noise(kind, epsilon, optimum, gain):
    planned = error_of(kind(epsilon), IMAGE)
    assert planned == pytest.approx(optimum, rel=0.05)
    gaussian = sf.Gaussian(epsilon, 1e-5, 1.0).sigma(IMAGE) ** 2
    assert gaussian / planned >= gain


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_the_optimum_is_the_best_over_all_caps(epsilon):
    """The error of the uncapped formula over a fine grid of caps, each with all of ε spent."""
    best = math.inf
    for threshold in np.linspace(0.0, 8.0 / math.sqrt(IMAGE), 4000):
        chance = privunit._beyond(threshold, IMAGE)
        odds = math.exp(epsilon) * chance / (1.0 - chance)
        p = odds / (1.0 + odds)
        first, _ = sf.PrivUnit._moments(threshold, IMAGE)
        mean = first * (p / chance - (1.0 - p) / (1.0 - chance))
        best = min(best, (1.0 / mean**2 - 1.0) / IMAGE)
    assert best * (1.0 - 1e-9) <= error_of(sf.PrivUnit(epsilon), IMAGE) <= best * 1.001


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", BOTH)
def test_means_of_ten_thousand_users_are_estimated_as_well_as_planned(kind, epsilon):
    """d = 784, users on the sphere; squared errors of reports and of their mean, 1e-6 false alarms each.

    ‖Z − x‖² has a known mean, and its spread is measured; n·‖mean(Z − x)‖²/d is a mean of 784 squares of
    nearly normal values, each with a relative spread of √2.
    """
    users = 10_000
    X = np.random.default_rng(0).standard_normal((users, IMAGE)) + 0.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    mechanism = kind(epsilon)
    planned = error_of(mechanism, IMAGE)
    errors = mechanism.release(X).value - X
    each = np.square(errors).sum(axis=1) / IMAGE
    turned = math.sqrt(IMAGE) * 2.0**-15  # by the grid of directions, of vectors of length one
    limit = norm.isf(5e-7) * each.std() / math.sqrt(users) + 2.0 * turned * planned
    assert abs(each.mean() - planned) < limit
    assert each.mean() == pytest.approx(planned, rel=0.05)
    pooled = users * float(np.square(errors.mean(axis=0)).sum()) / IMAGE
    assert pooled < planned * (1.0 + norm.isf(1e-6) * math.sqrt(2.0 / IMAGE)) + users * turned**2 / IMAGE


@pytest.mark.parametrize("columns", [2, 3, 10])
@pytest.mark.parametrize("kind", BOTH)
def test_reports_have_the_record_as_their_mean(kind, columns):
    """On the sphere, inside the ball and at zero; 1e-6 false alarms over all columns of a case."""
    direction = np.random.default_rng(columns).standard_normal(columns)
    direction /= np.linalg.norm(direction)
    for epsilon in (0.5, 3.0):
        for length in (2.0, 0.7, 0.0):
            X = np.tile(length * direction, (120_000, 1))
            Z = kind(epsilon, clip=2.0).release(X).value
            limit = norm.isf(1e-6 / (2 * columns)) * Z.std(axis=0) / math.sqrt(len(Z))
            turned = 2.0 * math.sqrt(columns) * 2.0**-15
            assert (np.abs(Z.mean(axis=0) - X[0]) < limit + turned).all()


@pytest.mark.parametrize("kind", BOTH)
def test_the_error_of_short_vectors_is_measured_as_planned_in_few_dimensions(kind):
    """Squared errors at d = 3; false alarm 1e-6."""
    X = np.tile([0.6, 0.0, -0.8], (200_000, 1))
    mechanism = kind(2.0)
    each = np.square(mechanism.release(X).value - X).mean(axis=1)
    limit = norm.isf(5e-7) * each.std() / math.sqrt(len(X)) + 1e-3 * each.mean()
    assert abs(each.mean() - error_of(mechanism, 3)) < limit


@pytest.mark.parametrize("kind", BOTH)
def test_longer_records_are_scaled_back_and_tiny_or_huge_ones_have_a_direction(kind):
    """The same coins and vectors for the same direction: seeded releases agree but for the content."""
    unit = np.array([[0.6, -0.8, 0.0]])
    mechanism = kind(1.0, clip=1.0, randomness=sf.Seeded(5))
    expected = mechanism.release(unit).value
    for size in (2.0, 1e300):
        np.testing.assert_allclose(mechanism.release(size * unit).value, expected, rtol=1e-12)
    assert np.isfinite(mechanism.release(np.full((4, 3), 5e-324)).value).all()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("columns", [2, 9, IMAGE, 3072])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 40.0, 200.0])
def test_the_coin_keeps_to_epsilon_in_exact_arithmetic(kind, columns, epsilon):
    """The largest of the four log ratios, from the whole numbers of the coin, to 40 digits."""
    cap = kind(epsilon).cap(columns)
    chance, low, high = kind._probability(cap.threshold, columns)
    assert low <= chance <= high
    with mpmath.workdps(40):
        p = mpmath.mpf(cap.coin) / 2**64
        low, high = mpmath.mpf(low), mpmath.mpf(high)
        losses = (
            mpmath.log(p * (1 - low) / (low * (1 - p))),
            mpmath.log(high * (1 - p) / (p * (1 - high))),
            mpmath.log(high / low),
            mpmath.log((1 - low) / (1 - high)),
        )
        assert max(losses) + privunit.SLACK <= cap.epsilon <= epsilon
    assert kind(epsilon).guarantee(columns).epsilon() == pytest.approx(cap.epsilon, rel=1e-9)
    if epsilon <= 8.0:
        assert cap.epsilon == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize("columns", [2, 3, 17, IMAGE])
def test_probabilities_of_caps_agree_with_integrals(columns):
    """By mpmath, which shares no code with scipy's incomplete beta function."""
    with mpmath.workdps(30):
        constant = mpmath.gamma(mpmath.mpf(columns) / 2) / mpmath.gamma(mpmath.mpf(columns - 1) / 2)
        constant /= mpmath.sqrt(mpmath.pi)
        for share in (0.0, 0.1, 0.6, 2.0):
            cosine = min(0.95, share / math.sqrt(columns))
            far = min(mpmath.mpf(1), cosine + 20 / mpmath.sqrt(columns))
            inner = lambda angle: mpmath.sin(angle) ** (columns - 2)  # noqa: E731
            exact = constant * mpmath.quad(inner, mpmath.linspace(mpmath.acos(far), mpmath.acos(cosine), 9))
            assert privunit._beyond(cosine, columns) == pytest.approx(float(exact), rel=1e-11)
            first = constant * (1 - mpmath.mpf(cosine) ** 2) ** (mpmath.mpf(columns - 1) / 2) / (columns - 1)
            assert sf.PrivUnit._moments(cosine, columns)[0] == pytest.approx(float(first), rel=1e-10)


@pytest.mark.parametrize("kind", BOTH)
def test_no_zero_has_a_sign(kind, monkeypatch):
    """On a coarse grid zeros are common; a negative one would show the sign of the record's own value."""
    monkeypatch.setattr(privunit, "STEP", 2.0**-6)
    monkeypatch.setattr(privunit, "_DIRECTION", 4.0)
    X = np.tile([-1.0, 1.0, -0.5, 0.5, 0.0], (20_000, 1))
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    shortest = 1.0 if kind is sf.PrivUnit else 0.0
    for inside in (True, False):
        stream = sf.Seeded(8).stream(b"zeros")
        drawn = privunit.draw_sides(stream, directions, np.full(len(X), inside), 0.3, shortest)
        zeros = drawn == 0.0
        assert (zeros.sum(axis=0) > 20).all()
        assert not np.signbit(drawn[zeros]).any()


@pytest.mark.parametrize("kind", BOTH)
def test_what_is_reported_lies_on_its_grid(kind):
    """PrivUnitG reports multiples of the grid; PrivUnit vectors of one length."""
    mechanism = kind(1.0)
    Z = mechanism.release(np.eye(6)).value
    scale = 1.0 / mechanism.cap(6).mean
    if kind is sf.PrivUnit:
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), scale, rtol=1e-12)
    else:
        cells = Z / scale / privunit.STEP
        np.testing.assert_allclose(cells, np.rint(cells), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "change", "columns", "sentence"),
    [
        (sf.PrivUnit, {}, 1, "reports vectors of 2 to 65,536 columns, not 1."),
        (sf.PrivUnitG, {}, 1, "reports vectors of 2 to 262,144 columns, not 1."),
        (sf.PrivUnit, {}, 65_537, "reports vectors of 2 to 65,536 columns, not 65,537."),
        (sf.PrivUnitG, {}, 262_145, "reports vectors of 2 to 262,144 columns, not 262,145."),
        (sf.PrivUnit, {"epsilon": 1e-9}, 5, "an `epsilon` of 1e-09 is too small for a report of 5 columns."),
        (sf.PrivUnitG, {"epsilon": 1e-9}, 5, "an `epsilon` of 1e-09 is too small for a report of 5 columns."),
        (sf.PrivUnit, {"epsilon": 0.0}, 5, "`epsilon` must be a positive number"),
        (sf.PrivUnitG, {"clip": -1.0}, 5, "`clip` must be a positive number"),
        (sf.PrivUnitG, {"randomness": 7}, 5, "`randomness` must be None"),
    ],
)
def test_refusals(kind, change, columns, sentence):
    with pytest.raises(BadInput, match=sentence) as refusal:
        kind(**({"epsilon": 1.0} | change)).release(np.zeros((2, columns)))
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", BOTH)
def test_reports_that_single_precision_cannot_hold_are_refused(kind):
    with pytest.raises(BadInput, match=r"do not fit in float32; give the records as float64\.$"):
        kind(1.0, clip=1e38).release(np.ones((2, 3), dtype=np.float32))
    assert np.isfinite(kind(1.0, clip=1e38).release(np.ones((2, 3))).value).all()


@pytest.mark.parametrize("kind", BOTH)
def test_claim_and_proof_agree(kind):
    statement = kind(2.0).statement(20)
    assert (statement.claimed.epsilon, statement.claimed.delta) == (2.0, 0.0)
    assert statement.proven.epsilon(0.0) <= 2.0
    assert (str(statement.proven.unit), str(statement.proven.neighbours)) == ("record", "replace")
    assert kind(2.0).guarantee().epsilon() == pytest.approx(2.0)
