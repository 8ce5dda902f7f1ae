"""One training of figure 3: rounds of three clients with one method, and the F1 of the averaged model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato.learners.federated import (
    Arrays,
    LocalTraining,
    federate,
    initial_parameters,
    put_parameters,
)
from sfumato.noise import Seeded
from sfumato_reproductions.tldp.federated.methods import Method, Model
from sfumato_reproductions.tldp.federated.protocol import CLIENTS
from sfumato_reproductions.tldp.federated.tasks import Case, Records, Task
from sfumato_reproductions.tldp.network import Score, one_thread

__all__ = ["model_of", "scored"]

_BATCH = 64


def model_of(task: Task, rounds: int) -> Model:
    """What is public of the training of ``task``."""
    return _public(initial_parameters(task.make), task, rounds)


def _public(initial: Arrays, task: Task, rounds: int) -> Model:
    return Model(tuple(array.shape for array in initial), rounds, task.span)


def scored(task: Task, case: Case, method: Method, *, rounds: int, rate: float) -> Score:
    """F1 on the tests of ``case`` after all rounds; the same for the same seed."""
    with one_thread(case.seed):
        initial = initial_parameters(task.make, case.seed)
        model = _public(initial, task, rounds)
        protection = method.protection(model)
        arrays = initial
        if protection is not None:
            clients = [
                LocalTraining(
                    task.make, own.X, own.y, batch=_BATCH, rate=rate, seed=CLIENTS * case.seed + number
                )
                for number, own in enumerate(case.clients)
            ]
            made = federate(
                clients,
                initial,
                protection,
                rounds=rounds,
                central=method.at_server(model),
                randomness=Seeded(case.seed),
            )
            arrays = made.arrays
        return _score(_answers(task.make, arrays, case.tests), case.tests.y)


def _answers(make: Callable[[], nn.Module], arrays: Arrays, tests: Records) -> NDArray[np.int64]:
    model = make()
    put_parameters(model, arrays)
    model.eval()
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(tests.X)).argmax(1).numpy(), dtype=np.int64)


def _score(answers: NDArray[np.int64], truth: NDArray[np.int64]) -> Score:
    from sklearn.metrics import f1_score

    weighted, macro = (
        float(f1_score(truth, answers, average=average, zero_division=0.0))
        for average in ("weighted", "macro")
    )
    return Score(weighted, macro)
