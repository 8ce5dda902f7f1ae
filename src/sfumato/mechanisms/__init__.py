"""Randomised mechanisms, each calibrated from its parameters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.mechanisms.box_reports import Duchi, Hybrid, Piecewise
    from sfumato.mechanisms.control import AdditiveNoise
    from sfumato.mechanisms.directional import IndependentDirectional
    from sfumato.mechanisms.expected_error import ExpectedError
    from sfumato.mechanisms.gaussian import Gaussian
    from sfumato.mechanisms.grid_tensor import GridTensorLDP
    from sfumato.mechanisms.hessian_clipped import HessianClipped, private_curvature
    from sfumato.mechanisms.laplace import Laplace
    from sfumato.mechanisms.layer_adaptive import LayerAdaptive, flatten_layers, unflatten_layers
    from sfumato.mechanisms.matrix_variate import MatrixVariateGaussian
    from sfumato.mechanisms.mechanism import Mechanism
    from sfumato.mechanisms.personalised import Personalised
    from sfumato.mechanisms.privunit import PrivUnit, PrivUnitG
    from sfumato.mechanisms.randomised_response import RandomisedResponse
    from sfumato.mechanisms.release_value import Release
    from sfumato.mechanisms.table_rows import Rows
    from sfumato.mechanisms.tensor_ldp import TensorLDP, WeightedTensorLDP
    from sfumato.mechanisms.tensor_structure import Projection, SymmetricTensors
    from sfumato.mechanisms.trust_adaptive import Tiers, TrustAdaptive

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

__getattr__ = when_used(
    "sfumato.mechanisms",
    {
        "AdditiveNoise": "control",
        "Duchi": "box_reports",
        "ExpectedError": "expected_error",
        "Gaussian": "gaussian",
        "GridTensorLDP": "grid_tensor",
        "HessianClipped": "hessian_clipped",
        "Hybrid": "box_reports",
        "IndependentDirectional": "directional",
        "Laplace": "laplace",
        "LayerAdaptive": "layer_adaptive",
        "MatrixVariateGaussian": "matrix_variate",
        "Mechanism": "mechanism",
        "Personalised": "personalised",
        "Piecewise": "box_reports",
        "PrivUnit": "privunit",
        "PrivUnitG": "privunit",
        "Projection": "tensor_structure",
        "RandomisedResponse": "randomised_response",
        "Release": "release_value",
        "Rows": "table_rows",
        "SymmetricTensors": "tensor_structure",
        "TensorLDP": "tensor_ldp",
        "Tiers": "trust_adaptive",
        "TrustAdaptive": "trust_adaptive",
        "WeightedTensorLDP": "tensor_ldp",
        "flatten_layers": "layer_adaptive",
        "private_curvature": "hessian_clipped",
        "unflatten_layers": "layer_adaptive",
    },
)
