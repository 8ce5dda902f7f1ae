"""The server's side of a secure sum in Flower: a round of four exchanges, and FedAvg made of such rounds."""

from __future__ import annotations

from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore import log
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.noise_share import NoiseShare
from sfumato.learners.federated.secure.quantiser import Quantiser
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    MaskedInput,
    SealedShares,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_records import RECORD, Rule, asked, told, written_terms
from sfumato.learners.federated.secure.secure_server import FromClient, SecureSumServer
from sfumato.learners.federated.secure.secure_terms import SecureSum

__all__ = ["SecureFedAvg", "SecureRound"]


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
        """The messages to send in the place of ``messages``, after keys and shares were exchanged."""
        wanted = {one.metadata.dst_node_id: one for one in messages}
        self._kind = next(iter(wanted.values())).metadata.message_type if wanted else ""
        terms = asked("keys", **written_terms(self.terms, self.rule))
        self._take(Advertisement, self._exchanged(dict.fromkeys(wanted, terms)))
        roster = self._server.roster()
        question = asked("shares", message=roster.to_bytes())
        self._take(SealedShares, self._exchanged(dict.fromkeys(roster.keys, question)))
        opened = []
        for name, delivery in self._server.deliveries().items():
            record = asked("input", message=delivery.to_bytes())
            content = RecordDict({**wanted[name].content, RECORD: record})
            opened.append(self._message(name, content))
        return opened

    def total(self, replies: Iterable[Message]) -> NDArray[np.float64]:
        """The sum of the vectors of :attr:`arrived`, from the replies to what :meth:`opened` made."""
        self._take(MaskedInput, replies)
        request = self._server.request()
        question = asked("unmasking", message=request.to_bytes())
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
                message = kind.from_bytes(cast(bytes, told(reply.content).get("message", b"")))
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
        """The train messages of a round, after its clients have exchanged keys and shares."""
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
        """The mean of the clients that arrived, and how many they were; None if too few stayed."""
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
    """``vector`` cut into the arrays of ``like``, in their names, shapes and types."""
    arrays, start = {}, 0
    for name, one in like.items():
        size = int(np.prod(one.shape))
        part = vector[start : start + size].reshape(one.shape)
        arrays[name] = Array(np.asarray(part, dtype=one.dtype))
        start += size
    return ArrayRecord(arrays)
