"""gRPC, version 1: the operations of REST, with files as streams, reflection and health.

``sfumato.proto`` says what there is; ``sfumato_pb2`` and ``sfumato_pb2_grpc`` are what ``generate`` makes of
it. ``grpc_server`` listens, ``call_guard`` turns errors into statuses, ``servicer`` asks the service. Nothing
is imported here: clients need the generated code alone.
"""

__all__: list[str] = []
