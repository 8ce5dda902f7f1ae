"""How the VAE-GAN learns: noisy steps of the generator, and steps of a critic where there is one."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD
from sfumato.noise import Randomness
from sfumato.publishers.labelled_images import Labelled
from sfumato.publishers.publisher import Progress
from sfumato.publishers.vaegan_networks import ConditionalVAE, Critic

__all__ = ["trained"]

_SPEED = 1e-2
_CRITIC_SPEED = 1e-4
# What the critic's opinion counts beside the loss of an autoencoder, which is about a hundred.
_WEIGHT = 5.0


def trained(
    data: Labelled,
    training: DPSGD,
    randomness: Randomness,
    *,
    latent: int,
    hidden: int,
    critic: bool,
    report: Progress,
) -> ConditionalVAE:
    """An autoencoder that has learned from ``data`` in the steps of ``training``.

    Without ``critic`` the data is used through noisy sums alone. With it a critic learns from the pictures
    of each step without noise, and its opinion is a part of the loss; losses are reported.
    """
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise BadInput("gradients of single examples need Opacus: pip install 'sfumato[learn]'.") from None

    generator = torch.Generator().manual_seed(randomness.stream(b"vae-gan weights").integer(64) % 2**63)
    values = math.prod(data.shape)
    model = ConditionalVAE(values, data.classes, latent=latent, hidden=hidden, generator=generator)
    judge = _Judge(Critic(values, data.classes, hidden=hidden, generator=generator)) if critic else None
    wrapped = GradSampleModule(model, loss_reduction="sum")
    parameters = list(model.parameters())
    optimiser = torch.optim.Adam(parameters, lr=_SPEED)
    noisy = training.noisy(randomness)
    pictures, kinds = torch.from_numpy(data.pictures.reshape(len(data), -1)), torch.from_numpy(data.labels)
    for step, taken in enumerate(training.samples(len(data), randomness.stream(b"vae-gan samples"))):
        facts: dict[str, float] = {}
        if taken.size:
            # Asked for a gradient, which nobody uses, so that torch's backward hooks do not warn of it.
            real, labels = pictures[taken].requires_grad_(), kinds[taken]
            noise = torch.randn((len(taken), latent), generator=generator)
            logits, mean, logarithm = wrapped(real, labels, noise)
            losses = model.losses(logits, mean, logarithm, real.detach())
            if judge is not None:
                made = torch.sigmoid(logits)
                facts = {
                    "loss": losses.mean().item(),
                    "critic": judge.learn(real.detach(), made.detach(), labels),
                }
                losses = losses + _WEIGHT * judge.displeased(made, labels)
            losses.sum().backward()  # type: ignore[no-untyped-call]
        training.set_gradients(parameters, noisy, len(data), len(taken))
        optimiser.step()
        report("learning by noisy steps", (step + 1) / training.steps, facts)
    wrapped.to_standard_module()
    return model.requires_grad_(False)


class _Judge:
    """A critic and its learning, by the logistic loss."""

    def __init__(self, critic: Critic) -> None:
        self.critic = critic
        self._optimiser = torch.optim.Adam(critic.parameters(), lr=_CRITIC_SPEED)

    def learn(self, real: Tensor, made: Tensor, labels: Tensor) -> float:
        """One step toward telling ``real`` pictures from those ``made``; the loss before it."""
        self.critic.requires_grad_(True)
        loss = (
            functional.softplus(-self.critic(real, labels)).mean()
            + functional.softplus(self.critic(made, labels)).mean()
        )
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.critic.requires_grad_(False)
        return float(loss.item())

    def displeased(self, made: Tensor, labels: Tensor) -> Tensor:
        """The loss (n,) of pictures that should have passed for real."""
        return functional.softplus(-self.critic(made, labels))
