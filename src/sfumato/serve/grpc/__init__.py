"""gRPC, version 1: the operations of REST, with files as streams, reflection and health.

``sfumato.proto`` is the interface. ``generate`` makes the messages in ``sfumato_pb2`` from it, and ``stub``
derives the client from their descriptors. ``servicer`` has the methods; ``grpc_server`` listens and turns
errors into statuses.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.serve.grpc.grpc_server import make_server as make_server
    from sfumato.serve.grpc.stub import SfumatoStub as SfumatoStub

__all__ = ["SfumatoStub", "make_server"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {"make_server": "grpc_server", "SfumatoStub": "stub"})
