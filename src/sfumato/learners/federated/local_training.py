"""Local training of a client, its small models, and their parameters as layers and as one vector.

A client trains by epochs of plain descent on its records. Parameters travel as a list of arrays, one for each
layer. Models are chosen by name; all of their shape is public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.learners.learner import as_array, whole_number
from sfumato.mechanisms import positive

__all__ = [
    "Arrays",
    "LocalTraining",
    "initial_parameters",
    "layers_from_bytes",
    "layers_to_bytes",
    "put_parameters",
]

Arrays = list[NDArray[np.float32]]
Shapes = Sequence[tuple[int, ...]]

_NUMBERS = "fiub"
_LARGEST = float(np.finfo(np.float32).max)


def shapes_of(arrays: Sequence[NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
    """Return the shape of every layer; public, since everybody trains the same model."""
    return tuple(tuple(int(side) for side in np.shape(array)) for array in arrays)


def size_of(shapes: Shapes) -> int:
    """Return how many parameters layers of these ``shapes`` have together."""
    return sum(math.prod(shape) for shape in shapes)


def flat_vector(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return all layers as one vector, in order."""
    if not len(arrays):
        raise BadInput("a model without parameters was given: one layer or more is needed.")
    return np.concatenate([np.asarray(array, dtype=np.float64).reshape(-1) for array in arrays])


def as_layers(vector: NDArray[np.float64], like: Sequence[NDArray[Any]]) -> Arrays:
    """Return ``vector`` as layers of the shapes of ``like``, limited to single precision."""
    shapes = shapes_of(like)
    if vector.shape != (size_of(shapes),):
        raise BadInput(
            f"a vector of shape {vector.shape} does not fit layers of {size_of(shapes)} parameters."
        )
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(np.clip(vector, -_LARGEST, _LARGEST).astype(np.float32), ends)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def check_reply(arrays: Sequence[Any], like: Sequence[NDArray[Any]], *, client: str = "a client") -> Arrays:
    """Return what ``client`` sent, in single precision, if it is finite and has the shapes of ``like``.

    Refuses in one sentence that names the client and the layer, counted from 1, and no value.
    """
    expected = shapes_of(like)
    if len(arrays) != len(expected):
        raise BadInput(f"{client} sent {len(arrays)} layers, and the model has {len(expected)}.")
    made: Arrays = []
    for number, (given, shape) in enumerate(zip(arrays, expected, strict=True), 1):
        array = np.asarray(given)
        if array.dtype.kind != "f":
            raise BadInput(
                f"{client} sent layer {number} as {array.dtype}: floating-point numbers are needed."
            )
        if array.shape != shape:
            raise BadInput(
                f"{client} sent layer {number} with the shape {array.shape}, and the model has {shape} there."
            )
        with np.errstate(over="ignore"):  # what overflows is refused as infinite
            single = array.astype(np.float32)
        if not np.isfinite(single).all():
            raise BadInput(
                f"{client} sent layer {number} with NaN or infinite parameters: nothing of it is used."
            )
        made.append(single)
    return made


def layers_to_bytes(told: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return JSON values and arrays as bytes, for another process or the disk."""
    written = BytesIO()
    for array in (np.frombuffer(json.dumps(told).encode(), np.uint8), *arrays):
        np.save(written, array, allow_pickle=False)
    return written.getvalue()


def layers_from_bytes(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return what was given to :func:`layers_to_bytes`; other bytes are refused, and nothing is unpickled."""
    source, found = BytesIO(data), list[NDArray[Any]]()
    try:
        while source.tell() < len(data):
            found.append(np.lib.format.read_array(source, allow_pickle=False))
        told = json.loads(found[0].tobytes())
        if not isinstance(told, dict) or any(array.dtype.kind not in _NUMBERS for array in found):
            raise ValueError
    except Exception:  # NumPy's reader has many ways to say that bytes are no array
        raise BadInput("the bytes hold no layers of numbers that can be read.") from None
    return told, found[1:]


def read_parameters(model: nn.Module) -> Arrays:
    """Return the parameters of ``model``, layer by layer; buffers, such as running means, are left out."""
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
        self.make_model = make_model
        self.epochs, self.batch = whole_number("epochs", epochs), whole_number("batch", batch)
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
        """Return the parameters after training from ``arrays``; unchanged where there are no records."""
        model = self.make_model()
        put_parameters(model, arrays)
        model.train()
        order = torch.Generator().manual_seed(self.seed * 1_000_003 + round)
        for _ in range(self.epochs):
            shuffled = torch.randperm(len(self._y), generator=order)
            for rows in torch.split(shuffled, self.batch) if len(shuffled) else ():
                model.zero_grad()
                loss = nn.functional.cross_entropy(model(self._X[rows]), self._y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                # By hand, because torch.optim takes seconds to import.
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.data.add_(parameter.grad, alpha=-self.rate)
        return read_parameters(model)


class _Map(nn.Module):
    """A map of rows without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, rows: Tensor) -> Tensor:
        return self.function(rows)


def _linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(math.prod(shape), classes)


def _mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(math.prod(shape), 64), nn.Tanh(), nn.Linear(64, classes))


def _cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    if len(shape) not in (2, 3) or min(shape[:2]) < 8:
        raise BadInput(f"cnn is for pictures of 8 × 8 or more, and records have the shape {shape}.")
    height, width, channels = (*shape, 1)[:3]
    return nn.Sequential(
        _Map(lambda rows: rows.reshape(-1, height, width, channels).permute(0, 3, 1, 2).contiguous()),
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (height // 4) * (width // 4), classes),
    )


#: Names on the command line. None of them has layers that keep statistics of records beside parameters.
MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {"linear": _linear, "mlp": _mlp, "cnn": _cnn}


def make_model(name: str, shape: tuple[int, ...], classes: int, *, factor: float = 1.0) -> nn.Module:
    """Return the model ``name`` for features of a record of ``shape``, which are multiplied by ``factor``."""
    if name not in MODELS:
        raise BadInput(f"there is no model {name!r}: accepted are {', '.join(MODELS)}.", parameter="model")
    return nn.Sequential(_Map(lambda rows: rows * factor), MODELS[name](shape, classes))


def initial_parameters(make: Callable[[], nn.Module], seed: int = 0) -> Arrays:
    """Return the parameters that every run with ``seed`` begins with; they are public."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return read_parameters(make())
