"""A variational autoencoder whose decoder is a manifold: equation 2 of Yin et al. (2025)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.deviation import RBFDeviation
from sfumato.publishers.riemannian.vae_networks import Architecture, initialise, mean_decoder, reader

__all__ = ["RiemannianVAE"]

# The first scale of the posterior, in units of the data space, and the least it may become.
FIRST_SCALE, LEAST_SCALE = 0.5, 1e-3


class RiemannianVAE(nn.Module):
    """Encoder, mean and deviation networks, and the prior's mean; a ``Manifold`` of flat pictures.

    Pictures are floats in [0, 1] of shape ``(n, height, width)`` or ``(n, height, width, channels)``, as the
    architecture says. The decoded distribution at z is f(z) = μ(z) + σ(z) ⊙ ε. Row-wise: in evaluation mode
    each row of every answer depends on the same row of the question only. The posterior means of a training
    set have mean 0 and variance 1 along each latent axis, because the encoder ends in a normalisation whose
    statistics are those of the last batches it was trained on; without it the loss of the μ stage, which has
    no prior in it, would let the means drift apart for ever.

    ``centres`` (k, d) are those of the radial basis functions of the deviation.
    """

    centres: Tensor

    def __init__(self, architecture: Architecture, *, generator: Generator) -> None:
        super().__init__()
        self.architecture = architecture
        # Layers draw first weights from torch's global generator: it is put back as it was.
        with torch.random.fork_rng(devices=[]):
            self.reader, features = reader(architecture)
            self.mean_head = nn.Linear(features, architecture.latent)
            self.scale_head = nn.Linear(features, 1)
            self.mean_network = mean_decoder(architecture)
        initialise(self, generator)
        nn.init.constant_(self.scale_head.bias, -0.43)  # softplus of it is about the first scale
        self.normalised = nn.BatchNorm1d(architecture.latent, affine=False)
        self.deviation = RBFDeviation(
            architecture.latent, architecture.centres, architecture.numbers, generator=generator
        )
        self.centres = self.deviation.centres
        self.prior = nn.Parameter(torch.zeros(architecture.latent))
        self.eval()

    @property
    def latent(self) -> int:
        """Dimension d of the latent space."""
        return self.architecture.latent

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one picture."""
        return self.architecture.shape

    def contributions(self, z: Tensor) -> Tensor:
        """Of all precision the centres add at z, the share of each: (n, k)."""
        return self.deviation.contributions(z)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean (n, d) and scale (n, 1) of pictures; the scale is σ_z of equation 8.

        Raises:
            BadInput: If the pictures have another shape.
        """
        if x.shape[1:] != self.shape:
            raise BadInput(f"pictures of shape {tuple(x.shape[1:])} were given to a model of {self.shape}.")
        features = self.reader(torch.flatten(x, 1))
        scale = functional.softplus(self.scale_head(features)) + LEAST_SCALE
        return self.normalised(self.mean_head(features)), scale

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the pictures at z, flat: (n, numbers) both."""
        return self.mean_network(z), self.deviation(z)

    def decode(self, z: Tensor) -> Tensor:
        """The mean pictures at z, of the shape of pictures."""
        pictures: Tensor = self.mean_network(z)
        return pictures.reshape(len(z), *self.shape)

    def generate(self, z: Tensor, generator: Generator) -> Tensor:
        """f(z) = μ(z) + σ(z) ⊙ ε of equation 2, flat: (n, numbers)."""
        mean, deviation = self.embed(z)
        return mean + deviation * torch.randn(mean.shape, generator=generator)

    def means(self, pictures: Tensor, *, rows: int = 2048) -> Tensor:
        """Posterior means of all pictures (n, d), a few at a time and without derivatives."""
        with torch.no_grad():
            return torch.cat([self.encode(part)[0] for part in torch.split(pictures, rows)])

    def decoder_parameters(self) -> list[nn.Parameter]:
        """θ of equation 16: the weights of the mean and of the deviation network."""
        return [*self.mean_network.parameters(), *self.deviation.parameters()]
