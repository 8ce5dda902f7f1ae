"""A model that clients trained together, as something that can be kept, read again and asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.examples import Floats, checked_features
from sfumato.learners.federated.federated_models import make_model
from sfumato.learners.federated.local_training import put_parameters
from sfumato.learners.federated.parameter_vectors import Arrays
from sfumato.learners.federated.protection_base import CLIENT
from sfumato.learners.learner import Learner, Report
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee

__all__ = ["FederatedClassifier"]

_BLOCK = 4096


class FederatedClassifier(Learner):
    """The model ``model`` (see ``federated_models``) for features of shape ``shape`` and ``classes`` classes.

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
        """An unfitted model."""
        return make_model(self.model, tuple(self.shape), self.classes, factor=self.factor)

    def take(self, arrays: Arrays) -> Self:
        """Be the model with the parameters ``arrays``."""
        put_parameters(self.make(), arrays)  # refuses other shapes
        self.arrays_ = arrays
        return self

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Refused: rounds of clients fit this model."""
        raise BadInput("a federated model is fitted by rounds of clients, and not by fit.")

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, classes)."""
        model = self.make()
        put_parameters(model, self._fitted("arrays_"))
        model.eval()
        rows = torch.from_numpy(checked_features(X).astype(np.float32))
        with torch.no_grad():
            parts = [model(part).double().softmax(dim=1) for part in torch.split(rows, _BLOCK)]
        return np.asarray(torch.cat(parts).numpy())

    def guarantee(self) -> Guarantee:
        """Nothing by itself: the statement of the run says what is proven of its clients."""
        return Guarantee.nothing("the statement of the run says what is proven", CLIENT)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The parameters, layer by layer."""
        return {f"layer-{number:03d}": array for number, array in enumerate(self._fitted("arrays_"), 1)}

    def public(self) -> dict[str, Any]:
        """The parameters of the constructor as plain values."""
        return super().public() | {"shape": list(self.shape)}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        count = len(list(self.make().parameters()))
        names = [f"layer-{number:03d}" for number in range(1, count + 1)]
        self.take([np.asarray(tensors[name], dtype=np.float32) for name in names])
