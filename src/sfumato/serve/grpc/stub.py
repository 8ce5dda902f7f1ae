"""The client stub and the server's method handlers, derived from the descriptor of the service."""

from __future__ import annotations

from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from sfumato.serve.grpc import sfumato_pb2

__all__ = ["SfumatoStub"]

#: The descriptor of the service.
SERVICE: Any = sfumato_pb2.DESCRIPTOR.services_by_name["Sfumato"]


class SfumatoStub:
    """A client of the service on ``channel``; each method of ``sfumato.proto`` is an attribute."""

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            call = getattr(channel, _shape(method))(
                f"/{SERVICE.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the service has no method {name}.")


def add_servicer(servicer: object, server: Any) -> None:
    """Let ``server`` answer each method of the service by the method of ``servicer`` with its name."""
    handlers = {
        method.name: getattr(grpc, f"{_shape(method)}_rpc_method_handler")(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in SERVICE.methods
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)])


def _shape(method: Any) -> str:
    """Return which sides of ``method`` stream in the words of gRPC, as in unary_stream."""
    sides = (method.client_streaming, method.server_streaming)
    return "_".join("stream" if streams else "unary" for streams in sides)
