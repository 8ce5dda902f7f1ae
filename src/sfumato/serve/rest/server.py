"""The server: one process, or several that share a socket, until it is told to end."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sfumato.errors import BadInput
from sfumato.serve.guessing import Guessing
from sfumato.serve.rest.app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

__all__ = ["app_of_environment", "run"]

_NAMES = ("data", "database", "ledger", "body_bytes")
_GRPC = "SFUMATO_SERVE_GRPC"
_GRACE_SECONDS = 30


def run(settings: Settings, host: str, port: int, workers: int, grpc_port: int | None = None) -> None:
    """Answer until a signal; requests under way are finished first.

    With ``grpc_port`` the process also answers gRPC there, on the same host. Several workers cannot share
    that port: each would need one of its own.
    """
    if grpc_port is not None:
        _require_grpc(host, port, workers, grpc_port)
    # Workers are processes of their own, which are told by their environment.
    for name in _NAMES:
        value = getattr(settings, name)
        if value is not None:
            os.environ[_variable(name)] = str(Path(value).absolute() if name == "data" else value)
    os.environ.pop(_GRPC, None)
    if grpc_port is not None:
        os.environ[_GRPC] = _address(host, grpc_port)
    Service(settings).close()  # what is wrong with the settings is said before anybody listens
    also = "" if grpc_port is None else f" and for gRPC on {_address(host, grpc_port)}"
    told = f"Sfumato listens on http://{_address(host, port)}/v1{also}; Ctrl-C ends it."
    print(told, file=sys.stderr, flush=True)
    uvicorn.run(
        "sfumato.serve.rest.server:app_of_environment",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        limit_concurrency=256,
        h11_max_incomplete_event_size=64 << 10,
    )


def app_of_environment() -> FastAPI:
    """The application of the settings that :func:`run` has put into the environment."""
    given = {name: os.environ[_variable(name)] for name in _NAMES if _variable(name) in os.environ}
    settings = Settings(
        data=Path(given["data"]),
        database=given.get("database"),
        ledger=given.get("ledger"),
        body_bytes=int(given["body_bytes"]),
    )
    service, address = Service(settings), os.environ.get(_GRPC)
    if address is None:
        return make_app(service)
    guessing = Guessing()  # one count of wrong keys, whichever way they come
    return make_app(service, guessing=guessing, lifespan=_beside(service, address, guessing))


def _beside(
    service: Service, address: str, guessing: Guessing
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """A gRPC server on ``address`` for as long as an application lives."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        from sfumato.serve.grpc_api.server import make_server

        server = make_server(service, address, guessing=guessing)
        await server.start()
        try:
            yield
        finally:
            await server.stop(_GRACE_SECONDS)

    return lifespan


def _require_grpc(host: str, port: int, workers: int, grpc_port: int) -> None:
    """Say what stands in the way of gRPC before anybody listens."""
    if workers != 1:
        raise BadInput(
            f"gRPC is answered by one process, not {workers}: give --workers 1, "
            "or start several services on one --data, each with ports of its own."
        )
    if grpc_port == port:
        raise BadInput(f"REST and gRPC cannot share port {port}: give --grpc-port another.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, grpc_port))
        except OSError:
            raise BadInput(f"gRPC cannot listen on {_address(host, grpc_port)}: is the port taken?") from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _variable(name: str) -> str:
    return f"SFUMATO_SERVE_{name.upper()}"
