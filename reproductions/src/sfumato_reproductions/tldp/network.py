"""The small convolutional network that stands for the paper's MobileNet, and its last layer alone.

Two convolutions of 5 × 5 with stride 2 and 8 and 16 channels, each cut off at 0, then 64 features with tanh,
which puts them in (−1, 1) as in the paper's section 5.2.2. Inputs are centred at Δ/2 and divided by a public
number, √(Δ²/4 + spread²), so that training does not depend on the size of the noise. Adam, down to 0 in a
straight line from 0.004, or from 0.01 for the last layer alone; batches of 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["FEATURES", "Fitted", "Score", "check_torch", "fit_features", "fit_pictures", "one_thread"]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

FEATURES = 64
_CHANNELS = 8
_RATE = 0.004
_LAST_LAYER_RATE = 0.01
_BATCH = 128


@dataclass(frozen=True)
class Score:
    """F1 of each class, averaged with the class's share (the paper's equation 16), and averaged plainly."""

    weighted: float
    macro: float


@dataclass(frozen=True)
class Fitted:
    """A trained model; ``before`` is all of it but the last layer."""

    model: Any
    before: Any
    prepare: Callable[[Floats], Any]

    def score(self, tests: Floats, truth: Labels) -> Score:
        """What is right about ``tests``."""
        import torch
        from sklearn.metrics import f1_score

        with one_thread(0), torch.no_grad():
            answers = self.model(self.prepare(tests)).argmax(1).numpy()
        weighted, macro = (
            float(f1_score(truth, answers, average=average, zero_division=0.0))
            for average in ("weighted", "macro")
        )
        return Score(weighted, macro)

    def features(self, pictures: Floats) -> Floats:
        """The 64 values in (−1, 1) before the last layer."""
        import torch

        with one_thread(0), torch.no_grad():
            return np.asarray(self.before(self.prepare(pictures)).numpy(), dtype=np.float32)


def check_torch() -> None:
    """Refuse in a sentence where torch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInput(
            "the figures of tldp train small networks with torch: pip install 'sfumato[learn]'."
        ) from None


def fit_pictures(
    values: Floats,
    labels: Labels,
    *,
    shape: tuple[int, ...],
    span: float,
    spread: float,
    classes: int,
    epochs: int,
    seed: int,
) -> Fitted:
    """The network, trained on pictures (n, I) of ``shape`` (height, width[, channels])."""
    from torch import nn

    planes = shape[2] if len(shape) == 3 else 1
    prepare = _prepared((*shape[:2], planes), span, spread)
    side = [-(-length // 4) for length in shape[:2]]
    with one_thread(seed):
        before = nn.Sequential(
            nn.Conv2d(planes, _CHANNELS, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(_CHANNELS, 2 * _CHANNELS, 5, 2, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * _CHANNELS * side[0] * side[1], FEATURES),
            nn.Tanh(),
        )
        model = nn.Sequential(before, nn.Linear(FEATURES, classes))
        _train(model, prepare(values), labels, epochs, _RATE)
    return Fitted(model, before, prepare)


def fit_features(
    values: Floats, labels: Labels, *, span: float, spread: float, classes: int, epochs: int, seed: int
) -> Fitted:
    """The last layer alone, trained on features (n, d)."""
    from torch import nn

    prepare = _prepared(None, span, spread)
    with one_thread(seed):
        model = nn.Linear(values.shape[1], classes)
        _train(model, prepare(values), labels, epochs, _LAST_LAYER_RATE)
    return Fitted(model, nn.Identity(), prepare)


def _prepared(shape: tuple[int, ...] | None, span: float, spread: float) -> Callable[[Floats], Any]:
    """Values as the model takes them: scaled and, if they are pictures, with channels first."""
    import torch

    scale = math.hypot(span / 2.0, spread)

    def prepare(values: Floats) -> Any:
        scaled = torch.from_numpy(((values - span / 2.0) / scale).astype(np.float32))
        return scaled if shape is None else scaled.reshape(-1, *shape).permute(0, 3, 1, 2).contiguous()

    return prepare


def _train(model: Any, inputs: Any, labels: Labels, epochs: int, rate: float) -> None:
    import torch

    truth = torch.from_numpy(np.asarray(labels, dtype=np.int64))
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    steps, done = epochs * math.ceil(len(inputs) / _BATCH), 0
    for _ in range(epochs):
        order = torch.randperm(len(inputs))
        for start in range(0, len(inputs), _BATCH):
            batch = order[start : start + _BATCH]
            optimiser.param_groups[0]["lr"] = rate * (1.0 - done / steps)
            optimiser.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(model(inputs[batch]), truth[batch])
            loss.backward()
            optimiser.step()
            done += 1


@contextmanager
def one_thread(seed: int) -> Iterator[None]:
    """The same sums in the same order everywhere; the caller's threads and random state come back after."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
