"""How a client of Flower pays for a round without telling the server more than that it did not."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sfumato.errors import BadInput
from sfumato.learners.federated.rounds import OutOfBudget
from sfumato.privacy import Guarantee

__all__ = ["Pay", "pay_quietly"]

#: What pays for a round, by its number and what is promised of it.
Pay = Callable[[int, Guarantee], None]
_log = logging.getLogger(__name__)


def pay_quietly(pay: Pay, number: int, guarantee: Guarantee) -> None:
    """Pay for round ``number``, or raise what may be sent to the server.

    That is :class:`OutOfBudget` as it is. Of anything else, like a ledger that cannot be reached or holds no
    such budget, the client's own log tells, and :class:`~sfumato.errors.BadInput` says no more than that.
    """
    try:
        pay(number, guarantee)
    except OutOfBudget:
        raise
    except Exception:
        _log.exception("round %d cannot be paid for", number)
        raise BadInput("the client cannot pay for the round; its own log says why.") from None
