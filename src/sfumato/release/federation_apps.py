"""The Flower apps of a federated run, and what its clients keep in processes of their own.

``client_app`` and ``server_app`` are what processes of their own load. They find the terms in the
configuration of the run (``federation``, as JSON) and where they stand in that of their node: ``name`` and
``secret``, by which a client proves its name, ``file`` (an .npz with ``X`` and ``y``), ``dataset`` and
``ledger`` for the budget, and ``checkpoint``, where the answers of the client are kept. The server finds all
secrets in a file of its own (``secrets``, JSON by name), with that of its own noise under ``server``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid, ServerApp

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import write_whole
from sfumato.learners.federated import (
    Arrays,
    Federated,
    FlowerClients,
    LocalTraining,
    PrivacyMod,
    layers_from_bytes,
    layers_to_bytes,
    make_client_app,
    refused_message,
)
from sfumato.noise import Keyed, Randomness
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.client_budget import ClientBudgets, Waiting
from sfumato.release.federation import Federation
from sfumato.release.federation_engines import (
    ACCEPT,
    FederatedRun,
    never_drawn,
    pack_state,
    training_of,
    unpack_state,
)
from sfumato.release.path import Content, claimed, silent

#: Where the terms stand in the configuration of a run.
TERMS = "federation"
#: By which name the file of secrets holds that of the server's noise.
SERVER = "server"
_POLL = 0.05
_log = logging.getLogger(__name__)


class ClientRun(Checkpoint):
    """What one client keeps of a run, in processes of its own: a seed, and its answer to every round.

    The block leaves it for the next message. ``place`` names it, and ``data`` and ``request`` are compared
    with those that it was begun with. ``budgets`` pay for the rounds of the client ``name`` once.
    """

    def __init__(
        self, place: Path, data: bytes, request: Mapping[str, Any], name: str, budgets: ClientBudgets
    ) -> None:
        super().__init__(place)
        self._compared, self._name, self.budgets = (data, request), name, budgets
        self._answers = dict[int, Arrays]()

    def __enter__(self) -> Self:
        try:
            # A process of a run that was killed may still be at work on its last answer.
            self._held.enter_context(claimed(self.folder.with_suffix(".turn"), wait=True))
            self.begin(*self._compared, paid=self.budgets.charged)
            self.settle()
            self.budgets = self.budgets.for_run(self)
            self._kept = self.sums(None, silent)
            while self._kept.count < (self.resumed or 0):
                told, arrays = layers_from_bytes(self._kept(never_drawn).tobytes())
                self._answers[told["round"]] = arrays
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def find(self, number: int) -> Arrays | None:
        """Return the answer to round ``number``, bound to its row; None if there is none."""
        answer = self._answers.get(number)
        if answer is not None:
            self._bind(number, answer)
        return answer

    def keep(self, number: int, arrays: Arrays) -> None:
        """Keep the answer to round ``number``; when this returns it is durable, and bound to its row."""
        answer = np.frombuffer(layers_to_bytes({"round": number}, arrays), np.uint8)
        self._kept(lambda randomness: answer)
        self._answers[number] = arrays
        self._bind(number, arrays)

    def _bind(self, number: int, answer: Arrays) -> None:
        """Bind the row of round ``number`` to ``answer``; the client alone learns why that is refused."""
        try:
            self.budgets.bind(self._name, number, answer)
        except SfumatoError:
            _log.exception("round %s cannot be answered", number)
            raise BadInput("this client cannot answer the round; its own log says why.") from None


@lru_cache(maxsize=8)
def terms_in(text: str) -> Federation:
    """The terms that ``text`` holds as JSON."""
    return Federation.from_json(text)


@lru_cache(maxsize=8)
def kept_training(text: str, name: str, file: str) -> LocalTraining:
    """The training of client ``name`` on ``X`` and ``y`` of an .npz; kept for the next round."""
    with np.load(file, allow_pickle=False) as archive:
        features, labels = archive["X"], archive["y"]
    return training_of(terms_in(text), name, features, labels)


@lru_cache(maxsize=8)
def _digest_of(file: str) -> bytes:
    """Return a digest of the records in an .npz."""
    content = Content()
    with np.load(file, allow_pickle=False) as archive:
        content.add(archive["X"], archive["y"])
    return content.digest({})


def app_of_clients(
    terms_of: Callable[[Context], str], place_of: Callable[[Context], Mapping[str, Any]]
) -> ClientApp:
    """The app of clients with these terms (JSON), each of which stands at its place."""

    def training(context: Context) -> LocalTraining:
        place = place_of(context)
        return kept_training(terms_of(context), str(place["name"]), str(place["file"]))

    def answered(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        place, terms = place_of(context), terms_in(terms_of(context))
        # Whoever starts a run could otherwise ask for parameters without noise.
        if place.get(ACCEPT) != terms.digest():
            return refused_message(message, "the terms of this run are not those that this client agreed to.")
        with ExitStack() as held:
            run: ClientRun | None = None
            randomness: Randomness | None = terms.randomness
            try:
                name, budgets = str(place["name"]), ClientBudgets.from_settings(place)
                if place.get("checkpoint"):
                    request = {ACCEPT: terms.digest(), "name": name, "payer": [budgets.dataset, budgets.url]}
                    data, kept = _digest_of(str(place["file"])), Path(str(place["checkpoint"]))
                    run = held.enter_context(ClientRun(kept, data, request, name, budgets))
                    budgets, randomness = run.budgets, randomness or run.noise
            except SfumatoError:
                _log.exception("this client cannot take part in the run")
                return refused_message(message, "this client cannot take part; its own log says why.")
            # With noise at the server it is the server that pays, sampled or not.
            mod = PrivacyMod(
                terms.protection(),
                name=name,
                secret=str(place.get("secret") or "") or None,
                pay=None if terms.central else lambda *round: budgets.pay(name, *round),
                rounds=terms.rounds,
                randomness=randomness,
                answers=run,
            )
            return mod(message, context, call_next)

    return make_client_app(training, lambda context: answered)


def hand_over(folder: Path, made: Federated, patience: float) -> None:
    """Hand the state after a round over to the process that started the server's.

    Where that one keeps states, which the file ``kept`` says, this returns when it has kept this one.
    """
    write_whole(folder / "state", pack_state(made))
    kept, until = folder / "kept", time.monotonic() + patience
    while kept.exists() and kept.read_text("utf-8") != str(made.rounds):
        if time.monotonic() > until:
            raise BadInput(f"round {made.rounds} was not kept within {patience:g} seconds.")
        time.sleep(_POLL)


def read_state(file: Path, terms: Federation) -> Federated | None:
    """Return the state in ``file``; None where there is none."""
    with suppress(FileNotFoundError):
        return unpack_state(file.read_bytes(), terms)
    return None


def _serve(context: Context, grid: Grid, folder: Path) -> Federated:
    """Run the rounds of the configuration; states are handed over in ``folder``."""
    config = context.run_config
    terms, secrets = terms_in(str(config[TERMS])), _secrets(str(config.get("secrets", "")))
    own = secrets.pop(SERVER, None)
    waiting = Waiting(*(float(config[key]) for key in ("patience", "timeout")))
    run = FederatedRun(
        terms,
        {},
        ClientBudgets.from_settings(config),
        waiting,
        silent,
        begun=read_state(folder / "begun", terms),
        keep=lambda made: hand_over(folder, made, waiting.patience),
        noise=None if own is None else server_noise(own),
    )
    return run.federate(FlowerClients(grid, terms.names, secrets=secrets, **run.remote()))


def server_noise(secret: str) -> Keyed:
    """The noise of a server in a process of its own, from the ``secret`` that it is given."""
    return Keyed(bytes.fromhex(secret), dataset="run", version="1", release=SERVER)


def _secrets(file: str) -> dict[str, str]:
    try:
        return dict(json.loads(Path(file).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise BadInput(
            "the configuration of the run names no file of the clients' secrets (secrets, as JSON by name)."
        ) from error


client_app: ClientApp = app_of_clients(
    lambda context: str(context.run_config[TERMS]), lambda context: context.node_config
)
server_app = ServerApp()


@server_app.main()
def _main(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["result"]))
    try:
        write_whole(folder / "end", pack_state(_serve(context, grid, folder)))
    except SfumatoError as error:
        write_whole(folder / "error", str(error).encode("utf-8"))
        raise
