"""The loop of publishers that learn by DP-SGD: noised sums of gradients, one for each step, in order.

A step reads the private pictures in one place: it takes a sample of them, leaves their gradients on the
parameters, and hands the noised sum to :class:`~sfumato.noise.NoisedSums`. All that follows is a function of
the sums, so a run that was interrupted is carried on from those that were kept.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator
from torch.nn import Parameter

from sfumato.learners import DPSGD
from sfumato.noise import NoisedSums, Randomness, Stream


class Stateful(Protocol):
    """A network or an optimiser."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that it has learned."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take back what :meth:`state_dict` returned."""


def noisy_steps(
    sgd: DPSGD,
    sums: NoisedSums,
    parameters: Sequence[Parameter],
    records: int,
    learning: Sequence[Stateful],
    leave_gradients: Callable[[NDArray[np.intp], Randomness], None],
    after: Callable[[int], None],
) -> None:
    """Take the steps of ``sgd`` on ``parameters``.

    ``leave_gradients`` is given the sample of a step, out of ``records``, and leaves the gradients of its
    examples on the parameters. ``after`` is told the number of the step, from 0, when each parameter has its
    noised mean gradient. ``learning`` is all that the steps change.
    """
    if sums.state is not None:
        states = torch.load(io.BytesIO(sums.state), weights_only=True)
        for part, kept in zip(learning, states, strict=True):
            part.load_state_dict(kept)

    def draw(randomness: Randomness) -> NDArray[Any]:
        taken = sgd.sample(records, randomness.stream(b"samples"))
        if taken.size:
            leave_gradients(taken, randomness)
        return sgd.noised(parameters, sgd.noisy(randomness), int(taken.size))

    def state() -> bytes:
        file = io.BytesIO()
        torch.save([part.state_dict() for part in learning], file)
        return file.getvalue()

    for step in range(sums.count, sgd.steps):
        sgd.take(parameters, sums(draw), records)
        after(step)
        sums.save(state)


def generator_of(stream: Stream) -> Generator:
    """Return a torch generator seeded from ``stream``, for draws that no proof rests on."""
    return Generator().manual_seed(stream.integer(64) % 2**63)
