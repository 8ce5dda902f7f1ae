"""The server: one process, or several that share a socket, until it is told to end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sfumato.serve.rest.app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

__all__ = ["app_of_environment", "run"]

_NAMES = ("data", "database", "ledger", "body_bytes")


def run(settings: Settings, host: str, port: int, workers: int) -> None:
    """Answer until a signal; requests under way are finished first."""
    # Workers are processes of their own, which are told by their environment.
    for name in _NAMES:
        value = getattr(settings, name)
        if value is not None:
            os.environ[_variable(name)] = str(Path(value).absolute() if name == "data" else value)
    Service(settings).close()  # what is wrong with the settings is said before anybody listens
    print(f"Sfumato listens on http://{host}:{port}/v1; Ctrl-C ends it.", file=sys.stderr, flush=True)
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
        timeout_graceful_shutdown=30,
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
    return make_app(Service(settings))


def _variable(name: str) -> str:
    return f"SFUMATO_SERVE_{name.upper()}"
