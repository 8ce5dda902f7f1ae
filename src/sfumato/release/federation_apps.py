"""The Flower apps of a federated run, and what every engine is given to run it.

``client_app`` and ``server_app`` are what processes of their own load. They find the terms in the
configuration of the run (``federation``, as JSON) and where they stand in that of their node: ``name`` and
``secret``, by which a client proves its name, ``file`` (an .npz with ``X`` and ``y``), and for the budget
``dataset`` and ``ledger``. The server finds all secrets in a file of its own (``secrets``, JSON by name).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import ServerApp
from numpy.typing import NDArray

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import private_folder, write_archive, write_whole
from sfumato.learners.federated import (
    Arrays,
    Federated,
    LocalTraining,
    PrivacyMod,
    PrivateAverage,
    Refused,
    make_client_app,
    make_server_app,
    refused_message,
)
from sfumato.release.client_budget import BeforeEachRound, ClientBudgets, Waiting
from sfumato.release.federation import Federation
from sfumato.release.path import Report

__all__ = ["kept_training", "write_records"]

#: Features and labels of every client, by name.
Shares = Mapping[str, tuple[NDArray[np.floating], NDArray[np.int64]]]


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """Settled ``terms``, every client's records, what clients pay from, and how long they are waited for."""

    terms: Federation
    shares: Shares
    budgets: ClientBudgets
    waiting: Waiting
    report: Report

    @contextmanager
    def apart(self) -> Iterator[tuple[Path, dict[str, Path]]]:
        """A private folder for processes of clients, and in it the file with the records of each of them.

        The folder is gone afterwards, also where this process is killed.
        """
        with private_folder("sfumato-federation-") as folder:
            yield folder, write_records(self.shares, folder)


def write_records(shares: Shares, folder: Path) -> dict[str, Path]:
    """One .npz for each client, with its features ``X`` and labels ``y``."""
    files = {name: folder / f"{name}.npz" for name in shares}
    for name, (features, labels) in shares.items():
        np.savez(files[name], X=np.asarray(features, dtype=np.float32), y=labels)
    return files


def training_of(terms: Federation, name: str, features: Any, labels: Any) -> LocalTraining:
    """The training of client ``name`` on its own records."""
    return LocalTraining(
        terms.classifier().make,
        np.asarray(features, dtype=np.float32),
        labels,
        epochs=terms.epochs,
        batch=terms.batch,
        rate=terms.rate,
        seed=terms.seed + terms.names.index(name),
    )


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
