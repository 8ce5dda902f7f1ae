"""Small models that clients train together, by name; all of their shape is public."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.learners.federated.local_training import taken_parameters
from sfumato.learners.federated.parameter_vectors import Arrays

__all__ = ["MODELS", "initial_parameters", "make_model"]


class _Pictures(nn.Module):
    """Rows of features as pictures (n, channels, height, width)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.height, self.width, self.channels = (*shape, 1)[:3]

    def forward(self, rows: Tensor) -> Tensor:
        pictures = rows.reshape(len(rows), self.height, self.width, self.channels)
        return pictures.permute(0, 3, 1, 2).contiguous()


class _Times(nn.Module):
    """Features of length 1 at most, brought to a size that networks learn from."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, rows: Tensor) -> Tensor:
        return rows * self.factor


def _linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(math.prod(shape), classes)


def _mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(math.prod(shape), 64), nn.Tanh(), nn.Linear(64, classes))


def _cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    if len(shape) not in (2, 3) or min(shape[:2]) < 8:
        raise BadInput(f"cnn is for pictures of 8 × 8 or more, and records have the shape {shape}.")
    pictures = _Pictures(shape)
    sides = [side // 4 for side in (pictures.height, pictures.width)]
    return nn.Sequential(
        pictures,
        nn.Conv2d(pictures.channels, 8, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * math.prod(sides), classes),
    )


#: Names on the command line. None of them has layers that keep statistics of records beside parameters.
MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {"linear": _linear, "mlp": _mlp, "cnn": _cnn}


def make_model(name: str, shape: tuple[int, ...], classes: int, *, factor: float = 1.0) -> nn.Module:
    """The model ``name`` for features of a record of ``shape``, which are multiplied by ``factor``."""
    if name not in MODELS:
        raise BadInput(f"there is no model {name!r}: accepted are {', '.join(MODELS)}.", parameter="model")
    return nn.Sequential(_Times(factor), MODELS[name](shape, classes))


def initial_parameters(make: Callable[[], nn.Module], seed: int = 0) -> Arrays:
    """The parameters that every run with ``seed`` begins with; they are public."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return taken_parameters(make())
