"""The few things of Flower that the apps share: names of records, and parameters as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message

__all__ = [
    "ARRAYS",
    "CLIENT",
    "CONFIG",
    "METRICS",
    "NAME",
    "OUT_OF_BUDGET",
    "ROUND",
    "ROUNDS",
    "numbers_of",
    "record_of",
    "round_of",
]

#: Names of records in a message, and of entries in them; those of Flower's own strategies where they exist.
ARRAYS, CONFIG, METRICS, CLIENT = "arrays", "config", "metrics", "sfumato-client"
ROUND, ROUNDS, NAME = "server-round", "sfumato-rounds", "name"
#: How the reason of an error begins where a client's budget is spent.
OUT_OF_BUDGET = "out of budget: "


def numbers_of(record: ArrayRecord) -> list[np.ndarray[Any, Any]]:
    """The arrays of ``record`` in their order; those of whole numbers (counters of a layer) as floats."""
    arrays = record.to_numpy_ndarrays()
    return [array if array.dtype.kind == "f" else array.astype(np.float64) for array in arrays]


def record_of(arrays: Sequence[np.ndarray[Any, Any]], like: ArrayRecord | None = None) -> ArrayRecord:
    """``arrays`` as a record, with the names and types of ``like`` where it is given."""
    if like is None:
        return ArrayRecord([np.asarray(array) for array in arrays])
    made = {}
    for (name, before), array in zip(like.items(), arrays, strict=True):
        kind = np.dtype(before.dtype)
        whole = np.rint(array) if kind.kind != "f" else array
        made[name] = Array(np.asarray(whole).astype(kind))
    return ArrayRecord(made)


def round_of(message: Message) -> tuple[int, int]:
    """The number of the round, and of all rounds, that a message of the server names; 0 where it does not."""
    found = {ROUND: 0, ROUNDS: 0}
    for record in message.content.config_records.values():
        assert isinstance(record, ConfigRecord)
        for key in found:
            value = record.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[key] = value
    return found[ROUND], found[ROUNDS]
