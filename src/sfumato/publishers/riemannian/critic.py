"""The discriminator: a Wasserstein critic with gradient penalty, equations 10, 11 of Yin et al. (2025)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from sfumato.publishers.riemannian.vae_networks import Architecture, initialise, reader

__all__ = ["Critic", "critic_loss", "generator_loss", "gradient_penalty"]

#: Weight λ of the gradient penalty (Gulrajani et al. 2017); the paper names none.
PENALTY = 10.0


class Critic(nn.Module):
    """From flat pictures (n, numbers) to scores (n,): the higher, the more like private pictures."""

    def __init__(self, architecture: Architecture, *, generator: Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.reader, features = reader(architecture)
            self.score = nn.Linear(features, 1)
        initialise(self, generator)

    def forward(self, flat: Tensor) -> Tensor:
        """The scores."""
        scores: Tensor = self.score(self.reader(flat))
        return scores.squeeze(1)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor, generator: Generator) -> Tensor:
    """Mean of (‖∇D‖ − 1)² at random points between real and fake pictures, row by row."""
    shares = torch.rand((len(real), 1), generator=generator)
    between = torch.lerp(fake.detach(), real, shares).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    # The root of 0 has no derivative; a penalty is no finer than this anyway.
    lengths: Tensor = (slope.square().sum(dim=1) + 1e-12).sqrt()
    return (lengths - 1.0).square().mean()


def critic_loss(critic: nn.Module, real: Tensor, fake: Tensor, generator: Generator) -> Tensor:
    """L_D of equation 10 with λ = 10; nothing flows back into whatever made the fakes."""
    scores: Tensor = critic(fake.detach()).mean() - critic(real).mean()
    return scores + PENALTY * gradient_penalty(critic, real, fake, generator)


def generator_loss(critic: nn.Module, fake: Tensor) -> Tensor:
    """L_G of equation 11."""
    loss: Tensor = -critic(fake).mean()
    return loss
