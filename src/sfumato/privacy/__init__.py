"""Units, guarantees, calibration, accounting and composition; no data and no formats live here.

A ``Guarantee`` is the proven column of a release, a ``Claim`` the claimed one, ``Evidence`` the measured
one, and a ``Statement`` the three together. ``composition`` holds composition theorems as plain numbers.

Names are loaded when they are first used: accounting takes longer to load than a command may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.privacy import composition, defaults
    from sfumato.privacy.amplification import poisson, poisson_pure, shuffle, shuffled
    from sfumato.privacy.analytic_gaussian import (
        classical_sigma,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_mu,
        gaussian_tradeoff,
    )
    from sfumato.privacy.claim import Claim
    from sfumato.privacy.composition import parallel
    from sfumato.privacy.correlated import ar1_factor, ar1_matrix, correlated_factor, correlated_gaussian
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.privacy.information_bounds import gaussian_information, pure_information
    from sfumato.privacy.sensitivity import (
        augmented_second_moment_sensitivity,
        joint_sum_sensitivity,
        linear_sensitivity,
    )
    from sfumato.privacy.statement import Comparison, Evidence, Statement
    from sfumato.privacy.text_table import aligned
    from sfumato.privacy.unit import RECORD, Neighbours, Unit
    from sfumato.privacy.wording import upward

__all__ = [
    "RECORD",
    "Claim",
    "Comparison",
    "Evidence",
    "Guarantee",
    "Neighbours",
    "Statement",
    "Unit",
    "aligned",
    "ar1_factor",
    "ar1_matrix",
    "augmented_second_moment_sensitivity",
    "classical_sigma",
    "composition",
    "correlated_factor",
    "correlated_gaussian",
    "defaults",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_information",
    "gaussian_mu",
    "gaussian_tradeoff",
    "joint_sum_sensitivity",
    "linear_sensitivity",
    "parallel",
    "poisson",
    "poisson_pure",
    "pure_information",
    "shuffle",
    "shuffled",
    "upward",
]

__getattr__ = when_used(
    "sfumato.privacy",
    {
        "Claim": "claim",
        "Comparison": "statement",
        "Evidence": "statement",
        "Guarantee": "guarantee",
        "Neighbours": "unit",
        "RECORD": "unit",
        "Statement": "statement",
        "Unit": "unit",
        "aligned": "text_table",
        "ar1_factor": "correlated",
        "ar1_matrix": "correlated",
        "augmented_second_moment_sensitivity": "sensitivity",
        "classical_sigma": "analytic_gaussian",
        "composition": None,
        "correlated_factor": "correlated",
        "correlated_gaussian": "correlated",
        "defaults": None,
        "gaussian_delta": "analytic_gaussian",
        "gaussian_epsilon": "analytic_gaussian",
        "gaussian_information": "information_bounds",
        "gaussian_mu": "analytic_gaussian",
        "gaussian_tradeoff": "analytic_gaussian",
        "joint_sum_sensitivity": "sensitivity",
        "linear_sensitivity": "sensitivity",
        "parallel": "composition",
        "poisson": "amplification",
        "poisson_pure": "amplification",
        "pure_information": "information_bounds",
        "shuffle": "amplification",
        "shuffled": "amplification",
        "upward": "wording",
    },
)
