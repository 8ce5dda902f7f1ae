"""Refusal codes of the service: one word for each kind of error, its message, and when to retry."""

from __future__ import annotations

from sfumato.errors import RequestReused, SfumatoError, StorageFailed, StorageFull, spell
from sfumato.io import storage_fault
from sfumato.ledger import BudgetRefused, LedgerUnavailable
from sfumato.serve.authentication import Forbidden, NotFound, TooManyGuesses, Unauthenticated, own_words
from sfumato.serve.jobs.sync_executor import TookTooLong
from sfumato.serve.metrics import NotReady
from sfumato.serve.registry_database import Busy, Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.request_files import TooLarge, TooSlow

#: Where the word of a refusal stands in the scope of its request, for those who count.
REFUSAL = "sfumato.refusal"
# The most special first.
_WORDS: tuple[tuple[type[SfumatoError], str], ...] = (
    (BudgetRefused, "budget-refused"),
    (LedgerUnavailable, "ledger-unavailable"),
    (RegistryUnavailable, "registry-unavailable"),
    (NotReady, "not-ready"),
    (Busy, "busy"),
    (QuotaRefused, "quota"),
    (StorageFull, "storage-full"),
    (StorageFailed, "storage-failed"),
    (TooManyGuesses, "too-many-guesses"),
    (Unauthenticated, "unauthenticated"),
    (TooLarge, "too-large"),
    (TooSlow, "too-slow"),
    (TookTooLong, "took-too-long"),
    (Unknown, "not-found"),
    (Conflict, "conflict"),
    (RequestReused, "conflict"),
    (Forbidden, "forbidden"),
    (NotFound, "not-found"),
)
_UNAVAILABLE_SECONDS = 5.0
# Why a database cannot be used is its operator's business: drivers name hosts, users, files and databases.
_OUT_OF_USE: tuple[tuple[type[SfumatoError], str], ...] = (
    (LedgerUnavailable, "the ledger of this service cannot be used now; ask again later."),
    (RegistryUnavailable, "the registry of this service cannot be used now; ask again later."),
)


def refusal(error: SfumatoError) -> str:
    """Return the code of ``error``; ``bad-input`` if no other applies."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "bad-input")


def disk_failure(error: Exception) -> SfumatoError | None:
    """Return ``error`` as a storage error if a disk is full or failed; otherwise None."""
    return storage_fault(error, "a file of the service") if isinstance(error, OSError) else None


def said_of(error: SfumatoError) -> str:
    """Return the message of ``error`` that clients see, in answers of every kind and in failed jobs.

    A dataset is shown by its tenant's own name. Of a database only its unavailability is reported.
    """
    plain = next((sentence for kind, sentence in _OUT_OF_USE if isinstance(error, kind)), None)
    return own_words(spell(error, "service")) if plain is None else plain


def seconds_to_wait(error: SfumatoError) -> float | None:
    """Return after how many seconds a retry may succeed; None if waiting does not help."""
    if isinstance(error, LedgerUnavailable | RegistryUnavailable | NotReady | StorageFailed):
        return _UNAVAILABLE_SECONDS
    return error.seconds if isinstance(error, Busy | QuotaRefused | TooManyGuesses) else None
