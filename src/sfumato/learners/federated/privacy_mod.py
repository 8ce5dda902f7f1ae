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
without a budget and without ``rounds`` nothing but the server limits how often a client is asked. With
``answers`` a round has one answer for good: it is kept before it is sent, and sent again, whatever the
message holds, when the round is asked for again.

**Edge cases.** Layers of other names or shapes than were received are refused in a sentence: that they differ
is no part of what is proven. Whether and when a client answers at all is seen by the server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_client import (
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


class Answers(Protocol):
    """The answers that a client has drawn, kept where they outlast its process."""

    def find(self, number: int) -> Arrays | None:
        """Return the answer to round ``number``; None where there is none."""

    def keep(self, number: int, arrays: Arrays) -> None:
        """Keep the answer to round ``number``; it is durable when this returns."""


class PrivacyMod:
    """Clips and perturbs the parameters in a reply by ``protection`` before they leave the client.

    ``name`` is the client's public name, which ``secret`` proves to a server that sends a challenge (see
    ``grpc_grid``). ``pay(round, guarantee)`` raises
    :class:`~sfumato.learners.federated.rounds.OutOfBudget` where the client's budget does not admit the
    round, which is then answered with an error and no training; so is one that cannot be paid for any other
    reason, of which the client's own log tells. ``rounds`` is how many rounds were agreed to, and ``answers``
    keeps what was drawn. ``randomness`` is the operating system's unless given: that of a run whose answers
    are kept, or a seeded one for experiments.
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
        answers: Answers | None = None,
    ) -> None:
        if secret is not None and name is None:
            raise BadInput("a secret was given without the name that it proves.")
        self.protection, self.name, self.pay, self.randomness = protection, name, pay, randomness
        self.rounds, self.answers = rounds, answers
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
        number, _ = round_of(message)
        leaving = None if self.answers is None else self.answers.find(number)
        if leaving is None:
            if not self._may_answer(number, context):
                return refused_message(
                    message, f"round {number} of {self.rounds} is not to be answered any more."
                )
            try:
                leaving = self._drawn(message, context, call_next, record)
            except OutOfBudget as spent:
                return refused_message(message, f"{OUT_OF_BUDGET}{spent}")
            except BadInput as error:
                return refused_message(message, str(error))
        content = RecordDict({next(iter(message.content.array_records)): record_of(leaving, record)})
        content[METRICS] = MetricRecord({"num-examples": 1})
        challenge = challenge_of(message)
        if self._credential is not None and challenge is not None:
            content[CLIENT] = ConfigRecord({**self._credential.answer(challenge)})
        return Message(content, reply_to=message)

    def _may_answer(self, number: int, context: Context) -> bool:
        """Return whether round ``number``, of which no answer is kept, is to be answered.

        Without ``answers`` the Flower context remembers that it was.
        """
        if self.rounds is None:
            return True
        if not 1 <= number <= self.rounds:
            return False
        if self.answers is None:
            kept = context.state.config_records.setdefault(_ANSWERED, ConfigRecord({_ANSWERED: [0]}))
            before = list(cast("list[int]", kept[_ANSWERED]))
            if number in before:
                return False
            kept[_ANSWERED] = [*before, number]
        return True

    def _drawn(
        self, message: Message, context: Context, call_next: ClientAppCallable, record: ArrayRecord
    ) -> Arrays:
        """Pay for the round of ``message``, train, draw, and keep what is to be sent."""
        (number, rounds), received = round_of(message), _single(record)
        protection = self.protection.at((number - 1) / rounds if 0 < number <= rounds else 0.0)
        if self.pay is not None:
            pay_quietly(self.pay, number, protection.guarantee(shapes_of(received)))
        made = received
        try:
            reply = call_next(message, context)
            if reply.has_error():
                raise RuntimeError(reply.error.reason)
        except Exception:
            _log.exception("the training failed, and counts as if nothing had been learned")
        else:
            trained = _only(reply)
            made = [] if trained is None or list(trained) != list(record) else _single(trained)
        if shapes_of(made) != shapes_of(received):
            raise BadInput("the client made layers of other names or shapes than were sent.")
        noise = own(self.randomness, self.name or "", number, {"made": made, "received": received})
        leaving = protection.protect(made, received, noise)
        if self.answers is not None:
            self.answers.keep(number, leaving)
        return leaving


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
