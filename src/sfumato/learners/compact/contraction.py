"""The contraction network g_φ of CompactDP, and its training by the compactness loss.

Equation 4 with the logarithm that the paper names: for records z of class t with anchors A_t,

    L = −mean log (1/|A_t|) Σ_{a ∈ A_t} K_h(g_φ(z) − a).

Its gradient at ẑ = g_φ(z) is (ẑ − m(ẑ))/h², where m is the kernel-weighted mean of the anchors: training
moves each record to where mean shift would move it, to a mode of its own class. Anchors stay where they are,
so classes do not fall together although nothing in the loss holds them apart.

**What the paper leaves open**, and what is done here:

- the network: g(u) = s·u + W₂ relu(W₁u + b₁) + b₂ with one number s that starts at 1 and W₂ at 0, so training
  starts from the identity; u is the feature vector around the mean of all, in units of its root mean square
  length. Features of d dimensions stay in d dimensions, where anchors live; with ``dimension`` p < d both
  are first projected to the p leading principal axes. The "feature reconstruction layer" of the paper's
  figure 2 is not described; ``whiten`` puts a linear one there, which makes features vary about equally
  in all directions, so that classes whose modes are near each other in a few of them stay apart;
- the optimiser: stochastic gradient descent with momentum 0.9 on the loss in units of h². Algorithm 1, read
  literally, makes one update an epoch; here every batch makes one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.learners.learner import Floats, Labels, Report, whole_number

_MOMENTUM = 0.9
# The hidden layer counts as if its square were this many times as long: a rate of 0.1 is then a good one.
_HIDDEN_SCALE = 50.0
# Records contracted at once outside training.
_ROWS = 4096
# Directions that vary less than this part of the mean are not enlarged to the size of others.
_RIDGE = 0.1
_NAMES = ("gain", "inner", "inner_bias", "outer", "outer_bias")


class ContractionNetwork(nn.Module):
    """g_φ from features (n, d) to contracted features (n, p), both in the units of the features."""

    def __init__(self, centre: Floats, scale: float, axes: Floats | None, width: int) -> None:
        super().__init__()
        self.centre, self.scale, self.axes = centre, scale, axes
        dimension = len(centre) if axes is None else axes.shape[1]
        self.scale_of_hidden = math.sqrt(_HIDDEN_SCALE / width)
        self.gain = nn.Parameter(torch.ones(1))
        self.inner = nn.Parameter(torch.zeros(dimension, width))
        self.inner_bias = nn.Parameter(torch.zeros(width))
        self.outer = nn.Parameter(torch.zeros(width, dimension))
        self.outer_bias = nn.Parameter(torch.zeros(dimension))

    @classmethod
    def of_features(
        cls,
        X: NDArray[np.floating],
        *,
        width: int,
        dimension: int | None,
        generator: torch.Generator,
        whiten: bool = False,
    ) -> Self:
        """Return the untrained network of features ``X``: their centre and scale, random weights."""
        centre = X.mean(axis=0, dtype=np.float64)
        scale = _scale(X, centre)
        kept = X.shape[1] if dimension is None else whole_number("dimension", dimension)
        axes = _axes(X, centre, scale, kept, whiten) if whiten or dimension is not None else None
        made = cls(centre, scale, axes, whole_number("width", width))
        nn.init.normal_(made.inner, generator=generator)
        return made

    def in_units(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return features (n, d) around the centre, on the axes, in units of the scale: (n, p)."""
        around = (X - self.centre) / self.scale
        return np.asarray(around if self.axes is None else around @ self.axes, dtype=np.float32)

    def on_axes(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return features (n, d) as they are where the network contracts them: (n, p)."""
        return X if self.axes is None else np.asarray(X @ self.axes)

    def forward(self, units: Tensor) -> Tensor:
        """Return g_φ in units of the scale."""
        hidden = torch.relu(units @ self.inner + self.inner_bias)
        return self.gain * units + self.scale_of_hidden * (hidden @ self.outer) + self.outer_bias

    def contracted_units(self, X: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return g_φ of features (n, d), in units of the scale: (n, p)."""
        with torch.no_grad():
            parts = [
                self(torch.from_numpy(self.in_units(X[first : first + _ROWS])))
                for first in range(0, len(X), _ROWS)
            ]
        return np.asarray(torch.cat(parts).numpy())

    def contract(self, X: NDArray[np.floating]) -> Floats:
        """Return g_φ of features (n, d) in the units of the features: (n, p)."""
        middle = self.centre if self.axes is None else self.centre @ self.axes
        return middle + self.scale * self.contracted_units(X).astype(np.float64)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return all that :meth:`restored` needs."""
        found: dict[str, NDArray[Any]] = {name: getattr(self, name).detach().numpy() for name in _NAMES}
        found |= {"centre": self.centre, "scale": np.array([self.scale])}
        return found if self.axes is None else found | {"axes": self.axes}

    @classmethod
    def restored(cls, tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Return the network of which :meth:`tensors` were kept; raises KeyError where one is missing."""
        made = cls(
            tensors["centre"], float(tensors["scale"][0]), tensors.get("axes"), tensors["inner"].shape[1]
        )
        for name in _NAMES:
            getattr(made, name).data = torch.tensor(tensors[name])
        return made.requires_grad_(False)


def train_contraction(
    network: ContractionNetwork,
    X: NDArray[np.floating],
    labels: Labels,
    anchors: NDArray[np.float32],
    anchor_labels: Labels,
    *,
    bandwidth: float,
    epochs: int,
    batch: int,
    rate: float,
    generator: torch.Generator,
    report: Report | None = None,
) -> list[float]:
    """Train ``network`` on ``X``; return the mean compactness loss of each epoch, up to a constant.

    ``anchors`` (m, p) and ``bandwidth`` are in the network's units. No record is treated with noise.
    """
    # By hand, because torch.optim takes seconds to import.
    speeds = [torch.zeros_like(parameter) for parameter in network.parameters()]
    classes = int(anchor_labels.max()) + 1
    own = [torch.from_numpy(anchors[anchor_labels == kind]) for kind in range(classes)]
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for places in torch.split(torch.randperm(len(X), generator=generator), batch):
            chosen = places.numpy()
            moved = network(torch.from_numpy(network.in_units(X[chosen])))
            goals, logs = _mean_shift(moved.detach(), labels[chosen], own, bandwidth)
            total -= float(logs.sum())
            # The gradient of the loss in units of h², by hand: no graph through all distances is needed.
            moved.backward((moved.detach() - goals) / len(chosen))
            for parameter, speed in zip(network.parameters(), speeds, strict=True):
                assert parameter.grad is not None
                speed.mul_(_MOMENTUM).add_(parameter.grad)
                parameter.data.sub_(rate * speed)
                parameter.grad = None
        losses.append(total / len(X))
        if not math.isfinite(losses[-1]):
            raise BadInput(f"training diverged in epoch {epoch + 1} at rate {rate:g}: take a smaller rate.")
        if report is not None:
            report("contraction", (epoch + 1) / epochs)
    network.requires_grad_(False)
    return losses


def _mean_shift(
    moved: Tensor, labels: Labels, anchors: list[Tensor], bandwidth: float
) -> tuple[Tensor, Tensor]:
    """Return each row's kernel-weighted mean of its class's anchors, and the log of its mean kernel."""
    goals, logs = torch.empty_like(moved), torch.empty(len(moved))
    for kind, points in enumerate(anchors):
        mine = torch.from_numpy(np.flatnonzero(labels == kind))
        rows = moved[mine]
        squares = rows.square().sum(1, keepdim=True) - 2.0 * rows @ points.T + points.square().sum(1)
        kernels = squares.clamp_min(0.0) * (-0.5 / bandwidth**2)
        whole = torch.logsumexp(kernels, dim=1, keepdim=True)
        goals[mine] = (kernels - whole).exp_() @ points
        logs[mine] = whole[:, 0] - math.log(len(points))
    return goals, logs


def _scale(X: NDArray[np.floating], centre: Floats) -> float:
    """Return the root mean square distance of rows from ``centre``, safe where squares would overflow."""
    blocks = range(0, len(X), _ROWS)
    top = max(float(np.abs(X[first : first + _ROWS] - centre).max()) for first in blocks)
    if not 0.0 < top < math.inf:
        raise BadInput(
            "all records have the same features: there is nothing to contract."
            if top == 0.0
            else "the features are too large for floats: rescale them."
        )
    total = math.fsum(float(np.square((X[first : first + _ROWS] - centre) / top).sum()) for first in blocks)
    return top * math.sqrt(total / len(X))


def _axes(X: NDArray[np.floating], centre: Floats, scale: float, dimension: int, whiten: bool) -> Floats:
    """Return the ``dimension`` directions (d, p) along which features vary most: orthonormal, or whitening.

    Of each direction and its opposite the one with the larger positive entry, so that rescaled features have
    the same axes.
    """
    if dimension > X.shape[1]:
        raise BadInput(
            f"`dimension` was {dimension}: the features have only {X.shape[1]}.", parameter="dimension"
        )
    moments = np.zeros((X.shape[1], X.shape[1]))
    for first in range(0, len(X), _ROWS):
        around = (X[first : first + _ROWS] - centre) / scale
        moments += around.T @ around
    powers, axes = np.linalg.eigh(moments / len(X))
    powers, axes = powers[: -dimension - 1 : -1], axes[:, : -dimension - 1 : -1]
    axes = axes * np.where(axes.max(axis=0) >= -axes.min(axis=0), 1.0, -1.0)
    if whiten:
        shrink = 1.0 / np.sqrt(np.maximum(powers, 0.0) + _RIDGE * powers.mean())
        # As long on average as they were, so that units stay those of the features.
        axes *= shrink * math.sqrt(powers.sum() / (powers * shrink**2).sum())
    return np.ascontiguousarray(axes)
