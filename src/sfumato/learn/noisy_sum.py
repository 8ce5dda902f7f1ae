"""The sum of clipped gradients of single examples, with noise, on an integer grid.

Each example's gradient g is scaled to length at most (1 − 2⁻²⁰)·C and rounded toward zero to whole steps of
C·2⁻²⁰; the integers of all examples are summed exactly and an integer is added: real Gaussian noise of
deviation ``multiplier``·C, rounded. What leaves is that integer vector, times a public constant.

**Guarantee.** Adding or removing one example moves the integer vector by its own k, with ‖k‖ ≤ 2²⁰ steps:

- the length of g is summed in float64 over fewer than 2³² float32 entries, so the true length is at most
  1 + 2⁻²⁰·2⁻¹ times the computed one; the scale and its product with an entry are each rounded once in
  float32, a factor of at most (1 + 2⁻²⁴)² in all; (1 − 2⁻²⁰)(1 + 2⁻²¹)(1 + 2⁻²⁴)² < 1;
- rounding toward zero shortens every entry; entries are below 2²⁰ and hence whole in float32.

Sums of fewer than 2³² such integers stay below 2⁵³ and are exact in float64. Rounding an integer plus real
noise is post-processing of the real mechanism, so one sum is the Gaussian mechanism with ``multiplier``, and
no slack is left. A gradient that is not finite counts as zero, which is a function of its example alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sfumato.mechanisms.parameters import positive
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["NoisySum"]

# Steps across the clip; whole numbers up to it are exact in float32.
_RADIUS = float(1 << 20)
_MARGIN = 1.0 - 2.0**-20


class NoisySum:
    """Sums gradients of examples clipped to length ``clip`` with noise of ``multiplier`` × ``clip``."""

    def __init__(self, clip: float, multiplier: float, stream: Stream) -> None:
        self.clip = positive("clip", clip)
        self.multiplier = positive("multiplier", multiplier)
        self._noise = Rounded(NORMAL, [np.nextafter(self.multiplier * _RADIUS, np.inf)])
        self._stream = stream

    def exact(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The sums in whole steps, without noise, in float64; each gradient has one row an example."""
        squares = sum(
            (part.detach().flatten(1).double().square().sum(dim=1) for part in gradients),
            start=torch.zeros(len(gradients[0]), dtype=torch.float64),
        )
        # An infinite or missing length gives a scale of 0; a length of 0 needs none.
        scales = (_RADIUS * _MARGIN / self.clip) * torch.clamp(
            self.clip / squares.sqrt().clamp_min(torch.finfo(torch.float64).tiny), max=1.0
        )
        scales = torch.where(squares.isfinite(), scales, 0.0).float()
        sums = []
        for part in gradients:
            whole = part.detach().float() * scales.reshape(-1, *[1] * (part.ndim - 1))
            if not squares.isfinite().all():
                whole = whole.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            sums.append(whole.trunc_().sum(dim=0, dtype=torch.float64))
        return sums

    def __call__(self, gradients: Sequence[Tensor], shapes: Sequence[torch.Size]) -> list[Tensor]:
        """The noisy sums in the units of the gradients, float32; ``shapes`` are those of the parameters.

        Where no example was drawn (``gradients`` is empty) they are noise alone.
        """
        sizes = [shape.numel() for shape in shapes]
        noise = torch.split(torch.from_numpy(self._noise.draw(self._stream, sum(sizes))[0]), sizes)
        sums = self.exact(gradients) if gradients else [torch.zeros(shape) for shape in shapes]
        step = self.clip / _RADIUS
        return [
            ((total.double() + drawn.reshape(shape)) * step).float()
            for total, drawn, shape in zip(sums, noise, shapes, strict=True)
        ]
