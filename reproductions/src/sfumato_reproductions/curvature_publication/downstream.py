"""The classifier that learns from what is published, in place of the paper's ResNet-18.

Two convolutions of 5 × 5 with stride 2 and 16 and 32 channels, 256 features, no augmentation, no weight
decay; Adam from 0.002 down to 0, batches of 128. Trained until it has learned its pictures by heart, which is
what a membership attack lives on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Predictions
from sfumato_reproductions.curvature_publication.imbalance import TOP, Floats, Part

__all__ = ["FEATURES", "Learned", "learn", "planar", "seeded"]

FEATURES = 256
_CHANNELS = 16
_RATE = 0.002
_BATCH = 128
_BLOCK = 2000


@dataclass(frozen=True)
class Learned:
    """A trained classifier; ``before`` is all of it but the last layer."""

    model: Any
    before: Any
    parameters: int

    def predictions(self, part: Part) -> Predictions:
        """The probabilities that it gives to the pictures of ``part``."""
        return Predictions.from_logits(_answers(self.model, part.pictures), part.labels)

    def accuracy(self, part: Part, classes: tuple[int, ...] | None = None) -> float:
        """The share of pictures that it gets right; of ``classes`` alone where they are named."""
        right = _answers(self.model, part.pictures).argmax(axis=1) == part.labels
        return float(np.mean(right if classes is None else right[np.isin(part.labels, classes)]))

    def features(self, pictures: NDArray[Any]) -> NDArray[np.float64]:
        """The values before the last layer, to measure distances of distributions over."""
        return np.asarray(_answers(self.before, pictures), dtype=np.float64)

    def probabilities(self, pictures: NDArray[Any]) -> NDArray[np.float64]:
        """Its class probabilities."""
        from scipy.special import softmax

        return np.asarray(softmax(_answers(self.model, pictures), axis=1), dtype=np.float64)


def learn(
    part: Part,
    classes: int,
    *,
    passes: int,
    seed: int,
    report: Callable[[float], None] | None = None,
) -> Learned:
    """A classifier of ``classes`` classes, trained on ``part`` for ``passes`` passes."""
    import torch
    from torch import nn

    height, width, *rest = part.pictures.shape[1:]
    planes = rest[0] if rest else 1
    inner = 2 * _CHANNELS * math.ceil(height / 4) * math.ceil(width / 4)
    with seeded(seed):
        before = nn.Sequential(
            nn.Conv2d(planes, _CHANNELS, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(_CHANNELS, 2 * _CHANNELS, 5, 2, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(inner, FEATURES),
            nn.ReLU(),
        )
        model = nn.Sequential(before, nn.Linear(FEATURES, classes))
        inputs, truth = torch.from_numpy(planar(part.pictures)), torch.from_numpy(part.labels)
        optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
        for done in range(passes):
            optimiser.param_groups[0]["lr"] = _RATE * (1.0 - done / passes)
            order = torch.randperm(len(inputs))
            for start in range(0, len(inputs), _BATCH):
                batch = order[start : start + _BATCH]
                optimiser.zero_grad()
                loss: Any = nn.functional.cross_entropy(model(inputs[batch]), truth[batch])
                loss.backward()
                optimiser.step()
            if report is not None:
                report((done + 1) / passes)
    return Learned(model, before, sum(values.numel() for values in model.parameters()))


def planar(pictures: Floats) -> Floats:
    """Pictures as the network takes them: from 0 to 1, channels first."""
    scaled = (pictures / np.float32(TOP)).astype(np.float32)
    return scaled[:, None] if scaled.ndim == 3 else np.ascontiguousarray(np.moveaxis(scaled, 3, 1))


def _answers(model: Any, pictures: NDArray[Any]) -> NDArray[np.float64]:
    import torch

    with torch.no_grad():
        blocks = [
            model(torch.from_numpy(planar(pictures[start : start + _BLOCK]))).numpy()
            for start in range(0, len(pictures), _BLOCK)
        ]
    return np.concatenate(blocks).astype(np.float64)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch draws as ``seed`` says; the caller's random state comes back after."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
