"""What a ledger answers when it does not pay."""

from __future__ import annotations

from sfumato.errors import SfumatoError

__all__ = ["BudgetRefused", "LedgerUnavailable"]


class BudgetRefused(SfumatoError):
    """There is no budget, or the spend would pass it; nothing was spent.

    ``largest`` is the ε that would still fit, in four digits.
    """

    exit_code = 3

    def __init__(self, sentence: str, largest: float) -> None:
        super().__init__(sentence)
        self.largest = largest


class LedgerUnavailable(SfumatoError):
    """The ledger cannot be read or written, so nothing may be released.

    Nothing was spent, unless the connection broke while the answer was under way: asking again with the
    same idempotency key then finds the entry and pays no second time.
    """

    exit_code = 2
