"""Drawing pictures from a denoiser in a few steps, from noise alone to a picture.

Noise levels fall as by Karras et al. 2022, equation 5. From level a to level b the picture is set to
D + (x − D)·√(b² − u²)/a plus fresh noise of deviation u, where D is the denoised picture. ``renewal`` 0 gives
u = 0, the deterministic DDIM (Song et al. 2021); 1 gives the whole posterior deviation u = b·√(a² − b²)/a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from sfumato.publishers.diffusion.denoising import Denoiser

__all__ = ["Sampler"]

_BEND = 5.0
_AT_ONCE = 250


@dataclass(frozen=True)
class Sampler:
    """Draws in ``steps`` steps from noise level ``highest`` down to ``lowest``, then to none at all."""

    steps: int = 14
    renewal: float = 1.0
    highest: float = 20.0
    lowest: float = 0.03

    def draw(
        self,
        denoiser: Denoiser,
        labels: Tensor,
        shape: tuple[int, int, int],
        generator: Generator,
        report: Callable[[float], None] = lambda share: None,
    ) -> Tensor:
        """Pictures (n, c, h, w) in [−1, 1] of ``labels`` (n,); ``report`` gets the share that is done."""
        parts = []
        for part in torch.split(labels, _AT_ONCE):
            parts.append(self._part(denoiser, part, shape, generator))
            report(min(1.0, len(parts) * _AT_ONCE / len(labels)))
        return torch.cat(parts)

    @torch.no_grad()
    def _part(
        self, denoiser: Denoiser, labels: Tensor, shape: tuple[int, int, int], generator: Generator
    ) -> Tensor:
        pictures = self.highest * torch.randn(len(labels), *shape, generator=generator)
        for level, below in self.levels():
            denoised = denoiser(pictures, torch.full((len(labels),), level), labels)
            fresh = self.renewal * below * math.sqrt(level**2 - below**2) / level
            kept = math.sqrt(below**2 - fresh**2) / level
            pictures = denoised + kept * (pictures - denoised)
            if fresh:
                pictures += fresh * torch.randn(pictures.shape, generator=generator)
        return pictures.clamp(-1.0, 1.0)

    def levels(self) -> Iterator[tuple[float, float]]:
        """Each level with the one below it; the last goes to 0."""
        top, bottom = self.highest ** (1.0 / _BEND), self.lowest ** (1.0 / _BEND)
        falling = [(top + i * (bottom - top) / (self.steps - 1)) ** _BEND for i in range(self.steps)]
        return zip(falling, [*falling[1:], 0.0], strict=True)
