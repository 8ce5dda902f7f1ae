"""The tenants of a service, for whoever runs it: made, listed, limited, given a new key, closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.errors import BadInput

if TYPE_CHECKING:
    from sfumato.serve.registry import Registry
    from sfumato.serve.registry_tenants import Tenant

__all__ = ["COMMANDS"]

_JSON = typer.Option("--json", help="Print the result as JSON.")
_NAME = typer.Argument(metavar="TENANT", help="The name of a tenant.")


def tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Make a tenant and a key of its owner, which is shown this once."""
    with _registry(context) as registry:
        made = registry.create_tenant(name)
        key, token = registry.create_key(made.id, name="first", role="owner")
    found = {"tenant": made.id, "name": made.name, "key": key.id, "token": token}
    print(json.dumps(found) if as_json else f"Tenant {made.name}: {made.id}\nKey, shown this once: {token}")


def tenants(context: typer.Context, as_json: Annotated[bool, _JSON] = False) -> None:
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
    as_json: Annotated[bool, _JSON] = False,
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


def key(context: typer.Context, name: Annotated[str, _NAME], as_json: Annotated[bool, _JSON] = False) -> None:
    """Make a new key of a tenant's owner, which is shown this once; the others stay as they are."""
    with _registry(context) as registry:
        made, token = registry.create_key(
            registry.tenant_called(name).id, name="made by the operator", role="owner"
        )
    found = {"tenant": made.tenant, "key": made.id, "token": token}
    print(json.dumps(found) if as_json else f"Key, shown this once: {token}")


def close(
    context: typer.Context, name: Annotated[str, _NAME], as_json: Annotated[bool, _JSON] = False
) -> None:
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
        from sfumato.serve.service import Service
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
