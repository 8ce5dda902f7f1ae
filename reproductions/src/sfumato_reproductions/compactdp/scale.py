"""Contraction by a constant: whether it changes anything but the ruler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sfumato.noise import Seeded
from sfumato_reproductions.compactdp.bench import Bench
from sfumato_reproductions.compactdp.feature_rescaling import scale_invariance
from sfumato_reproductions.compactdp.methods import Method
from sfumato_reproductions.compactdp.protocol import DELTA
from sfumato_reproductions.compactdp.published import ETA

__all__ = ["scale_checks"]

# Records that the check is made with: it trains every learner twice, and attacks it twice.
_RECORDS, _QUICK = 2_000, 200


def scale_checks(bench: Bench) -> dict[str, dict[str, Any]]:
    """Learner -> what a contraction by the paper's 0.05 does to it, as JSON values with a ``sentence``.

    Every learner of the page that says what it measures with meets the standard audit of a model.
    """
    return {
        name: bench.remembered(
            f"scale, {name}", partial(_checked, bench, make), Method(name, make).parameters()
        )
        for name, make in _LEARNERS.items()
    }


def _checked(bench: Bench, make: Callable[[int, float], Any]) -> dict[str, Any]:
    split = bench.split
    both = (split.members, split.outside)
    features = np.concatenate([part.features for part in both])
    labels = np.concatenate([part.labels for part in both])
    count = _QUICK if bench.run.quick else _RECORDS
    some = np.random.default_rng(bench.seed).permutation(len(labels))[:count]
    classes = int(labels.max()) + 1
    return scale_invariance(
        lambda scale: make(classes, scale), features[some], labels[some], scale=ETA
    ).to_dict()


def _compact(classes: int, scale: float) -> Any:
    from sfumato.learners.compact import CompactClassifier

    # Its bandwidths are in units of the features' scale.
    return CompactClassifier(classes=classes, randomness=Seeded(0))


def _combined(mode: str) -> Callable[[int, float], Any]:
    def make(classes: int, scale: float) -> Any:
        from sfumato.learners.compact import CompactPrivate

        # Gradients are clipped in units of the features' scale.
        return CompactPrivate(1.0, DELTA, mode=mode, classes=classes, randomness=Seeded(0))

    return make


def _certified(classes: int, scale: float) -> Any:
    from sfumato.learners import CertifiedCompact

    return CertifiedCompact(1.0, DELTA, classes=classes, reach=scale, randomness=Seeded(0))


def _dp_sgd(classes: int, scale: float) -> Any:
    from sfumato.learners import PrivateSoftmax

    return PrivateSoftmax(1.0, DELTA, classes=classes, reach=scale, randomness=Seeded(0))


_LEARNERS: dict[str, Callable[[int, float], Any]] = {
    "CompactDP": _compact,
    "CompactDP + DP-SGD, ε = 1": _combined("accountant"),
    "CompactDP + DP-SGD, σ = ησ₁, ε = 1": _combined("paper"),
    "certified contraction, ε = 1": _certified,
    "DP-SGD, ε = 1": _dp_sgd,
}
