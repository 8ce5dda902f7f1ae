"""The standard audit: at which δ its games are played, what they are about, and what they say of a claim."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits import release_audit
from sfumato.audits.lower_bounds import usual_delta
from sfumato.privacy import Guarantee

IMAGES = np.floor(16.0 * load_digits().data).clip(0.0, 255.0)
BOUNDS = (0.0, 256.0)


def bounds(found):
    return [item for item in found.findings if item.epsilon_lower is not None]


@pytest.mark.parametrize(
    ("proven", "delta"),
    [
        (Guarantee.nothing("no noise"), 1e-5),
        (Guarantee.pure(1.0), 0.0),
        (Guarantee.gaussian(1.0, at_delta=1e-6), 1e-6),
        (Guarantee.gaussian(1.0, at_delta=4e-3), 1e-5),
    ],
)
def test_games_are_played_at_the_stated_delta_but_no_larger_one(proven, delta):
    assert usual_delta(proven) == delta


def test_a_reader_may_ask_for_another_delta():
    released = sf.Gaussian(1.0, 1e-5, bounds=BOUNDS).release(IMAGES[:200])
    for delta in (1e-3, 1e-7):
        found = sf.audit(released, original=IMAGES[:200], delta=delta)
        assert {item.delta for item in bounds(found)} == {delta}
    with pytest.raises(sf.BadInput, match="`delta` was 1"):
        sf.audit(released, original=IMAGES[:200], delta=1.0)


def test_tldp_does_not_pass_its_own_audit():
    """Miss rate below 1e-6: nearly all of 898 pairs are guessed, and 1 tensor in 9 shows a value."""
    released = sf.TensorLDP(1.0, BOUNDS).release(IMAGES)
    found = sf.audit(released, original=IMAGES)
    real = [item for item in bounds(found) if not item.mechanism_only]
    assert {(item.unit, item.neighbours, item.delta) for item in real} == {("tensor", "replace", 1e-5)}
    assert found.epsilon_lower > 2.0  # and not "at least 0", as at the component's δ of 0.002
    assert not found.alarms  # per tensor nothing finite is proven at so small a δ
    drawn_anew = {"worst-case game, whole tensor", "worst-case game, components counted"}
    assert {item.attack for item in found.refuting} == {"pair game", "exact-value game"} | drawn_anew
    assert found.to_dict()["claim_refuted"]
    assert "The claim is refuted: exact-value game shows" in str(found)
    (leak,) = [item for item in found.findings if item.attack == "exact-value game"]
    assert leak.at_epsilon == 1.0
    assert 0.0 < leak.delta_lower < released.statement.also_proven[0].revealed


def test_a_row_is_what_the_statement_says_it_is():
    layers = sf.LayerAdaptive(1.0, 1e-5, clip=(1.0, 3.0), layers=(60, 4))
    found = sf.audit(layers.release(IMAGES[:200]), original=IMAGES[:200])
    assert {item.unit for item in bounds(found)} == {"client"}
    assert all(found.statement.compared(item.evidence()) for item in bounds(found))


def test_zero_out_is_measured_at_the_delta_that_was_asked_for():
    """False-alarm rate 4e-7, that of the joint confidence; records at both ends are two steps apart."""
    ends = np.zeros((2000, 3))
    ends[:, 0] = np.where(np.arange(2000) % 2, 1.0, -1.0)
    made = sf.Gaussian(4.0, 1e-9, clip=1.0, neighbours="zero-out").release(ends)
    found = sf.audit(made, original=ends, confidence=1.0 - 4e-7)
    assert {(item.neighbours, item.delta) for item in bounds(found)} == {("zero-out", 1e-9)}
    assert not found.alarms
    assert found.epsilon_lower > 2.0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_measured_does_not_fall_as_epsilon_grows(noise, monkeypatch, bounds_only):
    """False-alarm rate 1e-6: 28 falls in 30 steps, none more likely than not; the ends lie far apart.

    At the δ of the statement, which grows with ε, what was measured fell to 0. Games with the mechanism drawn
    anew do not count for what a release reveals, and are left out.
    """
    monkeypatch.setattr(release_audit, "audit_mechanism", lambda statement, **options: [])
    assert binom.sf(27, 30, 0.5) < 1e-6
    grid, falls = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 0
    for turn in range(6):
        part = IMAGES[200 * turn : 200 * turn + 200]
        measured = [
            sf.audit(sf.TensorLDP(epsilon, BOUNDS, noise=noise).release(part), original=part).epsilon_lower
            for epsilon in grid
        ]
        falls += sum(later < earlier for earlier, later in itertools.pairwise(measured))
        assert measured[-1] > measured[0]
    assert falls < 28
