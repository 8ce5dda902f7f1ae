"""gRPC, version 1: the operations of REST, with files as streams, reflection and health.

``sfumato.proto`` is the interface; ``generate`` makes ``sfumato_pb2`` and ``sfumato_pb2_grpc`` from it.
``grpc_server`` listens and turns errors into statuses, ``servicer`` has the methods. Nothing is imported
here: clients need the generated code only.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.serve.grpc.grpc_server import make_server as make_server

__all__ = ["make_server"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {"make_server": "grpc_server"})
