"""Curves between pairs of latent points: a straight line plus a cubic spline that is zero at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfumato.errors import BadInput

__all__ = ["Spline", "spline_basis"]


@dataclass(frozen=True)
class Spline:
    """n curves on [0, 1]: ``start`` and ``end`` of shape ``(n, d)``, ``offsets`` of shape ``(n, knots, d)``.

    Each curve passes at time (k + 1) / (knots + 1) through the point of the straight line moved by its k-th
    offset; between the knots it is the cubic spline with continuous second derivatives (third ones too at the
    outermost knots, so that no end is forced to be straight).
    """

    start: Tensor
    end: Tensor
    offsets: Tensor

    def at(self, times: Tensor) -> Tensor:
        """Points of all curves at ``times`` of shape ``(samples,)``, as ``(n, samples, d)``.

        Raises:
            BadInput: If a time is outside [0, 1].
        """
        if times.ndim != 1 or not bool(((times >= 0) & (times <= 1)).all()):
            raise BadInput("times of a curve must be a tensor of shape (samples,) with values from 0 to 1.")
        times = times.to(self.start)
        line = torch.lerp(self.start.unsqueeze(1), self.end.unsqueeze(1), times.reshape(1, -1, 1))
        return line + spline_basis(times, self.offsets.shape[1]) @ self.offsets

    def samples(self, count: int) -> Tensor:
        """Points at ``count`` equally spaced times, both ends included, as ``(n, count, d)``.

        Raises:
            BadInput: If ``count`` is below 2.
        """
        if count < 2:
            raise BadInput(f"a curve needs 2 samples or more, its ends, not {count}.")
        return self.at(torch.linspace(0.0, 1.0, count, dtype=torch.float64))


def spline_basis(times: Tensor, knots: int) -> Tensor:
    """What each of the inner ``knots`` adds at each time: ``(samples, knots)``."""
    from scipy.interpolate import CubicSpline

    units = np.eye(knots + 2)[:, 1:-1]  # one knot is moved, all others and both ends stay
    spline = CubicSpline(np.linspace(0.0, 1.0, knots + 2), units, bc_type="not-a-knot")
    return torch.as_tensor(spline(times.double().cpu().numpy())).to(times)
