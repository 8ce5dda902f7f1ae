"""Who learns what in figure 3: records of clients, tests, records that were held back, and the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import nn

from sfumato_reproductions.datasets import NAMES, check_names, data_file, load_parts
from sfumato_reproductions.tldp.federated import models, reviews, traffic
from sfumato_reproductions.tldp.federated.protocol import CLIENTS, FederatedRun

__all__ = ["ACCEPTED", "Case", "Records", "Task", "check_data", "load_task"]

#: Table -> its files.
_TABLES = {"imdb": tuple(reviews.FILES.values()), "nsl-kdd": (traffic.FILE,)}
#: Names that ``--data`` takes for figure 3.
ACCEPTED = (*NAMES, *_TABLES)
# As in the paper, one record in so many of the network traffic is a test.
_TRAFFIC_TESTS = 5
# The paper's Δ of table 4.
_SPAN, _SPANS = 256.0, {"imdb": 400_001.0}


@dataclass(frozen=True, eq=False)
class Records:
    """Inputs (n, …) and labels (n,)."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]

    def rows(self, chosen: NDArray[np.intp]) -> Records:
        """Some of them."""
        return Records(self.X[chosen], self.y[chosen])


@dataclass(frozen=True, eq=False)
class Case:
    """What each client has, and what the averaged model is tested on."""

    clients: tuple[Records, ...]
    tests: Records
    seed: int


class Task:
    """One data set: ``train`` is parted into what is held back, which no seed changes, and the rest.

    ``make`` makes the model, ``span`` is the paper's Δ.
    """

    def __init__(
        self,
        name: str,
        train: Records,
        tests: Records,
        make: Callable[[], nn.Module],
        run: FederatedRun,
    ) -> None:
        self.name, self.make, self.span = name, make, _SPANS.get(name, _SPAN)
        self.classes = int(train.y.max()) + 1
        share = min(1.0, len(train.y) / (run.learned + run.held_back))
        self.learned, self.held_back = int(run.learned * share), int(run.held_back * share)
        self.tested = min(run.tested, len(tests.y))
        self._train, self._tests = train, tests
        order = np.random.default_rng(0).permutation(len(train.y))
        self._public, self._private = np.split(order, [self.held_back])

    def case(self, seed: int) -> Case:
        """Private records in equal parts, and tests."""
        rng = np.random.default_rng(seed + 1)
        rows = rng.permutation(self._private)[: self.learned]
        tests = self._tests.rows(rng.permutation(len(self._tests.y))[: self.tested])
        return Case(self._parted(rows), tests, seed)

    def trial(self, number: int) -> Case:
        """What was held back: two thirds in clients, one third to score, chosen by ``number``."""
        third = self.held_back // 3
        rows = np.random.default_rng(number).permutation(self._public)
        return Case(self._parted(rows[third:]), self._train.rows(rows[:third]), number)

    def _parted(self, rows: NDArray[np.intp]) -> tuple[Records, ...]:
        return tuple(self._train.rows(part) for part in np.array_split(rows, CLIENTS))


def check_data(names: tuple[str, ...]) -> None:
    """Refuse names that figure 3 does not take, or whose files are not there."""
    check_names(names, ACCEPTED)
    for name in names:
        for file in _TABLES.get(name, ()):
            data_file(name, file)


def load_task(name: str, run: FederatedRun) -> Task:
    """The task on the data set ``name``."""
    if name == "imdb":
        train, tests = (Records(*reviews.read(part)) for part in ("train", "test"))
        build = models.linear
    elif name == "nsl-kdd":
        whole = Records(*traffic.read())
        order = np.random.default_rng(0).permutation(len(whole.y))
        tests, train = map(whole.rows, np.split(order, [len(order) // _TRAFFIC_TESTS]))
        build = models.dense
    else:
        parts = load_parts(name)
        train, tests = (Records(_channels_first(part.pictures), part.labels) for part in parts)
        build = models.pictures
    classes = int(train.y.max()) + 1
    return Task(name, train, tests, partial(build, train.X.shape[1:], classes), run)


def _channels_first(pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    """From [0, 1] to [−1, 1], as (n, channels, height, width)."""
    whole = pictures[..., None] if pictures.ndim == 3 else pictures
    return np.ascontiguousarray(np.moveaxis(whole, -1, 1)) * np.float32(2.0) - np.float32(1.0)
