"""Trust-adaptive release: the budget, the paper's calibrations with their true ε, and nested tiers."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.trust_adaptive import Tiers
from sfumato.privacy import Neighbours

DELTA = 1e-5


def test_the_pinned_example() -> None:
    mechanism = sf.TrustAdaptive(distrust=0.4, epsilon=(1.0, 8.0), delta=1e-6, clip=1.0)
    assert repr(mechanism.guarantee()) == (
        "Guarantee: unit=record, neighbours=replace, ε=5.2, δ=1e-06, analytic Gaussian"
    )
    assert mechanism.guarantee().epsilon(1e-6) == pytest.approx(5.2, rel=1e-11)
    assert mechanism.sigma(9) == pytest.approx(sf.Gaussian(5.2, 1e-6, 1.0).sigma(9), rel=1e-14)


@given(distrust=st.floats(0.0, 1.0), low=st.floats(0.01, 10.0), extra=st.floats(0.0, 100.0))
def test_the_budget_is_linear_in_distrust(distrust, low, extra) -> None:
    budget = sf.TrustAdaptive(distrust, (low, low + extra), clip=1.0).budget()
    assert budget == pytest.approx((1.0 - distrust) * (low + extra) + distrust * low, rel=1e-12)


def test_zero_is_the_most_trusted_reader_and_nobody_is_by_default() -> None:
    levels = [0.0, 0.25, 0.5, 1.0]
    sigmas = [sf.TrustAdaptive(distrust, (1.0, 8.0), 1e-6, 1.0).sigma(3) for distrust in levels]
    assert sigmas == sorted(sigmas)
    assert len(set(sigmas)) == 4
    assert sf.TrustAdaptive(clip=1.0, epsilon=(1.0, 8.0)).distrust == 1.0
    assert sf.TrustAdaptive(clip=1.0, epsilon=(1.0, 8.0)).budget() == 1.0
    assert sf.TrustAdaptive(0.0, clip=1.0, epsilon=(1.0, 8.0)).budget() == 8.0


# What is claimed, the paper's σ for records in a ball of radius 1, its true ε under zero-out and replace,
# and the σ that would give the claim under zero-out; to the digits shown.
PAPER_TABLE = [
    (1.0, "4.845", "0.75", "1.61", "3.731"),
    (15.0, "0.323", "17.4", "44.8", "0.362"),
    (47.5, "0.102", "89.0", "275", "0.155"),
    (80.0, "0.0606", "206", "685", "0.109"),
]


@pytest.mark.parametrize(("claimed", "sigma", "zero_out", "replace", "needed"), PAPER_TABLE)
def test_the_paper_calibration_shows_its_true_epsilon(
    claimed, sigma, zero_out, replace, needed, exact_delta
) -> None:
    budget = {"distrust": 0.0, "epsilon": (0.5, claimed), "delta": DELTA, "clip": 1.0}
    for neighbours, true in (("zero-out", zero_out), ("replace", replace)):
        mechanism = sf.TrustAdaptive(**budget, calibration="paper", neighbours=neighbours)
        assert _to_the_digits_of(sigma, mechanism.sigma(784)) == sigma
        guarantee = mechanism.guarantee()
        assert guarantee.neighbours is Neighbours(neighbours)
        assert _to_the_digits_of(true, guarantee.epsilon(DELTA)) == true
        distance = 2 if neighbours == "replace" else 1
        mu = distance / mpmath.mpf(mechanism.sigma(784))
        assert abs(exact_delta(guarantee.epsilon(DELTA), mu) / DELTA - 1) < 1e-9
        claim = mechanism.claim()
        assert (claim.epsilon, claim.delta) == (claimed, DELTA)
    kept = sf.TrustAdaptive(**budget, neighbours="zero-out")
    assert _to_the_digits_of(needed, kept.sigma(784)) == needed


def test_the_paper_noise_scales_with_the_clip_and_its_epsilon_does_not() -> None:
    one, ten = (sf.TrustAdaptive(0.3, (15.0, 80.0), DELTA, c, calibration="paper") for c in (1.0, 10.0))
    assert ten.sigma(5) == pytest.approx(10.0 * one.sigma(5), rel=1e-14)
    assert ten.guarantee().epsilon(DELTA) == pytest.approx(one.guarantee().epsilon(DELTA), rel=1e-12)


def test_the_paper_tables_add_no_noise_at_trust_zero_and_prove_nothing_there() -> None:
    X = np.array([[3.0, -4.0], [0.1, 0.2]])
    mechanism = sf.TrustAdaptive(0.0, (15.0, 80.0), DELTA, 1.0, calibration="paper-tables")
    release = mechanism.release(X)
    np.testing.assert_array_equal(release.value, X)
    assert not np.shares_memory(release.value, X)
    assert release.statement.proven.proves_nothing
    assert release.statement.claimed.epsilon == 80.0
    with pytest.raises(BadInput, match="row 1, column 2 holds NaN"):
        mechanism.release([[0.0, math.nan]])
    with pytest.raises(BadInput, match="no noise for the others"):
        mechanism.tiers([0.0, 1.0])


@pytest.mark.parametrize("distrust", [1e-9, 0.5, 1.0])
def test_the_paper_tables_are_the_paper_at_any_other_distrust(distrust) -> None:
    budget = {"epsilon": (15.0, 80.0), "delta": DELTA, "clip": 1.0, "randomness": sf.Seeded(1)}
    tables = sf.TrustAdaptive(distrust, **budget, calibration="paper-tables")
    paper = sf.TrustAdaptive(distrust, **budget, calibration="paper")
    assert tables.guarantee() == paper.guarantee()
    assert tables.sigma(2) == paper.sigma(2)
    X = np.ones((3, 2))
    np.testing.assert_array_equal(tables.release(X).value, paper.release(X).value)


def test_the_paper_calibrations_need_a_ball() -> None:
    for calibration in ("paper", "paper-tables"):
        mechanism = sf.TrustAdaptive(0.5, bounds=(0.0, 1.0), calibration=calibration, epsilon=(1.0, 8.0))
        with pytest.raises(BadInput, match="declare `clip`, not `bounds`"):
            mechanism.guarantee()


@pytest.fixture
def tiers() -> Tiers:
    seeded = sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, 1.0, randomness=sf.Seeded(2))
    return seeded.tiers([0.0, 0.5, 1.0])


def test_all_tiers_together_cost_the_most_trusted_one(tiers) -> None:
    assert tiers.guarantee() == sf.TrustAdaptive(0.0, (1.0, 8.0), 1e-6, 1.0).guarantee()
    assert tiers.guarantee().epsilon() == pytest.approx(8.0, rel=1e-11)


def test_each_tier_states_its_own_promise_and_that_of_all_together(tiers) -> None:
    releases = tiers.release(np.zeros((6, 3)))
    assert list(releases) == [0.0, 0.5, 1.0]
    for distrust, release in releases.items():
        assert isinstance(release, sf.Release)
        own = sf.TrustAdaptive(distrust, (1.0, 8.0), 1e-6, 1.0)
        assert release.statement.proven == own.guarantee()
        assert release.statement.claimed == own.claim()
        assert release.statement.parameters["distrust"] == distrust
        together = "all 3 tiers together: ε=8 at δ=1e-06 per record under replace (analytic Gaussian)"
        assert release.statement.notes == ("reproducible run: not for release", together)
        assert release.provenance == {"rows": 6, "columns": 3, "tiers": [0.0, 0.5, 1.0]}
        assert release.value.shape == (6, 3)


@given(levels=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6, unique=True), clip=st.floats(0.1, 10.0))
def test_the_rungs_add_up_to_the_noise_of_each_tier(levels, clip) -> None:
    mechanism = sf.TrustAdaptive(0.0, (1.0, 8.0), 1e-6, clip)
    rungs = mechanism.tiers(levels).rungs(4)
    assert all(rung > 0.0 for rung in rungs)
    for tier, distrust in enumerate(sorted(levels)):
        needed = sf.TrustAdaptive(distrust, (1.0, 8.0), 1e-6, clip).sigma(4)
        with mpmath.workdps(40):
            total = mpmath.sqrt(sum(mpmath.mpf(rung) ** 2 for rung in rungs[: tier + 1]))
            assert needed * (1 - mpmath.mpf(2) ** -80) <= total <= needed * (1 + 1e-9)


def test_less_trusted_tiers_add_independent_noise_to_the_more_trusted(tiers) -> None:
    """Seeded, so it cannot fail by chance; the bounds are five standard errors."""
    count = 40_000
    values = [release.value.ravel() for release in tiers.release(np.zeros((count // 4, 4))).values()]
    sigmas = [sf.TrustAdaptive(t, (1.0, 8.0), 1e-6, 1.0).sigma(4) for t in (0.0, 0.5, 1.0)]
    for value, sigma in zip(values, sigmas, strict=True):
        assert value.std() == pytest.approx(sigma, rel=5.0 / math.sqrt(2 * count))
    steps = [values[0], values[1] - values[0], values[2] - values[1]]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(steps[i], steps[j])[0, 1]) < 5.0 / math.sqrt(count)


def test_the_order_of_the_trust_levels_does_not_matter(tiers) -> None:
    X = np.ones((4, 2))
    seeded = sf.TrustAdaptive(0.4, (1.0, 8.0), 1e-6, 1.0, randomness=sf.Seeded(2))
    shuffled = seeded.tiers((1.0, 0.0, 0.5)).release(X)
    for distrust, release in tiers.release(X).items():
        np.testing.assert_array_equal(shuffled[distrust].value, release.value)


def test_one_tier_alone_is_a_release() -> None:
    mechanism = sf.TrustAdaptive(1.0, (3.0, 3.0), 1e-6, 1.0)
    (release,) = mechanism.tiers([0.7]).release(np.ones((2, 2))).values()
    assert release.statement.proven == mechanism.guarantee()


def test_keyed_tiers_repeat_but_share_no_noise_with_another_ladder() -> None:
    def keyed() -> sf.TrustAdaptive:
        source = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="a")
        return sf.TrustAdaptive(0.0, (1.0, 8.0), 1e-6, 1.0, randomness=source)

    X = np.zeros((5, 4))
    first, again, other = (keyed().tiers(levels).release(X) for levels in ([0, 1], [0, 1], [0, 0.5, 1]))
    for distrust in (0.0, 1.0):
        np.testing.assert_array_equal(first[distrust].value, again[distrust].value)
        # The same noise at two scales would show x: nothing is shared, nor with the plain mechanism.
        assert not np.isin(other[distrust].value, first[distrust].value).all()
    assert not np.array_equal(keyed().release(X).value, first[0.0].value)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "one or more different levels of distrust"),
        ([0.5, 0.5], "one or more different levels of distrust"),
        ([0.0, 1.0, -0.0], "one or more different levels of distrust"),
        (0.5, "one or more different levels of distrust, not 0.5"),
        (None, "one or more different levels of distrust"),
        ([0.0, 1.5], "`distrust` must lie between 0 and 1, not 1.5"),
        ([0.0, math.nan], "`distrust` must lie between 0 and 1, not nan"),
        ([0.0, True], "`distrust` must lie between 0 and 1, not True"),
        ("01", "`distrust` must lie between 0 and 1, not '0'"),
    ],
)
def test_refused_tiers(levels, message) -> None:
    with pytest.raises(BadInput, match=message):
        sf.TrustAdaptive(epsilon=(1.0, 8.0), clip=1.0).tiers(levels)


def test_tiers_of_one_epsilon_are_refused() -> None:
    with pytest.raises(BadInput, match=r"the range `epsilon` \(3.0, 3.0\) is one value"):
        sf.TrustAdaptive(epsilon=(3.0, 3.0), clip=1.0).tiers([0.0, 1.0])


def _to_the_digits_of(shown: str, value: float) -> str:
    """``value`` with as many decimals as ``shown`` has."""
    decimals = len(shown.partition(".")[2])
    return f"{value:.{decimals}f}"
