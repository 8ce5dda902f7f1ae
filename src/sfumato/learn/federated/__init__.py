"""Federated learning: clients that train on their own records, and what is proven of each of them."""

from sfumato.learn.federated.calibration import calibrated
from sfumato.learn.federated.central import AveragedTensors, Central, CentralGaussian
from sfumato.learn.federated.leaving import CLIENT, finite_or_zero, same_shapes
from sfumato.learn.federated.local import LocalTraining, put_parameters
from sfumato.learn.federated.models import initial_parameters
from sfumato.learn.federated.parameters import Arrays, Shapes, checked, flat, shaped, shapes_of, size_of
from sfumato.learn.federated.protection import PROTECTIONS, Protection, make_protection
from sfumato.learn.federated.quiet import require_flower
from sfumato.learn.federated.rounds import Federated, OutOfBudget, federate
from sfumato.learn.federated.type_three import TensorPaper

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
