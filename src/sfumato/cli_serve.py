"""``sfumato serve``: the service, and its tenants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.serve.settings import Settings

__all__ = ["app"]

app = typer.Typer(
    help="Protection as a service: REST and gRPC with tenants, keys and budgets.", invoke_without_command=True
)
_DATA = typer.Option(
    metavar="FOLDER", envvar="SFUMATO_DATA_FOLDER", help="Where the service keeps its things."
)
_DATABASE = typer.Option(
    metavar="URL", envvar="SFUMATO_DATABASE", help="Of tenants and keys; a file in --data unless given."
)
_LEDGER = typer.Option(
    metavar="URL", envvar="SFUMATO_LEDGER", help="Of budgets; a file in --data unless given."
)
_JSON = typer.Option("--json", help="Print the result as JSON.")


@app.callback()
def serve(
    context: typer.Context,
    data: Annotated[Path, _DATA] = Path("sfumato-service"),
    database: Annotated[str | None, _DATABASE] = None,
    ledger: Annotated[str | None, _LEDGER] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port.", min=1, max=65535)] = 8765,
    grpc_port: Annotated[
        int | None, typer.Option(metavar="N", help="Also answer gRPC, on this port.", min=1, max=65535)
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="How many processes answer.", min=1)] = 1,
    largest: Annotated[
        int, typer.Option(metavar="BYTES", help="The most that one request may bring.", min=1)
    ] = 256 << 20,
) -> None:
    """Start the service; 'sfumato serve tenant NAME' makes a tenant and its owner's key."""
    from sfumato.serve.settings import Settings

    settings = Settings(data, database, ledger, largest)
    context.obj = settings
    if context.invoked_subcommand is None:
        _run(settings, host, port, workers, grpc_port)


@app.command()
def tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Make a tenant and a key of its owner, which is shown this once."""
    from sfumato.serve.service import Service

    service = Service(context.obj)
    try:
        made = service.registry.create_tenant(name)
        key, token = service.registry.create_key(made.id, name="first", role="owner")
    finally:
        service.close()
    found = {"tenant": made.id, "name": made.name, "key": key.id, "token": token}
    print(json.dumps(found) if as_json else f"Tenant {made.name}: {made.id}\nKey, shown this once: {token}")


def _run(settings: Settings, host: str, port: int, workers: int, grpc_port: int | None) -> None:
    try:
        import uvicorn

        from sfumato.serve.rest.server import run

        if grpc_port is not None:
            from sfumato.serve.grpc_api import server

            del server
    except ImportError:
        raise BadInput("the service needs packages: pip install 'sfumato[serve]'.") from None
    del uvicorn
    run(settings, host, port, workers, grpc_port)
