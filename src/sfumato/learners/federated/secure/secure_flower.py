"""Secure sums between Flower clients and a Flower server, over Flower's own messages.

On a client, :class:`SecureSumMod` is the outermost mod: ``ClientApp(mods=[SecureSumMod(), privacy_mod])``.
What the app and the mods inside it answer, noise included, is put on the grid and masked; nothing else of the
answer leaves, metrics neither. Where there is no answer, the server is told so in a sentence that holds
nothing of what the app said: Flower sends the text of an exception to the server.

On the server :class:`SecureFedAvg` takes the place of ``FedAvg``: a round is four exchanges of train
messages, and what it learns is the sum, which it divides by the number of clients in it. A client that fails,
or whose answer does not come in time, at any of the four exchanges has dropped out. If fewer than the
threshold stay, the round leaves the model as it was.

A secure sum is a ConfigRecord in messages and in a client's context.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from logging import INFO, WARNING
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore import log
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_client import pay_quietly, round_of, trained_reply
from sfumato.learners.federated.rounds import Pay
from sfumato.learners.federated.secure.noise_share import NoiseShare
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    MaskedInput,
    Quantiser,
    Roster,
    SealedShares,
    SecureSum,
    UnmaskRequest,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_sum import FromClient, SecureSumClient, SecureSumServer

Vector = NDArray[np.float64]
CallNext = Callable[[Message, Context], Message]

#: How vectors become integers: put on a grid as they are, or clipped and with a share of noise.
Rule = Quantiser | NoiseShare
#: The name of the record, in messages and in a client's context.
RECORD = "sfumato.secure-sum"
#: What a server asks for, in this order.
STAGES = ("keys", "shares", "input", "unmasking")

_TERMS = ("clients", "length", "threshold", "bits", "session")
_log = logging.getLogger(__name__)


def stage_record(stage: str, **values: Any) -> ConfigRecord:
    """Return the record with which a server asks for ``stage``."""
    return ConfigRecord({"stage": stage, **values})


def sum_record(content: RecordDict) -> ConfigRecord:
    """Return the record of a secure sum in ``content``."""
    record = content.config_records.get(RECORD)
    if record is None:
        raise BadInput(
            "a message came without the record of a secure sum: an answer would have shown a plain update."
        )
    return record


def terms_values(terms: SecureSum, rule: Rule) -> dict[str, Any]:
    """Return terms and rule as values of a record."""
    return asdict(terms) | asdict(rule)


def terms_of(record: ConfigRecord) -> tuple[SecureSum, Rule]:
    """Return terms and rule that a record holds, checked against each other."""
    kind = NoiseShare if "sigma" in record else Quantiser
    wanted = ("clip", "sigma", "honest", "neighbours") if kind is NoiseShare else ("clip", "step")
    try:
        found: dict[str, Any] = {name: record[name] for name in (*_TERMS, *wanted)}
    except KeyError as missing:
        raise BadInput(f"the terms of a secure sum came without {missing.args[0]!r}.") from None
    terms = SecureSum(**{name: found[name] for name in _TERMS})
    rule: Rule = kind(**{name: found[name] for name in wanted})
    rule.check(terms)
    return terms, rule


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
        record = sum_record(message.content)
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
        kept = ConfigRecord(terms_values(terms, rule))
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
        """Return what this client adds to the sum; why there is nothing stays in the client's own log."""
        received = _arrays(message.content)
        if self.pay is not None and self.noise is not None:
            pay_quietly(self.pay, round_of(message)[0], self.noise.guarantee())
        reply = trained_reply(message, context, call_next)
        if self.noise is None:
            if reply is None:
                raise BadInput("the app failed, and there is nothing to be summed.")
            _, rule = terms_of(context.state.config_records[RECORD])
            assert not isinstance(rule, NoiseShare)  # refused when it was proposed
            return rule.integers(_vector(received, _arrays(reply.content)))
        update = np.zeros(terms.length)
        with suppress(Exception):  # whatever the app answered, it counts as if nothing had been learned
            if reply is not None:
                update = _vector(received, _arrays(reply.content)) - _vector(received, received)
        return self.noise.integers(update, terms)


def _vector(like: ArrayRecord, arrays: ArrayRecord) -> Vector:
    """Return ``arrays`` as one vector, in the order and the shapes of ``like``."""
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


class SecureRound:
    """One secure sum over the clients that train messages are meant for.

    :meth:`opened` makes of them messages that also carry what the clients sealed for each other; the replies
    go to :meth:`total`. In between and after, further exchanges run over ``grid``, each within ``timeout``
    seconds. A client that answers wrongly counts as one that dropped out, and a line in the log says why.
    """

    def __init__(self, grid: Grid, terms: SecureSum, rule: Rule, *, timeout: float = 600.0) -> None:
        rule.check(terms)
        self.terms, self.rule = terms, rule
        self._grid, self._timeout = grid, timeout
        self._server = SecureSumServer(terms)
        self._kind = ""

    @property
    def arrived(self) -> tuple[int, ...]:
        """The nodes whose vectors are in the sum."""
        return self._server.arrived

    def opened(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages to send in the place of ``messages``, after keys and shares were exchanged."""
        wanted = {one.metadata.dst_node_id: one for one in messages}
        self._kind = next(iter(wanted.values())).metadata.message_type if wanted else ""
        terms = stage_record("keys", **terms_values(self.terms, self.rule))
        self._take(Advertisement, self._exchanged(dict.fromkeys(wanted, terms)))
        roster = self._server.roster()
        question = stage_record("shares", message=roster.to_bytes())
        self._take(SealedShares, self._exchanged(dict.fromkeys(roster.keys, question)))
        opened = []
        for name, delivery in self._server.deliveries().items():
            record = stage_record("input", message=delivery.to_bytes())
            content = RecordDict({**wanted[name].content, RECORD: record})
            opened.append(self._message(name, content))
        return opened

    def total(self, replies: Iterable[Message]) -> NDArray[np.float64]:
        """Return the sum of the vectors of :attr:`arrived`, from the replies to what :meth:`opened` made."""
        self._take(MaskedInput, replies)
        request = self._server.request()
        question = stage_record("unmasking", message=request.to_bytes())
        self._take(UnmaskShares, self._exchanged(dict.fromkeys(request.arrived, question)))
        total = self._server.total()
        if isinstance(self.rule, NoiseShare):
            return self.rule.values(total, self.terms)
        return self.rule.values(total)

    def _exchanged(self, questions: dict[int, ConfigRecord]) -> Iterable[Message]:
        messages = [self._message(name, RecordDict({RECORD: one})) for name, one in questions.items()]
        return self._grid.send_and_receive(messages, timeout=self._timeout)

    def _message(self, name: int, content: RecordDict) -> Message:
        return Message(content, dst_node_id=name, message_type=self._kind)

    def _take(self, kind: type[FromClient], replies: Iterable[Message]) -> None:
        for reply in replies:
            name = reply.metadata.src_node_id
            if reply.has_error():
                log(INFO, "secure sum: node %s sent no %s.", name, kind.what)
                continue
            try:
                message = kind.from_bytes(cast(bytes, sum_record(reply.content).get("message", b"")))
                if message.sender != name:
                    raise BadInput(f"node {name} sent {kind.what} in the name of client {message.sender}.")
                self._server.receive(message)
            except Exception as wrong:  # whatever one client sends, the others go on
                log(WARNING, "secure sum: nothing of node %s is used: %s", name, wrong)


class SecureFedAvg(FedAvg):
    """FedAvg in which the server sees masked vectors and their sum; every client counts the same.

    ``threshold`` clients (by default two thirds of those sampled) must stay to the end of a round; otherwise
    the model stays as it was and ``failed`` counts one more. ``rule`` is how vectors become integers, the
    same on all clients: the public grid of a :class:`Quantiser`, on which parameters are averaged, or a
    :class:`NoiseShare`, with which updates are clipped and noised and their mean is added. ``bits`` is the
    ring and ``timeout`` the seconds for each exchange of keys and shares. Other options are FedAvg's. Metrics
    of training are not collected, and no client is asked to evaluate: its answer would be seen in the clear.
    """

    def __init__(
        self,
        *,
        threshold: int = 0,
        rule: Rule | None = None,
        bits: int = 64,
        timeout: float = 600.0,
        **options: Any,
    ) -> None:
        if options.setdefault("fraction_evaluate", 0.0):
            raise BadInput(
                f"`fraction_evaluate` was {options['fraction_evaluate']!r}: clients of a secure sum are not "
                "asked to evaluate, since each one's metrics would be seen; evaluate at the server.",
                parameter="fraction_evaluate",
            )
        super().__init__(**options)
        self._threshold, self._bits, self._timeout = threshold, bits, timeout
        self._rule = Quantiser() if rule is None else rule
        self._round: SecureRound | None = None
        self._sent = ArrayRecord()
        self.failed = 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the train messages of a round, after its clients have exchanged keys and shares."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._sent, self._round = arrays, None
        if not messages:
            return []
        length = sum(int(np.prod(one.shape)) for one in arrays.values())
        terms = SecureSum(clients=len(messages), length=length, threshold=self._threshold, bits=self._bits)
        self._round = SecureRound(grid, terms, self._rule, timeout=self._timeout)
        try:
            return self._round.opened(messages)
        except BadInput as wrong:
            log(WARNING, "round %s: %s", server_round, wrong)
            self._round = None
            return []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the mean of the clients that arrived, and how many they were; None if too few stayed."""
        try:
            if self._round is not None:
                total = self._round.total(replies)
                count = len(self._round.arrived)
                mean = total / count
                if isinstance(self._rule, NoiseShare):
                    mean += np.concatenate([one.numpy().ravel() for one in self._sent.values()])
                return _shaped(mean, self._sent), MetricRecord({"clients-in-the-sum": count})
        except BadInput as wrong:
            log(WARNING, "round %s: %s", server_round, wrong)
        self.failed += 1
        return None, None


def _shaped(vector: NDArray[np.float64], like: ArrayRecord) -> ArrayRecord:
    """Return ``vector`` as arrays with the names, shapes and types of ``like``."""
    arrays, start = {}, 0
    for name, one in like.items():
        size = int(np.prod(one.shape))
        part = vector[start : start + size].reshape(one.shape)
        arrays[name] = Array(np.asarray(part, dtype=one.dtype))
        start += size
    return ArrayRecord(arrays)
