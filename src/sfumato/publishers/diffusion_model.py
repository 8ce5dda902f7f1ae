"""A class-conditional U-Net, its denoising objective, and a sampler that draws pictures from it.

**Network.** Its parameters all sit in convolutions and matrices, and no row depends on another. Group
normalisation has no parameters of its own: scale and shift come from the noise level and the class. No
statistic is shared between the examples of a batch, as batch normalisation would.

**Objective.** The network learns to tell a picture from picture plus noise, at noise levels from faint to
overwhelming. It is preconditioned as by Karras et al. 2022 (equations 7 and 8, table 1): with spread s of the
data and noise level σ, the denoised picture is D = c_skip·x + c_out·F(c_in·x, ln σ / 4, label), and the loss
is the squared error of the network F against (picture − c_skip·x)/c_out, which has unit variance at every
level.

**Sampler.** It draws a picture from noise in a few steps. Noise levels fall as by Karras et al. 2022,
equation 5. From level a to level b the picture is set to D + (x − D)·b²/a² plus fresh noise of the posterior
deviation b·√(a² − b²)/a, where D is the denoised picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

# Public constants: the spread of pictures in [−1, 1] that the preconditioning assumes, and the law of ln σ.
_SPREAD = 0.5
_MEAN = 0.3
_DEVIATION = 1.2
# Noise levels of drawing fall from the highest to the lowest, then to none at all.
_HIGHEST, _LOWEST, _BEND = 20.0, 0.03, 5.0
_AT_ONCE = 250
_GROUPS = 8
_FREQUENCIES = 8
_EMBEDDED = 32
_CHANNELS, _CELLS, _HIDDEN = 4, 8, 64


#: Evaluates a network on (pictures, levels, labels).
Forward = Callable[[tuple[Tensor, Tensor, Tensor]], Tensor]


def denoise(network: nn.Module, noisy: Tensor, levels: Tensor, labels: Tensor) -> Tensor:
    """Return the denoised pictures of those (n, c, h, w) with noise of deviation ``levels`` (n,)."""
    skip, out = _factors(levels)
    return skip * noisy + out * _predicted(lambda given: network(*given), noisy, levels, labels)


def draw_noise(
    examples: int, multiplicity: int, shape: Sequence[int], generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return ``multiplicity`` noise levels, and noise of deviation 1, for pictures of ``shape``."""
    levels = torch.exp(_MEAN + _DEVIATION * torch.randn((examples, multiplicity), generator=generator))
    return levels, torch.randn((examples, multiplicity, *shape), generator=generator)


def denoising_loss(forward: Forward, picture: Tensor, label: Tensor, levels: Tensor, noise: Tensor) -> Tensor:
    """Return the loss of one ``picture`` (c, h, w): the mean over its draws of ``levels`` and of ``noise``.

    Squared errors are summed over pixels, not averaged: gradients of single pictures are then much longer
    than usual clipping norms, so that clipping makes them all equally long and noise weighs least.
    """
    noisy = picture + levels.reshape(-1, 1, 1, 1) * noise
    skip, out = _factors(levels)
    wanted = (picture - skip * noisy) / out
    predicted = _predicted(forward, noisy, levels, label.expand(len(levels)))
    return (predicted - wanted).square().flatten(1).sum(dim=1).mean()


def _predicted(forward: Forward, noisy: Tensor, levels: Tensor, labels: Tensor) -> Tensor:
    size = (levels.square() + _SPREAD**2).sqrt().reshape(-1, 1, 1, 1)
    return forward((noisy / size, levels.log() / 4.0, labels))


def _factors(levels: Tensor) -> tuple[Tensor, Tensor]:
    """Return c_skip and c_out."""
    sigma = levels.reshape(-1, 1, 1, 1)
    whole = sigma.square() + _SPREAD**2
    return _SPREAD**2 / whole, _SPREAD * sigma / whole.sqrt()


def draw_pictures(
    network: nn.Module,
    labels: Tensor,
    shape: tuple[int, int, int],
    steps: int,
    generator: Generator,
    report: Callable[[float], None] = lambda share: None,
) -> Tensor:
    """Draw pictures (n, *``shape``) in [−1, 1] of ``labels`` (n,) in ``steps`` steps from noise.

    ``report`` gets the share done.
    """
    parts = []
    for part in torch.split(labels, _AT_ONCE):
        parts.append(_draw(network, part, shape, steps, generator))
        report(min(1.0, len(parts) * _AT_ONCE / len(labels)))
    return torch.cat(parts)


@torch.no_grad()
def _draw(
    network: nn.Module, labels: Tensor, shape: tuple[int, int, int], steps: int, generator: Generator
) -> Tensor:
    top, bottom = _HIGHEST ** (1.0 / _BEND), _LOWEST ** (1.0 / _BEND)
    levels = [(top + i * (bottom - top) / (steps - 1)) ** _BEND for i in range(steps)]
    pictures = _HIGHEST * torch.randn(len(labels), *shape, generator=generator)
    for level, below in zip(levels, [*levels[1:], 0.0], strict=True):
        denoised = denoise(network, pictures, torch.full((len(labels),), level), labels)
        pictures = denoised + (below / level) ** 2 * (pictures - denoised)
        if below:
            fresh = below * math.sqrt(level**2 - below**2) / level
            pictures += fresh * torch.randn(pictures.shape, generator=generator)
    return pictures.clamp(-1.0, 1.0)


class UNet(nn.Module):
    """Maps noisy pictures (n, *shape), log noise levels (n,) and labels (n,) to pictures of the same shape.

    ``shape`` is (channels, height, width); sides are 8 pixels or more, padded to multiples of 4 inside, and
    ``width`` is a multiple of 8. Pixels are folded 2 × 2 into channels first, so that the finer of the two
    scales has half the sides of the picture, with ``width`` channels. At the coarser one, matrices see the
    whole picture and know where each cell is: convolutions alone would take long to learn that. The weights
    come from ``generator``.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int, generator: Generator) -> None:
        super().__init__()
        channels, *sides = shape
        self.embedding = nn.Linear(2 * _FREQUENCIES + classes, _EMBEDDED)
        self.first = nn.Conv2d(4 * channels, width, 3, padding=1)
        self.fine = _Block(width, width)
        self.down = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.overview = _Overview(2 * width, (_cells(sides[0]), _cells(sides[1])))
        self.coarse = _Block(2 * width, 2 * width)
        self.up = nn.Conv2d(2 * width, width, 1)
        self.joined = _Block(2 * width, width)
        self.last = nn.Conv2d(width, 4 * channels, 3, padding=1)
        # Four octaves of the log noise level; labels twice as long as one of its waves.
        waves = math.pi / 2.0 * torch.logspace(0.0, 4.0, _FREQUENCIES, base=2.0)
        self.register_buffer("waves", waves)
        self.register_buffer("one_hot", 2.0 * torch.eye(classes))
        self._begin(generator)

    def forward(self, pictures: Tensor, levels: Tensor, labels: Tensor) -> Tensor:
        """Return the prediction for each row, from that row alone."""
        height, width = pictures.shape[2:]
        padded = functional.pad(pictures, (0, -width % 4, 0, -height % 4), mode="replicate")
        phases = levels[:, None] * self.get_buffer("waves")
        known = torch.cat([phases.sin(), phases.cos(), self.get_buffer("one_hot")[labels]], dim=1)
        known = functional.silu(self.embedding(known))
        fine = self.fine(self.first(functional.pixel_unshuffle(padded, 2)), known)
        coarse = self.up(self.coarse(self.overview(self.down(fine), known), known))
        coarse = functional.interpolate(coarse, scale_factor=2.0)
        joined = self.joined(torch.cat([coarse, fine], dim=1), known)
        predicted: Tensor = functional.pixel_shuffle(self.last(_active(joined)), 2)
        return predicted[:, :, :height, :width]

    def _begin(self, generator: Generator) -> None:
        """Uniform weights of variance 1/(3·inputs); the last layer is zero, and so is what is predicted."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                reach = 0.0 if layer is self.last else 1.0 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.weight, -reach, reach, generator=generator)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


class _Overview(nn.Module):
    """Adds what follows, at each cell of a grid, from all cells together and from what is known."""

    def __init__(self, channels: int, cells: tuple[int, int]) -> None:
        super().__init__()
        self.cells = cells
        size = _CHANNELS * cells[0] * cells[1]
        self.squeezed = nn.Conv2d(channels, _CHANNELS, 1)
        self.read = nn.Linear(size + _EMBEDDED, _HIDDEN)
        self.answer = nn.Linear(_HIDDEN + _EMBEDDED, size)
        self.spread = nn.Conv2d(_CHANNELS, channels, 1)

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        seen = functional.adaptive_avg_pool2d(self.squeezed(_active(values)), self.cells).flatten(1)
        hidden = functional.silu(self.read(torch.cat([seen, known], dim=1)))
        answer = self.answer(torch.cat([hidden, known], dim=1)).reshape(-1, _CHANNELS, *self.cells)
        added: Tensor = self.spread(functional.interpolate(answer, size=values.shape[2:]))
        return values + added


class _Block(nn.Module):
    """Two convolutions and a way past them; between them scale and shift by what is known."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, padding=1)
        self.scales = nn.Linear(_EMBEDDED, 2 * out)
        self.second = nn.Conv2d(out, out, 3, padding=1)
        self.past = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, values: Tensor, known: Tensor) -> Tensor:
        scale, shift = self.scales(known)[:, :, None, None].chunk(2, dim=1)
        inner = functional.group_norm(self.first(_active(values)), _GROUPS)
        summed: Tensor = self.past(values) + self.second(functional.silu(inner * (1.0 + scale) + shift))
        return summed


def _cells(side: int) -> int:
    return min(math.ceil(side / 4), _CELLS)


def _active(values: Tensor) -> Tensor:
    return functional.silu(functional.group_norm(values, _GROUPS))
