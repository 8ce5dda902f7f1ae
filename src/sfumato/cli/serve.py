"""``sfumato serve``: run the service, and manage its tenants and lost spends."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sfumato.cli import terminal
from sfumato.cli.options import JSON, flag_of, keyword, option, set_signature
from sfumato.errors import BadInput
from sfumato.serve import Listening, Settings

if TYPE_CHECKING:
    from sfumato.serve import Registry, Tenant

app = typer.Typer(
    help="Run the service: REST and gRPC with tenants, keys and budgets.",
    invoke_without_command=True,
    add_completion=False,
)
_MISSING = "the service needs packages: pip install 'sfumato[serve]'."
_NETWORK, _LIMITS, _OPERATION = "Network", "Limits", "Operation"


def _setting(panel: str | None, metavar: str, help: str, *names: str, also: str = "", **words: Any) -> Any:
    """Return the arguments of :func:`option`; ``also`` is a further environment variable."""
    return (panel, metavar, help, *names), words, also


_PORT: dict[str, Any] = {"min": 1, "max": 65535}
# Options of the service by its settings, which say their types, defaults and environment variables.
_OPTIONS = {
    "data": _setting(None, "FOLDER", "Folder of the service's files.", also="SFUMATO_DATA_FOLDER"),
    "database": _setting(
        None, "URL", "Database of tenants, keys and jobs. Default: a file in --data.", also="SFUMATO_DATABASE"
    ),
    "ledger": _setting(None, "URL", "Ledger of budgets. Default: a file in --data.", also="SFUMATO_LEDGER"),
    "sources": _setting(
        None,
        "TENANT=URL",
        "Prefix that a tenant may serve through the storage proxy, as in clinic=s3://bucket/folder; "
        "repeatable.",
        "--source",
    ),
    "host": _setting(_NETWORK, "ADDRESS", "Address to listen on."),
    "port": _setting(_NETWORK, "N", "Port of REST.", **_PORT),
    "grpc_port": _setting(_NETWORK, "N", "Port of gRPC. Default: gRPC is disabled.", **_PORT),
    "tls_certificate": _setting(_NETWORK, "FILE", "TLS certificate; the service then answers over TLS only."),
    "tls_key": _setting(_NETWORK, "FILE", "Private key of the certificate."),
    "trusted_proxies": _setting(
        _NETWORK,
        "NETWORKS",
        "Proxies whose X-Forwarded-For header is trusted, as in 10.0.0.0/8,192.0.2.7.",
    ),
    "body_bytes": _setting(_LIMITS, "BYTES", "Largest body of a request.", "--largest", min=1),
    "direct_bytes": _setting(
        _LIMITS,
        "BYTES",
        "Largest body of a request that waits for its plan or release; larger ones are jobs.",
        "--largest-direct",
        min=1,
    ),
    "direct_seconds": _setting(_LIMITS, "SECONDS", "Timeout of such requests.", min=1),
    "direct_at_once": _setting(_LIMITS, "N", "Requests of a tenant that a worker runs at a time.", min=1),
    "memory_bytes": _setting(_LIMITS, "BYTES", "Memory limit of one request.", min=1),
    "tenant_bytes": _setting(
        _LIMITS, "BYTES", "Storage limit of a tenant without a quota of its own.", min=0
    ),
    "workers": _setting(_OPERATION, "N", "Number of worker processes.", min=1),
    "metrics_token_file": _setting(
        _OPERATION, "FILE", "File with the token for /metrics. Default: no /metrics."
    ),
    "log_file": _setting(_OPERATION, "FILE", "Log file. Default: standard error."),
    "drain_seconds": _setting(
        _OPERATION, "SECONDS", "Time to go on answering after a signal to end, while not ready.", min=0
    ),
    "grace_seconds": _setting(_OPERATION, "SECONDS", "Time that running work then has to finish.", min=0),
}
TenantName = Annotated[str, typer.Argument(metavar="TENANT", hidden=True)]
Quota = Annotated[str | None, typer.Option(metavar="N", help="A whole number, or 'none' for no limit.")]


@app.callback()
def serve(context: typer.Context, *, accept_lost_spends: bool = False, **given: Any) -> None:
    """Start the service; 'sfumato serve tenant NAME' makes a tenant and a key of its owner."""
    os.umask(0o077)  # whatever is written is for its owner alone
    given["sources"] = tuple(given["sources"] or ())
    settings = Settings(**{one.name: given[one.name] for one in fields(Settings)})
    listening = Listening(**{one.name: given[one.name] for one in fields(Listening)})
    context.obj = settings
    if context.invoked_subcommand is not None:
        return
    try:
        from sfumato.serve import run

        if given["grpc_port"] is not None:
            import sfumato.serve.grpc as grpc_service

            _ = grpc_service.make_server
    except ImportError:
        raise BadInput(_MISSING) from None
    run(settings, listening, accept_lost_spends=accept_lost_spends)


def _options() -> list[inspect.Parameter]:
    """Return an option for each setting."""
    kinds = get_type_hints(Settings) | get_type_hints(Listening)
    defaults = {one.name: one.default for kind in (Settings, Listening) for one in fields(kind)}
    defaults |= {"data": Path("sfumato-service"), "sources": None}
    found = []
    for name, (given, words, also) in _OPTIONS.items():
        variables = [f"SFUMATO_SERVE_{name.upper()}", *([also] if also else [])]
        kind = list[str] | None if name == "sources" else kinds[name]
        flags = () if len(given) > 3 else (flag_of(name),)
        made = option(*given, *flags, envvar=variables, **words)
        found.append(keyword(name, Annotated[kind, made], defaults[name]))
    accept = "Start although the ledger lacks rows that paid for kept releases, as one from a backup does."
    switch = option(_OPERATION, None, accept, "--accept-lost-spends")
    return [*found, keyword("accept_lost_spends", Annotated[bool, switch], False)]


set_signature(
    serve,
    [
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *_options(),
    ],
)


@app.command()
def tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    as_json: JSON = False,
) -> None:
    """Make a tenant and a key of its owner, which is shown once."""
    with _registry(context) as registry:
        made = registry.create_tenant(name)
        key, token = registry.create_key(made.id, name="first", role="owner")
    found = {"tenant": made.id, "name": made.name, "key": key.id, "token": token}
    terminal.answer(as_json, found, f"Tenant {made.name}: {made.id}\nKey, shown once: {token}")


@app.command()
def tenants(context: typer.Context, as_json: JSON = False) -> None:
    """List all tenants, oldest first: names, and ids, which logs and metrics use."""
    with _registry(context) as registry:
        found = registry.tenants()
    lines = [
        f"{one.id}  {one.name}, since {one.created:%Y-%m-%d}"
        + ("" if one.closed is None else f", closed {one.closed:%Y-%m-%d}")
        for one in found
    ]
    terminal.answer(as_json, [_shown(one) for one in found], "\n".join(lines))


@app.command()
def quotas(
    context: typer.Context,
    name: TenantName,
    requests_per_minute: Quota = None,
    bytes_per_day: Quota = None,
    jobs_at_once: Quota = None,
    bytes_kept: Annotated[
        str | None, typer.Option(metavar="N", help="Storage; 'none' for the limit of the service.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the quotas of a tenant, and change those that are given; 0 locks it out.

    They limit requests, bytes of request bodies, jobs that have not ended, and storage.
    """
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
    unset = dict.fromkeys(found, "no limit") | {"bytes_kept": "the limit of the service"}
    lines = [
        f"{one.replace('_', ' ')}: {unset[one] if most is None else f'{most:,}'}"
        for one, most in found.items()
    ]
    terminal.answer(as_json, found, "\n".join(lines))


@app.command()
def key(context: typer.Context, name: TenantName, as_json: JSON = False) -> None:
    """Make a new key of a tenant's owner, which is shown once; the others stay as they are."""
    with _registry(context) as registry:
        made, token = registry.create_key(
            registry.tenant_called(name).id, name="made by the operator", role="owner"
        )
    found = {"tenant": made.tenant, "key": made.id, "token": token}
    terminal.answer(as_json, found, f"Key, shown once: {token}")


@app.command()
def close(context: typer.Context, name: TenantName, as_json: JSON = False) -> None:
    """Close a tenant for good: its keys stop working. Its name, releases and ledger rows stay."""
    with _registry(context) as registry:
        closed = registry.close_tenant(registry.tenant_called(name).id)
    text = f"Tenant {closed.name} is closed: its keys do not work any more."
    terminal.answer(as_json, _shown(closed), text)


@app.command("lost-spends")
def lost_spends(
    context: typer.Context,
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", hidden=True),
    ] = None,
    charge: Annotated[bool, typer.Option("--charge", help="Pay for them again.")] = False,
    as_json: JSON = False,
) -> None:
    """List spends that certificates name and a restored ledger lacks; exit 4 unless they are charged.

    FOLDERs hold more certificates, such as a newer copy. Spends are charged in new entries, so the lost ones
    stay listed; charging twice pays once.
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
    lost = [{"dataset": one.dataset, "entry": one.number} for one in found]
    lines = [f"entry {one.number} of {one.dataset} is lost" for one in found]
    closed = sum(entry.kind == "close" for entry in entries)
    ends = f"; charged again, {closed} by closing a budget that could not pay" if charge else ""
    document = {"lost": lost, "charged": [entry.kind for entry in entries]}
    terminal.answer(as_json, document, "\n".join([*lines, f"{len(lost)} spends are lost{ends}."]))
    if found and not charge:
        raise typer.Exit(4)


@contextmanager
def _registry(context: typer.Context) -> Iterator[Registry]:
    try:
        from sfumato.serve import Service
    except ImportError:
        raise BadInput(_MISSING) from None
    service = Service(context.obj)
    try:
        yield service.registry
    finally:
        service.close()


def _limit(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise BadInput(
            f"`{name}` must be a whole number from 0 to 2^53, or none, not {text[:40]!r}.", parameter=name
        )
    return int(text)


def _shown(tenant: Tenant) -> dict[str, str | None]:
    return {
        "tenant": tenant.id,
        "name": tenant.name,
        "created": tenant.created.isoformat(),
        "closed": None if tenant.closed is None else tenant.closed.isoformat(),
    }
