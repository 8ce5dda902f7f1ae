"""Noisy gradient steps: inside the proven curve, and outside it with 20% less noise.

A dataset of the game is one record, with a gradient far beyond the clip, or none. Many are played at once:
their records have gradients along axes of their own, and each is sampled, clipped and given noise as if it
were alone. The reader sees all steps and uses the likelihood ratio.
"""

import numpy as np
import pytest
import torch
from games import LESS, violations

from sfumato.learners import DPSGD
from sfumato.noise import NoisedSums, Secure

TOGETHER = 400
ROUNDS = 50  # 20 000 samples a side
PLANS = {
    "all examples, one step": DPSGD(0.6, 1.0, 1, clip=0.3),
    "all examples, three steps": DPSGD(1.2, 1.0, 3, clip=5.0),
    "sampled, one step": DPSGD(0.5, 0.4, 1),
    "sampled, four steps": DPSGD(0.8, 0.5, 4, clip=2.0),
}


class WeakDPSGD(DPSGD):
    @property
    def multipliers(self):
        return (LESS * self.multiplier,) * self.steps


@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_steps_stay_inside_their_curve_and_leave_it_with_less_noise(plan):
    """False-alarm rate 1e-6; 20 000 samples a side; miss rate below 1e-6."""
    weak = WeakDPSGD(plan.multiplier, plan.rate, plan.steps, plan.clip)
    guarantee = plan.guarantee(1e-5)
    # Half way between what is typical without the record and with it, and some way to both sides.
    thresholds = np.linspace(-1.5, 1.5, 9)
    assert not violations(guarantee, scores(plan, False), scores(plan, True), thresholds)
    assert violations(guarantee, scores(weak, False), scores(weak, True), thresholds)


def scores(plan, present):
    """Log-likelihood ratios of record against none, (samples,), by the noise that is said to be there."""
    found = [seen_ratio(plan, present) for _ in range(ROUNDS)]
    return np.concatenate(found)


def seen_ratio(plan, present):
    parameter, ratio = torch.nn.Parameter(torch.zeros(TOGETHER)), np.zeros(TOGETHER)
    gradients = 1e3 * torch.eye(TOGETHER)

    def read(_):
        seen = parameter.grad.double().numpy() * (plan.rate * TOGETHER / plan.clip)
        ratio[:] += np.log1p(plan.rate * np.expm1((seen - 0.5) / plan.multiplier**2))

    plan.train(
        [parameter],
        TOGETHER,
        lambda taken, _: [[gradients[taken]]] if present and len(taken) else [],
        read,
        NoisedSums(Secure()),
    )
    return ratio
