"""Federated learning: clients that train on their own records, and what is proven of each of them."""

from sfumato.learners.federated.central_noise import AveragedTensors, Central, CentralGaussian
from sfumato.learners.federated.federated_models import initial_parameters
from sfumato.learners.federated.flower_import import require_flower
from sfumato.learners.federated.local_training import LocalTraining, put_parameters
from sfumato.learners.federated.parameter_vectors import (
    Arrays,
    Shapes,
    checked,
    flat,
    shaped,
    shapes_of,
    size_of,
)
from sfumato.learners.federated.protection_base import CLIENT, finite_or_zero, same_shapes
from sfumato.learners.federated.protections import PROTECTIONS, Protection, make_protection
from sfumato.learners.federated.round_calibration import calibrated
from sfumato.learners.federated.rounds import Federated, OutOfBudget, federate
from sfumato.learners.federated.tensor_paper import TensorPaper

__all__ = [
    "CLIENT",
    "PROTECTIONS",
    "Arrays",
    "AveragedTensors",
    "Central",
    "CentralGaussian",
    "Federated",
    "LocalTraining",
    "OutOfBudget",
    "Protection",
    "Shapes",
    "TensorPaper",
    "calibrated",
    "checked",
    "federate",
    "finite_or_zero",
    "flat",
    "initial_parameters",
    "make_protection",
    "put_parameters",
    "require_flower",
    "same_shapes",
    "shaped",
    "shapes_of",
    "size_of",
]
