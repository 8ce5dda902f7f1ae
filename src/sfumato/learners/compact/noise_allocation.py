"""Noise for class-wise densities: Theorem 3 of CompactDP as printed, corrected, and what noise really gives.

Equation 21 is printed as σ_c = Δ·ν_c·η_c^(3/2) / (ε·√(2 log(1.25/δ))): the less δ, the *less* noise. The root
belongs in the numerator, as in the Gaussian mechanism whose condition is σ ≥ Δ·√(2 log(1.25/δ))/ε. Both carry
ν_c, a length, so σ_c depends on the ruler with which features are measured.

Equation 22, Σ Δ_c²/σ_c² ≤ 2ε²/log(1.25/δ), is checked as printed. The condition of the Gaussian mechanism for
the classes together would be Σ Δ_c²/σ_c² ≤ ε²/(2 log(1.25/δ)), a quarter of it, which is checked too.

**Guarantee.** An allocation has none: ν_c and η_c are diameters and counts of private records under a map
trained on them, so the noise itself speaks of them. :func:`class_release_guarantee` says what class-wise
Gaussian noise proves where σ_c and Δ_c were chosen without the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.compact.class_profile import ClassProfile
from sfumato.learners.examples import Floats
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive, positives, shown
from sfumato.privacy import RECORD, Guarantee, Neighbours
from sfumato.privacy.defaults import RECORDS

__all__ = ["Allocation", "class_release_guarantee", "corrected_allocation", "paper_allocation"]


@dataclass(frozen=True)
class Allocation:
    """The noise ``sigma`` (classes,) of Theorem 3 for ``epsilon`` and ``delta``, and whether it keeps to 22.

    ``spent`` is Σ Δ_c²/σ_c², ``allowed`` the right side of equation 22 as printed, ``sound`` the right side
    that the Gaussian mechanism would need.
    """

    formula: str
    sigma: Floats
    epsilon: float
    delta: float
    spent: float
    allowed: float
    sound: float

    @property
    def within_paper(self) -> bool:
        """Whether equation 22 holds as printed."""
        return self.spent <= self.allowed

    @property
    def within_sound(self) -> bool:
        """Whether the condition of the Gaussian mechanism for all classes together holds."""
        return self.spent <= self.sound

    def guarantee(self) -> Guarantee:
        """Nothing, and why."""
        return Guarantee.nothing(
            "the noise is computed from diameters and counts of private classes under a map that was trained "
            "on them without noise"
        )


def paper_allocation(
    profile: ClassProfile, *, epsilon: float, delta: float, sensitivity: float | Sequence[float] = 1.0
) -> Allocation:
    """Equation 21 as printed: Δ·ν_c·η_c^(3/2) / (ε·√(2 log(1.25/δ))).

    ``sensitivity`` is Δ, or Δ_c of each class, which then stands in both equations.
    """
    return _allocation(profile, epsilon, delta, sensitivity, corrected=False)


def corrected_allocation(
    profile: ClassProfile, *, epsilon: float, delta: float, sensitivity: float | Sequence[float] = 1.0
) -> Allocation:
    """Equation 21 with its root in the numerator: Δ·ν_c·η_c^(3/2)·√(2 log(1.25/δ)) / ε.

    ``sensitivity`` is Δ, or Δ_c of each class, which then stands in both equations.
    """
    return _allocation(profile, epsilon, delta, sensitivity, corrected=True)


def class_release_guarantee(
    sigma: Sequence[float] | NDArray[np.float64],
    sensitivity: float | Sequence[float],
    *,
    delta: float,
    neighbours: str = RECORDS.neighbours,
) -> Guarantee:
    """Of releasing a vector f_c + N(0, σ_c² I) for every class c, where σ_c and Δ_c are public constants.

    Δ_c is the most by which the presence of one record of class c moves f_c, in L2, while the f of other
    classes stay as they are. A null record in place of one of class c (zero-out) is then one Gaussian of
    μ = Δ_c/σ_c, and the largest of these holds for all. Another record in its place (replace) may also change
    its class: it moves f_a by Δ_a and f_b by Δ_b, or one of them by twice that, so that μ ≤ 2 max Δ_c/σ_c.

    Sums of what each record contributes by itself have such a Δ_c. Densities of contracted features have
    none while the contraction is learned from the same records without noise: all of f moves.
    """
    given = _of_classes("sigma", sigma, None)
    mu = float((_of_classes("sensitivity", sensitivity, len(given)) / given).max())
    kind = known_neighbours(neighbours)
    return Guarantee.gaussian(
        1.0 / (2.0 * mu if kind is Neighbours.REPLACE else mu),
        unit=RECORD,
        neighbours=kind,
        theorem="analytic Gaussian, each record in one class",
        at_delta=delta_between(delta),
    )


def _allocation(
    profile: ClassProfile,
    epsilon: float,
    delta: float,
    sensitivity: float | Sequence[float],
    *,
    corrected: bool,
) -> Allocation:
    epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
    per_class = _of_classes("sensitivity", sensitivity, len(profile.count))
    shape = per_class * profile.vulnerability * profile.eta**1.5
    if not (shape > 0.0).all():
        raise BadInput(
            f"class {int(np.flatnonzero(shape <= 0.0)[0])} has a diameter of 0, before contraction or after "
            "it: equation 21 would give it no noise."
        )
    logarithm = math.log(1.25 / delta)
    root = math.sqrt(2.0 * logarithm)
    sigma = shape * root / epsilon if corrected else shape / (epsilon * root)
    return Allocation(
        formula="equation 21, corrected" if corrected else "equation 21 as printed",
        sigma=sigma,
        epsilon=epsilon,
        delta=delta,
        spent=float(np.square(per_class / sigma).sum()),
        allowed=2.0 * epsilon**2 / logarithm,
        sound=epsilon**2 / (2.0 * logarithm),
    )


def _of_classes(name: str, value: object, classes: int | None) -> Floats:
    """Positive numbers, one a class; a single number stands for all ``classes``."""
    found = positives([value] * (classes or 1) if isinstance(value, int | float) else value)
    if found is None or (classes is not None and len(found) != classes):
        wanted = "" if classes is None else f" for each of {classes} classes"
        raise BadInput(f"`{name}` was {shown(value)}: one positive number{wanted} is needed.", parameter=name)
    return found
