"""How uncertain a decoded picture is: small near the centres of radial basis functions, large far from all.

The precision of every pixel is a weighted sum of Gaussian bumps in the latent space plus a small floor
(Arvanitidis, Hansen & Hauberg 2018, section 4), and the deviation is one over its root. Far from all centres
the deviation is one over the root of the floor, so that curves which leave the data become long.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

__all__ = ["RBFDeviation", "bandwidths"]

#: Precision far from all centres: a deviation of 1, the whole range of a pixel.
FLOOR = 1.0
# A pixel that never errs would be given an endless precision: this much variance is always left to it.
LEAST_VARIANCE = 1e-3
# Distances to so many nearest other centres make a bandwidth.
NEAREST = 3


class RBFDeviation(nn.Module):
    """Deviation (n, numbers) at latent points (n, d), by ``centres`` (k, d) that are trained.

    A bump has the form exp(−‖z − c‖² / 2b²), its bandwidth b fixed when the centres are placed. Distances are
    written out, as ``torch.cdist`` has no forward derivative.
    """

    bandwidths: Tensor

    def __init__(self, latent: int, centres: int, numbers: int, *, generator: Generator) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn((centres, latent), generator=generator))
        self.raw_weights = nn.Parameter(torch.zeros((centres, numbers)))
        self.register_buffer("bandwidths", bandwidths(self.centres.detach()))

    def place(self, means: Tensor, errors: Tensor, seed: int) -> None:
        """Put the centres at the k-means of ``means`` (n, d), and begin with the precision of ``errors``.

        ``errors`` (numbers,) are mean squared errors of the mean decoder, one for every number of a picture:
        at the means, on average, the first deviation is their root.
        """
        from sklearn.cluster import KMeans

        kmeans = KMeans(len(self.centres), n_init=1, max_iter=50, random_state=seed % 2**32)
        found = kmeans.fit(means.double().numpy()).cluster_centers_
        with torch.no_grad():
            self.centres.copy_(torch.as_tensor(found))
            self.bandwidths.copy_(bandwidths(self.centres))
            height = self.bumps(means).sum(dim=1).mean()
            weights = 1.0 / (height * (errors + LEAST_VARIANCE))
            self.raw_weights.copy_(_inverse_softplus(weights).expand_as(self.raw_weights))

    def bumps(self, z: Tensor) -> Tensor:
        """The value of every bump at every point, (n, k), from 0 to 1."""
        return self._exponents(z).exp()

    def contributions(self, z: Tensor) -> Tensor:
        """Of all precision that the bumps add at z, the share of each: (n, k), rows add up to 1.

        As a share it is also known where every bump has faded to nothing: there the widest and nearest leads.
        """
        return torch.softmax(self._exponents(z) + self._weights().mean(dim=1).log(), dim=1)

    def precision(self, z: Tensor) -> Tensor:
        """One over the variance, (n, numbers)."""
        return self.bumps(z) @ self._weights() + FLOOR

    def forward(self, z: Tensor) -> Tensor:
        """The deviation, (n, numbers)."""
        return self.precision(z).rsqrt()

    def _weights(self) -> Tensor:
        return functional.softplus(self.raw_weights)

    def _exponents(self, z: Tensor) -> Tensor:
        return squared_distances(z, self.centres) / (-2.0 * self.bandwidths.square())


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """‖z − c‖² for all pairs, (n, k)."""
    lengths = points.square().sum(dim=1, keepdim=True) + centres.square().sum(dim=1)
    return (lengths - 2.0 * points @ centres.mT).clamp_min(0.0)


def bandwidths(centres: Tensor) -> Tensor:
    """Half of each centre's mean distance to its nearest three others, ``(k,)`` for ``(k, d)``; never 0.

    That is about the radius of what belongs to the centre: its own bump leads there, and the sum of all is
    about 1 inside the data. Centres that coincide take the largest bandwidth there is, or 1.
    """
    count = len(centres)
    if count < 2:
        return centres.new_ones(count)
    apart = squared_distances(centres.double(), centres.double()).fill_diagonal_(torch.inf)
    near = 0.5 * apart.topk(min(NEAREST, count - 1), largest=False).values.sqrt().mean(dim=1)
    largest = float(near.max()) if float(near.max()) > 1e-6 else 1.0
    return torch.where(near > 1e-6 * largest, near, largest).to(centres)


def _inverse_softplus(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))
