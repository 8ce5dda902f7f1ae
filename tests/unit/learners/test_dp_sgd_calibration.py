"""The search for noise, and what calibrated steps cost beside Opacus's PRV accountant."""

import pytest
from opacus.accountants import create_accountant

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.learners.dp_sgd import find_least_noise


@pytest.mark.parametrize("guess", [0.3, 1.0, 2.9, 3.0, 3.1, 50.0])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_least_noise_is_found(guess, power):
    asked = []

    def proven(multiplier):
        asked.append(multiplier)
        return (3.0 / multiplier) ** power

    assert 3.0 <= find_least_noise(proven, 1.0, guess) <= 3.0 * 1.001
    if abs(guess - 3.0) <= 0.1:
        assert len(asked) <= 5


def test_no_less_than_a_twentieth_and_no_more_than_can_be_drawn():
    assert find_least_noise(lambda multiplier: 0.0, 1.0, 1.0) == 0.05
    with pytest.raises(OverflowError):
        find_least_noise(lambda multiplier: 2.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"), [(1.0, 1.0, 10), (40.0, 1.0, 1), (3.0, 0.05, 60), (20.0, 0.2, 30)]
)
def test_calibrated_noise_proves_what_was_asked_and_hardly_more(epsilon, rate, steps):
    plan = DPSGD.calibrated(epsilon, 1e-5, rate=rate, steps=steps, clip=0.5)
    assert 0.99 * epsilon <= plan.guarantee(1e-5).epsilon() <= epsilon
    assert (plan.rate, plan.steps, plan.clip) == (rate, steps, 0.5)


def test_calibrated_noise_is_never_below_a_twentieth_of_the_clip():
    plan = DPSGD.calibrated(1e4, 1e-5, rate=1.0, steps=1)
    assert plan.multiplier == 0.05
    assert plan.guarantee(1e-5).epsilon() < 1e4


def test_an_epsilon_that_would_need_too_much_noise_is_refused():
    with pytest.raises(BadInput, match="take fewer steps"):
        DPSGD.calibrated(1e-4, 1e-9, rate=1.0, steps=1000)


# What its accountant is asked for; the ε that it gives is an upper end, at most twice this too large.
ERROR = 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_calibrated_run_has_the_epsilon_of_opacus_within_its_error(epsilon) -> None:
    """The second stage's steps and sampling; both numbers are bounds from above, so neither is far above."""
    plan = DPSGD.calibrated(epsilon, 1e-5, rate=0.1, steps=100)
    theirs = create_accountant("prv")
    for _ in range(plan.steps):
        theirs.step(noise_multiplier=plan.multiplier, sample_rate=plan.rate)
    opacus = theirs.get_epsilon(1e-5, eps_error=ERROR)
    ours = plan.guarantee(1e-5).epsilon()
    assert opacus - 2.0 * ERROR <= ours <= opacus


def test_another_noise_would_be_noticed() -> None:
    plan = DPSGD.calibrated(1.0, 1e-5, rate=0.1, steps=100)
    theirs = create_accountant("prv")
    for _ in range(plan.steps):
        theirs.step(noise_multiplier=0.95 * plan.multiplier, sample_rate=plan.rate)
    assert theirs.get_epsilon(1e-5, eps_error=ERROR) - 2.0 * ERROR > plan.guarantee(1e-5).epsilon()
