"""Each layer's gradient is clipped to a length of its own.

One length for all layers lets a layer with large gradients drown the others in every example that is clipped.
Here layer l of an example is cut to length C_l alone, whatever the other layers do, and the noise of all
layers has deviation z·C with C = √ΣC_l².

**Guarantee.** Unit: record, zero-out neighbours. A null record in the place of an example takes the example's
own vector from the sum; its parts are at most C_l long, so that it is at most √ΣC_l² = C long: a sum is the
Gaussian mechanism of multiplier z. On the grid a step is C·2⁻²⁰, and layer l is scaled to at most
2²⁰·C_l/C steps by 2²⁰(1 − 2⁻²⁰)(C_l/C)/max(‖g_l‖, C_l), then rounded toward zero; the margin covers rounding
as in :mod:`sfumato.learners.noisy_sum`, and C is taken a hair too large. A layer longer than 2¹⁰⁰ counts as
not finite, so that scales are normal float32 numbers (C_l/C is 2⁻²⁰ or more); an example with such a layer
counts as zero in that layer, which is a function of the example alone.

Lengths are declared here. :mod:`sfumato.learners.layer_quantiles` reads them off the data, and pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from sfumato.errors import BadInput
from sfumato.learners.noisy_sum import MARGIN, RADIUS, ClippedSum, clip_and_multiplier
from sfumato.mechanisms.parameters import positives, shown

__all__ = ["LONGEST", "LayerPart", "LayerSum", "layers_of"]

#: A longer layer counts as not finite.
LONGEST = 2.0**100
_SMALLEST_SHARE = 2.0**-20


def layers_of(model: Module) -> list[list[int]]:
    """Which of the trainable parameters of ``model``, by position, belong to one module."""
    positions = {
        id(parameter): place
        for place, parameter in enumerate(part for part in model.parameters() if part.requires_grad)
    }
    layers = []
    for module in model.modules():
        own = [positions.pop(id(part)) for part in module.parameters(recurse=False) if id(part) in positions]
        if own:
            layers.append(sorted(own))
    return layers


class LayerSum(ClippedSum):
    """Sums gradients of which layer l, the parameters ``layers[l]``, is clipped to length ``clips[l]``."""

    def __init__(self, clips: Sequence[float], layers: Sequence[Sequence[int]]) -> None:
        lengths = positives(list(clips))
        if lengths is None or len(lengths) != len(layers):
            raise BadInput(
                f"the lengths of layers were {shown(clips)}: one positive number for each of {len(layers)} "
                "layers is needed."
            )
        for length in lengths:
            clip_and_multiplier(float(length), 1.0)
        super().__init__(_together(lengths.tolist()))
        self._use(lengths.tolist())
        if min(self.clips) < _SMALLEST_SHARE * self.clip:
            raise BadInput(
                f"the lengths of layers were {shown(clips)}: none may be less than a millionth of the whole."
            )
        self.layers = [list(layer) for layer in layers]
        places = [place for layer in self.layers for place in layer]
        if sorted(places) != list(range(len(places))):
            raise BadInput("the layers must hold each parameter once.")

    def exact(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The sums in whole steps, without noise, in float64; each gradient has one row an example."""
        sums: list[Tensor] = [torch.empty(0)] * len(gradients)
        for layer, part in zip(self.layers, self._parts, strict=True):
            totals = part.exact([gradients[place] for place in layer])
            for place, total in zip(layer, totals, strict=True):
                sums[place] = total
        return sums

    def _use(self, clips: Sequence[float]) -> None:
        """Clip to ``clips`` from now on."""
        self.clips, self.clip = tuple(clips), _together(clips)
        self._parts = [self._part(clip) for clip in self.clips]

    def _part(self, clip: float) -> LayerPart:
        return LayerPart(clip, self.clip)


def _together(clips: Sequence[float]) -> float:
    """√ΣC_l², a hair too large."""
    return math.nextafter(math.sqrt(math.fsum(clip**2 for clip in clips)) * (1.0 + 2.0**-50), math.inf)


class LayerPart(ClippedSum):
    """One layer, cut to ``clip`` and counted in steps of ``whole`` / RADIUS."""

    def __init__(self, clip: float, whole: float) -> None:
        super().__init__(clip)
        self._most = float(np.nextafter(RADIUS * MARGIN * (clip / whole), 0.0))

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        scales = self._most / lengths.clamp_min(self.clip)
        return torch.where(lengths <= LONGEST, scales, 0.0)
