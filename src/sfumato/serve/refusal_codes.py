"""One word for each way of refusing, which machines may go by, and how long to wait before asking again."""

from __future__ import annotations

from sfumato.errors import RequestReused, SfumatoError, StorageFailed, StorageFull, spell
from sfumato.io.atomic import storage_fault
from sfumato.ledger.ledger_errors import BudgetRefused, LedgerUnavailable
from sfumato.serve.auth.authentication import TooManyGuesses, Unauthenticated
from sfumato.serve.auth.dataset_names import own_words
from sfumato.serve.jobs.sync_executor import TookTooLong
from sfumato.serve.readiness import NotReady
from sfumato.serve.registry_errors import Busy, Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.request_files import TooLarge, TooSlow
from sfumato.serve.service import Forbidden, NotFound

__all__ = ["REFUSAL", "disk_failure", "refusal", "said_of", "seconds_to_wait"]

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
    """The word for ``error``; bad-input where there is no other."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "bad-input")


def disk_failure(error: Exception) -> SfumatoError | None:
    """``error`` in our words where a disk of ours failed, be it full or broken; None where it is another."""
    return storage_fault(error, "a file of the service") if isinstance(error, OSError) else None


def said_of(error: SfumatoError) -> str:
    """What is said of ``error`` to whoever asked, in answers of every kind and in jobs that failed.

    A dataset has its tenant's own name in it, and of a database nothing is said but that it cannot be used.
    """
    plain = next((sentence for kind, sentence in _OUT_OF_USE if isinstance(error, kind)), None)
    return own_words(spell(error, "service")) if plain is None else plain


def seconds_to_wait(error: SfumatoError) -> float | None:
    """After how long the same could be answered otherwise; None where waiting does not help."""
    if isinstance(error, LedgerUnavailable | RegistryUnavailable | NotReady | StorageFailed):
        return _UNAVAILABLE_SECONDS
    return error.seconds if isinstance(error, Busy | QuotaRefused | TooManyGuesses) else None
