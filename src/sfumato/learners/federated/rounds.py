"""Federated learning in one process, round by round, and the classifier that clients trained together.

The steps are those of the Flower apps, in the same order. A round: the server sends its parameters; each
client trains on its own records and protects what it made; replies of another shape or with NaN are refused,
each in a sentence, and not used; the others are averaged (or, with a ``central`` mechanism, summed and noised
at the server); and the result is what is sent in the next round. A training that raises an exception counts
as one that learned nothing: whether a round is finished must not depend on a client's records.

Before anything of a round is drawn every client has paid for it. If one of them cannot, the run stops before
the round and keeps the parameters of the one before. In a local run the divisor of the average is the number
of replies, which the server saw arrive; whether a client answers at all is no part of what is proven.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated.central_noise import Central
from sfumato.learners.federated.local_training import (
    Arrays,
    as_layers,
    checked_reply,
    flat_vector,
    make_model,
    put_parameters,
    shapes_of,
)
from sfumato.learners.federated.protections import CLIENT, Protection, own
from sfumato.learners.learner import Floats, Learner, Report, checked_features
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee

__all__ = [
    "Federated",
    "FederatedClassifier",
    "OutOfBudget",
    "Refused",
    "client_names",
    "federate",
    "round_guarantee",
]

#: ``pay(client, round, guarantee)`` raises :class:`OutOfBudget` where the client's budget does not admit it.
Pay = Callable[[str, int, Guarantee], None]

_BLOCK = 4096
#: Whose noise a central mechanism draws; no client may have this name.
SERVER = "server"
#: How the reason begins where a budget ended a run.
BEFORE = "stopped before round "
_log = logging.getLogger(__name__)


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


def combined(
    replies: Mapping[str, Arrays],
    received: Arrays,
    *,
    central: Central | None,
    clients: int,
    number: int,
    randomness: Randomness | None,
) -> Arrays:
    """Return the parameters after round ``number``, from the usable replies to ``received``."""
    if central is None:
        return averaged(replies, received)
    noise = own(randomness, SERVER, number, {SERVER: received, **replies})
    return central.combined(replies, received, clients, noise)


def averaged(replies: Mapping[str, Arrays], received: Arrays) -> Arrays:
    """Return the mean of all replies, in the order of the clients' names."""
    if not replies:
        raise BadInput("no client sent parameters that can be averaged.")
    total = np.zeros_like(flat_vector(received))
    for name in sorted(replies):
        total += flat_vector(replies[name])
    return as_layers(total / len(replies), received)


def federate(
    clients: Mapping[str, Client] | Sequence[Client],
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

    ``clients`` by name, or in order (then they are called client-1, …). With ``central`` noise is added at
    the server and ``protection`` is usually none. ``pay`` is called for every client, before anything of the
    round is drawn. ``each_round`` is given the state after every round before anybody uses it, and a run goes
    on after the state ``begun``. A round without a single usable reply ends the run, and the parameters of
    the one before are kept: it was paid for.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise BadInput(f"`rounds` was {rounds!r}: a whole number, 1 or more, is needed.", parameter="rounds")
    if not isinstance(clients, Mapping):
        clients = dict(zip(client_names(len(clients)), clients, strict=True))
    names = sorted(clients)
    if not names or SERVER in names:
        raise BadInput(
            f"clients need names, and none of them may be {SERVER!r}; at least one client is needed."
        )
    received = checked_reply(initial, initial, client="the initial model")
    proven = round_guarantee(protection, central, received, len(names))
    made = begun or Federated(received, 0, proven, dict.fromkeys(names, 0))
    received, paid, refused, stopped = made.arrays, dict(made.paid), list(made.refused), None
    for number in range(made.rounds + 1, rounds + 1):
        try:
            for name in names:
                if pay is not None:
                    pay(name, number, proven)
                paid[name] += 1
        except OutOfBudget as spent:
            stopped = f"{BEFORE}{number} of {rounds}: {spent}"
            break
        asked = names if central is None else central.sampled(names, own(randomness, SERVER, -number))
        replies: dict[str, Arrays] = {}
        for place, name in enumerate(asked):
            if report is not None:
                report(f"round {number} of {rounds}", (number - 1 + place / len(asked)) / rounds)
            try:
                # A copy of its own: what a client does to it in place must not move anybody else's.
                trained = clients[name].trained([array.copy() for array in received], round=number)
            except Exception as error:
                trained, why = received, f"the training of {name} failed ({type(error).__name__})"
                refused.append(Refused(number, name, f"{why}, and counts as if nothing had been learned."))
                _log.warning("round %d: %s", number, why, exc_info=error)
            try:
                leaving = protection.at((number - 1) / rounds)
                noise = own(randomness, name, number, {"made": trained, "received": received})
                replies[name] = checked_reply(
                    leaving.protect(trained, received, noise), received, client=name
                )
            except BadInput as error:
                refused.append(Refused(number, name, _named(name, error)))
            except Exception as error:
                why = f"{name} sent what cannot be read ({type(error).__name__})."
                refused.append(Refused(number, name, why))
        if central is None and not replies:
            stopped = f"stopped in round {number} of {rounds}: no client sent parameters that can be used"
            break
        received = combined(
            replies,
            received,
            central=central,
            clients=len(names),
            number=number,
            randomness=randomness,
        )
        made = Federated(received, number, proven, dict(paid), tuple(refused))
        if each_round is not None:
            each_round(made)
    if report is not None:
        report("rounds", 1.0)
    ended = stopped is not None and stopped.startswith(BEFORE)
    return replace(made, paid=paid, refused=tuple(refused), stopped=stopped, out_of_budget=ended)


def _named(name: str, error: BadInput) -> str:
    """Return ``error`` as a sentence about the client ``name``."""
    return str(error) if str(error).startswith(name) else f"{name}: {error}"
