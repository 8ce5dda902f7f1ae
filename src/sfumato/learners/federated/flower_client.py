"""The Flower app of a client: what it sends, how it proves its name, and the mod that protects its replies.

The mod protects what a client sends, whoever wrote the client's app. Put first in the list of mods of a
``ClientApp``, it is the last to touch the reply::

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

**Names.** A name is proven by a secret, or assigned by the server, and never taken on trust. A client that
could choose its name could take another one's place in a sum. So a client answers a challenge with its name
and an HMAC-SHA-256 of both under the secret of that name, which is never sent. Nobody else can prove that
name, and a proof holds for one challenge: one that the server has never used in each message of Flower, the
address of the server over gRPC, where a name is given once.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from sfumato.errors import BadInput
from sfumato.learners.federated.local_training import Arrays, shapes_of
from sfumato.learners.federated.protections import Protection, randomness_of
from sfumato.learners.federated.rounds import OUT_OF_BUDGET, Client, OutOfBudget, Pay
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee

if TYPE_CHECKING:
    from flwr.clientapp.typing import ClientAppCallable, Mod

__all__ = ["Credential", "PrivacyMod", "make_client_app", "new_secret", "refused_message"]

#: Names of records in a message, and of entries in them; those of Flower's own strategies where they exist.
ARRAYS, CONFIG, METRICS, CLIENT = "arrays", "config", "metrics", "sfumato-client"
ROUND, ROUNDS, NAME = "server-round", "sfumato-rounds", "name"
#: Where the challenge stands in a message of the server; the answer holds a name and a proof.
CHALLENGE, _PROOF = "sfumato-challenge", "sfumato-proof"
_ANSWERED = "sfumato-answered"
_SECRET_BYTES = 32
_log = logging.getLogger(__name__)


def new_secret() -> str:
    """Return 256 bits from the operating system, as text: a secret, or a challenge."""
    return secrets.token_hex(_SECRET_BYTES)


@dataclass(frozen=True)
class Credential:
    """The public ``name`` of a client and the secret by which it proves that it is the one."""

    name: str
    secret: str = field(repr=False)

    def answer(self, challenge: str) -> dict[str, str]:
        """Return the name, and a proof that holds for this challenge and this name alone."""
        said = f"{challenge}\n{self.name}".encode()
        return {NAME: self.name, _PROOF: hmac.digest(self.secret.encode(), said, "sha256").hex()}


def challenge_of(message: Message) -> str | None:
    """Return the challenge in a message of the server, None where it holds none."""
    settings = message.content.config_records.get(CONFIG)
    challenge = None if settings is None else settings.get(CHALLENGE)
    return challenge if isinstance(challenge, str) else None


def proven_name(answer: Mapping[str, object], challenge: str, known: Mapping[str, str]) -> str | None:
    """Return the name that ``answer`` proves by one of the ``known`` secrets, None where it proves none.

    Proofs are compared in constant time.
    """
    name, proof = answer.get(NAME), answer.get(_PROOF)
    secret = known.get(name) if isinstance(name, str) else None
    if not isinstance(name, str) or secret is None or not isinstance(proof, str):
        return None
    expected = Credential(name, secret).answer(challenge)[_PROOF]
    return name if hmac.compare_digest(proof.encode(errors="replace"), expected.encode()) else None


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


def trained_reply(message: Message, context: Context, call_next: ClientAppCallable) -> Message | None:
    """Return what the app answers; None where it failed, of which the client's own log tells alone."""
    try:
        reply = call_next(message, context)
        if reply.has_error():
            raise RuntimeError(reply.error.reason)
    except Exception:
        _log.exception("the training failed, and counts as if nothing had been learned")
        return None
    return reply


class Answers(Protocol):
    """The answers that a client has drawn, kept where they outlast its process."""

    def find(self, number: int) -> Arrays | None:
        """Return the answer to round ``number``; None where there is none."""

    def keep(self, number: int, arrays: Arrays) -> None:
        """Keep the answer to round ``number``; it is durable when this returns."""


class PrivacyMod:
    """Clips and perturbs the parameters in a reply by ``protection`` before they leave the client.

    ``name`` is the client's public name, which ``secret`` proves to a server that sends a challenge (see
    ``flower_server``). ``pay(round, guarantee)`` raises
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
        try:
            leaving = None if self.answers is None else self.answers.find(number)
            if leaving is None:
                if not self._may_answer(number, context):
                    return refused_message(
                        message, f"round {number} of {self.rounds} is not to be answered any more."
                    )
                leaving = self._drawn(message, context, call_next, record)
        except OutOfBudget as spent:
            return refused_message(message, f"{OUT_OF_BUDGET}{spent}")
        except BadInput as error:
            return refused_message(message, str(error))
        if len(leaving) != len(record):
            return refused_message(message, f"round {number} was answered for a model of other layers.")
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
        made, reply = received, trained_reply(message, context, call_next)
        if reply is not None:
            trained = _only(reply)
            made = [] if trained is None or list(trained) != list(record) else _single(trained)
        if shapes_of(made) != shapes_of(received):
            raise BadInput("the client made layers of other names or shapes than were sent.")
        noise = randomness_of(self.randomness, self.name or "", number, {"made": made, "received": received})
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
