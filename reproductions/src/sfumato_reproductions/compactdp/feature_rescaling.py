"""Test whether contracting the features by a constant changes anything but their scale.

Features multiplied by 0.05 have classes 20 times smaller, hence η = 0.05, and hold exactly what they held
before. A learner whose bandwidths, clips and regularisation are in units of the feature scale learns the same
from them, so every attack finds the same and every proven ε is the same. Here that is tried out: a difference
means that the learner measures with an absolute ruler somewhere, and it is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Finding, Predictions, audit_model, one_run_audit
from sfumato.errors import BadInput, Forewarning

__all__ = ["scale_invariance"]


Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Report = Callable[[str, float], None]


@dataclass(frozen=True)
class ScaleInvariance:
    """The same learner on features and on ``scale`` times the features.

    ``eta`` is the largest ratio, over classes, of the contracted radius of a class to the original one, a
    radius being the largest distance from the class mean. ``predictions`` is the largest difference of a
    probability, ``labels`` the number of records whose predicted class differs. ``attacks`` gives, by attack,
    the value on the features and on the contracted ones, and ``attack`` is the largest difference of any
    number that any of them reports; ``proven`` are ε before and after (∞ where nothing is proven).
    ``tolerance`` is what ``predictions`` and ``attack`` may differ by.
    """

    scale: float
    eta: float
    records: int
    predictions: float
    labels: int
    attacks: dict[str, tuple[float, float]]
    attack: float
    proven: tuple[float, float]
    tolerance: float

    @property
    def proven_unchanged(self) -> bool:
        """Return whether ε is the same number, or nothing is proven either time."""
        return self.proven[0] == self.proven[1]

    @property
    def attacks_unchanged(self) -> bool:
        """Return whether no number of any attack moved by more than ``tolerance``."""
        return self.attack <= self.tolerance

    @property
    def unchanged(self) -> bool:
        """Return whether the contraction was a change of scale and nothing else."""
        return self.proven_unchanged and self.attacks_unchanged and self.predictions <= self.tolerance

    def sentence(self) -> str:
        """Return a sentence on what the contraction did."""
        start = f"contraction by {self.scale:g} gives η = {self.eta:.4g}"
        if self.unchanged:
            proven = (
                "nothing is proven before or after"
                if np.isinf(self.proven[0])
                else f"the proven ε stays {self.proven[0]:.6g}"
            )
            return (
                f"{start} and changes no attack: it is a change of ruler (attacks differ by at most "
                f"{self.attack:.2g}, probabilities by {self.predictions:.2g}, and {proven})."
            )
        said = []
        if not self.proven_unchanged:
            said.append(f"the proven ε from {self.proven[0]:.6g} to {self.proven[1]:.6g}")
        if not self.attacks_unchanged:
            name, (before, after) = max(self.attacks.items(), key=lambda item: abs(item[1][0] - item[1][1]))
            said.append(f"attacks ({name} from {before:.4g} to {after:.4g})")
        if self.predictions > self.tolerance:
            said.append(f"probabilities by up to {self.predictions:.3g}")
        return (
            f"{start} and changes {' and '.join(said)}: this learner measures something in absolute units, "
            "so its numbers depend on the ruler."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an ε that does not exist is null."""
        return {
            "scale": self.scale,
            "eta": self.eta,
            "records": self.records,
            "unchanged": self.unchanged,
            "predictions": self.predictions,
            "labels": self.labels,
            "attacks": {name: list(values) for name, values in self.attacks.items()},
            "attack": self.attack,
            "proven": [None if np.isinf(value) else value for value in self.proven],
            "tolerance": self.tolerance,
            "sentence": self.sentence(),
        }


def scale_invariance(
    make: Callable[[float], Any],
    X: Any,
    y: Any,
    *,
    scale: float = 0.05,
    share: float = 0.2,
    tolerance: float = 1e-3,
    attacks: Callable[[Predictions, Predictions], Sequence[Finding]] | None = None,
    canaries: int = 0,
    seed: int = 0,
    report: Report | None = None,
) -> ScaleInvariance:
    """Train ``make(1.0)`` on members among ``X`` (n, d), ``y``, and ``make(scale)`` on ``scale`` times them.

    ``make(s)`` returns an untrained learner for features that are ``s`` times as large, with bandwidths,
    clips and regularisation in units of that scale, and the same seed each time: with fresh noise two runs
    differ even on one ruler. Both models meet the same ``attacks`` on members and on the ``share`` that was
    held out, by default the standard audit of a model; with ``canaries``, also a one-run audit each.
    """
    if not 0.0 < scale < np.inf:
        raise BadInput(f"`scale` was {scale!r}: it must be above 0 and finite.", parameter="scale")
    if not 0.0 <= tolerance < np.inf:
        raise BadInput(
            f"`tolerance` was {tolerance!r}: it must be 0 or more and finite.", parameter="tolerance"
        )
    features, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64)
    tell = report or (lambda stage, share: None)
    order = np.random.default_rng(seed).permutation(len(features))
    outside, inside = (np.sort(part) for part in np.split(order, [round(share * len(features))]))
    meets = attacks or (lambda inside, outside: audit_model(inside, outside, seed=seed))
    answers: list[Floats] = []
    found: list[list[Finding]] = []
    proven: list[float] = []
    for turn, factor in enumerate((1.0, float(scale))):
        tell(f"training at scale {factor:g}", turn / 2)
        learner, rows = make(factor), factor * features
        proven.append(learner.guarantee().epsilon() if hasattr(learner, "guarantee") else np.inf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Forewarning)
            learner.fit(rows[inside], labels[inside])
        answers.append(np.asarray(learner.predict_proba(rows), dtype=np.float64))
        members, nonmembers = (Predictions(answers[-1][part], labels[part]) for part in (inside, outside))
        found.append(list(meets(members, nonmembers)))
        if canaries:
            game = one_run_audit(partial(make, factor), rows, labels, canaries=canaries, seed=seed)
            found[-1].extend(game.findings)
    tell("compared", 1.0)
    return ScaleInvariance(
        scale=float(scale),
        eta=_eta(features, scale * features, labels),
        records=len(features),
        predictions=float(np.abs(answers[0] - answers[1]).max()),
        labels=int(np.count_nonzero(answers[0].argmax(axis=1) != answers[1].argmax(axis=1))),
        attacks={one.attack: (one.value, two.value) for one, two in zip(*found, strict=True)},
        attack=max(_moved(one, two) for one, two in zip(*found, strict=True)),
        proven=(proven[0], proven[1]),
        tolerance=float(tolerance),
    )


def _moved(one: Finding, two: Finding) -> float:
    """Return the largest difference between the numbers of two findings of one attack."""
    pairs = [
        (one.value, two.value),
        (one.epsilon_lower or 0.0, two.epsilon_lower or 0.0),
        *((one.numbers[name], two.numbers[name]) for name in one.numbers),
    ]
    return max(abs(before - after) for before, after in pairs)


def _eta(before: Floats, after: Floats, labels: Labels) -> float:
    ratios = []
    for label in np.unique(labels):
        wide, narrow = (_radius(rows[labels == label]) for rows in (before, after))
        if wide > 0.0:
            ratios.append(narrow / wide)
    if not ratios:
        raise BadInput("all records of each class are equal: a class without a diameter cannot contract.")
    return max(ratios)


def _radius(rows: Floats) -> float:
    return float(np.linalg.norm(rows - rows.mean(axis=0), axis=1).max())
