"""gRPC, version 1: the operations of REST, with files as streams, reflection and health.

``sfumato.proto`` is the interface. ``generate`` makes the messages in ``sfumato_pb2`` from it, and ``stub``
derives the client from their descriptors. ``servicer`` has the methods; ``grpc_server`` listens and turns
errors into statuses.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
