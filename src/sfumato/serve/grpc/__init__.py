"""gRPC, version 1: the operations of REST, with files as streams, reflection and health.

``sfumato.proto`` is the interface; ``generate`` makes ``sfumato_pb2`` and ``sfumato_pb2_grpc`` from it.
``grpc_server`` listens and turns errors into statuses, ``servicer`` has the methods. Nothing is imported
here: clients need the generated code only.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
