"""Randomised mechanisms, each calibrated from its parameters alone."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.mechanisms.additive import AdditiveNoise as AdditiveNoise
    from sfumato.mechanisms.additive import Ball as Ball
    from sfumato.mechanisms.additive import Box as Box
    from sfumato.mechanisms.additive import Gaussian as Gaussian
    from sfumato.mechanisms.additive import Laplace as Laplace
    from sfumato.mechanisms.additive import Personalised as Personalised
    from sfumato.mechanisms.additive import declared_domain as declared_domain
    from sfumato.mechanisms.additive import noise_multiplier as noise_multiplier
    from sfumato.mechanisms.additive import two_bounds as two_bounds
    from sfumato.mechanisms.base import NESTED as NESTED
    from sfumato.mechanisms.base import ExpectedError as ExpectedError
    from sfumato.mechanisms.base import Mechanism as Mechanism
    from sfumato.mechanisms.base import Release as Release
    from sfumato.mechanisms.base import as_array as as_array
    from sfumato.mechanisms.base import check_finite as check_finite
    from sfumato.mechanisms.base import check_visible as check_visible
    from sfumato.mechanisms.base import finite_array as finite_array
    from sfumato.mechanisms.base import held as held
    from sfumato.mechanisms.base import records as records
    from sfumato.mechanisms.box_reports import Duchi as Duchi
    from sfumato.mechanisms.box_reports import Hybrid as Hybrid
    from sfumato.mechanisms.box_reports import Piecewise as Piecewise
    from sfumato.mechanisms.cell_sums import CellSums as CellSums
    from sfumato.mechanisms.cell_sums import Sums as Sums
    from sfumato.mechanisms.directional import IndependentDirectional as IndependentDirectional
    from sfumato.mechanisms.directional import MatrixVariateGaussian as MatrixVariateGaussian
    from sfumato.mechanisms.grid_tensor import GridTensorLDP as GridTensorLDP
    from sfumato.mechanisms.model_parameters import HessianClipped as HessianClipped
    from sfumato.mechanisms.model_parameters import LayerAdaptive as LayerAdaptive
    from sfumato.mechanisms.parameters import LARGEST as LARGEST
    from sfumato.mechanisms.parameters import SMALLEST as SMALLEST
    from sfumato.mechanisms.parameters import Delta as Delta
    from sfumato.mechanisms.parameters import Distrust as Distrust
    from sfumato.mechanisms.parameters import Epsilon as Epsilon
    from sfumato.mechanisms.parameters import OptionalDelta as OptionalDelta
    from sfumato.mechanisms.parameters import RandomSource as RandomSource
    from sfumato.mechanisms.parameters import delta_between as delta_between
    from sfumato.mechanisms.parameters import epsilon_range as epsilon_range
    from sfumato.mechanisms.parameters import known_neighbours as known_neighbours
    from sfumato.mechanisms.parameters import numeric as numeric
    from sfumato.mechanisms.parameters import one_of as one_of
    from sfumato.mechanisms.parameters import positive as positive
    from sfumato.mechanisms.parameters import positives as positives
    from sfumato.mechanisms.parameters import proper_share as proper_share
    from sfumato.mechanisms.parameters import share as share
    from sfumato.mechanisms.parameters import whole as whole
    from sfumato.mechanisms.privunit import PrivUnit as PrivUnit
    from sfumato.mechanisms.privunit import PrivUnitG as PrivUnitG
    from sfumato.mechanisms.randomised_response import RandomisedResponse as RandomisedResponse
    from sfumato.mechanisms.randomised_response import keep_threshold as keep_threshold
    from sfumato.mechanisms.registry import MECHANISMS as MECHANISMS
    from sfumato.mechanisms.registry import Option as Option
    from sfumato.mechanisms.registry import Parameter as Parameter
    from sfumato.mechanisms.registry import accepted_by as accepted_by
    from sfumato.mechanisms.registry import chosen as chosen
    from sfumato.mechanisms.registry import default_mechanism as default_mechanism
    from sfumato.mechanisms.registry import describe_defaults as describe_defaults
    from sfumato.mechanisms.registry import describe_parameter as describe_parameter
    from sfumato.mechanisms.registry import make_mechanism as make_mechanism
    from sfumato.mechanisms.registry import mechanism as mechanism
    from sfumato.mechanisms.registry import mechanism_names as mechanism_names
    from sfumato.mechanisms.registry import mechanism_places as mechanism_places
    from sfumato.mechanisms.registry import options_at as options_at
    from sfumato.mechanisms.registry import parameters_of as parameters_of
    from sfumato.mechanisms.registry import refuse_foreign as refuse_foreign
    from sfumato.mechanisms.registry import shown as shown
    from sfumato.mechanisms.registry import typed_value as typed_value
    from sfumato.mechanisms.table_rows import Rows as Rows
    from sfumato.mechanisms.tensor_ldp import TensorLDP as TensorLDP
    from sfumato.mechanisms.tensor_ldp import WeightedTensorLDP as WeightedTensorLDP
    from sfumato.mechanisms.tensor_ldp import saliency_weights as saliency_weights
    from sfumato.mechanisms.tensors import UNITS as UNITS
    from sfumato.mechanisms.tensors import Projection as Projection
    from sfumato.mechanisms.tensors import SymmetricTensors as SymmetricTensors
    from sfumato.mechanisms.tensors import TensorMechanism as TensorMechanism
    from sfumato.mechanisms.tiers import ResponseTier as ResponseTier
    from sfumato.mechanisms.tiers import Tier as Tier
    from sfumato.mechanisms.tiers import TierRows as TierRows
    from sfumato.mechanisms.tiers import TrustTier as TrustTier
    from sfumato.mechanisms.trust_adaptive import TrustAdaptive as TrustAdaptive

__all__ = [
    "LARGEST",
    "MECHANISMS",
    "NESTED",
    "SMALLEST",
    "UNITS",
    "AdditiveNoise",
    "Ball",
    "Box",
    "CellSums",
    "Delta",
    "Distrust",
    "Duchi",
    "Epsilon",
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
    "Option",
    "OptionalDelta",
    "Parameter",
    "Personalised",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "Projection",
    "RandomSource",
    "RandomisedResponse",
    "Release",
    "ResponseTier",
    "Rows",
    "Sums",
    "SymmetricTensors",
    "TensorLDP",
    "TensorMechanism",
    "Tier",
    "TierRows",
    "TrustAdaptive",
    "TrustTier",
    "WeightedTensorLDP",
    "accepted_by",
    "as_array",
    "check_finite",
    "check_visible",
    "chosen",
    "declared_domain",
    "default_mechanism",
    "delta_between",
    "describe_defaults",
    "describe_parameter",
    "epsilon_range",
    "finite_array",
    "held",
    "keep_threshold",
    "known_neighbours",
    "make_mechanism",
    "mechanism",
    "mechanism_names",
    "mechanism_places",
    "noise_multiplier",
    "numeric",
    "one_of",
    "options_at",
    "parameters_of",
    "positive",
    "positives",
    "proper_share",
    "records",
    "refuse_foreign",
    "saliency_weights",
    "share",
    "shown",
    "two_bounds",
    "typed_value",
    "whole",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "AdditiveNoise": "additive",
            "Ball": "additive",
            "Box": "additive",
            "Gaussian": "additive",
            "Laplace": "additive",
            "Personalised": "additive",
            "declared_domain": "additive",
            "noise_multiplier": "additive",
            "two_bounds": "additive",
            "NESTED": "base",
            "ExpectedError": "base",
            "Mechanism": "base",
            "Release": "base",
            "as_array": "base",
            "check_finite": "base",
            "check_visible": "base",
            "finite_array": "base",
            "held": "base",
            "records": "base",
            "Duchi": "box_reports",
            "Hybrid": "box_reports",
            "Piecewise": "box_reports",
            "CellSums": "cell_sums",
            "Sums": "cell_sums",
            "IndependentDirectional": "directional",
            "MatrixVariateGaussian": "directional",
            "GridTensorLDP": "grid_tensor",
            "HessianClipped": "model_parameters",
            "LayerAdaptive": "model_parameters",
            "LARGEST": "parameters",
            "SMALLEST": "parameters",
            "Delta": "parameters",
            "Distrust": "parameters",
            "Epsilon": "parameters",
            "OptionalDelta": "parameters",
            "RandomSource": "parameters",
            "delta_between": "parameters",
            "epsilon_range": "parameters",
            "known_neighbours": "parameters",
            "numeric": "parameters",
            "one_of": "parameters",
            "positive": "parameters",
            "positives": "parameters",
            "proper_share": "parameters",
            "share": "parameters",
            "whole": "parameters",
            "PrivUnit": "privunit",
            "PrivUnitG": "privunit",
            "RandomisedResponse": "randomised_response",
            "keep_threshold": "randomised_response",
            "MECHANISMS": "registry",
            "Option": "registry",
            "Parameter": "registry",
            "accepted_by": "registry",
            "chosen": "registry",
            "default_mechanism": "registry",
            "describe_defaults": "registry",
            "describe_parameter": "registry",
            "make_mechanism": "registry",
            "mechanism": "registry",
            "mechanism_names": "registry",
            "mechanism_places": "registry",
            "options_at": "registry",
            "parameters_of": "registry",
            "refuse_foreign": "registry",
            "shown": "registry",
            "typed_value": "registry",
            "Rows": "table_rows",
            "TensorLDP": "tensor_ldp",
            "WeightedTensorLDP": "tensor_ldp",
            "saliency_weights": "tensor_ldp",
            "UNITS": "tensors",
            "Projection": "tensors",
            "SymmetricTensors": "tensors",
            "TensorMechanism": "tensors",
            "ResponseTier": "tiers",
            "Tier": "tiers",
            "TierRows": "tiers",
            "TrustTier": "tiers",
            "TrustAdaptive": "trust_adaptive",
        },
    )
