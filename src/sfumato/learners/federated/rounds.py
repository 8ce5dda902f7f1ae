"""Rounds of federated learning, clients in one process, and the classifier that clients trained together.

A round: the server sends its parameters; each client trains on its own records and protects what it made;
replies of another shape or with NaN are refused, each in a sentence, and not used; the others are averaged
(or, with a ``central`` mechanism, summed and noised at the server); and the result is what is sent in the
next round. A training that raises an exception counts as one that learned nothing: whether a round is
finished must not depend on a client's records. Clients train in this process, or answer over Flower
(``flower_server``) or gRPC (``grpc_clients``), each by the same public deadline.

Before anything of a round is drawn every client has paid for it. If one of them cannot, the run stops before
the round and keeps the parameters of the one before. In a local run the divisor of the average is the number
of replies, which the server saw arrive; whether a client answers at all is no part of what is proven.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition, Thread
from typing import Any, NoReturn, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated.central_noise import Central
from sfumato.learners.federated.local_training import (
    Arrays,
    as_layers,
    check_reply,
    flat_vector,
    make_model,
    put_parameters,
    shapes_of,
)
from sfumato.learners.federated.protections import CLIENT, Protection, randomness_of
from sfumato.learners.learner import Floats, Learner, Report, checked_features, whole_number
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee

__all__ = [
    "QUIET",
    "Federated",
    "FederatedClassifier",
    "OutOfBudget",
    "Refused",
    "RemoteClients",
    "client_names",
    "federate",
    "require_flower",
    "round_guarantee",
]

#: ``pay(round, guarantee)`` raises :class:`OutOfBudget` where a budget does not admit it.
Pay = Callable[[int, Guarantee], None]

#: What keeps Flower and Ray from reporting their use to their makers; processes that are started inherit it.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Before they are imported.
os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
_BLOCK = 4096
#: Whose noise a central mechanism draws; no client may have this name.
SERVER = "server"
#: How the reason begins where a budget ended a run.
BEFORE = "stopped before round "
#: How the reason of an error begins where a client's budget is spent.
OUT_OF_BUDGET = "out of budget: "
_LONGEST_REASON = 500
_POLL = 0.1
_Found = TypeVar("_Found")
_log = logging.getLogger(__name__)


def require_flower(what: str = "federated learning on Flower") -> None:
    """Refuse with the pip line where Flower is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise BadInput(f"{what} needs flwr: pip install 'sfumato[federated]'.")


class FederatedClassifier(Learner):
    """The model ``model`` (see ``local_training``) for features of shape ``shape`` and ``classes`` classes.

    It is fitted by rounds of clients and not by :meth:`fit`; what is proven of them stands in the statement
    of the run.
    """

    def __init__(
        self,
        model: str = "linear",
        shape: tuple[int, ...] = (1,),
        classes: int = 2,
        factor: float = 1.0,
        randomness: Randomness | None = None,
    ) -> None:
        self.model = model
        self.shape = shape
        self.classes = classes
        self.factor = factor
        self.randomness = randomness

    def make(self) -> torch.nn.Module:
        """Return an unfitted model."""
        return make_model(self.model, tuple(self.shape), self.classes, factor=self.factor)

    def take(self, arrays: Arrays) -> Self:
        """Take the parameters ``arrays`` as the model's."""
        put_parameters(self.make(), arrays)  # refuses other shapes
        self.arrays_ = arrays
        return self

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Refuse: rounds of clients fit this model."""
        raise BadInput("a federated model is fitted by rounds of clients, and not by fit.")

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes)."""
        model = self.make()
        put_parameters(model, self._fitted("arrays_"))
        model.eval()
        rows = torch.from_numpy(checked_features(X).astype(np.float32))
        with torch.no_grad():
            parts = [model(part).double().softmax(dim=1) for part in torch.split(rows, _BLOCK)]
        return np.asarray(torch.cat(parts).numpy())

    def guarantee(self) -> Guarantee:
        """Return nothing proven: the statement of the run says what is proven of its clients."""
        return Guarantee.nothing("the statement of the run says what is proven", CLIENT)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the parameters, layer by layer."""
        return {f"layer-{number:03d}": array for number, array in enumerate(self._fitted("arrays_"), 1)}

    def public(self) -> dict[str, Any]:
        """Return the parameters of the constructor as plain values."""
        return super().public() | {"shape": list(self.shape)}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        count = len(list(self.make().parameters()))
        names = [f"layer-{number:03d}" for number in range(1, count + 1)]
        self.take([np.asarray(tensors[name], dtype=np.float32) for name in names])


class OutOfBudget(SfumatoError):
    """A client's budget does not admit another round; nothing of that round was drawn."""

    exit_code = 3


class Client(Protocol):
    """Somebody who trains: ``LocalTraining``, or anything with the same method."""

    def trained(self, arrays: Arrays, *, round: int = 0) -> Arrays:
        """Return the parameters after one round of training from ``arrays``."""


@dataclass(frozen=True)
class Refused:
    """A reply that was not used, and why."""

    round: int
    client: str
    why: str

    def __str__(self) -> str:
        return f"round {self.round}: {self.why}"


@dataclass(frozen=True, eq=False)
class Federated:
    """``arrays`` after the last of ``rounds`` rounds that were finished.

    ``paid`` holds how many rounds each client paid for, which is what it may have sent; ``guarantee`` is that
    of one round. ``stopped`` says why the run ended before all rounds, None where it did not, and
    ``out_of_budget`` whether it was a budget that ended it: budgets look at no data, so that what is proven
    is then that of the rounds paid for, and in every other case that of all rounds that were planned.
    """

    arrays: Arrays
    rounds: int
    guarantee: Guarantee
    paid: Mapping[str, int]
    refused: tuple[Refused, ...] = field(default=())
    stopped: str | None = None
    out_of_budget: bool = False


def client_names(count: int) -> list[str]:
    """Return the public names of ``count`` clients, in the order in which they sort."""
    digits = len(str(count))
    return [f"client-{number:0{digits}d}" for number in range(1, count + 1)]


def round_guarantee(
    protection: Protection, central: Central | None, arrays: Arrays, clients: int
) -> Guarantee:
    """Return the guarantee of one client in one round."""
    shapes = shapes_of(arrays)
    return protection.guarantee(shapes) if central is None else central.guarantee(shapes, clients)


@dataclass
class Replies:
    """What came of asking in round ``number``: ``usable`` replies by client, and those that were ``refused``.

    ``spent`` says whose budget does not admit the round, where a client that pays by itself said so.
    """

    number: int
    usable: dict[str, Arrays] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    spent: str | None = None

    def take(self, name: str, read: Callable[[], Arrays]) -> None:
        """Keep the parameters of ``name`` that ``read`` returns; whatever goes wrong is a refusal."""
        try:
            self.usable[name] = read()
        except OutOfBudget as spent:
            self.spent = self.spent or str(spent)
        except BadInput as error:
            self.refuse(name, str(error) if str(error).startswith(name) else f"{name}: {error}")
        except Exception as error:  # whatever Flower or NumPy stumble over in what came from outside
            self.refuse(name, f"{name} sent what cannot be read ({type(error).__name__}).")

    def refuse(self, name: str, why: str) -> None:
        """Note that nothing of ``name`` is used, and why."""
        self.refused.append(Refused(self.number, name, why))


class Clients(ABC):
    """All clients of a run, by their public ``names``."""

    names: list[str]

    @abstractmethod
    def ask(self, number: int, received: Arrays, taken: Sequence[str]) -> Replies:
        """Ask those that are ``taken`` to train from ``received`` in round ``number``."""

    def asked(self) -> Mapping[str, int] | None:
        """Return how often each client was asked, where clients pay by themselves; None elsewhere."""
        return None


class RemoteClients(Clients):
    """Clients in other processes, whose number is public, as their ``names`` are.

    With ``central`` the server adds the noise and pays; otherwise clients pay by themselves. ``patience`` is
    how many seconds the server waits for all clients to appear (with ``central`` it then begins without those
    that are missing), ``timeout`` how many each client has in a round, None for as long as it takes. While
    the server waits for clients to appear, ``appearing`` is told how many have, and may raise.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        rounds: int,
        central: bool = False,
        patience: float = 60.0,
        timeout: float | None = 3600.0,
        appearing: Callable[[int], None] = lambda found: None,
    ) -> None:
        self.names, self.rounds, self.central = sorted(names), rounds, central
        self.patience, self.timeout, self._appearing = patience, timeout, appearing
        self._begun, self.seen = False, set[Any]()

    @abstractmethod
    def present(self) -> Collection[Any]:
        """Return the clients that are connected now."""

    def begin(self, replies: Replies) -> None:
        """Wait, before the first round, until as many were there as there are clients.

        Before that no client is sent anything. With noise at the server a run begins without clients that do
        not appear, else they are an error. One that was there once counts: whether it has to be there at
        another moment would be for others to decide.
        """
        until = time.monotonic() + self.patience
        while not self._begun:
            self.seen |= set(self.present())
            found = len(self.seen)
            self._appearing(found)
            self._begun = found >= len(self.names)
            if not self._begun and time.monotonic() > until:
                came = f"{found} of {len(self.names)} clients appeared within {self.patience:g} seconds"
                if not self.central:
                    raise BadInput(f"{came}.")
                replies.refuse("clients", f"{came}: the run began without the others.")
                self._begun = True
            if not self._begun:
                time.sleep(_POLL)

    def raise_error(self, name: str, reason: str) -> NoReturn:
        """Raise the error that ``name`` answered with: a spent budget, where clients pay, or any other.

        Of its reason, which the client wrote and statements may repeat, one short printable line is kept.
        """
        line = reason.splitlines()[0] if reason else "none"
        said = "".join(filter(str.isprintable, line))[:_LONGEST_REASON]
        if not self.central and said.startswith(OUT_OF_BUDGET):
            raise OutOfBudget(said.removeprefix(OUT_OF_BUDGET))
        raise BadInput(f"{name} answered with an error: {said}")


def gather(asking: Sequence[Callable[[float], _Found | None]], timeout: float | None) -> list[_Found]:
    """Call each of ``asking`` in a thread of its own; return what was found within ``timeout`` seconds.

    Each is given the moment when time is over. What is found later is dropped, and nobody waits for the
    threads: so no client has less time because of another one.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    came, found, done = Condition(), list[_Found](), list[None]()

    def run(ask: Callable[[float], _Found | None]) -> None:
        answer = ask(until)
        with came:
            if answer is not None and time.monotonic() <= until:
                found.append(answer)
            done.append(None)
            came.notify_all()

    for ask in asking:
        Thread(target=run, args=(ask,), daemon=True).start()
    with came:
        left = None if timeout is None else max(0.0, until - time.monotonic())
        came.wait_for(lambda: len(done) == len(asking), left)
        return list(found)


class ClientsHere(Clients):
    """Clients that train one after the other, in this process."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        protection: Protection,
        rounds: int,
        randomness: Randomness | None,
        report: Report | None,
    ) -> None:
        self.names, self._clients, self._protection = sorted(clients), clients, protection
        self._rounds, self._randomness, self._report = rounds, randomness, report

    def ask(self, number: int, received: Arrays, taken: Sequence[str]) -> Replies:
        """Let each of ``taken`` train, and protect what it made."""
        replies, rounds = Replies(number), self._rounds
        for place, name in enumerate(taken):
            if self._report is not None:
                share = (number - 1 + place / len(taken)) / rounds
                self._report(f"round {number} of {rounds}", share)
            try:
                # A copy of its own: what a client does to it in place must not move anybody else's.
                made = self._clients[name].trained([array.copy() for array in received], round=number)
            except Exception as error:
                made, why = received, f"the training of {name} failed ({type(error).__name__})"
                replies.refuse(name, f"{why}, and counts as if nothing had been learned.")
                _log.warning("round %d: %s", number, why, exc_info=error)
            replies.take(name, partial(self._sent, name, number, made, received))
        return replies

    def _sent(self, name: str, number: int, made: Arrays, received: Arrays) -> Arrays:
        """Return what ``name`` sends of the parameters ``made``."""
        noise = randomness_of(self._randomness, name, number, {"made": made, "received": received})
        protection = self._protection.at((number - 1) / self._rounds)
        return check_reply(protection.protect(made, received, noise), received, client=name)


def average_replies(replies: Mapping[str, Arrays], received: Arrays) -> Arrays:
    """Return the mean of all replies, in the order of the clients' names."""
    total = np.zeros_like(flat_vector(received))
    for name in sorted(replies):
        total += flat_vector(replies[name])
    return as_layers(total / len(replies), received)


def federate(
    clients: Mapping[str, Client] | Sequence[Client] | Clients,
    initial: Arrays,
    protection: Protection,
    *,
    rounds: int,
    central: Central | None = None,
    pay: Pay | None = None,
    report: Report | None = None,
    randomness: Randomness | None = None,
    begun: Federated | None = None,
    each_round: Callable[[Federated], None] | None = None,
) -> Federated:
    """Run ``rounds`` rounds from the parameters ``initial``, which are public and not modified.

    ``clients`` in this process, by name or in order (then they are called client-1, …), or remote ones.
    With ``central`` noise is added at the server and ``protection`` is usually none.
    ``pay`` pays for all clients, before anything of the round is drawn. ``each_round`` is given the
    state after every round before anybody uses it, and a run goes on after the state ``begun``. A round
    without a single usable reply ends the run, and the parameters of the one before are kept: it was paid
    for. With ``central`` nothing that clients do ends the run.
    """
    whole_number("rounds", rounds)
    if not isinstance(clients, Clients):
        if not isinstance(clients, Mapping):
            clients = dict(zip(client_names(len(clients)), clients, strict=True))
        clients = ClientsHere(clients, protection, rounds, randomness, report)
    names = clients.names
    if not names or SERVER in names:
        raise BadInput(
            f"clients need names, and none of them may be {SERVER!r}; at least one client is needed."
        )
    first = check_reply(initial, initial, client="the initial model")
    proven = round_guarantee(protection, central, first, len(names))
    made = begun or Federated(first, 0, proven, dict.fromkeys(names, 0))
    before, paid, refused, stopped = made.paid, dict(made.paid), list(made.refused), None
    for number in range(made.rounds + 1, rounds + 1):
        try:
            if pay is not None:
                pay(number, proven)
        except OutOfBudget as spent:
            stopped = f"{BEFORE}{number} of {rounds}: {spent}"
            break
        taken = names
        if central is not None:
            taken = central.sampled(names, randomness_of(randomness, SERVER, -number))
        replies = clients.ask(number, made.arrays, taken)
        refused += replies.refused
        asked = clients.asked()
        paid = {name: paid[name] + 1 if asked is None else before[name] + asked[name] for name in names}
        if replies.spent is not None:
            stopped = f"{BEFORE}{number} of {rounds}: {replies.spent}"
            break
        if central is not None:
            noise = randomness_of(randomness, SERVER, number, {SERVER: made.arrays, **replies.usable})
            arrays = central.combined(replies.usable, made.arrays, len(names), noise)
        elif replies.usable:
            arrays = average_replies(replies.usable, made.arrays)
        else:
            stopped = f"stopped in round {number} of {rounds}: no client sent parameters that can be used"
            break
        made = Federated(arrays, number, proven, dict(paid), tuple(refused))
        if each_round is not None:
            each_round(made)
    if report is not None:
        report("rounds", 1.0)
    ended = stopped is not None and stopped.startswith(BEFORE)
    return replace(made, paid=paid, refused=tuple(refused), stopped=stopped, out_of_budget=ended)
