"""Randomised mechanisms, each calibrated from its parameters alone."""

from sfumato.mechanisms.box_reports import Duchi, Hybrid, Piecewise
from sfumato.mechanisms.control import AdditiveNoise
from sfumato.mechanisms.expected import ExpectedError
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.grid_tensor import GridTensorLDP
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.personalised import Personalised
from sfumato.mechanisms.privunit import PrivUnit, PrivUnitG
from sfumato.mechanisms.release import Release
from sfumato.mechanisms.response import RandomisedResponse
from sfumato.mechanisms.table import Rows
from sfumato.mechanisms.tensor_ldp import TensorLDP, WeightedTensorLDP
from sfumato.mechanisms.trust import Tiers, TrustAdaptive

__all__ = [
    "AdditiveNoise",
    "Duchi",
    "ExpectedError",
    "Gaussian",
    "GridTensorLDP",
    "Hybrid",
    "Laplace",
    "Mechanism",
    "Personalised",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "RandomisedResponse",
    "Release",
    "Rows",
    "TensorLDP",
    "Tiers",
    "TrustAdaptive",
    "WeightedTensorLDP",
]
