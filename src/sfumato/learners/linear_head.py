"""Noisy gradients of a linear classifier without the gradients of single examples.

For softmax regression the gradient of one example is the outer product of its features, with a constant in
front, and its residual r = p − e_y. Its length is the product of two lengths, and the sum of all clipped
gradients is one matrix product. Features are put on an integer grid once, k = rint(x/step), a constant
first; in each step the residual is scaled, to length L/‖k‖ − √C/2 at most with C classes, and rounded to
whole numbers m, which lengthens it by √C/2 at most, such that

    ‖k‖·‖m‖ ≤ L = 2⁴¹,

and KᵀM is summed: in float64 for few rows, where whole numbers stay below 2⁵³ and are hence exact whatever
the order, and over all rows in integers. Noise cannot be drawn that finely, so the sum S is rounded to whole
numbers of 2¹³ steps, T = ⌊S/2¹³ + ½⌋, before the noise is added.

**Guarantee.** A null record in the place of an example (zero-out) takes its own k mᵀ, of Frobenius length
‖k‖‖m‖ ≤ L, from S; another record in its place (replace) moves S by at most 2L. All other rows stay as they
are: a row of M is computed from its own row of K, its label and the weights, in products whose shapes do not
depend on the example (of those taken by a Poisson sample a null record is one, which adds nothing). An entry
of T moves by less than 1 more than that of S/2¹³, so that T with N entries moves by at most
D = L/2¹³ + √N (zero-out) and by at most 2D (replace). To T a real Gaussian of deviation ``multiplier``·D,
rounded to whole numbers, is added, so that a step is the Gaussian mechanism with that multiplier; no slack is
left. √N is 4·10⁻⁷ of D for ten classes of a thousand features.
The scale of m is safe to rounding: ‖k‖² is a whole number below 2⁵³ and exact, the length of a residual comes
from float64 sums of fewer than 2²⁴ squares, which are off by a factor of at most 1 ± 2⁻²⁸, and a share of
2⁻²⁶ is left as margin.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import positive
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["LARGEST_MULTIPLIER", "LinearHead"]

# Steps across the longest feature vector, and the bound L on ‖k‖‖m‖.
_RADIUS = float(1 << 21)
_BOUND = float(1 << 41)
_MARGIN = 1.0 - 2.0**-26
# Noise is added to whole numbers of this many steps.
_COARSE_BITS = 13
_COARSE_BOUND = _BOUND / (1 << _COARSE_BITS)
#: Noise of 2⁴⁰ can be drawn, that is of 4096 · 2²⁸; a hair of it is left for √N, which is below 2²².
LARGEST_MULTIPLIER = 4000.0
# Rows that are summed at a time: each entry at most L, hence below 2⁵³.
_TOGETHER = 512
# Sums over this many examples stay below 2⁶³.
_MOST = 1 << 22


class LinearHead:
    """Clipped gradient sums of softmax regression on ``features`` (n, d) with ``labels`` (n,).

    Features are as long as ``reach``, a public number, or are scaled back to it; a constant of the same
    length stands in front of them. ``clip`` bounds the gradient of one example. Weights (1 + d, classes)
    belong to features in units of ``reach``.
    """

    def __init__(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.integer],
        classes: int,
        *,
        reach: float,
        clip: float,
    ) -> None:
        if len(features) >= _MOST or features.shape[1] >= 1 << 24:
            raise BadInput(f"{len(features)} examples were given: sums are exact below {_MOST}.")
        self.reach, self.clip = positive("reach", reach), positive("clip", clip)
        self.classes = classes
        self._rows = torch.from_numpy(self._whole(features))
        self._lengths = self._rows.square().sum(dim=1).sqrt()
        self._truth = torch.nn.functional.one_hot(torch.from_numpy(labels.astype(np.int64)), classes).double()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of weights and gradients."""
        return self._rows.shape[1], self.classes

    def logits(self, weights: Tensor, features: NDArray[np.floating] | None = None) -> Tensor:
        """Logits of the own examples, or of other ``features``, under ``weights``."""
        rows = self._rows if features is None else torch.from_numpy(self._whole(features))
        return rows @ (weights.double() / _RADIUS)

    def total(self, weights: Tensor, taken: NDArray[np.intp] | None = None) -> Tensor:
        """The exact sum of whole-number gradients of the ``taken`` examples, all unless given, as int64."""
        rows, lengths, truth = self._rows, self._lengths, self._truth
        if taken is not None:
            some = torch.from_numpy(taken)
            rows, lengths, truth = rows[some], lengths[some], truth[some]
        total = torch.zeros(self.shape[::-1], dtype=torch.int64)
        # Whole numbers add up to the same whatever the order; a few rows stay in the processor's cache.
        for start in range(0, len(rows), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            total += (self._residuals(weights, rows[part], lengths[part], truth[part]).T @ rows[part]).long()
        return total.T

    def noisy(
        self, weights: Tensor, multiplier: float, stream: Stream, taken: NDArray[np.intp] | None = None
    ) -> Tensor:
        """The sum of clipped gradients with noise of ``multiplier`` × ``clip``, in the units of gradients."""
        rows, columns = self.shape
        # Each factor is rounded up, and the product once more.
        moved = math.nextafter(_COARSE_BOUND + math.sqrt(rows * columns), math.inf)
        noise = Rounded(NORMAL, [math.nextafter(positive("multiplier", multiplier) * moved, math.inf)])
        drawn = torch.from_numpy(noise.draw(stream, rows * columns)[0]).reshape(rows, columns)
        coarse = (self.total(weights, taken) + (1 << (_COARSE_BITS - 1))) >> _COARSE_BITS
        return (coarse + drawn) * (self.clip / _COARSE_BOUND)

    def _residuals(self, weights: Tensor, rows: Tensor, lengths: Tensor, truth: Tensor) -> Tensor:
        """Whole-number residuals (n, classes); one whose gradient is not clipped keeps its size."""
        found = torch.softmax(rows @ (weights.double() / _RADIUS), dim=1) - truth
        longest = _BOUND / lengths - 0.5 * math.sqrt(self.classes)
        # A gradient in units of `reach` is k/RADIUS times r; of length `clip` it stands for L whole steps.
        plain = _BOUND / (_RADIUS * self.clip)
        sizes = found.square().sum(dim=1).sqrt()
        scale = torch.clamp(longest / sizes.clamp_min(1e-300), max=plain) * _MARGIN
        return (found * scale.unsqueeze(1)).round_()

    def _whole(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        rows = np.empty((len(features), features.shape[1] + 1))
        rows[:, 0] = _RADIUS
        rows[:, 1:] = features
        lengths = np.sqrt(np.einsum("ij,ij->i", rows[:, 1:], rows[:, 1:]))
        rows[:, 1:] *= (_RADIUS / np.maximum(lengths, self.reach))[:, None]
        return np.rint(rows, out=rows)
