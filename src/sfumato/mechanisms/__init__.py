"""Randomised mechanisms, each calibrated from its parameters alone."""

from sfumato.mechanisms.box_reports import Duchi, Hybrid, Piecewise
from sfumato.mechanisms.control import AdditiveNoise
from sfumato.mechanisms.directional import IndependentDirectional
from sfumato.mechanisms.expected import ExpectedError
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.grid_tensor import GridTensorLDP
from sfumato.mechanisms.hessian_clipped import HessianClipped, private_curvature
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.layer_adaptive import LayerAdaptive, flatten_layers, unflatten_layers
from sfumato.mechanisms.matrix_variate import MatrixVariateGaussian
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.personalised import Personalised
from sfumato.mechanisms.privunit import PrivUnit, PrivUnitG
from sfumato.mechanisms.release import Release
from sfumato.mechanisms.response import RandomisedResponse
from sfumato.mechanisms.structure import Projection, SymmetricTensors
from sfumato.mechanisms.table import Rows
from sfumato.mechanisms.tensor_ldp import TensorLDP, WeightedTensorLDP
from sfumato.mechanisms.trust import Tiers, TrustAdaptive

__all__ = [
    "AdditiveNoise",
    "Duchi",
    "ExpectedError",
    "Gaussian",
    "GridTensorLDP",
    "HessianClipped",
    "Hybrid",
    "IndependentDirectional",
    "Laplace",
    "LayerAdaptive",
    "MatrixVariateGaussian",
    "Mechanism",
    "Personalised",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "Projection",
    "RandomisedResponse",
    "Release",
    "Rows",
    "SymmetricTensors",
    "TensorLDP",
    "Tiers",
    "TrustAdaptive",
    "WeightedTensorLDP",
    "flatten_layers",
    "private_curvature",
    "unflatten_layers",
]
