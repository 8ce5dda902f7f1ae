"""Federated learning: clients that train on their own records, and what is proven of each of them."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.learners.federated.central_noise import Central as Central
    from sfumato.learners.federated.central_noise import calibrate as calibrate
    from sfumato.learners.federated.central_noise import make_central as make_central
    from sfumato.learners.federated.flower_client import Credential as Credential
    from sfumato.learners.federated.flower_client import PrivacyMod as PrivacyMod
    from sfumato.learners.federated.flower_client import make_client_app as make_client_app
    from sfumato.learners.federated.flower_client import new_secret as new_secret
    from sfumato.learners.federated.flower_client import refused_message as refused_message
    from sfumato.learners.federated.flower_server import FlowerClients as FlowerClients
    from sfumato.learners.federated.grpc_clients import GrpcClients as GrpcClients
    from sfumato.learners.federated.grpc_clients import answer_server as answer_server
    from sfumato.learners.federated.grpc_clients import serve_clients as serve_clients
    from sfumato.learners.federated.local_training import Arrays as Arrays
    from sfumato.learners.federated.local_training import LocalTraining as LocalTraining
    from sfumato.learners.federated.local_training import initial_parameters as initial_parameters
    from sfumato.learners.federated.local_training import layers_from_bytes as layers_from_bytes
    from sfumato.learners.federated.local_training import layers_to_bytes as layers_to_bytes
    from sfumato.learners.federated.local_training import put_parameters as put_parameters
    from sfumato.learners.federated.protections import CLIENT as CLIENT
    from sfumato.learners.federated.protections import PROTECTIONS as PROTECTIONS
    from sfumato.learners.federated.protections import Protection as Protection
    from sfumato.learners.federated.protections import TensorPaper as TensorPaper
    from sfumato.learners.federated.protections import make_protection as make_protection
    from sfumato.learners.federated.protections import protection_name as protection_name
    from sfumato.learners.federated.rounds import QUIET as QUIET
    from sfumato.learners.federated.rounds import Federated as Federated
    from sfumato.learners.federated.rounds import FederatedClassifier as FederatedClassifier
    from sfumato.learners.federated.rounds import OutOfBudget as OutOfBudget
    from sfumato.learners.federated.rounds import Refused as Refused
    from sfumato.learners.federated.rounds import RemoteClients as RemoteClients
    from sfumato.learners.federated.rounds import client_names as client_names
    from sfumato.learners.federated.rounds import federate as federate
    from sfumato.learners.federated.rounds import require_flower as require_flower
    from sfumato.learners.federated.rounds import round_guarantee as round_guarantee

__all__ = [
    "CLIENT",
    "PROTECTIONS",
    "QUIET",
    "Arrays",
    "Central",
    "Credential",
    "Federated",
    "FederatedClassifier",
    "FlowerClients",
    "GrpcClients",
    "LocalTraining",
    "OutOfBudget",
    "PrivacyMod",
    "Protection",
    "Refused",
    "RemoteClients",
    "TensorPaper",
    "answer_server",
    "calibrate",
    "client_names",
    "federate",
    "initial_parameters",
    "layers_from_bytes",
    "layers_to_bytes",
    "make_central",
    "make_client_app",
    "make_protection",
    "new_secret",
    "protection_name",
    "put_parameters",
    "refused_message",
    "require_flower",
    "round_guarantee",
    "serve_clients",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Central": "central_noise",
            "calibrate": "central_noise",
            "make_central": "central_noise",
            "Credential": "flower_client",
            "PrivacyMod": "flower_client",
            "make_client_app": "flower_client",
            "new_secret": "flower_client",
            "refused_message": "flower_client",
            "FlowerClients": "flower_server",
            "GrpcClients": "grpc_clients",
            "answer_server": "grpc_clients",
            "serve_clients": "grpc_clients",
            "Arrays": "local_training",
            "LocalTraining": "local_training",
            "initial_parameters": "local_training",
            "layers_from_bytes": "local_training",
            "layers_to_bytes": "local_training",
            "put_parameters": "local_training",
            "CLIENT": "protections",
            "PROTECTIONS": "protections",
            "Protection": "protections",
            "TensorPaper": "protections",
            "make_protection": "protections",
            "protection_name": "protections",
            "QUIET": "rounds",
            "Federated": "rounds",
            "FederatedClassifier": "rounds",
            "OutOfBudget": "rounds",
            "Refused": "rounds",
            "RemoteClients": "rounds",
            "client_names": "rounds",
            "federate": "rounds",
            "require_flower": "rounds",
            "round_guarantee": "rounds",
        },
    )
