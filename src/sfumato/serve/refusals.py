"""Refusals of the service: its errors, how every door answers each of them, and when to retry."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.errors import BadInput, RequestReused, SfumatoError, StorageFailed, StorageFull, spell
from sfumato.io import storage_fault
from sfumato.ledger import BudgetRefused, LedgerUnavailable

#: The key of a refusal's code in the scope of its request, for the access log and metrics.
REFUSAL = "sfumato.refusal"
_UNAVAILABLE_SECONDS = 5.0
_LEDGER_NAME = re.compile(r"\bt[0-9a-f]{16}:")


class RegistryUnavailable(SfumatoError):
    """Raised if the database of tenants cannot be read or written; all requests are then refused."""

    exit_code = 2


class NotReady(SfumatoError):
    """Raised if the service cannot make a release now."""


class Busy(SfumatoError):
    """Raised if the same request is in progress elsewhere; its outcome is known after ``seconds``."""

    seconds = 5.0


class QuotaRefused(SfumatoError):
    """Raised if a request exceeds the tenant's quota; nothing was counted.

    After ``seconds`` a retry may succeed; None if waiting does not help, because this request alone exceeds
    the quota.
    """

    exit_code = 3

    def __init__(self, sentence: str, seconds: float | None) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class TooManyGuesses(SfumatoError):
    """Raised after too many wrong keys from one site; after ``seconds`` another key is checked."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many wrong keys came from this address; check the key and retry later.")
        self.seconds = seconds


class Unauthenticated(SfumatoError):
    """Raised if the request has no valid key."""


class Forbidden(SfumatoError):
    """Raised if the caller's key does not allow the operation."""


class NotFound(SfumatoError):
    """Raised if there is nothing of this name that the caller may know of."""


class Unknown(BadInput):
    """Raised if the tenant has nothing of this name, also if another tenant has."""


class Conflict(BadInput):
    """Raised if the name is taken, or what was to be replaced has changed meanwhile."""


class TooLarge(SfumatoError):
    """Raised if a body, or what it unpacks to, is larger than the service accepts."""


class TooSlow(SfumatoError):
    """Raised if a sender pauses for too long or sends too slowly."""


class TookTooLong(SfumatoError):
    """Raised if the time limit passed; the work goes on, but its request is answered."""


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
        fault = storage_fault(error, "a file of the service")
        return None if fault is None else refusal_of(fault)
    for kind, code, status, grpc, s3 in _REFUSALS:
        if isinstance(error, kind):
            return Refusal(code, status, grpc, s3, message_of(error), _seconds_to_wait(error))
    return None


def message_of(error: SfumatoError) -> str:
    """Return the message of ``error`` for clients, in the language of the service.

    Drivers name hosts, users and files, so of a database only its unavailability is reported.
    """
    for kind, name in ((LedgerUnavailable, "ledger"), (RegistryUnavailable, "registry")):
        if isinstance(error, kind):
            return f"the {name} of this service cannot be used now; retry later."
    return client_words(error)


def client_words(sentence: str | SfumatoError) -> str:
    """Return ``sentence`` in the language of the service, with datasets named as their tenant names them."""
    return _LEDGER_NAME.sub("", spell(sentence, "service"))


def _seconds_to_wait(error: SfumatoError) -> float | None:
    if isinstance(error, LedgerUnavailable | RegistryUnavailable | NotReady | StorageFailed):
        return _UNAVAILABLE_SECONDS
    return error.seconds if isinstance(error, Busy | QuotaRefused | TooManyGuesses) else None
