"""The Flower app of a client, its payment for rounds, and the Flower records that all apps share.

A client trains on its own records and answers through the privacy mod. It pays for a round without telling
the server more than that it did not.

Flower and Ray report their use to their makers, unless told not to before they are imported; this package
says so when it is imported itself. Where they are missing, the error says how to install them.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sfumato.errors import BadInput
from sfumato.learners.federated.rounds import Client, OutOfBudget
from sfumato.privacy import Guarantee

if TYPE_CHECKING:
    from flwr.clientapp.typing import ClientAppCallable, Mod

__all__ = ["QUIET", "make_client_app", "require_flower"]

#: What pays for a round, by its number and what is promised of it.
Pay = Callable[[int, Guarantee], None]
_log = logging.getLogger(__name__)
#: How the reason of an error begins where a client's budget is spent.
OUT_OF_BUDGET = "out of budget: "
#: What is set in the environment, where it is not set already; processes that are started inherit it.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


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


#: Names of records in a message, and of entries in them; those of Flower's own strategies where they exist.
ARRAYS, CONFIG, METRICS, CLIENT = "arrays", "config", "metrics", "sfumato-client"
ROUND, ROUNDS, NAME = "server-round", "sfumato-rounds", "name"


def numbers_of(record: ArrayRecord) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of ``record`` in their order; whole numbers (counters of a layer) as floats."""
    arrays = record.to_numpy_ndarrays()
    return [array if array.dtype.kind == "f" else array.astype(np.float64) for array in arrays]


def record_of(arrays: Sequence[np.ndarray[Any, Any]], like: ArrayRecord | None = None) -> ArrayRecord:
    """Return ``arrays`` as a record, with the names and types of ``like`` where it is given."""
    if like is None:
        return ArrayRecord([np.asarray(array) for array in arrays])
    made = {}
    for (name, before), array in zip(like.items(), arrays, strict=True):
        kind = np.dtype(before.dtype)
        whole = np.rint(array) if kind.kind != "f" else array
        made[name] = Array(np.asarray(whole).astype(kind))
    return ArrayRecord(made)


def round_of(message: Message) -> tuple[int, int]:
    """Return the round, and the number of rounds, that a message of the server names; 0 without."""
    found = {ROUND: 0, ROUNDS: 0}
    for record in message.content.config_records.values():
        assert isinstance(record, ConfigRecord)
        for key in found:
            value = record.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[key] = value
    return found[ROUND], found[ROUNDS]


for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)


def require_flower(what: str = "federated learning on Flower") -> None:
    """Refuse with the pip line where Flower is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise BadInput(f"{what} needs flwr: pip install 'sfumato[federated]'.")


def make_client_app(
    training_of: Callable[[Context], Client], mod_of: Callable[[Context], Mod] | None = None
) -> ClientApp:
    """Return a ``ClientApp`` that trains with ``training_of(context)`` and sends through ``mod_of(context)``.

    Both are asked anew for every message, since Flower may start a process for each of them. Without
    ``mod_of`` parameters leave as they are.
    """

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        assert mod_of is not None  # it is in the list only then
        return mod_of(context)(message, context, call_next)

    app = ClientApp(mods=[] if mod_of is None else [mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        record = message.content.array_records[ARRAYS]
        received = [np.asarray(array, dtype=np.float32) for array in numbers_of(record)]
        made = training_of(context).trained(received, round=round_of(message)[0])
        content = RecordDict({ARRAYS: record_of(made, record), METRICS: MetricRecord({"num-examples": 1})})
        return Message(content, reply_to=message)

    return app
