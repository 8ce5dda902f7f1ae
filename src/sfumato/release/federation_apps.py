"""The Flower apps of a federated run: made from its public terms, and from where each client stands.

``client_app`` and ``server_app`` are what processes of their own load; they find the terms in the
configuration of the run (``federation``, as JSON) and where they stand in that of their node: ``name`` and
``secret``, by which a client proves its name, ``file`` (an .npz with ``X`` and ``y``), and for the budget
``dataset`` and ``ledger``. The server finds all secrets in a file of its own (``secrets``, JSON by name).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import ServerApp

from sfumato.errors import BadInput, SfumatoError
from sfumato.io.atomic import write_whole
from sfumato.io.image_datasets import write_archive
from sfumato.learners.federated.client_app import make_client_app
from sfumato.learners.federated.flower_strategy import PrivateAverage
from sfumato.learners.federated.local_training import LocalTraining
from sfumato.learners.federated.parameter_vectors import Arrays
from sfumato.learners.federated.privacy_mod import PrivacyMod, refused_message
from sfumato.learners.federated.rounds import Federated, Refused
from sfumato.learners.federated.server_app import make_server_app
from sfumato.release.client_budget import ClientBudgets
from sfumato.release.federated_training import kept_training, terms_in
from sfumato.release.federation import Federation
from sfumato.release.round_deadline import Waiting
from sfumato.release.round_payment import BeforeEachRound

__all__ = [
    "ACCEPT",
    "TERMS",
    "app_of_clients",
    "client_app",
    "paid_from",
    "place_of",
    "read_result",
    "rounds_done",
    "server_app",
    "strategy_of",
]

#: Where the terms stand in the configuration of a run.
TERMS = "federation"
#: Where a client's owner says which terms it answers: their digest.
ACCEPT = "accept"
_MODEL, _STORY, _PROGRESS = "model.npz", "rounds.json", "progress"
_log = logging.getLogger(__name__)


def app_of_clients(
    terms_of: Callable[[Context], str], place_of: Callable[[Context], Mapping[str, Any]]
) -> ClientApp:
    """The app of clients with these terms (JSON), each of which stands at its place."""

    def training(context: Context) -> LocalTraining:
        place = place_of(context)
        return kept_training(terms_of(context), str(place["name"]), str(place["file"]))

    def mod(context: Context) -> Mod:
        place, terms = place_of(context), terms_in(terms_of(context))
        if place.get(ACCEPT) != terms.digest():
            return _refusing("the terms of this run are not those that this client agreed to.")
        try:
            name, budgets = str(place["name"]), _budgets(place)
        except BadInput:
            _log.exception("the configuration of this node names no budget that could be paid from")
            return _refusing("this client cannot pay; its own log says why.")

        def pay(number: int, guarantee: Any) -> None:
            budgets.pay(name, number, guarantee)

        # With noise at the server it is the server that pays, sampled or not.
        return PrivacyMod(
            terms.protection(),
            name=name,
            secret=str(place.get("secret") or "") or None,
            pay=None if terms.central else pay,
            rounds=terms.rounds,
            randomness=terms.randomness,
        )

    return make_client_app(training, mod)


def _refusing(why: str) -> Mod:
    """A mod that answers nothing: whoever starts a run could otherwise ask for parameters without noise."""
    return lambda message, context, call_next: refused_message(message, why)


def place_of(
    name: str, file: Path, budgets: ClientBudgets, terms: Federation, secret: str = ""
) -> dict[str, str]:
    """Where the client ``name`` stands, as the configuration of its node says it."""
    stands = {"name": name, "file": str(file), ACCEPT: terms.digest(), **paid_from(budgets)}
    return stands | ({"secret": secret} if secret else {})


def paid_from(budgets: ClientBudgets) -> dict[str, str]:
    """The budgets as a configuration names them; empty text stands for none."""
    if not budgets.charged:
        return {"dataset": "", "ledger": "", "purpose": ""}
    return {"dataset": budgets.dataset or "", "ledger": budgets.url or "", "purpose": budgets.purpose}


def strategy_of(
    terms: Federation,
    budgets: ClientBudgets,
    *,
    waiting: Waiting,
    known: Mapping[int, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    appearing: Callable[[int], None] | None = None,
    each_round: Callable[[int, Arrays], None] | None = None,
) -> PrivateAverage:
    """The server's side of ``terms``; it pays for all clients where it is the one that adds the noise."""
    return PrivateAverage(
        terms.names,
        terms.initial,
        terms.protection(),
        rounds=terms.rounds,
        central=terms.at_server(),
        pay=BeforeEachRound(budgets, terms.names) if terms.central else None,
        randomness=terms.randomness,
        patience=waiting.patience,
        timeout=waiting.timeout,
        known=known,
        secrets=secrets,
        appearing=appearing,
        each_round=each_round,
    )


def read_result(folder: Path, terms: Federation) -> Federated | None:
    """What the server's process left in ``folder``; None while it has left nothing."""
    story = folder / _STORY
    if not story.exists():
        return None
    told = json.loads(story.read_text("utf-8"))
    if "error" in told:
        raise BadInput(told["error"])
    with np.load(folder / _MODEL) as archive:
        arrays = [archive[f"layer{number}"] for number in range(len(archive.files))]
    refused = tuple(Refused(**item) for item in told["refused"])
    guarantee = terms.round_guarantee()
    return Federated(
        arrays,
        told["rounds"],
        guarantee,
        told["paid"],
        refused,
        told["stopped"],
        told["out_of_budget"],
    )


def rounds_done(folder: Path) -> int:
    """How many rounds the server's process has finished."""
    try:
        return int((folder / _PROGRESS).read_text("utf-8"))
    except (OSError, ValueError):
        return 0


def _write_result(context: Context, made: Federated) -> None:
    folder = _result(context)
    write_archive(folder / _MODEL, {f"layer{i}": array for i, array in enumerate(made.arrays)})
    told = {
        "rounds": made.rounds,
        "paid": dict(made.paid),
        "refused": [{"round": r.round, "client": r.client, "why": r.why} for r in made.refused],
        "stopped": made.stopped,
        "out_of_budget": made.out_of_budget,
    }
    write_whole(folder / _STORY, json.dumps(told).encode("utf-8"))


def _write_error(context: Context, error: SfumatoError) -> None:
    write_whole(_result(context) / _STORY, json.dumps({"error": str(error)}).encode("utf-8"))


def _result(context: Context) -> Path:
    return Path(str(context.run_config["result"]))


def _server_strategy(context: Context) -> PrivateAverage:
    config, folder = context.run_config, _result(context)

    def tell(number: int, arrays: Arrays) -> None:
        write_whole(folder / _PROGRESS, str(number).encode())

    return strategy_of(
        terms_in(str(config[TERMS])),
        _budgets(config),
        waiting=Waiting(*(float(config[key]) for key in ("patience", "timeout"))),
        secrets=_secrets(str(config.get("secrets", ""))),
        each_round=tell,
    )


def _secrets(file: str) -> dict[str, str]:
    try:
        return dict(json.loads(Path(file).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise BadInput(
            "the configuration of the run names no file of the clients' secrets (secrets, as JSON by name)."
        ) from error


def _budgets(place: Mapping[str, Any]) -> ClientBudgets:
    """What :func:`paid_from` says, or the owner of a node; a dataset without a budget is then refused."""
    given = {key: str(place.get(key) or "") for key in ("dataset", "ledger", "purpose")}
    return ClientBudgets(given["dataset"] or None, given["ledger"] or None, given["purpose"])


client_app: ClientApp = app_of_clients(
    lambda context: str(context.run_config[TERMS]), lambda context: context.node_config
)
server_app: ServerApp = make_server_app(_server_strategy, _write_result, _write_error)
