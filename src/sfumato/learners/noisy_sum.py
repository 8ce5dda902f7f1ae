"""The sum of clipped gradients of single examples, with noise, on an integer grid.

Each example's gradient g, in float32, is scaled to length at most (1 − 2⁻²⁰)·C and rounded toward zero to
whole steps of C·2⁻²⁰; the integers of all examples are summed exactly and an integer is added: real Gaussian
noise of deviation ``multiplier``·C, rounded. What leaves is that integer vector, times a public constant.

**Guarantee.** Adding or removing one example moves the integer vector by its own k, with ‖k‖ ≤ 2²⁰ steps:

- squares of float32 numbers are exact in float64 and do not underflow; a sum of fewer than 2³² of them, in
  any order, errs by a factor of 1 ± 2⁻²¹, so the true length is at most 1 + 2⁻²¹ times the computed one, the
  roundings of its root and of the scale in float64 included;
- the scale and its product with an entry are each rounded once in float32. With C from 1e-30 to 1e30 the
  scale lies between 2⁻¹²⁴ and 2¹²⁰ and is a normal number, so that is a factor of at most (1 + 2⁻²⁴)² where
  the product is normal too; a smaller product is cut to 0. (1 − 2⁻²⁰)(1 + 2⁻²¹)(1 + 2⁻²⁴)² < 1;
- rounding toward zero shortens every entry.

Entries are whole numbers of at most 2²⁰, so 16 of them add up exactly in float32, and fewer than 2³² in
float64. Rounding an integer plus real noise is post-processing of the real mechanism, so one sum is the
Gaussian mechanism with ``multiplier``, and no slack is left. A gradient that is not finite in float32 counts
as zero, which is a function of its example alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import positive, shown
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["MARGIN", "RADIUS", "ClippedSum", "NoisySum", "clip_and_multiplier"]

#: Steps across the clip; whole numbers up to it are exact in float32, and so are sums of 16 of them.
RADIUS = float(1 << 20)
#: What a scale to steps is shortened by, so that rounding cannot lift a gradient over the clip.
MARGIN = 1.0 - 2.0**-20
_TOGETHER = 16
# Inside these the scale from gradients to steps is a normal float32 number.
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-30, 1e30
_LARGEST_MULTIPLIER = 1e5


def clip_and_multiplier(clip: float, multiplier: float) -> tuple[float, float]:
    """Both as floats, if sums can be made with them."""
    clip, multiplier = positive("clip", clip), positive("multiplier", multiplier)
    if not _SMALLEST_CLIP <= clip <= _LARGEST_CLIP:
        raise BadInput(
            f"`clip` was {shown(clip)}: gradients are summed for clips from {_SMALLEST_CLIP:g} to "
            f"{_LARGEST_CLIP:g}.",
            parameter="clip",
        )
    if multiplier > _LARGEST_MULTIPLIER:
        raise BadInput(
            f"`multiplier` was {shown(multiplier)}: noise of at most {_LARGEST_MULTIPLIER:g} times the "
            "clip is "
            "drawn.",
            parameter="multiplier",
        )
    return clip, multiplier


class ClippedSum:
    """Sums gradients of examples clipped to length ``clip``, exactly and without noise.

    One example moves the sum by at most ``RADIUS`` steps in length; a step is ``clip`` / ``RADIUS``.
    """

    def __init__(self, clip: float) -> None:
        self.clip = clip_and_multiplier(clip, 1.0)[0]

    def exact(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The sums in whole steps, without noise, in float64; each gradient has one row an example."""
        count = len(gradients[0])
        flat = [part.detach().float().reshape(count, math.prod(part.shape[1:])) for part in gradients]
        scales = self._scales(flat)
        kept = scales > 0.0
        if not kept.all():
            # Zero times what is not finite would not be zero.
            flat, scales = [rows[kept] for rows in flat], scales[kept]
        sums = []
        for part, rows in zip(gradients, flat, strict=True):
            total = torch.zeros(rows.shape[1], dtype=torch.float64)
            # A few rows at a time stay in the processor's cache.
            for some, scale in zip(torch.split(rows, _TOGETHER), torch.split(scales, _TOGETHER), strict=True):
                total += (some * scale[:, None]).trunc_().sum(dim=0)
            sums.append(total.reshape(part.shape[1:]))
        return sums

    def _scales(self, flat: Sequence[Tensor]) -> Tensor:
        """What takes each example's gradient to steps: float32, (examples,), 0 where it is not finite."""
        squares = torch.zeros(len(flat[0]), dtype=torch.float64)
        for rows in flat:
            for some, square in zip(
                torch.split(rows, _TOGETHER), torch.split(squares, _TOGETHER), strict=True
            ):
                square += some.double().square_().sum(dim=1)
        return torch.where(squares.isfinite(), self._of_lengths(squares.sqrt()), 0.0).float()

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        """What takes gradients of these ``lengths`` to steps, float64; NaN stays NaN."""
        return RADIUS * MARGIN / lengths.clamp_min(self.clip)


class NoisySum(ClippedSum):
    """Sums gradients of examples clipped to length ``clip`` with noise of ``multiplier`` × ``clip``."""

    def __init__(self, clip: float, multiplier: float, stream: Stream) -> None:
        super().__init__(clip)
        self.multiplier = clip_and_multiplier(clip, multiplier)[1]
        self._noise = Rounded(NORMAL, [float(np.nextafter(self.multiplier * RADIUS, np.inf))])
        self._stream = stream

    def __call__(self, gradients: Sequence[Tensor], shapes: Sequence[torch.Size]) -> list[Tensor]:
        """The noisy sums in the units of the gradients, float32; ``shapes`` are those of the parameters.

        Where no example was drawn (``gradients`` is empty) they are noise alone.
        """
        sizes = [shape.numel() for shape in shapes]
        noise = torch.split(torch.from_numpy(self._noise.draw(self._stream, sum(sizes))[0]), sizes)
        sums = self.exact(gradients) if gradients else [torch.zeros(shape) for shape in shapes]
        step = self.clip / RADIUS
        return [
            ((total.double() + drawn.reshape(shape)) * step).float()
            for total, drawn, shape in zip(sums, noise, shapes, strict=True)
        ]
