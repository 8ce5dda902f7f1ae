"""Noisy gradients of a linear classifier without the gradients of single examples.

For softmax regression the gradient of one example is the outer product of its features (1, x), and its
residual r = p − e_y, so its length is the product of two lengths and the sum of all clipped gradients is one
matrix product. Features are put on an integer grid once, k = trunc(x/step), with a constant in front; in each
step the residual is scaled and rounded toward zero to whole numbers m such that

    ‖k‖·‖m‖ ≤ L = 2³²,

and KᵀM is summed in float64: a sum of integers below 2⁵³, hence exact whatever the order.

**Guarantee.** Removing one example, or putting a null record in its place, takes its own k mᵀ of Frobenius
length ‖k‖‖m‖ ≤ L from the sum: the L2 sensitivity is L. Replacing it by another moves the sum by at most 2L.
All other rows of K and M stay as they are: a row of M is a function of its own row of K, its label and the
weights, computed for all rows of one fixed shape. Integer noise (a real Gaussian, rounded) is added, so a step
is the Gaussian mechanism of ``multiplier``, exactly; the scale of m is safe to rounding: the lengths are computed
in float64 over fewer than 2²⁴ entries with an error below 2⁻²⁸, and 1 − 2⁻²⁶ is left as margin.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import positive
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["LinearHead"]

# Steps across the longest feature vector, and the bound L on ‖k‖‖m‖.
_RADIUS = float(1 << 14)
_BOUND = float(1 << 32)
_MARGIN = 1.0 - 2.0**-26
# Sums of this many products of entries, each at most L, stay below 2⁵³.
_MOST = 1 << 20


class LinearHead:
    """The clipped gradient sums of softmax regression on ``features`` (n, d) with ``labels`` (n,).

    ``reach`` bounds the length of features, a public number; longer ones are scaled back. ``clip`` bounds the
    gradient of one example, in the units of features with a constant 1 in front.
    """

    def __init__(self, features: Any, labels: Any, classes: int, *, reach: float, clip: float) -> None:
        given = np.asarray(features, dtype=np.float64)
        if given.ndim != 2 or not given.size or len(given) >= _MOST:
            raise BadInput(
                f"features of shape {given.shape} were given: (n, d) with n below {_MOST} is needed."
            )
        self.classes, self.clip, self.step = (
            classes,
            positive("clip", clip),
            positive("reach", reach) / _RADIUS,
        )
        lengths = np.linalg.norm(given, axis=1, keepdims=True)
        shrink = np.minimum(1.0, reach / np.maximum(lengths, 1e-300))
        rows = np.empty((len(given), given.shape[1] + 1))
        rows[:, 0] = math.floor(1.0 / self.step)
        np.trunc(given * (shrink / self.step), out=rows[:, 1:])
        self._rows = torch.from_numpy(rows)
        self._lengths = self._rows.square().sum(dim=1).sqrt()
        self._truth = torch.nn.functional.one_hot(torch.as_tensor(np.asarray(labels)), classes).double()

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of weights and gradients: a constant and the features, by classes."""
        return self._rows.shape[1], self.classes

    def residuals(self, weights: Tensor, taken: Tensor | None = None) -> Tensor:
        """Whole-number residuals (n, classes) at ``weights``; rows that are not ``taken`` are 0."""
        logits = self._rows @ (weights.double() * self.step)
        found = torch.softmax(logits, dim=1) - self._truth
        sizes = self._lengths * found.square().sum(dim=1).sqrt()
        # Gradients in steps of `step`·`clip`/L: whole ones of length L stand for gradients of length `clip`.
        scale = torch.clamp(_BOUND / sizes.clamp_min(1e-300), max=_BOUND * self.step / self.clip) * _MARGIN
        if taken is not None:
            scale = scale * taken
        return (found * scale.unsqueeze(1)).trunc_()

    def total(self, weights: Tensor, taken: Tensor | None = None) -> Tensor:
        """The exact sum of whole-number gradients of all examples, in float64."""
        return self._rows.T @ self.residuals(weights, taken)

    def noisy_total(
        self, weights: Tensor, noise: Rounded, stream: Stream, taken: Tensor | None = None
    ) -> Tensor:
        """The sum with ``noise``, made by :func:`noise_of`, in the units of gradients."""
        rows, columns = self.shape
        drawn = torch.from_numpy(noise.draw(stream, rows * columns)[0]).reshape(rows, columns)
        return (self.total(weights, taken) + drawn) * (self.clip / _BOUND)

    def scores(self, features: NDArray[Any], weights: Tensor) -> NDArray[np.float64]:
        """Class probabilities of other ``features`` under ``weights``."""
        raise NotImplementedError


def noise_of(multiplier: float) -> Rounded:
    """Noise of ``multiplier`` times the bound on the gradient of one example."""
    return Rounded(NORMAL, [math.nextafter(positive("multiplier", multiplier) * _BOUND, math.inf)])
