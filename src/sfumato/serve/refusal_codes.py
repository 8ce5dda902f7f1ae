"""Refusals of the service: how every door answers each kind of error, its message, and when to retry."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import BadInput, RequestReused, SfumatoError, StorageFailed, StorageFull, spell
from sfumato.io import storage_fault
from sfumato.ledger import BudgetRefused, LedgerUnavailable
from sfumato.serve.authentication import (
    Forbidden,
    NotFound,
    TooManyGuesses,
    Unauthenticated,
    with_tenant_names,
)
from sfumato.serve.jobs.sync_executor import TookTooLong
from sfumato.serve.monitoring import NotReady
from sfumato.serve.registry_database import Busy, Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.uploads import TooLarge, TooSlow

#: The key of a refusal's code in the scope of its request, for the access log and metrics.
REFUSAL = "sfumato.refusal"
# Kind of error, its code, HTTP status, gRPC status and S3 code; subclasses before their parents.
_REFUSALS: tuple[tuple[type[SfumatoError], str, int, str, str], ...] = (
    (BudgetRefused, "budget-refused", 409, "FAILED_PRECONDITION", "BudgetRefused"),
    (LedgerUnavailable, "ledger-unavailable", 503, "UNAVAILABLE", "ServiceUnavailable"),
    (RegistryUnavailable, "registry-unavailable", 503, "UNAVAILABLE", "ServiceUnavailable"),
    (NotReady, "not-ready", 503, "UNAVAILABLE", "InternalError"),
    (Busy, "busy", 503, "UNAVAILABLE", "InternalError"),
    (QuotaRefused, "quota", 429, "RESOURCE_EXHAUSTED", "SlowDown"),
    (StorageFull, "storage-full", 507, "RESOURCE_EXHAUSTED", "InternalError"),
    (StorageFailed, "storage-failed", 503, "UNAVAILABLE", "InternalError"),
    (TooManyGuesses, "too-many-guesses", 429, "RESOURCE_EXHAUSTED", "SlowDown"),
    (Unauthenticated, "unauthenticated", 401, "UNAUTHENTICATED", "AccessDenied"),
    (TooLarge, "too-large", 413, "RESOURCE_EXHAUSTED", "EntityTooLarge"),
    (TooSlow, "too-slow", 408, "DEADLINE_EXCEEDED", "InternalError"),
    (TookTooLong, "took-too-long", 503, "DEADLINE_EXCEEDED", "InternalError"),
    (Unknown, "not-found", 404, "NOT_FOUND", "NoSuchBucket"),
    (Conflict, "conflict", 409, "ABORTED", "AccessDenied"),
    (RequestReused, "conflict", 409, "ABORTED", "AccessDenied"),
    (Forbidden, "forbidden", 403, "PERMISSION_DENIED", "AccessDenied"),
    (NotFound, "not-found", 404, "NOT_FOUND", "NoSuchBucket"),
    (BadInput, "bad-input", 400, "INVALID_ARGUMENT", "AccessDenied"),
    (SfumatoError, "bad-input", 400, "INVALID_ARGUMENT", "InternalError"),
)
_UNAVAILABLE_SECONDS = 5.0


@dataclass(frozen=True)
class Refusal:
    """The answer to an error: its ``code``, the status of each door, and the ``message`` for clients.

    After ``seconds`` a retry may succeed; None if waiting does not help.
    """

    code: str
    status: int
    grpc: str
    s3: str
    message: str
    seconds: float | None


def refusal_of(error: Exception) -> Refusal | None:
    """Return the answer to ``error``; None for an unexpected error. A full or failed disk is a refusal."""
    if isinstance(error, OSError):
        return None if (fault := storage_fault(error, "a file of the service")) is None else refusal_of(fault)
    for kind, code, status, grpc, s3 in _REFUSALS:
        if isinstance(error, kind):
            return Refusal(code, status, grpc, s3, message_of(error), _seconds_to_wait(error))
    return None


def message_of(error: SfumatoError) -> str:
    """Return the message of ``error`` for clients, in the language of the service.

    Datasets have their tenant's own names. Drivers name hosts, users and files, so of a database only its
    unavailability is reported.
    """
    for kind, name in ((LedgerUnavailable, "ledger"), (RegistryUnavailable, "registry")):
        if isinstance(error, kind):
            return f"the {name} of this service cannot be used now; retry later."
    return with_tenant_names(spell(error, "service"))


def _seconds_to_wait(error: SfumatoError) -> float | None:
    if isinstance(error, LedgerUnavailable | RegistryUnavailable | NotReady | StorageFailed):
        return _UNAVAILABLE_SECONDS
    return error.seconds if isinstance(error, Busy | QuotaRefused | TooManyGuesses) else None
