"""Pictures drawn from a mixture of Gaussians in each class, made to keep their moments as pictures.

Cutting a drawn picture to the picture range changes its mean and covariance. A few rounds of *correction*
bring them nearer: cut, then map the coordinates of each class affinely back to the moments it should have.
The maps are found once on a pool of drawn pictures and used for all that follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.publishers.basis import CosineBasis
from sfumato.publishers.shrinkage import Covariances

__all__ = ["Mixture"]

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

_POOL = 1500
_ROUNDS = 4
# Of the mean variance of a direction.
_FLOOR = 0.02


@dataclass
class Mixture:
    """``weights`` (classes, parts) that sum to 1, ``means`` (classes, parts, d), covariances of all cells."""

    basis: CosineBasis
    weights: Array
    means: Array
    covariances: Covariances
    _corrections: list[tuple[Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        spectrum, turn = np.linalg.eigh(self.covariances.inner)
        self._roots = turn * np.sqrt(np.maximum(spectrum, 0.0))[:, None, :]

    def corrected(self, rng: np.random.Generator) -> Mixture:
        """The same mixture with corrections found on a pool drawn with ``rng``."""
        classes = len(self.weights)
        labels = np.repeat(np.arange(classes), _POOL)
        rows = self._drawn(labels, rng)
        targets = [self._moments(label) for label in range(classes)]
        along = self.covariances.directions
        found: list[tuple[Array, Array]] = []
        for _ in range(_ROUNDS):
            rows = self.basis.coordinates(self.basis.pictures(rows))
            maps = [_affine(rows[labels == label], *targets[label], along) for label in range(classes)]
            found.append((np.stack([turn for turn, _ in maps]), np.stack([shift for _, shift in maps])))
            rows = self._applied(found[-1], rows, labels)
        return Mixture(self.basis, self.weights, self.means, self.covariances, found)

    def labels(self, n: int, rng: np.random.Generator) -> Labels:
        """``n`` labels in random order, as often as the class weights say, to within one."""
        shares = self.weights.sum(axis=1)
        ends = np.rint(np.cumsum(shares) / shares.sum() * n).astype(np.intp)
        return rng.permutation(np.repeat(np.arange(len(shares)), np.diff(ends, prepend=0)))

    def pictures(self, labels: Labels, rng: np.random.Generator) -> Array:
        """A picture with values in [0, 1] for each of ``labels``."""
        rows = self._drawn(labels, rng)
        for correction in self._corrections:
            rows = self._applied(correction, self.basis.coordinates(self.basis.pictures(rows)), labels)
        return self.basis.pictures(rows)

    def _drawn(self, labels: Labels, rng: np.random.Generator) -> Array:
        classes, parts = self.weights.shape
        cells = np.empty(len(labels), dtype=np.intp)
        for label in range(classes):
            mine = np.flatnonzero(labels == label)
            within = self.weights[label] / self.weights[label].sum()
            cells[mine] = label * parts + rng.choice(parts, size=mine.size, p=within)
        inner = rng.normal(size=(len(labels), self._roots.shape[2]))
        rows = self.means.reshape(classes * parts, -1)[cells]
        for cell in np.unique(cells):
            mine = cells == cell
            rows[mine] += inner[mine] @ self._roots[cell].T @ self.covariances.directions.T
        return rows

    def _moments(self, label: int) -> tuple[Array, Array]:
        """Mean and covariance of one class, all its parts together."""
        parts = self.weights.shape[1]
        within = self.weights[label] / self.weights[label].sum()
        mean = within @ self.means[label]
        apart = self.means[label] - mean
        inner = np.einsum("p,pij->ij", within, self.covariances.inner[label * parts : (label + 1) * parts])
        along = self.covariances.directions
        return mean, along @ inner @ along.T + (apart.T * within) @ apart

    def _applied(self, correction: tuple[Array, Array], rows: Array, labels: Labels) -> Array:
        out = np.empty_like(rows)
        for label, (turn, shift) in enumerate(zip(*correction, strict=True)):
            mine = labels == label
            out[mine] = rows[mine] @ turn + shift
        return out


def _affine(rows: Array, mean: Array, covariance: Array, along: Array) -> tuple[Array, Array]:
    """(A, b): rows·A + b has the given mean and, in the directions ``along``, about the given covariance.

    What ``rows`` hold in other directions, the sharp edges that cutting makes, is kept.
    """
    now = rows.mean(axis=0)
    spread = along.T @ np.cov(rows, rowvar=False) @ along
    # Directions that neither has much of are left alone rather than stretched by a huge factor.
    floor = (_FLOOR * np.trace(covariance) / len(spread) + 1e-12) * np.eye(len(spread))
    values, turn = np.linalg.eigh(spread + floor)
    back = (turn / np.sqrt(values)) @ turn.T
    values, turn = np.linalg.eigh(along.T @ covariance @ along + floor)
    forth = (turn * np.sqrt(np.maximum(values, 0.0))) @ turn.T
    both = np.eye(len(mean)) + along @ (back @ forth - np.eye(len(spread))) @ along.T
    return both, mean - now @ both
