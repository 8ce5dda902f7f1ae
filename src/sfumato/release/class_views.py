"""What was found of each class of a model: what leaks of its records, how wide it is, its noise by Theorem 3.

All of it is computed from the records, and none of it is covered by a proof: it stays with whoever learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.audits.class_leakage import ClassLeakage
from sfumato.errors import BadInput
from sfumato.reports.class_table import ClassTable
from sfumato.reports.numbers import plain

if TYPE_CHECKING:
    from sfumato.learners import Learner
    from sfumato.learners.compact.class_profile import ClassProfile
    from sfumato.learners.compact.noise_allocation import Allocation

__all__ = ["ClassViews", "class_views"]

_LEAKAGE = (
    "How well the losses of a model of four fifths of the records tell its members from others of the same "
    "class. A guess has an AUC of 0.5 and a leakage of 0. Each interval holds with 99% confidence by itself; "
    "rates of one model bound no ε."
)
_PROFILE = (
    "Definitions 1 and 6 of CompactDP, in the units of the features: the diameter d before and after "
    "contraction, η = d′/d, κ = 1 − η, the density ρ at the bandwidth in use (its logarithm) and the "
    "vulnerability ν. They describe features and bound nothing: a constant factor changes d and no attack."
)
_ALLOCATION = (
    "The noise of Theorem 3 for ε = {epsilon:g} at δ = {delta:g} and a sensitivity of 1: equation 21 as "
    "printed, where less δ is less noise, and with its root where it belongs. Neither was added to anything, "
    "and neither proves anything: both are computed from the records."
)


@dataclass(frozen=True)
class ClassViews:
    """The rows of each class, where there are any; ``missing`` says why there is no noise to show."""

    names: tuple[str, ...] = ()
    leakage: tuple[ClassLeakage, ...] = ()
    profile: ClassProfile | None = None
    allocations: tuple[Allocation, ...] = ()
    missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; null where a number leaves the floats."""
        rows = () if self.profile is None else self.profile.rows()
        return {
            "leakage": [item.to_dict() for item in self.leakage],
            "profile": None if self.profile is None else [_finite(row) for row in rows],
            "allocations": [
                {
                    "formula": item.formula,
                    "epsilon": item.epsilon,
                    "delta": item.delta,
                    "sigma": item.sigma.tolist(),
                    "spent": item.spent,
                    "allowed": item.allowed,
                    "within_paper": item.within_paper,
                    "within_sound": item.within_sound,
                }
                for item in self.allocations
            ],
            "missing": self.missing or None,
        }

    def tables(self) -> tuple[ClassTable, ...]:
        """For the report."""
        found: list[ClassTable] = []
        columns: tuple[str, ...]
        if self.leakage:
            columns = ("Class", "Members", "Others", "AUC", "Interval", "TPR at 0.1% FPR", "Leakage")
            found.append(ClassTable("leakage", _LEAKAGE, columns, [self._leak(row) for row in self.leakage]))
        if self.profile is not None:
            columns = ("Class", "Records", "d", "d′", "η", "κ", "log ρ", "ν")
            found.append(ClassTable("profile", _PROFILE, columns, self._widths(self.profile)))
        if self.allocations:
            first = self.allocations[0]
            text = _ALLOCATION.format(epsilon=first.epsilon, delta=first.delta)
            columns = ("Class", *(f"σ, {item.formula}" for item in self.allocations))
            sigmas = zip(*(item.sigma for item in self.allocations), strict=True)
            rows = [
                (name, *(plain(float(value)) for value in row))
                for name, row in zip(self.names, sigmas, strict=True)
            ]
            found.append(ClassTable("noise of Theorem 3", text, columns, rows))
        return tuple(found)

    def _leak(self, row: ClassLeakage) -> tuple[str, ...]:
        counts = (self.names[row.label], f"{row.members:,}", f"{row.nonmembers:,}")
        if row.auc is None or row.interval is None or row.tpr is None or row.leakage is None:
            return (*counts, "too few", "–", "–", "–")
        low, high = row.interval
        numbers = (plain(row.auc), f"{plain(low)} to {plain(high)}", plain(row.tpr), plain(row.leakage))
        return (*counts, *numbers)

    def _widths(self, profile: ClassProfile) -> list[tuple[str, ...]]:
        columns = ("diameter", "contracted_diameter", "eta", "kappa", "log_rho", "vulnerability")
        return [
            (self.names[kind], f"{row['count']:,.0f}", *(plain(row[column]) for column in columns))
            for kind, row in enumerate(profile.rows())
        ]


def class_views(
    learner: Learner, leakage: Sequence[ClassLeakage], names: tuple[str, ...], epsilon: float, delta: float
) -> ClassViews:
    """What is known of the classes of a fitted ``learner``; ``leakage`` is what an audit found, if any.

    Profile and noise are those of a learner that contracts without noise; ``epsilon`` and ``delta`` are what
    the noise is computed for.
    """
    profile: ClassProfile | None = getattr(learner, "profile_", None)
    if profile is None:
        return ClassViews(names, tuple(leakage))
    from sfumato.learners.compact.noise_allocation import corrected_allocation, paper_allocation

    try:
        noise = tuple(
            formula(profile, epsilon=epsilon, delta=delta)
            for formula in (paper_allocation, corrected_allocation)
        )
    except BadInput as error:
        return ClassViews(names, tuple(leakage), profile, missing=str(error))
    return ClassViews(names, tuple(leakage), profile, noise)


def _finite(row: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
