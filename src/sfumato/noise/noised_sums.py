"""The noised sums of one run, in order: each step draws from streams of its own.

A run that learns, publishes or federates reads private records through sums with noise alone, one after the
other. It hands the computation of each to :class:`NoisedSums`. Whoever keeps the sums of a run may return one
that was drawn before in place of drawing it (:mod:`sfumato.release.checkpoint`): streams are named by the
number of the step, so that a step that is not drawn again shifts no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from sfumato.noise.randomness import Randomness, Stream

__all__ = ["NoisedSums"]

#: Computes one sum with noise; everything random in it comes from the randomness that it is given.
Draw = Callable[[Randomness], NDArray[Any]]


class NoisedSums:
    """Draws the sums of one run; ``count`` is the number of the next one.

    ``state`` is what a run that goes on from there made of the sums before ``count``; None where it begins
    with the first.
    """

    state: bytes | None = None

    def __init__(self, randomness: Randomness) -> None:
        self._randomness, self.count = randomness, 0

    def stream(self, label: bytes) -> Stream:
        """Return a stream for what is drawn once in a run and reads no record: first weights, an order."""
        return self._randomness.stream(b"run " + label)

    def __call__(self, draw: Draw) -> NDArray[Any]:
        """Return the next sum, which ``draw`` computes with the randomness of its step alone."""
        number, self.count = self.count, self.count + 1
        return self._sum(number, lambda: draw(_Step(self._randomness, number)))

    def save(self, state: Callable[[], bytes]) -> None:
        """Let ``state()``, a function of the sums so far and of public choices, be kept in their place."""

    def _sum(self, number: int, drawn: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        return drawn()


class _Step(Randomness):
    """The randomness of step ``number``."""

    def __init__(self, whole: Randomness, number: int) -> None:
        self._whole, self._name, self.reproducible = whole, b"step %d " % number, whole.reproducible

    def stream(self, label: bytes) -> Stream:
        """Return the stream of ``label`` in this step."""
        return self._whole.stream(self._name + label)
