"""Networks and losses of the Riemannian VAE-GAN of Yin et al. (2025); its decoder is a manifold (equation 2).

**Networks.** Encoders and mean decoders are dense or convolutional. Every activation is smooth, because the
curvature of a decoder is made of its second derivatives. Nothing here normalises over a batch: a decoded row
depends on its own latent point only. The discriminator is a Wasserstein critic with gradient penalty
(equations 10 and 11).

**Deviation.** The precision of every pixel is a weighted sum of Gaussian bumps in the latent space plus a
small floor (Arvanitidis, Hansen & Hauberg 2018, section 4), and the deviation is one over its root. Far from
all centres the deviation is one over the root of the floor, so that curves which leave the data become long.

**Posterior and prior** are Brownian motions on the manifold (equations 7 to 9). The density of a motion that
starts at c and runs for a time t is taken by the first term of its expansion in short times, as Kalatzis et
al. (2020) do:

    log p(z) = −d/2 log 2πt + ½ log |det G(z)| − ½ log |det G(c)| − l²(z, c) / 2t.

*What is approximated.* The squared distance l² is 2(m − 1) times the energy (equation 4) of the straight
latent line from z to c at m equally spaced samples. Where straight latent lines are geodesics of constant
speed (a flat manifold with affine coordinates, a meridian of a sphere) that is the squared distance, and
elsewhere no less, both up to the difference between m − 1 chords and the curve. A drawn z is one step of the
motion, c + √t G(c)^(−1/2) ε, instead of many small ones. A hundred-thousandth of its mean eigenvalue is added
to each metric, so that a latent axis which the decoder ignores does not make the logarithm infinite.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.geodesic_solver import curve_energy
from sfumato.publishers.riemannian.manifold import Manifold, log_determinant, pullback_metric

__all__ = ["Architecture", "RiemannianVAE"]

# Samples of the straight line whose energy stands for the squared distance.
SAMPLES = 5
DAMPING = 1e-5
# The longest latent step of a walk; latent means have variance 1 along each axis.
LONGEST = 3.0

# Channels of the two convolutions, from the picture inwards.
CHANNELS = (32, 64)
#: Weight λ of the gradient penalty (Gulrajani et al. 2017); the paper names none.
PENALTY = 10.0
#: Precision far from all centres: a deviation of 1, the whole range of a pixel.
FLOOR = 1.0
# A pixel that never errs would be given an endless precision: this much variance is always left to it.
LEAST_VARIANCE = 1e-3
# Distances to so many nearest other centres make a bandwidth.
NEAREST = 3
# Units of a hidden layer of the curvature estimator.
HIDDEN = 128


def damped_metric(manifold: Manifold, z: Tensor) -> Tensor:
    """Return the pullback metric (n, d, d) with a little of its mean eigenvalue added to all of them."""
    metric = pullback_metric(manifold, z)
    mean = metric.detach().diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(torch.finfo(z.dtype).tiny)
    unit = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return metric + DAMPING * mean.reshape(-1, 1, 1) * unit


def squared_distance(manifold: Manifold, start: Tensor, end: Tensor, *, samples: int = SAMPLES) -> Tensor:
    """Return l² between rows of ``start`` and ``end``, (n, d) both, along straight lines, as ``(n,)``."""
    times = torch.linspace(0.0, 1.0, samples, dtype=start.dtype, device=start.device).reshape(1, -1, 1)
    lines = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), times)
    return 2.0 * (samples - 1) * curve_energy(manifold, lines)


def divergence(
    manifold: Manifold, z: Tensor, mean: Tensor, variance: Tensor, prior: Tensor, *, metric: Tensor
) -> Tensor:
    """Return each row's log q(z|x) − log p(z) of equation 7: the mean over z drawn from q is the divergence.

    ``metric`` is that at ``mean``; ``prior`` (d,) is where the prior's motion of time 1 starts. The term
    ½ log |det G(z)| is in both densities and cancels. The mean of l²(z, μ_z) / σ_z² is d, whatever the
    weights, so it is not differentiated: a step too long for the expansion would be made longer still.
    """
    start = prior.unsqueeze(0)
    volume = log_determinant(metric) - log_determinant(damped_metric(manifold, start))
    with torch.no_grad():
        spread = squared_distance(manifold, z, mean) / variance
    posterior = spread + z.shape[1] * variance.log()
    away = squared_distance(manifold, z, start.expand_as(z))
    return 0.5 * (away - posterior - volume)


def walk(centre: Tensor, variance: Tensor, metric: Tensor, generator: Generator) -> Tensor:
    """Take one step of a motion from each row of ``centre``: centre + √variance · G^(−1/2) ε, (n, d).

    Any root of the inverse serves, here that of Cholesky's factor. The metric is taken as it is: nothing is
    differentiated through it. A step of a latent length above 3, the width of all data, is cut to it: such a
    step is along an axis that the decoder hardly sees.
    """
    normal = torch.randn(centre.shape, generator=generator).to(centre)
    factor = torch.linalg.cholesky(metric.detach())
    moved: Tensor = torch.linalg.solve_triangular(factor.mT, normal.unsqueeze(2), upper=True).squeeze(2)
    step: Tensor = variance.sqrt().unsqueeze(1) * moved
    lengths = step.detach().norm(dim=1, keepdim=True).clamp_min(torch.finfo(step.dtype).tiny)
    shorter: Tensor = (LONGEST / lengths).clamp_max(1.0)
    return centre + step * shorter


#: Sides of pictures that the networks are made for.
SMALLEST, LARGEST = 4, 128


@dataclass(frozen=True)
class Architecture:
    """Everything that decides the shapes of a model's weights; two models that are equal here are alike.

    ``shape`` is that of one picture, (height, width) or (height, width, channels) with 1 or 3 channels;
    ``decoder`` is ``"dense"`` (two hidden layers of ``width`` units) or ``"conv"``.
    """

    shape: tuple[int, ...]
    latent: int = 10
    centres: int = 256
    decoder: str = "dense"
    width: int = 512

    def __post_init__(self) -> None:
        sides, channels = self.shape[:2], self.shape[2:]
        if (
            len(self.shape) not in (2, 3)
            or not all(SMALLEST <= side <= LARGEST for side in sides)
            or channels not in ((), (1,), (3,))
        ):
            raise BadInput(
                f"pictures of shape {self.shape} were given: (height, width) or (height, width, channels) "
                f"with sides from {SMALLEST} to {LARGEST} and 1 or 3 channels are needed."
            )

    @property
    def channels(self) -> int:
        """Numbers of one pixel."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def numbers(self) -> int:
        """Numbers of one picture."""
        return math.prod(self.shape)

    @property
    def coarse(self) -> tuple[int, int]:
        """The sides after two convolutions that halve them, rounded up."""
        return -(-self.shape[0] // 4), -(-self.shape[1] // 4)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "shape": list(self.shape)}


def reader(architecture: Architecture) -> tuple[nn.Module, int]:
    """Return a network from flat pictures (n, numbers) to features (n, f), and f."""
    width = architecture.width
    if architecture.decoder == "dense":
        layers = nn.Sequential(
            nn.Linear(architecture.numbers, width), nn.SiLU(), nn.Linear(width, width // 2), nn.SiLU()
        )
        return layers, width // 2
    inner, outer = CHANNELS
    high, wide = architecture.coarse
    layers = nn.Sequential(
        _Planes(architecture),
        nn.Conv2d(architecture.channels, inner, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Conv2d(inner, outer, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(outer * high * wide, width // 2),
        nn.SiLU(),
    )
    return layers, width // 2


def mean_decoder(architecture: Architecture) -> nn.Module:
    """Return a network from latent points (n, d) to flat mean pictures (n, numbers) in (0, 1)."""
    width, latent = architecture.width, architecture.latent
    if architecture.decoder == "dense":
        return nn.Sequential(
            nn.Linear(latent, width // 2),
            nn.SiLU(),
            nn.Linear(width // 2, width),
            nn.SiLU(),
            nn.Linear(width, architecture.numbers),
            nn.Sigmoid(),
        )
    inner, outer = CHANNELS
    high, wide = architecture.coarse
    return nn.Sequential(
        nn.Linear(latent, width // 2),
        nn.SiLU(),
        nn.Linear(width // 2, outer * high * wide),
        nn.SiLU(),
        nn.Unflatten(1, (outer, high, wide)),
        nn.ConvTranspose2d(outer, inner, 4, stride=2, padding=1),
        nn.SiLU(),
        nn.ConvTranspose2d(inner, architecture.channels, 4, stride=2, padding=1),
        _Rows(architecture),
        nn.Sigmoid(),
    )


def initialise(module: nn.Module, generator: Generator) -> None:
    """Draw the weights of every layer anew from ``generator``; biases are 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class _Planes(nn.Module):
    """Flat rows, whose channels lie side by side in every pixel, as planes (n, channels, height, width)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.sides, self.channels = architecture.shape[:2], architecture.channels

    def forward(self, flat: Tensor) -> Tensor:
        return flat.reshape(len(flat), *self.sides, self.channels).movedim(3, 1)


class _Rows(nn.Module):
    """Planes cut to the size of a picture, as flat rows."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.sides = architecture.shape[:2]

    def forward(self, planes: Tensor) -> Tensor:
        high, wide = self.sides
        return torch.flatten(planes[:, :, :high, :wide].movedim(1, 3), 1)


class Critic(nn.Module):
    """From flat pictures (n, numbers) to scores (n,): the higher, the more like private pictures."""

    def __init__(self, architecture: Architecture, *, generator: Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.reader, features = reader(architecture)
            self.score = nn.Linear(features, 1)
        initialise(self, generator)

    def forward(self, flat: Tensor) -> Tensor:
        """Return the scores."""
        scores: Tensor = self.score(self.reader(flat))
        return scores.squeeze(1)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor, generator: Generator) -> Tensor:
    """Return the mean of (‖∇D‖ − 1)² at random points between real and fake pictures, row by row."""
    shares = torch.rand((len(real), 1), generator=generator)
    between = torch.lerp(fake.detach(), real, shares).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    # The root of 0 has no derivative; a penalty is no finer than this anyway.
    lengths: Tensor = (slope.square().sum(dim=1) + 1e-12).sqrt()
    return (lengths - 1.0).square().mean()


def critic_loss(critic: nn.Module, real: Tensor, fake: Tensor, generator: Generator) -> Tensor:
    """Return L_D of equation 10 with λ = 10; nothing flows back into whatever made the fakes."""
    scores: Tensor = critic(fake.detach()).mean() - critic(real).mean()
    return scores + PENALTY * gradient_penalty(critic, real, fake, generator)


def generator_loss(critic: nn.Module, fake: Tensor) -> Tensor:
    """Return L_G of equation 11."""
    loss: Tensor = -critic(fake).mean()
    return loss


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
        """Return the value of every bump at every point, (n, k), from 0 to 1."""
        return self._exponents(z).exp()

    def contributions(self, z: Tensor) -> Tensor:
        """Return each bump's share of the precision that all add at z: (n, k), rows add up to 1.

        As a share it is also known where every bump has faded to nothing: there the widest and nearest leads.
        """
        return torch.softmax(self._exponents(z) + self._weights().mean(dim=1).log(), dim=1)

    def precision(self, z: Tensor) -> Tensor:
        """Return one over the variance, (n, numbers)."""
        return self.bumps(z) @ self._weights() + FLOOR

    def forward(self, z: Tensor) -> Tensor:
        """Return the deviation, (n, numbers)."""
        return self.precision(z).rsqrt()

    def _weights(self) -> Tensor:
        return functional.softplus(self.raw_weights)

    def _exponents(self, z: Tensor) -> Tensor:
        return squared_distances(z, self.centres) / (-2.0 * self.bandwidths.square())


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """Return ‖z − c‖² for all pairs, (n, k)."""
    lengths = points.square().sum(dim=1, keepdim=True) + centres.square().sum(dim=1)
    return (lengths - 2.0 * points @ centres.mT).clamp_min(0.0)


def bandwidths(centres: Tensor) -> Tensor:
    """Return half of each centre's mean distance to its nearest three others, ``(k,)``; never 0.

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
        """Return each centre's share of the precision that all add at z: (n, k)."""
        return self.deviation.contributions(z)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return posterior mean (n, d) and scale (n, 1) of pictures; the scale is σ_z of equation 8.

        Raises:
            BadInput: If the pictures have another shape.
        """
        if x.shape[1:] != self.shape:
            raise BadInput(f"pictures of shape {tuple(x.shape[1:])} were given to a model of {self.shape}.")
        features = self.reader(torch.flatten(x, 1))
        scale = functional.softplus(self.scale_head(features)) + LEAST_SCALE
        return self.normalised(self.mean_head(features)), scale

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and deviation of the pictures at z, flat: (n, numbers) both."""
        return self.mean_network(z), self.deviation(z)

    def decode(self, z: Tensor) -> Tensor:
        """Return the mean pictures at z, of the shape of pictures."""
        pictures: Tensor = self.mean_network(z)
        return pictures.reshape(len(z), *self.shape)

    def generate(self, z: Tensor, generator: Generator) -> Tensor:
        """Return f(z) = μ(z) + σ(z) ⊙ ε of equation 2, flat: (n, numbers)."""
        mean, deviation = self.embed(z)
        return mean + deviation * torch.randn(mean.shape, generator=generator)

    def means(self, pictures: Tensor, *, rows: int = 2048) -> Tensor:
        """Return posterior means of all pictures (n, d), a few at a time and without derivatives."""
        with torch.no_grad():
            return torch.cat([self.encode(part)[0] for part in torch.split(pictures, rows)])

    def decoder_parameters(self) -> list[nn.Parameter]:
        """Return θ of equation 16: the weights of the mean and of the deviation network."""
        return [*self.mean_network.parameters(), *self.deviation.parameters()]


class CurvatureEstimator(nn.Module):
    """K̂(z) > 0 for latent points ``(n, latent)``, to evaluate curvature along a path cheaply.

    K ranges over orders of magnitude, and only its order along a path decides where a point is moved to
    (equation 15). The network is therefore trained on log K, brought to mean 0 and variance 1, where equation
    14 is an error relative to K; its answer is turned back into K. What brings points and log K to scale is
    kept with the weights.
    """

    centre: Tensor
    spread: Tensor
    level: Tensor
    range: Tensor
    scaled: Tensor

    def __init__(self, latent: int, *, generator: Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.layers = nn.Sequential(
                *(nn.Linear(latent, HIDDEN), nn.SiLU()),
                *(nn.Linear(HIDDEN, HIDDEN), nn.SiLU()),
                nn.Linear(HIDDEN, 1),
            )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="linear", generator=generator)
                nn.init.zeros_(layer.bias)
        self.register_buffer("centre", torch.zeros(latent))
        self.register_buffer("spread", torch.ones(latent))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("range", torch.ones(()))
        self.register_buffer("scaled", torch.tensor(False))

    def standardised(self, z: Tensor) -> Tensor:
        """Return the network's own output: log K̂(z) less its level, over its range, as ``(n,)``."""
        answer: Tensor = self.layers((z - self.centre) / self.spread)
        return answer.squeeze(1)

    def forward(self, z: Tensor) -> Tensor:
        """Return K̂ as ``(n,)``, always above 0."""
        smallest = torch.finfo(z.dtype).tiny
        return (self.level + self.range * self.standardised(z)).exp().clamp_min(smallest)

    def scale_to(self, points: Tensor, logarithms: Tensor) -> None:
        """Set the scale of points and of log K from these, the first time; later the scale stays."""
        if bool(self.scaled):
            return
        self.centre.copy_(points.mean(dim=0))
        self.spread.copy_(_unless_zero(points.std(dim=0, correction=0)))
        self.level.copy_(logarithms.mean())
        self.range.copy_(_unless_zero(logarithms.std(correction=0)))
        self.scaled.fill_(True)


def _unless_zero(spread: Tensor) -> Tensor:
    return torch.where(spread > 0.0, spread, torch.ones_like(spread))
