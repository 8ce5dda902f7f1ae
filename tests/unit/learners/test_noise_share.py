"""Shares of noise: the steps of the proof in numbers, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from secure_rounds import summed

from sfumato.errors import BadInput
from sfumato.learners.federated.secure import SecureSum
from sfumato.learners.federated.secure.noise_share import NoiseShare, gap, share_of
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Guarantee

TERMS = SecureSum(clients=5, length=50)


def rounded_share(steps, reach):
    """Probabilities of the integers −reach … reach for a rounded share."""
    edges = np.arange(-reach, reach + 2) - 0.5
    return np.diff(ndtr(edges / steps))


def rounded_sum(steps, honest, reach):
    """The same for the rounding of N(0, h·s²) + U₁ + … + U₍ₕ₋₁₎, by integrating over the uniform numbers.

    Gauss–Legendre with 12 points errs by far less than 1e-12 for so smooth a function, so short an interval.
    """
    points, weights = np.polynomial.legendre.leggauss(12)
    shifts, chances = np.zeros(1), np.ones(1)
    for _ in range(honest - 1):
        shifts = (shifts[:, None] + points[None] / 2).ravel()
        chances = (chances[:, None] * weights[None] / 2).ravel()
    edges = np.arange(-reach, reach + 2) - 0.5
    whole = ndtr((edges[:, None] - shifts[None]) / (steps * math.sqrt(honest)))
    return np.diff(whole @ chances)


@pytest.mark.parametrize("steps", [1.5, 1.7, 2.0])
@pytest.mark.parametrize("honest", [2, 3, 4])
def test_a_sum_of_rounded_shares_is_as_near_to_a_rounded_gaussian_as_the_proof_says(steps, honest):
    """Shares this coarse are never drawn; at 2¹² steps the bound is 0 in double precision."""
    reach = 30
    one = rounded_share(steps, reach)
    shares = one
    for _ in range(honest - 1):
        shares = np.convolve(shares, one)
    middle = len(shares) // 2
    shares = shares[middle - reach : middle + reach + 1]
    apart = np.abs(shares - rounded_sum(steps, honest, reach)).max()
    assert apart <= gap(steps, honest) + 1e-12
    # The uniform numbers belong there: a Gaussian rounded without them lies further away than the bound.
    alone = rounded_share(steps * math.sqrt(honest), reach)
    assert np.abs(shares - alone).max() > gap(steps, honest)


def test_the_slack_covers_all_that_the_proof_adds_up():
    """In logarithms, at the worst parameters: s = 16, h = 10⁴, d = 2⁴⁰, clients = 10⁴, ε = 400, μ = 8."""
    log_d, log_h = 40 * math.log(2), math.log(1e4)
    log_eta = math.log(2.1) + log_h + 0.001 - math.pi**2 * 16**2 / 2
    log_reach = math.log(60 * 2.0**40 * 100 + 5001)
    log_tau = np.logaddexp(log_d + log_reach + log_eta, log_d + math.log(2 + 2e4) - 1800)
    assert log_tau < -1180
    total = np.logaddexp(400 + 0.001 + log_tau, log_ndtr(4 - 50))
    assert total / math.log(10) < -300
    # Whatever is drawn has at least 2¹² steps a share.
    noise = NoiseShare(clip=1.0, sigma=0.5, honest=3)
    assert 2.0**12 <= share_of(0.5, 3) / noise.step(TERMS) <= 2.0**40


@pytest.mark.parametrize(("neighbours", "multiplier"), [("replace", 1.5), ("zero-out", 3.0)])
def test_the_guarantee_is_that_of_the_noise_on_the_sum(neighbours, multiplier):
    noise = NoiseShare(clip=2.0, sigma=6.0, honest=3, neighbours=neighbours)
    one = noise.guarantee()
    assert (str(one.unit), one.neighbours.value, one.slack) == ("client", neighbours, 1e-300)
    assert one.epsilon(1e-6) == Guarantee.gaussian(multiplier).epsilon(1e-6)
    assert "3 honest clients" in one.theorem


def test_shares_never_fall_short():
    """In exact arithmetic: h·share² ≥ σ², and hardly more."""
    for honest in range(1, 500):
        sigma = 0.7 + honest / 3
        together = honest * Fraction(share_of(sigma, honest)) ** 2 / Fraction(sigma) ** 2
        assert 1 <= together <= 1 + Fraction(1, 10**14)


def test_noisy_vectors_are_clipped_and_summed_exactly():
    noise = NoiseShare(clip=1.0, sigma=1.0, honest=3)
    rows = {name: np.random.default_rng(name).normal(size=50) * 100 for name in range(5)}
    vectors = {name: noise.integers(row, TERMS, Seeded(name)) for name, row in rows.items()}
    zero = {name: noise.integers(np.zeros(50), TERMS, Seeded(name)) for name in rows}
    for name in rows:
        assert 0.9 < np.linalg.norm((vectors[name] - zero[name]) * noise.step(TERMS)) <= 1.0
    total = summed(TERMS, vectors, {2: 2}).total()
    np.testing.assert_array_equal(total, sum(vectors[name] for name in (0, 1, 3, 4)))
    np.testing.assert_array_equal(noise.values(total, TERMS), total * noise.step(TERMS))
    again = noise.integers(rows[0], TERMS)
    assert np.any(again != noise.integers(rows[0], TERMS))  # fresh noise by default


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"honest": 0}, "`honest` was 0: at least one client must keep its noise to itself"),
        ({"sigma": 0.0}, "`sigma` must be a positive number"),
        ({"sigma": 0.2}, "is 0.1 times the sensitivity: shares are proven from 0.125 times on"),
        ({"clip": -1.0}, "`clip` must be a positive number"),
        ({"neighbours": "add/remove"}, "`neighbours` must be 'replace' or 'zero-out'"),
    ],
)
def test_what_is_not_proven_is_refused(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        NoiseShare(**{"clip": 1.0, "sigma": 1.0, "honest": 3, **options})


@pytest.mark.parametrize(
    ("honest", "bits", "sentence"),
    [
        (5, 64, "counted on from 5 honest clients, and only 4 need to stay"),
        (4, 64, "each of whom knows its own noise: honest may be 3 at most"),
        (3, 16, "a ring of 16 bits has no room for the noise of 5 clients"),
    ],
)
def test_terms_under_which_the_noise_would_fall_short_are_refused(honest, bits, sentence):
    terms = SecureSum(clients=5, length=50, bits=bits)
    with pytest.raises(BadInput, match=sentence):
        NoiseShare(clip=1.0, sigma=1.0, honest=honest).integers(np.zeros(50), terms)


@pytest.mark.parametrize("clients", [2, 3, 4, 7, 12])
def test_what_is_stated_holds_against_a_fellow_participant(clients):
    """It subtracts its own noise: the shares of the others who must arrive still reach σ."""
    for threshold in range(clients // 2 + 1, clients + 1):
        terms = SecureSum(clients=clients, length=4, threshold=threshold)
        for honest in range(1, clients + 1):
            noise = NoiseShare(clip=1.0, sigma=6.0, honest=honest)
            left = math.sqrt(threshold - 1) * share_of(noise.sigma, honest)
            against = Guarantee.gaussian(left / 2.0).epsilon(1e-6)
            if against > noise.guarantee().epsilon(1e-6) * (1.0 + 1e-9):
                with pytest.raises(BadInput, match="each of whom knows its own noise"):
                    noise.check(terms)
            else:
                noise.check(terms)


def test_keyed_noise_which_would_repeat_itself_is_refused():
    """Two vectors under one noise: their difference would lie open."""
    keyed = Keyed(bytes(32), dataset="d", version="1", release="r")
    with pytest.raises(BadInput, match="keyed noise belongs to the content of a unit"):
        NoiseShare(clip=1.0, sigma=1.0, honest=3).integers(np.zeros(50), TERMS, keyed)


def test_a_vector_that_is_not_finite_counts_as_zeros():
    """To refuse it would tell the server something about it that no noise covers."""
    noise, bad = NoiseShare(clip=1.0, sigma=1.0, honest=3), np.ones(50)
    for value in (np.nan, np.inf):
        bad[7] = value
        drawn = noise.integers(bad, TERMS, Seeded(1))
        np.testing.assert_array_equal(drawn, noise.integers(np.zeros(50), TERMS, Seeded(1)))


@pytest.mark.parametrize("values", [np.zeros(49), np.zeros((50, 1))])
def test_vectors_that_cannot_be_summed_are_refused(values):
    with pytest.raises(BadInput, match="was to be summed: 50 numbers are"):
        NoiseShare(clip=1.0, sigma=1.0, honest=3).integers(values, TERMS)
