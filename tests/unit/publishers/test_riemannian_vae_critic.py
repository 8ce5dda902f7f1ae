"""The critic's losses against closed forms."""

import pytest
import torch
from torch import nn

from sfumato.publishers.riemannian.riemannian_vae import (
    Architecture,
    Critic,
    critic_loss,
    generator_loss,
    gradient_penalty,
)


def linear(weights):
    layer = nn.Linear(len(weights), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights]))
    return nn.Sequential(layer, nn.Flatten(0))


@pytest.mark.parametrize(("weights", "penalty"), [([0.6, 0.8], 0.0), ([3.0, 4.0], 16.0), ([0.0, 0.0], 1.0)])
def test_the_penalty_is_zero_exactly_for_slopes_of_length_one(weights, penalty):
    real, fake = torch.rand((2, 5, 2), generator=torch.Generator().manual_seed(0))
    found = gradient_penalty(linear(weights), real, fake, torch.Generator().manual_seed(1))
    assert float(found.detach()) == pytest.approx(penalty, abs=1e-5)


def test_losses_are_those_of_equations_10_and_11():
    real, fake = torch.ones((4, 2)), torch.zeros((4, 2))
    critic = linear([3.0, 4.0])
    loss = critic_loss(critic, real, fake, torch.Generator().manual_seed(0))
    assert float(loss.detach()) == pytest.approx(0.0 - 7.0 + 10.0 * 16.0, rel=1e-5)
    assert float(generator_loss(critic, real).detach()) == pytest.approx(-7.0)


def test_the_critic_s_loss_does_not_reach_whatever_made_the_fakes():
    fake = torch.zeros((4, 64), requires_grad=True)
    critic = Critic(Architecture((8, 8), 2, 4), generator=torch.Generator().manual_seed(0))
    critic_loss(critic, torch.ones((4, 64)), fake, torch.Generator().manual_seed(0)).backward()
    assert fake.grad is None
    assert all(parameter.grad is not None for parameter in critic.reader.parameters())


@pytest.mark.parametrize("decoder", ["dense", "conv"])
def test_a_trained_critic_tells_real_pictures_from_fakes(decoder):
    generator = torch.Generator().manual_seed(0)
    critic = Critic(Architecture((8, 9, 3), 2, 4, decoder), generator=generator)
    real, fake = torch.rand((64, 216), generator=generator), torch.rand((64, 216), generator=generator) * 0.5
    optimiser = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(40):
        optimiser.zero_grad()
        critic_loss(critic, real, fake, generator).backward()
        optimiser.step()
    with torch.no_grad():
        assert float((critic(real) > critic(fake)).float().mean()) > 0.95
