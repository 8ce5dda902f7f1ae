"""The client's side of a secure sum in Flower: of a training, a mod lets nothing but masked vectors out.

Where there is none, the server is told so in a sentence that holds nothing of what the app said: Flower sends
the text of an exception to the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.client_payment import Pay, pay_quietly
from sfumato.learners.federated.flower_records import round_of
from sfumato.learners.federated.secure.noise_share import NoiseShare
from sfumato.learners.federated.secure.secure_client import SecureSumClient
from sfumato.learners.federated.secure.secure_messages import Delivery, Roster, UnmaskRequest
from sfumato.learners.federated.secure.secure_records import RECORD, STAGES, terms_of, told, written_terms
from sfumato.learners.federated.secure.secure_terms import SecureSum

__all__ = ["SecureSumMod"]

Vector = NDArray[np.float64]
CallNext = Callable[[Message, Context], Message]
_log = logging.getLogger(__name__)


class SecureSumMod:
    """The outermost mod of a ClientApp: it answers train messages of a secure sum, and no others.

    ``least`` is the fewest clients that a sum may be of for this client to take part. ``identity`` and
    ``trusted`` are those of :class:`SecureSumClient`, by Flower's node numbers. A message of any other type,
    such as an evaluation or a query, is refused and does not reach the app: a metric of one client would
    leave without a mask and without noise.

    Without ``noise`` the arrays that the app and the mods inside it answer are summed as they are. With it,
    their difference from what was received is clipped and a share of noise added, and nothing is sent by
    other rules. ``pay(round, guarantee)`` is then called before the app sees the message, and whatever it
    raises stops the client before. A training that fails counts as one that learned nothing, since that it
    failed may tell of the records.

    What the client remembers between exchanges stands in the Flower context, which Flower keeps on the
    client's side; it is taken away with the last answer, and a new sum replaces what is left of an older one.
    """

    def __init__(
        self,
        *,
        least: int = 2,
        noise: NoiseShare | None = None,
        pay: Pay | None = None,
        identity: bytes | None = None,
        trusted: Mapping[int, bytes] | None = None,
    ) -> None:
        if isinstance(least, bool) or not isinstance(least, int) or least < 2:
            raise BadInput(f"`least` was {least!r}: a sum is of at least 2 clients.", parameter="least")
        if pay is not None and noise is None:
            raise BadInput("a secure sum without shares of noise promises nothing that could be paid for.")
        self.least, self.noise, self.pay = least, noise, pay
        self._identity, self._trusted = identity, trusted

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Answer one message; ``call_next`` is asked for an update in the stage of inputs alone."""
        kind = message.metadata.message_type.split(".")[0]
        if kind != MessageType.TRAIN:
            raise BadInput(f"messages of type {kind} are not answered: nothing in a reply would be masked.")
        record = told(message.content)
        stage = record.get("stage")
        if stage == "keys":
            return self._advertised(message, context, record)
        if stage not in STAGES:
            raise BadInput(
                f"a client was asked for {stage!r}: a secure sum has the stages {', '.join(STAGES)}."
            )
        terms, client = self._resumed(context)
        given = cast(bytes, record.get("message", b""))
        if stage == "shares":
            answer = client.share(Roster.from_bytes(given)).to_bytes()
        elif stage == "input":
            # Before the app is asked and anything is paid for: a question that is refused costs nothing.
            client.accept(Delivery.from_bytes(given))
            message.content = RecordDict(
                {name: one for name, one in message.content.items() if name != RECORD}
            )
            answer = client.mask(self._integers(message, context, call_next, terms)).to_bytes()
        else:
            answer = client.unmask(UnmaskRequest.from_bytes(given)).to_bytes()
        if stage == "unmasking":
            del context.state[RECORD]
        else:
            context.state.config_records[RECORD]["state"] = client.state()
        return _reply(message, answer)

    def _advertised(self, message: Message, context: Context, record: ConfigRecord) -> Message:
        terms, rule = terms_of(record)
        if (rule if isinstance(rule, NoiseShare) else None) != self.noise:
            raise BadInput(
                "the server proposed a sum with other noise, or without the noise, of this client."
            )
        if terms.threshold < self.least:
            raise BadInput(
                f"this client takes part in sums of at least {self.least} clients, and one of "
                f"{terms.threshold} was proposed."
            )
        client = SecureSumClient(terms, context.node_id, identity=self._identity, trusted=self._trusted)
        answer = client.advertise().to_bytes()
        kept = ConfigRecord(written_terms(terms, rule))
        kept["state"] = client.state()
        context.state.config_records[RECORD] = kept
        return _reply(message, answer)

    def _resumed(self, context: Context) -> tuple[SecureSum, SecureSumClient]:
        kept = context.state.config_records.get(RECORD)
        if kept is None:
            raise BadInput(
                f"client {context.node_id} was asked to go on with a secure sum that it has not begun."
            )
        terms, _ = terms_of(kept)
        state = cast(bytes, kept["state"])
        return terms, SecureSumClient.resumed(terms, context.node_id, state, trusted=self._trusted)

    def _integers(
        self, message: Message, context: Context, call_next: CallNext, terms: SecureSum
    ) -> NDArray[np.int64]:
        """What this client adds to the sum."""
        received = _arrays(message.content)
        if self.noise is None:
            _, rule = terms_of(context.state.config_records[RECORD])
            assert not isinstance(rule, NoiseShare)  # refused when it was proposed
            return rule.integers(_vector(received, _arrays(_answer(message, context, call_next).content)))
        if self.pay is not None:
            pay_quietly(self.pay, round_of(message)[0], self.noise.guarantee())
        update = np.zeros(terms.length)
        try:
            reply = call_next(message, context)
            update = _vector(received, _arrays(reply.content)) - _vector(received, received)
        except Exception:
            _log.exception("the training failed, and counts as if nothing had been learned")
        return self.noise.integers(update, terms)


def _answer(message: Message, context: Context, call_next: CallNext) -> Message:
    """What the app answers; why it does not stands in the client's own log."""
    try:
        reply = call_next(message, context)
    except Exception:
        _log.exception("the training failed")
        raise BadInput("the app failed, and there is nothing to be summed.") from None
    if reply.has_error():
        _log.error("the training failed: %s", reply.error.reason)
        raise BadInput("the app answered with an error, and there is nothing to be summed.")
    return reply


def _vector(like: ArrayRecord, arrays: ArrayRecord) -> Vector:
    """``arrays`` as one vector, in the order and the shapes of ``like``."""
    if list(like) != list(arrays) or any(like[name].shape != arrays[name].shape for name in like):
        raise BadInput(
            "an answer holds other arrays than the ones that were sent: the same names and shapes are summed."
        )
    return np.concatenate([arrays[name].numpy().astype(np.float64).ravel() for name in like])


def _arrays(content: RecordDict) -> ArrayRecord:
    records = list(content.array_records.values())
    if len(records) != 1:
        raise BadInput(f"a message holds {len(records)} array records: a secure sum takes exactly one.")
    return records[0]


def _reply(message: Message, answer: bytes) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord({"message": answer})}), reply_to=message)
