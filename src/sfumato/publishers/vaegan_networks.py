"""The networks of the VAE-GAN: a conditional autoencoder as generator, and a critic of its pictures.

All layers are dense and treat each row alone, so that the gradient of one example's loss depends on that
example alone, to the last bit in a batch of a given size. Weights are drawn from a generator of their own;
torch's global one is left as it is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

__all__ = ["ConditionalVAE", "Critic"]


class ConditionalVAE(nn.Module):
    """Pictures of ``values`` values in [0, 1] and labels of ``classes`` to ``latent`` numbers, and back."""

    def __init__(
        self, values: int, classes: int, *, latent: int, hidden: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.classes, self.latent = classes, latent
        self.inwards = _dense(values + classes, hidden, generator)
        self.mean = _dense(hidden, latent, generator)
        self.logarithm = _dense(hidden, latent, generator)
        self.outwards = _dense(latent + classes, hidden, generator)
        self.picture = _dense(hidden, values, generator)

    def forward(self, pictures: Tensor, labels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of reconstructions (n, values), and mean and log variance (n, latent) of what lies between.

        ``noise`` is standard normal, (n, latent).
        """
        kinds = functional.one_hot(labels, self.classes).to(pictures)
        inner = functional.silu(self.inwards(torch.cat([pictures, kinds], dim=1)))
        mean, logarithm = self.mean(inner), self.logarithm(inner).clamp(-8.0, 8.0)
        return self.logits(mean + noise * torch.exp(0.5 * logarithm), labels), mean, logarithm

    def logits(self, latent: Tensor, labels: Tensor) -> Tensor:
        """Logits (n, values) of the pictures at ``latent`` (n, latent) with ``labels``."""
        kinds = functional.one_hot(labels, self.classes).to(latent)
        return self.picture(functional.silu(self.outwards(torch.cat([latent, kinds], dim=1))))  # type: ignore[no-any-return]

    def losses(self, logits: Tensor, mean: Tensor, logarithm: Tensor, pictures: Tensor) -> Tensor:
        """The negative evidence lower bound of each example, (n,)."""
        apart = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="none").sum(dim=1)
        return apart + 0.5 * (mean.square() + logarithm.exp() - 1.0 - logarithm).sum(dim=1)


class Critic(nn.Module):
    """A score (n,) of pictures of ``values`` values with labels of ``classes``: high where they look real."""

    def __init__(self, values: int, classes: int, *, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.classes = classes
        self.inwards = _dense(values + classes, hidden, generator)
        self.score = _dense(hidden, 1, generator)

    def forward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """The scores (n,)."""
        kinds = functional.one_hot(labels, self.classes).to(pictures)
        inner = functional.leaky_relu(self.inwards(torch.cat([pictures, kinds], dim=1)), 0.2)
        return self.score(inner).squeeze(1)  # type: ignore[no-any-return]


def _dense(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer: nn.Linear = skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    bound = 1.0 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
