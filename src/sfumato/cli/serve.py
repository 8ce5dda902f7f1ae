"""``sfumato serve``: the service, and its tenants.

The tenants of a service, for whoever runs it: made, listed, limited, given a new key, closed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import JSON
from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.serve import Listening, Registry, Settings, Tenant


_NAME = typer.Argument(metavar="TENANT", help="The name of a tenant.")


def tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: JSON = False,
) -> None:
    """Make a tenant and a key of its owner, which is shown this once."""
    with _registry(context) as registry:
        made = registry.create_tenant(name)
        key, token = registry.create_key(made.id, name="first", role="owner")
    found = {"tenant": made.id, "name": made.name, "key": key.id, "token": token}
    print(json.dumps(found) if as_json else f"Tenant {made.name}: {made.id}\nKey, shown this once: {token}")


def tenants(context: typer.Context, as_json: JSON = False) -> None:
    """List all tenants, oldest first: ids, which logs and metrics go by, and names."""
    with _registry(context) as registry:
        found = registry.tenants()
    if as_json:
        print(json.dumps([_shown(one) for one in found]))
        return
    for one in found:
        end = "" if one.closed is None else f", closed {one.closed:%Y-%m-%d}"
        print(f"{one.id}  {one.name}, since {one.created:%Y-%m-%d}{end}")


def quotas(
    context: typer.Context,
    name: Annotated[str, _NAME],
    requests_per_minute: Annotated[
        str | None, typer.Option(metavar="N", help="A whole number, or 'none' for no limit.")
    ] = None,
    bytes_per_day: Annotated[str | None, typer.Option(metavar="N", help="Likewise, of bodies.")] = None,
    jobs_at_once: Annotated[
        str | None, typer.Option(metavar="N", help="Likewise, of jobs that have not ended.")
    ] = None,
    bytes_kept: Annotated[
        str | None,
        typer.Option(metavar="N", help="Of what is kept; 'none' for what the service lets any keep."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show how much a tenant may ask for, and change what options are given for; 0 shuts it out."""
    from dataclasses import asdict, replace

    given = {
        "requests_per_minute": requests_per_minute,
        "bytes_per_day": bytes_per_day,
        "jobs_at_once": jobs_at_once,
        "bytes_kept": bytes_kept,
    }
    changes = {one: _limit(one, text) for one, text in given.items() if text is not None}
    with _registry(context) as registry:
        id_ = registry.tenant_called(name).id
        if changes:
            registry.set_quotas(id_, replace(registry.quotas(id_), **changes))
        found = asdict(registry.quotas(id_))
    if as_json:
        print(json.dumps(found))
        return
    for one, most in found.items():
        unset = "what the service lets any keep" if one == "bytes_kept" else "no limit"
        print(f"{one.replace('_', ' ')}: {unset if most is None else f'{most:,}'}")


def key(context: typer.Context, name: Annotated[str, _NAME], as_json: JSON = False) -> None:
    """Make a new key of a tenant's owner, which is shown this once; the others stay as they are."""
    with _registry(context) as registry:
        made, token = registry.create_key(
            registry.tenant_called(name).id, name="made by the operator", role="owner"
        )
    found = {"tenant": made.tenant, "key": made.id, "token": token}
    print(json.dumps(found) if as_json else f"Key, shown this once: {token}")


def close(context: typer.Context, name: Annotated[str, _NAME], as_json: JSON = False) -> None:
    """Close a tenant for good: its keys open nothing any more. Its name, releases and ledger rows stay."""
    with _registry(context) as registry:
        closed = registry.close_tenant(registry.tenant_called(name).id)
    print(
        json.dumps(_shown(closed))
        if as_json
        else f"Tenant {closed.name} is closed: its keys open nothing any more."
    )


#: The commands, in the order of their help.
COMMANDS = (tenant, tenants, quotas, key, close)


@contextmanager
def _registry(context: typer.Context) -> Iterator[Registry]:
    try:
        from sfumato.serve import Service
    except ImportError:
        raise BadInput("the service needs packages: pip install 'sfumato[serve]'.") from None
    service = Service(context.obj)
    try:
        yield service.registry
    finally:
        service.close()


def _limit(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdecimal()):
        option = f"--{name.replace('_', '-')}"
        raise BadInput(f"{option} must be a whole number from 0 to 2^53, or none, not {text[:40]!r}.")
    return int(text)


def _shown(tenant: Tenant) -> dict[str, str | None]:
    closed = None if tenant.closed is None else tenant.closed.isoformat()
    return {
        "tenant": tenant.id,
        "name": tenant.name,
        "created": tenant.created.isoformat(),
        "closed": closed,
    }


app = typer.Typer(
    help="Protection as a service: REST and gRPC with tenants, keys and budgets.", invoke_without_command=True
)
_LISTENS = "Where it listens"
_RUNS = "How it is run"


def _option(name: str, metavar: str, told: str, panel: str | None = None, **words: Any) -> Any:
    """An option that a variable of the environment may say too; workers are told by the same ones."""
    variables = [f"SFUMATO_SERVE_{name.upper()}", *words.pop("also", ())]
    return typer.Option(metavar=metavar, envvar=variables, help=told, rich_help_panel=panel, **words)


_DATA = _option("data", "FOLDER", "Where the service keeps its things.", also=["SFUMATO_DATA_FOLDER"])
_DATABASE = _option(
    "database", "URL", "Of tenants, keys and jobs; a file in --data unless given.", also=["SFUMATO_DATABASE"]
)
_LEDGER = _option("ledger", "URL", "Of budgets; a file in --data unless given.", also=["SFUMATO_LEDGER"])
_LARGEST = typer.Option(
    "--largest",
    metavar="BYTES",
    envvar="SFUMATO_SERVE_BODY_BYTES",
    help="The most that one request may bring.",
    min=1,
)
_DIRECT = typer.Option(
    "--largest-direct",
    metavar="BYTES",
    envvar="SFUMATO_SERVE_DIRECT_BYTES",
    help="The most that a request may bring that waits for its plan or release; larger ones are jobs.",
    min=1,
)
_WAIT = _option("direct_seconds", "SECONDS", "How long such requests are waited for.", _RUNS, min=1)
_AT_ONCE = _option(
    "direct_at_once", "N", "How many requests of a tenant a worker does at a time.", _RUNS, min=1
)
_MEMORY = _option(
    "memory_bytes", "BYTES", "The most memory that the work on one request may take.", _RUNS, min=1
)
_KEPT = _option(
    "tenant_bytes", "BYTES", "The most that a tenant without a quota of its own may keep.", _RUNS, min=0
)
_ACCEPT = typer.Option(
    "--accept-lost-spends",
    help="Start although the ledger lacks rows that paid for kept releases, as one from a backup does.",
    rich_help_panel=_RUNS,
)
_PROXIES = _option(
    "trusted_proxies",
    "NETWORKS",
    "Proxies, as in 10.0.0.0/8,192.0.2.7, that are believed about who asks (X-Forwarded-For).",
    _LISTENS,
)
_SOURCE = typer.Option(
    "--source",
    metavar="TENANT=URL",
    envvar="SFUMATO_SERVE_SOURCES",
    help="What a tenant may have served by the storage proxy, as in clinic=s3://bucket/folder; repeatable.",
)
_HOST = _option("host", "ADDRESS", "Where to listen.", _LISTENS)
_PORT = _option("port", "N", "The port of REST.", _LISTENS, min=1, max=65535)
_GRPC = _option("grpc_port", "N", "Also answer gRPC, on this port.", _LISTENS, min=1, max=65535)
_CERTIFICATE = _option("tls_certificate", "FILE", "Answer over TLS alone, with this certificate.", _LISTENS)
_KEY = _option("tls_key", "FILE", "The certificate's private key.", _LISTENS)
_WORKERS = _option("workers", "N", "How many processes answer.", _RUNS, min=1)
_METRICS = _option(
    "metrics_token_file", "FILE", "Holds the token that opens /metrics; not there without.", _RUNS
)
_LOG = _option("log_file", "FILE", "Where the log goes instead of standard error.", _RUNS)
_DRAIN = _option(
    "drain_seconds", "SECONDS", "How long it answers after the signal to end, but not as ready.", _RUNS, min=0
)
_GRACE = _option("grace_seconds", "SECONDS", "How long what is under way may then take.", _RUNS, min=0)


@app.callback()
def serve(
    context: typer.Context,
    data: Annotated[Path, _DATA] = Path("sfumato-service"),
    database: Annotated[str | None, _DATABASE] = None,
    ledger: Annotated[str | None, _LEDGER] = None,
    largest: Annotated[int, _LARGEST] = 256 << 20,
    largest_direct: Annotated[int, _DIRECT] = 32 << 20,
    source: Annotated[list[str] | None, _SOURCE] = None,
    host: Annotated[str, _HOST] = "127.0.0.1",
    port: Annotated[int, _PORT] = 8765,
    grpc_port: Annotated[int | None, _GRPC] = None,
    tls_certificate: Annotated[Path | None, _CERTIFICATE] = None,
    tls_key: Annotated[Path | None, _KEY] = None,
    trusted_proxies: Annotated[str, _PROXIES] = "",
    workers: Annotated[int, _WORKERS] = 1,
    metrics_token_file: Annotated[Path | None, _METRICS] = None,
    log_file: Annotated[Path | None, _LOG] = None,
    drain_seconds: Annotated[float, _DRAIN] = 0.0,
    grace_seconds: Annotated[float, _GRACE] = 30.0,
    direct_seconds: Annotated[float, _WAIT] = 60.0,
    direct_at_once: Annotated[int, _AT_ONCE] = 8,
    memory_bytes: Annotated[int, _MEMORY] = 2 << 30,
    tenant_bytes: Annotated[int, _KEPT] = 64 << 30,
    accept_lost_spends: Annotated[bool, _ACCEPT] = False,
) -> None:
    """Start the service; 'sfumato serve tenant NAME' makes a tenant and its owner's key."""
    from sfumato.serve import Listening, Settings

    os.umask(0o077)  # whatever is written is for its owner alone
    settings = Settings(
        data=data,
        database=database,
        ledger=ledger,
        body_bytes=largest,
        trusted_proxies=trusted_proxies,
        sources=tuple(source or ()),
        direct_bytes=largest_direct,
        direct_seconds=direct_seconds,
        direct_at_once=direct_at_once,
        memory_bytes=memory_bytes,
        tenant_bytes=tenant_bytes,
    )
    context.obj = settings
    if context.invoked_subcommand is None:
        listening = Listening(
            host=host,
            port=port,
            grpc_port=grpc_port,
            workers=workers,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            metrics_token_file=metrics_token_file,
            log_file=log_file,
            drain_seconds=drain_seconds,
            grace_seconds=grace_seconds,
        )
        _run(settings, listening, accept_lost_spends)


for _command in COMMANDS:
    app.command()(_command)


@app.command("lost-spends")
def lost_spends(
    context: typer.Context,
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", help="More folders with certificates, such as a newer copy."),
    ] = None,
    charge: Annotated[bool, typer.Option("--charge", help="Pay for them again.")] = False,
    as_json: JSON = False,
) -> None:
    """Spends that certificates know and a restored ledger lacks; exits with 4 unless they are charged.

    They are charged in new entries, so the lost ones stay listed; charging twice pays once.
    """
    from sfumato.ledger import Ledger
    from sfumato.release import charge_again
    from sfumato.release import lost_spends as find_lost_spends

    settings = context.obj
    places = (settings.data, *(certificates or ()))
    with Ledger(settings.ledger_url) as ledger:
        beside = (file for place in places for file in place.rglob("*.cert.json"))
        found = find_lost_spends(beside, settings.keys, ledger)
        entries = [charge_again(one, ledger) for one in found] if charge else []
    told = [{"dataset": one.dataset, "entry": one.number} for one in found]
    if as_json:
        print(json.dumps({"lost": told, "charged": [entry.kind for entry in entries]}))
    else:
        for one in told:
            print(f"entry {one['entry']} of {one['dataset']} is lost")
        closed = sum(entry.kind == "close" for entry in entries)
        ends = f"; charged again, {closed} by closing a budget that could not pay" if charge else ""
        print(f"{len(told)} spends are lost{ends}.")
    if found and not charge:
        raise typer.Exit(4)


def _run(settings: Settings, listening: Listening, accept_lost_spends: bool) -> None:
    try:
        from sfumato.serve import run

        if listening.grpc_port is not None:
            from sfumato.serve.grpc import make_server

            del make_server
    except ImportError:
        raise BadInput("the service needs packages: pip install 'sfumato[serve]'.") from None
    run(settings, listening, accept_lost_spends=accept_lost_spends)
