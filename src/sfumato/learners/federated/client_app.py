"""The Flower app of a client: trains on its own records, and answers through the privacy mod."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sfumato.learners.federated.flower_records import ARRAYS, METRICS, numbers_of, record_of, round_of
from sfumato.learners.federated.rounds import Client

if TYPE_CHECKING:
    from flwr.clientapp.typing import ClientAppCallable, Mod

__all__ = ["make_client_app"]


def make_client_app(
    training_of: Callable[[Context], Client], mod_of: Callable[[Context], Mod] | None = None
) -> ClientApp:
    """A ``ClientApp`` that trains with ``training_of(context)`` and sends through ``mod_of(context)``.

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
