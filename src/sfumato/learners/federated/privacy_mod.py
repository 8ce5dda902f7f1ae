"""A Flower mod that protects what a client sends, whoever wrote the client's app.

Put first in the list of mods of a ``ClientApp``, it is the last to touch the reply::

    app = ClientApp(mods=[PrivacyMod(make_protection("gaussian", epsilon=2.0, clip=1.0))])

**Guarantee.** That of the protection, for every round, unit client. All that leaves is: the protected
parameters; a proof of the client's public name, where it has a secret and the server asks; and
``num-examples`` = 1, in the place of every metric that the app reports, since losses and numbers of records
are functions of the client's records too (so servers that weigh by it average plainly). A message that is not
about training is refused rather than answered, and so is one in which the parameters are not one record of
arrays. A training that raises an exception counts as one that learned nothing, and the exception stays in the
client's own log: neither its text nor the fact of it is sent. ``pay(round, guarantee)`` is called before the
app sees the message, so that a client that is killed at any moment has paid for what it may have sent. With
``rounds`` each round from 1 to that number is answered once, as far as Flower keeps the client's state;
without a budget and without ``rounds`` nothing but the server limits how often a client is asked.

**Edge cases.** Layers of other names or shapes than were received are refused in a sentence: that they differ
is no part of what is proven. Whether and when a client answers at all is seen by the server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_apps import (
    CLIENT,
    METRICS,
    OUT_OF_BUDGET,
    Pay,
    numbers_of,
    pay_quietly,
    record_of,
    round_of,
)
from sfumato.learners.federated.grpc_grid import Credential, challenge_of
from sfumato.learners.federated.local_training import Arrays, shapes_of
from sfumato.learners.federated.protections import Protection, own
from sfumato.learners.federated.rounds import OutOfBudget
from sfumato.noise import Randomness

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.clientapp.typing import ClientAppCallable

__all__ = ["PrivacyMod", "refused_message"]

_ANSWERED = "sfumato-answered"
_log = logging.getLogger(__name__)


class PrivacyMod:
    """Clips and perturbs the parameters in a reply by ``protection`` before they leave the client.

    ``name`` is the client's public name, which ``secret`` proves to a server that sends a challenge (see
    ``grpc_grid``). ``pay(round, guarantee)`` raises
    :class:`~sfumato.learners.federated.rounds.OutOfBudget` where the client's budget does not admit the
    round, which is then answered with an error and no training; so is one that cannot be paid for any other
    reason, of which the client's own log tells. ``rounds`` is how many rounds were agreed to. ``randomness``
    is the operating system's unless given; a seeded one is for experiments.
    """

    def __init__(
        self,
        protection: Protection,
        *,
        name: str | None = None,
        secret: str | None = None,
        pay: Pay | None = None,
        rounds: int | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        if secret is not None and name is None:
            raise BadInput("a secret was given without the name that it proves.")
        self.protection, self.name, self.pay, self.randomness = protection, name, pay, randomness
        self.rounds = rounds
        self._credential = None if name is None or secret is None else Credential(name, secret)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Return the protected reply of the app behind ``call_next``, or an error that says why not."""
        kind = message.metadata.message_type.partition(".")[0]
        if kind != "train":
            return refused_message(
                message, f"messages of type {kind} are not answered: nothing in a reply would be protected."
            )
        record = _only(message)
        if record is None:
            return refused_message(
                message, "the message must hold one record of arrays, the parameters to train from."
            )
        number, rounds = round_of(message)
        if self.rounds is not None and not _fresh(number, self.rounds, context):
            return refused_message(
                message, f"round {number} of {self.rounds} is not to be answered any more."
            )
        received = _single(record)
        protection = self.protection.at((number - 1) / rounds if 0 < number <= rounds else 0.0)
        if self.pay is not None:
            try:
                pay_quietly(self.pay, number, protection.guarantee(shapes_of(received)))
            except OutOfBudget as spent:
                return refused_message(message, f"{OUT_OF_BUDGET}{spent}")
            except BadInput as unpaid:
                return refused_message(message, str(unpaid))
        made = self._made(message, context, call_next, record)
        if made is None:
            return refused_message(message, "the client made layers of other names or shapes than were sent.")
        noise = own(self.randomness, self.name or "", number)
        leaving = record_of(protection.protect(made, received, noise), record)
        content = RecordDict({next(iter(message.content.array_records)): leaving})
        content[METRICS] = MetricRecord({"num-examples": 1})
        challenge = challenge_of(message)
        if self._credential is not None and challenge is not None:
            content[CLIENT] = ConfigRecord({**self._credential.answer(challenge)})
        return Message(content, reply_to=message)

    def _made(
        self, message: Message, context: Context, call_next: ClientAppCallable, record: ArrayRecord
    ) -> Arrays | None:
        """Return what the app made of the parameters; None where it has other names or shapes."""
        received = _single(record)
        try:
            reply = call_next(message, context)
        except Exception:
            _log.exception("the training failed, and counts as if nothing had been learned")
            return received
        if reply.has_error():
            _log.error(
                "the training failed, and counts as if nothing had been learned: %s", reply.error.reason
            )
            return received
        trained = _only(reply)
        if trained is None or list(trained.keys()) != list(record.keys()):
            return None
        made = _single(trained)
        return made if shapes_of(made) == shapes_of(received) else None


def _fresh(number: int, rounds: int, context: Context) -> bool:
    """Return whether round ``number`` is one of all and was not answered before; remembers that it now is."""
    kept = context.state.config_records.setdefault(_ANSWERED, ConfigRecord({_ANSWERED: [0]}))
    before = list(cast("list[int]", kept[_ANSWERED]))
    if not 1 <= number <= rounds or number in before:
        return False
    kept[_ANSWERED] = [*before, number]
    return True


def _only(message: Message) -> ArrayRecord | None:
    records = list(message.content.array_records.values())
    return records[0] if len(records) == 1 else None


def _single(record: ArrayRecord) -> Arrays:
    with np.errstate(over="ignore", invalid="ignore"):
        return [np.asarray(array, dtype=np.float32) for array in numbers_of(record)]


def refused_message(message: Message, why: str) -> Message:
    """Return an answer to ``message`` that says ``why`` there is no other."""
    _log.warning("%s", why)
    return Message(Error(code=ErrorCode.MOD_FAILED_PRECONDITION, reason=why), reply_to=message)
