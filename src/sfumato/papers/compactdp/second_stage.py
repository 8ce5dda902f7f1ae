"""The second stage behind a first one that is there already: all budgets share one contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["head_behind"]


def head_behind(stage: Any, learner: Any, X: NDArray[np.float32], y: NDArray[np.int64]) -> Any:
    """``learner``, a ``CompactPrivate``, as its ``fit`` makes it, with the fitted ``stage`` of the same seed.

    ``stage`` is a ``CompactClassifier`` with the same parameters; what comes out is equal to the last bit.
    """
    from sfumato.learn.compact.head import noisy_head
    from sfumato.learn.compact.second_stage import CompactPrivate
    from sfumato.learn.dp_sgd import DPSGD

    training = DPSGD.calibrated(
        learner.epsilon, learner.delta, rate=learner.sampling, steps=learner.steps, clip=learner.clip
    )
    if learner.mode == "paper":
        eta = float(stage.profile_.eta.max())
        training = DPSGD(eta * training.multiplier, learner.sampling, learner.steps, learner.clip)
    weights = noisy_head(
        stage.network_.contracted_units(X),
        y,
        len(stage.classes_),
        training,
        pace=learner.pace,
        momentum=learner.momentum,
        randomness=learner.randomness,
    )
    alone = training.guarantee(learner.delta).epsilon()
    kept = {"head": weights, "run": np.array([training.multiplier, alone, len(X)])}
    tensors = stage.network_.tensors() | {"profile": stage.profile_.table()} | kept
    return CompactPrivate.restored(learner.public(), tensors)
