"""Federated learning: clients that train on their own records, and what is proven of each of them."""

from sfumato.learn.federated.central import AveragedTensors, Central, CentralGaussian
from sfumato.learn.federated.local import LocalTraining
from sfumato.learn.federated.parameters import Arrays, checked, flat, shaped
from sfumato.learn.federated.protection import PROTECTIONS, Protection, make_protection
from sfumato.learn.federated.quiet import require_flower
from sfumato.learn.federated.rounds import Federated, OutOfBudget, federate

__all__ = [
    "PROTECTIONS",
    "Arrays",
    "AveragedTensors",
    "Central",
    "CentralGaussian",
    "Federated",
    "LocalTraining",
    "OutOfBudget",
    "Protection",
    "checked",
    "federate",
    "flat",
    "make_protection",
    "require_flower",
    "shaped",
]
