"""The ε of DP-SGD on Poisson samples beside Opacus's PRV accountant, which computes it in another way."""

import pytest
from opacus.accountants import create_accountant

from sfumato.learners import DPSGD

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
