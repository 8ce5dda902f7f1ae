"""What a client does between what it receives and what it sends: epochs of plain descent on its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.learners.examples import as_array
from sfumato.learners.federated.parameter_vectors import Arrays, shapes_of
from sfumato.mechanisms.parameters import positive, shown

__all__ = ["LocalTraining", "put_parameters", "taken_parameters"]


def taken_parameters(model: nn.Module) -> Arrays:
    """The parameters of ``model``, layer by layer; buffers, such as running means, stay where they are."""
    return [value.detach().cpu().numpy().astype(np.float32, copy=True) for value in model.parameters()]


def put_parameters(model: nn.Module, arrays: Arrays) -> None:
    """Set the parameters of ``model``, whose shapes must be those of ``arrays``."""
    values = list(model.parameters())
    expected = tuple(tuple(value.shape) for value in values)
    if shapes_of(arrays) != expected:
        raise BadInput(f"parameters of the shapes {shapes_of(arrays)} were given to a model of {expected}.")
    with torch.no_grad():
        for value, array in zip(values, arrays, strict=True):
            value.copy_(torch.from_numpy(np.ascontiguousarray(array)))


class LocalTraining:
    """A client's records and the descent on them.

    ``make_model`` makes the model, whose own initial parameters are not used. ``X`` (n, …) and ``y`` (n,) are
    the client's records and labels. One call is ``epochs`` passes in batches of ``batch``, in an order that
    follows ``seed`` and the round, by plain gradient descent with steps of ``rate`` and no momentum: nothing
    is carried from one round to the next but what the server sends.
    """

    def __init__(
        self,
        make_model: Callable[[], nn.Module],
        X: Any,
        y: Any,
        *,
        epochs: int = 1,
        batch: int = 64,
        rate: float = 0.05,
        seed: int = 0,
    ) -> None:
        for name, value in (("epochs", epochs), ("batch", batch)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(
                    f"`{name}` was {shown(value)}: a whole number, 1 or more, is needed.", parameter=name
                )
        self.make_model, self.epochs, self.batch = make_model, epochs, batch
        self.rate, self.seed = positive("rate", rate), seed
        self._X, self._y = (
            torch.as_tensor(as_array("records", X)),
            torch.as_tensor(as_array("labels", y)).long(),
        )
        if self._X.is_floating_point():
            self._X = self._X.float()
        if len(self._X) != len(self._y):
            raise BadInput(
                f"{len(self._X)} records and {len(self._y)} labels were given: as many are needed."
            )

    def __len__(self) -> int:
        return len(self._y)

    def trained(self, arrays: Arrays, *, round: int = 0) -> Arrays:
        """The parameters after training from ``arrays``; those themselves where there are no records."""
        model = self.make_model()
        put_parameters(model, arrays)
        model.train()
        order = torch.Generator().manual_seed(self.seed * 1_000_003 + round)
        steps = torch.optim.SGD(model.parameters(), lr=self.rate)
        for _ in range(self.epochs):
            shuffled = torch.randperm(len(self._y), generator=order)
            for rows in torch.split(shuffled, self.batch) if len(shuffled) else ():
                steps.zero_grad()
                self._loss(model(self._X[rows]), self._y[rows]).backward()  # type: ignore[no-untyped-call]
                steps.step()
        return taken_parameters(model)

    @staticmethod
    def _loss(logits: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, labels)
