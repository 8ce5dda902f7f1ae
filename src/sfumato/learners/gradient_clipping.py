"""Sums of clipped gradients of single examples, on an integer grid, with and without noise.

**Clipped sums** (:class:`ClippedSum`, :class:`NoisySum`). Each example's gradient g, in float32, is scaled to
length at most (1 − 2⁻²⁰)·C and rounded toward zero to whole steps of C·2⁻²⁰; the integers of all examples are
summed exactly and an integer is added: real Gaussian noise of deviation ``multiplier``·C, rounded. What
leaves is that integer vector, times a public constant.

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

**Automatic clipping** (:class:`NormalisedSum`) brings every gradient to nearly the same length, so that no
clip is chosen. The gradient g of an example is replaced by g/(‖g‖ + γ) (Bu, Wang, Zha & Karypis 2023,
"AUTO-S"), which has a length below 1 whatever g is; γ keeps the smallest gradients from counting as much as
large ones. This is the baseline *Autoclip* of CompactDP's Table 4.

*Guarantee.* Unit: record, zero-out neighbours. In whole steps of 2⁻²⁰ an example contributes a vector k of
its own alone, with ‖k‖ ≤ 2²⁰: the scale 2²⁰(1 − 2⁻²⁰)/(‖g‖ + γ) is never larger than the one that
:class:`NoisySum` uses with a clip of ‖g‖, so the bounds on rounding given above hold word for
word, and γ from 1e-30 to 1e30 keeps it a normal float32 number. A sum with noise of multiplier z is therefore
the Gaussian mechanism of multiplier z, and all that is proven of clipped sums holds of these.

**Layer clipping** (:class:`LayerSum`) clips each layer's gradient to a length of its own. One length for all
layers lets a layer with large gradients drown the others in every example that is clipped. Here layer l of an
example is cut to length C_l alone, whatever the other layers do, and the noise of all layers has deviation
z·C with C = √ΣC_l². Lengths are declared; :class:`LayerQuantileSum` reads them off the data, and pays for it.

*Guarantee.* Unit: record, zero-out neighbours. A null record in the place of an example takes the example's
own vector from the sum; its parts are at most C_l long, so that it is at most √ΣC_l² = C long: a sum is the
Gaussian mechanism of multiplier z. On the grid a step is C·2⁻²⁰, and layer l is scaled to at most
2²⁰·C_l/C steps by 2²⁰(1 − 2⁻²⁰)(C_l/C)/max(‖g_l‖, C_l), then rounded toward zero; the margin covers rounding
as in :class:`NoisySum`, and C is taken a hair too large. A layer longer than 2¹⁰⁰ counts as
not finite, so that scales are normal float32 numbers (C_l/C is 2⁻²⁰ or more); an example with such a layer
counts as zero in that layer, which is a function of the example alone.

**Quantile clipping** (:class:`QuantileSum`). The clip follows a quantile of the gradients' lengths,
privately, and pays for it in the same step. In every step each example that was taken also gives one bit: was
its gradient at most C_t long? The bits, each less 1/2, are summed with noise, and
C_{t+1} = C_t·exp(−η(b̃ − quantile)), where b̃ is the noisy share of ones: the sum over the *expected* number of
examples, plus 1/2 (Andrew, Thakkar, McMahan & Ramaswamy 2021, Algorithm 1; there an average over users, here
Poisson samples).

*Guarantee.* Unit: record, zero-out neighbours. Where the record is taken, it adds to the step's release the
vector (g̃, b − 1/2) with ‖g̃‖ ≤ C_t and |b − 1/2| = 1/2; the null record in its place adds (0, 0). With noise
of z_Δ·C_t on the first and σ_b on the second, both divided by their deviation, the record moves the pair by
at most

    √(1/z_Δ² + 1/(2σ_b)²) = 1/z,

so the two releases of a step together are one Gaussian mechanism of multiplier z, and on a Poisson sample the
Poisson-sampled Gaussian of multiplier z. C_{t+1} is a function of what was released; a later step's clip may
be chosen so, since the multiplier z does not depend on it. With ``share`` s of 1/z² paid for the bit,
z_Δ = z/√(1 − s) and 2σ_b = z/√s. The bound is attained by a gradient of length C_t or more, with either bit.

Bits are summed as whole numbers ±1 in steps of 2⁻²⁰ with noise rounded to such a step, so no slack is left.
A gradient that is not finite adds to neither sum.

*Edge cases.* The clip never leaves [C_0·2⁻²⁰, C_0·2²⁰].

**Layer quantiles** (:class:`LayerQuantileSum`). Each layer's clip follows a quantile of its own gradients,
privately, and pays for it in the same step. In every step each example that was taken gives one bit for each
of L layers: was its part of the gradient at most C_l long? The bits of each layer are summed with noise of
its own, and C_l follows the noisy share of ones as the one clip of :class:`QuantileSum` does (Andrew,
Thakkar, McMahan & Ramaswamy 2021, one count a layer). Gradients are those of :class:`LayerSum` with the
present lengths, under noise of z_Δ·C with C = √ΣC_l².

*Guarantee.* Unit: record, zero-out neighbours. Where the record is taken, it adds to the step's release the
vector (g̃, b − ½) with ‖g̃‖ ≤ C and b ∈ {0, 1}^L. Every entry of b − ½ is ½ or −½, so that its length is √L/2,
whatever the bits are: twice the shifted bits, ±1, have an L2 sensitivity of √L. The null record in its place
adds (0, 0). With deviations z_Δ·C of gradients and σ_b of each count, both divided by their deviation, the
record moves the whole by at most

    √(1/z_Δ² + L/(2σ_b)²) = 1/z,

and the releases of a step are together one Gaussian mechanism of multiplier z. With ``share`` s of 1/z² paid
for all counts together z_Δ = z/√(1 − s), as for one count, and 2σ_b = z√L/√s. The bound is attained by a
gradient that is C_l long or longer in every layer l. All C_l are functions of what was released,
and z does not depend on them: on samples, and composed over steps, it is what is proven for one clip.

Bits are summed as whole numbers ±1 in steps of 2⁻²⁰ with noise rounded to such a step. A layer that is not
finite, or longer than layer clipping takes, adds to neither sum, which is a shorter vector.

*Edge cases.* No clip falls or rises by more than 2²⁰ from its first length; after a step none is below 2⁻¹⁰
of the largest (it is lifted there): noise would drown it anyway, and layer clipping scales lengths so near to
each other by normal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from sfumato.errors import BadInput
from sfumato.mechanisms import positive, positives, shown
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["NoisySum"]

#: Steps across the clip; whole numbers up to it are exact in float32, and so are sums of 16 of them.
RADIUS = float(1 << 20)
#: What a scale to steps is shortened by, so that rounding cannot lift a gradient over the clip.
MARGIN = 1.0 - 2.0**-20
_TOGETHER = 16
# Inside these the scale from gradients to steps is a normal float32 number.
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-30, 1e30
_LARGEST_MULTIPLIER = 1e5
#: A longer layer counts as not finite.
LONGEST = 2.0**100
_SMALLEST_SHARE = 2.0**-20
_FURTHEST = 2.0**20
# Above the last digits of the roots and quotients below.
_HAIR = 1.0 + 2.0**-48
_LEAST_OF_LARGEST = 2.0**-10


def clip_and_multiplier(clip: float, multiplier: float) -> tuple[float, float]:
    """Return both as floats, if sums can be made with them."""
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
            "clip is drawn.",
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
        """Return the sums in whole steps, without noise, in float64; each gradient has one row an example."""
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
        """Return the factor of each example's gradient to steps: float32, (examples,), 0 if not finite."""
        squares = torch.zeros(len(flat[0]), dtype=torch.float64)
        for rows in flat:
            for some, square in zip(
                torch.split(rows, _TOGETHER), torch.split(squares, _TOGETHER), strict=True
            ):
                square += some.double().square_().sum(dim=1)
        return torch.where(squares.isfinite(), self._of_lengths(squares.sqrt()), 0.0).float()

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        """Return the factor of gradients of these ``lengths`` to steps, float64; NaN stays NaN."""
        return RADIUS * MARGIN / lengths.clamp_min(self.clip)


class NoisySum(ClippedSum):
    """Sums gradients of examples clipped to length ``clip`` with noise of ``multiplier`` × ``clip``."""

    def __init__(self, clip: float, multiplier: float, stream: Stream) -> None:
        super().__init__(clip)
        self.multiplier = clip_and_multiplier(clip, multiplier)[1]
        self._noise = Rounded(NORMAL, [float(np.nextafter(self.multiplier * RADIUS, np.inf))])
        self._stream = stream

    def __call__(self, gradients: Sequence[Tensor], shapes: Sequence[torch.Size]) -> list[Tensor]:
        """Return the noisy sums in the units of the gradients, float32, in the parameters' ``shapes``.

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


def layers_of(model: Module) -> list[list[int]]:
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
        """Return the sums in whole steps, without noise, in float64; each gradient has one row an example."""
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
    """Return √ΣC_l², a hair too large."""
    return math.nextafter(math.sqrt(math.fsum(clip**2 for clip in clips)) * (1.0 + 2.0**-50), math.inf)


class LayerPart(ClippedSum):
    """One layer, cut to ``clip`` and counted in steps of ``whole`` / RADIUS."""

    def __init__(self, clip: float, whole: float) -> None:
        super().__init__(clip)
        self._most = float(np.nextafter(RADIUS * MARGIN * (clip / whole), 0.0))

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        scales = self._most / lengths.clamp_min(self.clip)
        return torch.where(lengths <= LONGEST, scales, 0.0)


def gradient_stretch(share: float) -> float:
    """Return z_Δ/z = 1/√(1 − ``share``): how much more noise gradients get, so that the bit can be paid."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 1e-6 <= share <= 0.999:
        raise BadInput(
            f"`share` was {shown(share)}: the bit's part of a step's budget lies in [1e-6, 0.999].",
            parameter="share",
        )
    return _HAIR / math.sqrt(1.0 - share)


@dataclass(frozen=True)
class QuantileStep:
    """Releases counts of bits and moves clips toward ``quantile``; ``pace`` is η.

    ``expected`` is the public number of examples expected in a step, ``share`` the counts' part of 1/z².
    """

    expected: float
    quantile: float
    share: float
    pace: float

    def __post_init__(self) -> None:
        quantile = self.quantile
        if isinstance(quantile, bool) or not isinstance(quantile, int | float) or not 0.0 < quantile < 1.0:
            raise BadInput(
                f"`quantile` was {shown(quantile)}: it must lie above 0 and below 1.", parameter="quantile"
            )
        for name in ("expected", "pace"):
            positive(name, getattr(self, name))
        gradient_stretch(self.share)

    def check(self, first: float) -> None:
        """Refuse a clip from which gradients could not be summed wherever it moves."""
        clip_and_multiplier(first / _FURTHEST, 1.0)
        clip_and_multiplier(first * _FURTHEST, 1.0)

    def released(self, bits: Sequence[int], multiplier: float, stream: Stream) -> tuple[float, ...]:
        """Return the noisy share of ones for each sum of ±1 in ``bits``, under a deviation of 2σ_b.

        ``multiplier`` is √L·z for L counts: 2σ_b is that over √share.
        """
        # Of the sum of ±1, which is twice that of the shifted bits.
        deviation = math.nextafter(multiplier / math.sqrt(self.share) * _HAIR * RADIUS, math.inf)
        noise = Rounded(NORMAL, [deviation]).draw(stream, len(bits))[0]
        return tuple(
            0.5 + 0.5 * (count + float(drawn) / RADIUS) / self.expected
            for count, drawn in zip(bits, noise, strict=True)
        )

    def moved(self, clip: float, first: float, inside: float) -> float:
        """Return the next clip, given the released share ``inside`` of ``clip``; ``first`` says its range."""
        # An exponent beyond this reaches the end of the range from anywhere in it.
        change = min(max(-self.pace * (inside - self.quantile), -30.0), 30.0)
        return min(max(clip * math.exp(change), first / _FURTHEST), first * _FURTHEST)


class QuantileSum(ClippedSum):
    """Sums clipped gradients, and after each step moves the clip toward ``quantile`` of their lengths.

    :meth:`exact` counts the bits of what it sums, and :meth:`advance` releases them and begins a new step.
    ``expected`` is the public number of examples expected in a step, ``clip`` the first clip, ``pace`` is η.
    """

    def __init__(
        self,
        clip: float,
        *,
        expected: float,
        stream: Stream,
        quantile: float = 0.5,
        share: float = 0.01,
        pace: float = 0.2,
    ) -> None:
        super().__init__(clip)
        self._quantile = QuantileStep(expected, quantile, share, pace)
        self._quantile.check(self.clip)
        self.first, self.share = self.clip, share
        self._stream = stream
        self._bits = 0

    def advance(self, multiplier: float) -> float:
        """Release the bits of the step, of which the whole has ``multiplier`` z, and set the next clip.

        Returns the noisy share of gradients that were at most as long as the clip.
        """
        multiplier = clip_and_multiplier(1.0, multiplier)[1]
        (inside,) = self._quantile.released([self._bits], multiplier, self._stream)
        self._bits = 0
        self.clip = self._quantile.moved(self.clip, self.first, inside)
        return inside

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        finite = lengths[torch.isfinite(lengths)]
        self._bits += 2 * int((finite <= self.clip).sum()) - len(finite)
        return super()._of_lengths(lengths)


class LayerQuantileSum(LayerSum):
    """Sums layers clipped to lengths of their own, which move toward ``quantile`` after each step.

    :meth:`exact` counts the bits of what it sums, and :meth:`advance` releases them and begins a new step.
    ``clips`` are the first lengths; the rest is as in
    :class:`~sfumato.learners.gradient_clipping.QuantileSum`.
    """

    def __init__(
        self,
        clips: Sequence[float],
        layers: Sequence[Sequence[int]],
        *,
        expected: float,
        stream: Stream,
        quantile: float = 0.5,
        share: float = 0.01,
        pace: float = 0.2,
    ) -> None:
        super().__init__(clips, layers)
        self.first = self.clips
        self._quantile = QuantileStep(expected, quantile, share, pace)
        for clip in self.first:
            self._quantile.check(clip)
        self.share = share
        self._stream = stream

    def advance(self, multiplier: float) -> tuple[float, ...]:
        """Release the bits of the step, of which the whole has ``multiplier`` z, and set the next clips.

        Returns, for each layer, the noisy share of gradients that were at most as long as its clip.
        """
        multiplier = clip_and_multiplier(1.0, multiplier)[1] * math.sqrt(len(self.layers))
        bits = [part.bits for part in self._parts if isinstance(part, _Counted)]
        inside = self._quantile.released(bits, multiplier, self._stream)
        moved = [
            self._quantile.moved(clip, first, share)
            for clip, first, share in zip(self.clips, self.first, inside, strict=True)
        ]
        self._use([max(clip, _LEAST_OF_LARGEST * max(moved)) for clip in moved])
        return inside

    def _part(self, clip: float) -> LayerPart:
        return _Counted(clip, self.clip)


class _Counted(LayerPart):
    """One layer, with the sum of ±1 of the gradients of this step that were up to the clip, or beyond."""

    bits = 0

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        taken = lengths[lengths <= LONGEST]
        self.bits += 2 * int((taken <= self.clip).sum()) - len(taken)
        return super()._of_lengths(lengths)


class NormalisedSum(ClippedSum):
    """Sums g/(‖g‖ + ``gamma``) over examples; each is shorter than 1, which takes the place of the clip."""

    def __init__(self, gamma: float = 0.01) -> None:
        super().__init__(1.0)
        self.gamma = positive("gamma", gamma)
        if not 1e-30 <= self.gamma <= 1e30:
            raise BadInput(
                f"`gamma` was {shown(gamma)}: it must lie between 1e-30 and 1e30.", parameter="gamma"
            )

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        return RADIUS * MARGIN / (lengths + self.gamma)
