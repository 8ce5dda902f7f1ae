"""Units, guarantees, calibration, accounting and composition; no data and no formats live here.

A ``Guarantee`` is the proven column of a release, a ``Claim`` the claimed one, ``Evidence`` the measured
one, and a ``Statement`` the three together. ``composition`` holds composition theorems as plain numbers.

Names are loaded when they are first used: accounting takes longer to load than a command may.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.privacy.analytic_gaussian import classical_sigma as classical_sigma
    from sfumato.privacy.analytic_gaussian import gaussian_epsilon as gaussian_epsilon
    from sfumato.privacy.analytic_gaussian import gaussian_mu as gaussian_mu
    from sfumato.privacy.composition import ar1_factor as ar1_factor
    from sfumato.privacy.composition import ar1_matrix as ar1_matrix
    from sfumato.privacy.composition import correlated_gaussian as correlated_gaussian
    from sfumato.privacy.composition import poisson as poisson
    from sfumato.privacy.composition import shuffled_epsilon as shuffled_epsilon
    from sfumato.privacy.defaults import AUDIO as AUDIO
    from sfumato.privacy.defaults import DELTA as DELTA
    from sfumato.privacy.defaults import FEDERATED as FEDERATED
    from sfumato.privacy.defaults import IMAGES as IMAGES
    from sfumato.privacy.defaults import MODELS as MODELS
    from sfumato.privacy.defaults import PUBLICATIONS as PUBLICATIONS
    from sfumato.privacy.defaults import RECORDS as RECORDS
    from sfumato.privacy.defaults import REQUIRED as REQUIRED
    from sfumato.privacy.defaults import TENSORS as TENSORS
    from sfumato.privacy.events import GaussianEvent as GaussianEvent
    from sfumato.privacy.events import LaplaceEvent as LaplaceEvent
    from sfumato.privacy.events import require_fields as require_fields
    from sfumato.privacy.formatting import TEXT_WIDTH as TEXT_WIDTH
    from sfumato.privacy.formatting import format_delta as format_delta
    from sfumato.privacy.formatting import format_lower as format_lower
    from sfumato.privacy.formatting import format_table as format_table
    from sfumato.privacy.formatting import format_upper as format_upper
    from sfumato.privacy.formatting import printable as printable
    from sfumato.privacy.formatting import wrap_text as wrap_text
    from sfumato.privacy.guarantee import Guarantee as Guarantee
    from sfumato.privacy.privacy_loss import ORDERS as ORDERS
    from sfumato.privacy.privacy_loss import Curve as Curve
    from sfumato.privacy.privacy_loss import GaussianLoss as GaussianLoss
    from sfumato.privacy.statement import Claim as Claim
    from sfumato.privacy.statement import Comparison as Comparison
    from sfumato.privacy.statement import Evidence as Evidence
    from sfumato.privacy.statement import Statement as Statement
    from sfumato.privacy.unit import RECORD as RECORD
    from sfumato.privacy.unit import Neighbours as Neighbours
    from sfumato.privacy.unit import Unit as Unit

__all__ = [
    "AUDIO",
    "DELTA",
    "FEDERATED",
    "IMAGES",
    "MODELS",
    "ORDERS",
    "PUBLICATIONS",
    "RECORD",
    "RECORDS",
    "REQUIRED",
    "TENSORS",
    "TEXT_WIDTH",
    "Claim",
    "Comparison",
    "Curve",
    "Evidence",
    "GaussianEvent",
    "GaussianLoss",
    "Guarantee",
    "LaplaceEvent",
    "Neighbours",
    "Statement",
    "Unit",
    "ar1_factor",
    "ar1_matrix",
    "classical_sigma",
    "correlated_gaussian",
    "format_delta",
    "format_lower",
    "format_table",
    "format_upper",
    "gaussian_epsilon",
    "gaussian_mu",
    "poisson",
    "printable",
    "require_fields",
    "shuffled_epsilon",
    "wrap_text",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "classical_sigma": "analytic_gaussian",
            "gaussian_epsilon": "analytic_gaussian",
            "gaussian_mu": "analytic_gaussian",
            "ar1_factor": "composition",
            "ar1_matrix": "composition",
            "correlated_gaussian": "composition",
            "poisson": "composition",
            "shuffled_epsilon": "composition",
            "AUDIO": "defaults",
            "DELTA": "defaults",
            "FEDERATED": "defaults",
            "IMAGES": "defaults",
            "MODELS": "defaults",
            "PUBLICATIONS": "defaults",
            "RECORDS": "defaults",
            "REQUIRED": "defaults",
            "TENSORS": "defaults",
            "GaussianEvent": "events",
            "LaplaceEvent": "events",
            "require_fields": "events",
            "TEXT_WIDTH": "formatting",
            "format_delta": "formatting",
            "format_lower": "formatting",
            "format_table": "formatting",
            "format_upper": "formatting",
            "printable": "formatting",
            "wrap_text": "formatting",
            "Guarantee": "guarantee",
            "ORDERS": "privacy_loss",
            "Curve": "privacy_loss",
            "GaussianLoss": "privacy_loss",
            "Claim": "statement",
            "Comparison": "statement",
            "Evidence": "statement",
            "Statement": "statement",
            "RECORD": "unit",
            "Neighbours": "unit",
            "Unit": "unit",
        },
    )
