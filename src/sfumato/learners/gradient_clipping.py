"""Sums of clipped gradients of single examples, exact on an integer grid; adaptive clipping norms.

**Clipped sums.** Each example's gradient g, in float32, is scaled to length at most (1 − 2⁻²⁰)·C, where C is
the clipping norm, and rounded toward zero to whole steps of C·2⁻²⁰; the integers of all examples are summed
exactly. Noise is added to that sum by :mod:`~sfumato.learners.dp_sgd`.

**Guarantee.** Unit: record, zero-out neighbours. A null record in the place of an example takes the example's
own vector k from the integer sum, with ‖k‖ ≤ 2²⁰ steps:

- squares of float32 numbers are exact in float64 and do not underflow; a sum of fewer than 2³² of them, in
  any order, errs by a factor of 1 ± 2⁻²¹, so the true length is at most 1 + 2⁻²¹ times the computed one, the
  roundings of its root and of the scale in float64 included;
- the scale and its product with an entry are each rounded once in float32. With C from 1e-30 to 1e30 the
  scale lies between 2⁻¹²⁴ and 2¹²⁰ and is a normal number, so that is a factor of at most (1 + 2⁻²⁴)² where
  the product is normal too; a smaller product is cut to 0. (1 − 2⁻²⁰)(1 + 2⁻²¹)(1 + 2⁻²⁴)² < 1;
- rounding toward zero shortens every entry.

Entries are whole numbers of at most 2²⁰, so 16 of them add up exactly in float32, and fewer than 2³² in
float64. A gradient that is not finite in float32 counts as zero, which is a function of its example alone.

**Automatic clipping** (``gamma``) replaces g by g/(‖g‖ + γ) (Bu, Wang, Zha & Karypis 2023, "AUTO-S"), so
that no clipping norm has to be chosen; γ keeps the smallest gradients from counting as much as large ones.
Every vector is shorter than 1 = C: the scale 2²⁰(1 − 2⁻²⁰)/(‖g‖ + γ) is never larger than that of a clipping
norm of ‖g‖, so the bounds on rounding hold as they stand, and γ from 1e-30 to 1e30 keeps it a normal float32
number. This is the baseline *Autoclip* of CompactDP's Table 4.

**Layer clipping** (``layers``) clips layer l of an example to a norm C_l of its own, whatever its other
layers do, so that a layer with large gradients does not outweigh the others. The vector of an example is at
most √ΣC_l² = C long. On the grid a step is C·2⁻²⁰, and layer l is scaled by 2²⁰(1 − 2⁻²⁰)(C_l/C)/max(‖g_l‖,
C_l); C is rounded upward. Here a layer that is longer than 2¹⁰⁰ counts as not finite, so that scales
are normal float32 numbers (C_l/C is 2⁻²⁰ or more); it counts as zero in that layer of its example.

**Quantile clipping** (``quantiles``). Each of the L clipping norms follows a quantile of the lengths of its
layer (L = 1 without layers), privately, and pays for it in the same step (Andrew, Thakkar, McMahan &
Ramaswamy 2021, Algorithm 1; there an average over users, here Poisson samples). In every step each example
that was taken gives one bit for each layer: was its gradient there at most C_l long? The bits of a layer,
each less ½, are summed with noise of deviation σ_b, and C_l becomes C_l·exp(−η(b̃ − quantile)), where b̃ is
the noisy share of ones: the sum over the *expected* number of examples, plus ½.

*Guarantee.* Where the record is taken, it adds to the step's release the vector (g̃, b − ½) with ‖g̃‖ ≤ C
and b ∈ {0, 1}^L. Every entry of b − ½ is ½ or −½, so its length is √L/2, whatever the bits are. The null
record in its place adds (0, 0). With deviations z_Δ·C of gradients and σ_b of each count, both divided by
their deviation, the record moves the whole by at most

    √(1/z_Δ² + L/(2σ_b)²) = 1/z,

so the releases of a step are together one Gaussian mechanism of multiplier z, and on a Poisson sample the
Poisson-sampled Gaussian of multiplier z. With ``share`` s of 1/z² paid for all counts z_Δ = z/√(1 − s) and
2σ_b = z√L/√s. The bound is attained by a gradient that is C_l long or longer in every layer. The next norms
are functions of what was released; they may be chosen so, since z does not depend on them. Bits are summed as
whole numbers ±1 in steps of 2⁻²⁰ with noise rounded to such a step, so no slack is left. What is not finite
adds to neither sum, which is a shorter vector.

*Edge cases.* No clipping norm leaves [2⁻²⁰, 2²⁰] times its first value; after a step none is below 2⁻¹⁰ of
the largest (it is lifted there): noise would exceed it anyway.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from sfumato.errors import BadInput
from sfumato.mechanisms import positive, positives, proper_share, shown
from sfumato.noise import NORMAL, Rounded, Stream

#: Steps across the clipping norm; whole numbers up to it are exact in float32, and so are sums of 16 of them.
RADIUS = float(1 << 20)
# What a scale to steps is shortened by, so that rounding cannot lift a gradient over the clipping norm.
_MARGIN = 1.0 - 2.0**-20
_TOGETHER = 16
# Inside these the scale from gradients to steps is a normal float32 number.
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-30, 1e30
_LARGEST_MULTIPLIER = 1e5
# Where layers are clipped, a longer one counts as not finite.
_LONGEST = 2.0**100
_SMALLEST_SHARE = 2.0**-20
_FURTHEST = 2.0**20
# Above the last digits of roots and quotients.
_HAIR = 1.0 + 2.0**-48
_LEAST_OF_LARGEST = 2.0**-10


def checked_multiplier(multiplier: float) -> float:
    """Return ``multiplier`` as a float, if noise of so many clipping norms can be drawn."""
    if positive("multiplier", multiplier) > _LARGEST_MULTIPLIER:
        raise BadInput(
            f"`multiplier` was {shown(multiplier)}: noise of at most {_LARGEST_MULTIPLIER:g} times the "
            "clipping norm can be drawn.",
            parameter="multiplier",
        )
    return float(multiplier)


def _check_clip(clip: float) -> None:
    if not _SMALLEST_CLIP <= positive("clip", clip) <= _LARGEST_CLIP:
        raise BadInput(
            f"`clip` was {shown(clip)}: a clipping norm from {_SMALLEST_CLIP:g} to {_LARGEST_CLIP:g} is "
            "needed.",
            parameter="clip",
        )


def group_layers(model: Module) -> list[list[int]]:
    """Return the positions of trainable parameters of ``model`` that belong to one module."""
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


@dataclass(frozen=True)
class Quantiles:
    """How clipping norms follow the ``quantile`` of gradient lengths; ``pace`` is η.

    ``expected`` is the public number of examples expected in a step, ``share`` the counts' part of 1/z².
    """

    expected: float
    quantile: float = 0.5
    share: float = 0.01
    pace: float = 0.2

    def __post_init__(self) -> None:
        for name in ("quantile", "share"):
            proper_share(name, getattr(self, name))
        for name in ("expected", "pace"):
            positive(name, getattr(self, name))

    @property
    def stretch(self) -> float:
        """z_Δ/z = 1/√(1 − ``share``): how much more noise gradients get, so that the counts can be paid."""
        return _HAIR / math.sqrt(1.0 - self.share)

    def release(self, bits: Sequence[int], multiplier: float, stream: Stream) -> list[float]:
        """Return the noisy share of ones of each sum of ±1 in ``bits``, in a step of ``multiplier``."""
        # Of the sum of ±1, which is twice that of the shifted bits: 2σ_b.
        deviation = checked_multiplier(multiplier) * math.sqrt(len(bits) / self.share)
        drawn = Rounded(NORMAL, [math.nextafter(deviation * _HAIR * RADIUS, math.inf)]).draw(
            stream, len(bits)
        )[0]
        return [
            0.5 + 0.5 * (count + float(noise) / RADIUS) / self.expected
            for count, noise in zip(bits, drawn, strict=True)
        ]

    def move(self, clip: float, first: float, inside: float) -> float:
        """Return the norm after ``clip``, of which the share ``inside`` was released; ``first`` was first."""
        # An exponent beyond this reaches the end of the range from anywhere in it.
        change = min(max(-self.pace * (inside - self.quantile), -30.0), 30.0)
        return min(max(clip * math.exp(change), first / _FURTHEST), first * _FURTHEST)


class ClippedSum:
    """Sums gradients of single examples, clipped, exactly and without noise.

    ``clips`` is one clipping norm for the whole gradient, or one for each of ``layers``, lists of positions
    of parameters. With ``gamma`` gradients are normalised instead of clipped. With ``quantiles`` the norms
    move at each :meth:`advance`. One example moves the sum by at most ``RADIUS`` steps of ``clip`` /
    ``RADIUS``.
    """

    def __init__(
        self,
        clips: float | Sequence[float] = 1.0,
        layers: Sequence[Sequence[int]] | None = None,
        *,
        gamma: float | None = None,
        quantiles: Quantiles | None = None,
    ) -> None:
        if layers is None:
            _check_clip(clips)  # type: ignore[arg-type]
            clips = [float(clips)]  # type: ignore[arg-type]
        else:
            clips = self._checked_layers(clips, layers)
        if gamma is not None and not 1e-30 <= positive("gamma", gamma) <= 1e30:
            raise BadInput(
                f"`gamma` was {shown(gamma)}: it must lie between 1e-30 and 1e30.", parameter="gamma"
            )
        if quantiles is not None:
            for clip in clips:
                _check_clip(clip / _FURTHEST)
                _check_clip(clip * _FURTHEST)
        self.layers, self.gamma, self.quantiles = layers, gamma, quantiles
        self._first = clips
        self._use(clips)

    @property
    def stretch(self) -> float:
        """How much more noise gradients get, so that the counts of quantiles can be paid; 1 without them."""
        return 1.0 if self.quantiles is None else self.quantiles.stretch

    def exact(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums in whole steps, without noise, in float64; each gradient has one row an example."""
        sums: list[Tensor] = [torch.empty(0)] * len(gradients)
        for number, layer in enumerate(self.layers or [range(len(gradients))]):
            for place, total in zip(layer, self._sum([gradients[at] for at in layer], number), strict=True):
                sums[place] = total
        return sums

    def advance(self, multiplier: float, stream: Stream) -> list[float]:
        """Release the bits of a step that has ``multiplier`` in all, and set the next clipping norms.

        Returns, for each norm, the noisy share of gradients that were at most as long. Without quantiles it
        does nothing.
        """
        if self.quantiles is None:
            return []
        inside = self.quantiles.release(self._bits, multiplier, stream)
        moved = [
            self.quantiles.move(clip, first, share)
            for clip, first, share in zip(self.clips, self._first, inside, strict=True)
        ]
        self._use([max(clip, _LEAST_OF_LARGEST * max(moved)) for clip in moved])
        return inside

    def _checked_layers(self, clips: object, layers: Sequence[Sequence[int]]) -> list[float]:
        lengths = positives(clips)
        if lengths is None or len(lengths) != len(layers):
            raise BadInput(
                f"the clipping norms of layers were {shown(clips)}: one positive number for each of "
                f"{len(layers)} layers is needed."
            )
        found = [float(length) for length in lengths]
        for clip in found:
            _check_clip(clip)
        if min(found) < _SMALLEST_SHARE * math.hypot(*found):
            raise BadInput(
                f"the clipping norms of layers were {shown(clips)}: none may be less than a millionth of "
                "the whole."
            )
        places = [place for layer in layers for place in layer]
        if sorted(places) != list(range(len(places))):
            raise BadInput("the layers must hold each parameter once.")
        return found

    def _use(self, clips: Sequence[float]) -> None:
        """Clip to ``clips`` from now on."""
        self.clips, self._bits = list(clips), [0] * len(clips)
        # √ΣC_l², rounded upward.
        whole = math.nextafter(math.hypot(*clips) * (1.0 + 2.0**-50), math.inf)
        self.clip = whole if len(clips) > 1 else clips[0]

    def _sum(self, gradients: Sequence[Tensor], layer: int) -> list[Tensor]:
        """Return the sums of the parameters of one layer."""
        count = len(gradients[0])
        flat = [part.detach().float().reshape(count, math.prod(part.shape[1:])) for part in gradients]
        scales = self._scales(flat, layer)
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

    def _scales(self, flat: Sequence[Tensor], layer: int) -> Tensor:
        """Return the factor of each example's gradient to steps: float32, (examples,), 0 if not finite."""
        squares = torch.zeros(len(flat[0]), dtype=torch.float64)
        for rows in flat:
            for some, square in zip(
                torch.split(rows, _TOGETHER), torch.split(squares, _TOGETHER), strict=True
            ):
                square += some.double().square_().sum(dim=1)
        lengths, clip = squares.sqrt(), self.clips[layer]
        finite = lengths <= (sys.float_info.max if self.layers is None else _LONGEST)
        if self.quantiles is not None:
            self._bits[layer] += 2 * int((lengths[finite] <= clip).sum()) - int(finite.sum())
        most = math.nextafter(RADIUS * _MARGIN * (clip / self.clip), 0.0)
        divisors = lengths.clamp_min(clip) if self.gamma is None else lengths + self.gamma
        return torch.where(finite, most / divisors, 0.0).float()
