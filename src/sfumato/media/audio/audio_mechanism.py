"""Audio mechanisms: one clip a row, all of one length, each released at its own rate, length and type.

A unit of a sound is a stretch of time in all its channels, one channel, or the whole clip. A mechanism states
what it proves of the unit that was asked for and, beside it, of a range of others, each from a certified
bound over every placement of that unit. Clips of any length pass through in blocks, in bounded memory.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism, Parameter, RandomSource, Release, as_array, shown
from sfumato.privacy import Guarantee, Unit

__all__ = ["SoundMechanism", "window_samples"]

Array = NDArray[np.float64]

#: Samples and number of channels of a clip.
SoundShape = tuple[int, int]

#: Every release of a sound says what it proves of these, beside the unit that was asked for.
SOUNDS_ALSO_STATED = (*(Unit("window", size) for size in (5, 20, 100)), Unit("clip"), Unit("item"))

SoundUnit = Annotated[
    str | Unit,
    Parameter("Part of a sound that ε is for: window:20 (milliseconds), channel or clip.", symbol="UNIT"),
]
SampleRate = Annotated[int | None, Parameter("Samples a second.", symbol="HERTZ", doors=("python",))]
SoundClipShape = Annotated[
    Sequence[int] | None,
    Parameter("Samples, and channels, of one clip.", arity=None, doors=("python",)),
]
_CHANNELS = 32
_RATES = (1_000, 768_000)
# A block of work on one clip, in samples; memory holds a few of them.
_PIECE = 1 << 18
# Keyed and seeded streams are numbered by clip and, within it, by part; a clip has fewer parts than this.
PARTS = 1 << 32


class Passage(Protocol):
    """One clip on its way through a mechanism, given and taken piece by piece."""

    def feed(self, samples: Array) -> Array:
        """Return released samples (channels, j) that ``samples`` (channels, k) settle; perhaps none."""

    def finish(self) -> Array:
        """Return the released samples that were still waiting; together as many as were given, or more."""


@dataclass(eq=False, repr=False)
class SoundMechanism(Mechanism):
    """Base of mechanisms for sounds.

    Subclasses hold ``unit`` (the headline, such as ``"window(20)"``), ``rate`` in hertz, and ``shape``:
    (samples,) or (samples, channels) of one clip, or None until clips are seen. Floating-point samples lie in
    [−1, 1], 16- and 32-bit integers in their own range. ``release`` takes one clip or an array of equally
    long ones, and gives back their shape and type.
    """

    of_media: ClassVar[bool] = True
    units: ClassVar[tuple[str, ...]] = Unit.names("sound", "file")

    _: KW_ONLY
    rate: SampleRate = None
    shape: SoundClipShape = None
    randomness: RandomSource = None

    @abstractmethod
    def proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        """Return what is proven of ``unit`` in clips of ``shape``, under replacement of its samples."""

    @abstractmethod
    def passage(self, shape: SoundShape, first: int) -> Passage:
        """Return the way of one clip of ``shape``, number ``first`` of the data, on the scale [−1, 1].

        Refuses what could not be drawn, before any sample came.
        """

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return what is proven of the unit that was asked for, in clips of the declared shape."""
        return self.proven(sound_unit(self.unit), self._clip(columns))

    def release(self, X: Any) -> Release:
        """Return a release of one clip (samples,) or (samples, channels), or several (n, samples, channels).

        Where a shape is declared, X may hold n clips of that shape.
        """
        clips = as_array(X, "the clips")
        declared = None if self.shape is None else tuple(self.shape)
        if declared is None:
            declared = clips.shape if clips.ndim < 3 else clips.shape[1:]
        stack = clips[None] if clips.shape == declared else clips
        if stack.ndim < 2 or stack.shape[1:] != declared or not stack.size:
            raise BadInput(f"expected clips of shape {declared}, got an array of shape {clips.shape}.")
        shaped = self.shaped(declared)
        rows = stack.reshape(len(stack), -1)
        shaped.check(rows)
        statement = shaped.statement(rows.shape[1])
        value = shaped.perturb(rows).reshape(clips.shape)
        return Release(value, statement, {"clips": len(stack), "shape": list(declared), "rate": shaped.rate})

    def shaped(self, shape: Sequence[int], rate: int | None = None) -> SoundMechanism:
        """Return the same mechanism for clips of ``shape``, and of ``rate`` where one is given."""
        known = {"shape": tuple(shape)} | ({} if rate is None else {"rate": rate})
        return type(self)(**(self.get_params(deep=False) | known))

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return released rows for ``X``, whose rows are clips of the declared shape, of the type of X."""
        samples, channels = self._clip(X.shape[1])
        out = np.empty_like(X)
        for row in range(len(X)):
            clip = X[row].reshape(samples, channels)
            pieces = (clip[start : start + _PIECE] for start in range(0, samples, _PIECE))
            place, released = 0, out[row].reshape(samples, channels)
            for block in self.blocks(pieces, first + row):
                released[place : place + len(block)] = block
                place += len(block)
        return out

    def blocks(self, blocks: Iterable[NDArray[Any]], first: int = 0) -> Iterator[NDArray[Any]]:
        """Release one clip, number ``first`` of the data, whose blocks (k, channels) may have any size.

        Yields the released clip in blocks of the same type. The bytes do not depend on how it was cut, under
        seeded and keyed noise; memory does not depend on its length.
        """
        samples, channels = self._clip(None)
        passage, given, taken = self.passage((samples, channels), first), 0, 0
        kind: np.dtype[Any] = np.dtype(np.float64)
        for block in blocks:
            clean = block[:, None] if block.ndim == 1 else block
            if clean.ndim != 2 or clean.shape[1] != channels or given + len(clean) > samples:
                raise BadInput(
                    f"a clip of {samples} samples in {channels} channels cannot hold a block of shape "
                    f"{block.shape} after {given} samples."
                )
            self.check(clean, given)
            kind, given = clean.dtype, given + len(clean)
            settled = passage.feed(np.ascontiguousarray(clean.T, dtype=np.float64) / full_scale(kind))
            taken += settled.shape[1]
            if settled.shape[1]:
                yield _as_type(settled, kind)
        if given != samples:
            raise BadInput(f"a clip was to have {samples} samples, and {given} came.")
        rest = passage.finish()[:, : samples - taken]
        if rest.shape[1]:
            yield _as_type(rest, kind)

    def block_rows(self, columns: int) -> int:
        """Return one clip at a time."""
        return 1

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse samples that are not finite, or of a type that sounds do not have."""
        full_scale(X.dtype)
        if X.dtype.kind == "f":
            super().check(X, first)

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Make all that drawing needs but the samples; see :meth:`Mechanism.prepare`."""
        full_scale(dtype)
        self.passage(self._clip(columns), 0)

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        if self.shape is None:
            return ()
        shape, headline = self._clip(columns), sound_unit(self.unit)
        return tuple(self.proven(unit, shape) for unit in SOUNDS_ALSO_STATED if unit != headline)

    def _clip(self, columns: int | None) -> SoundShape:
        if self.shape is None:
            raise BadInput(
                "a guarantee for sounds depends on their length: give `shape=(samples, channels)`.",
                parameter="shape",
            )
        shape = sound_shape(self.shape)
        if columns is not None and columns != shape[0] * shape[1]:
            raise BadInput(f"clips of shape {tuple(self.shape)} do not have {columns} values.")
        return shape

    def _rate(self) -> int:
        """Return the declared sample rate in hertz."""
        rate = self.rate
        whole = isinstance(rate, int | np.integer) and not isinstance(rate, bool)
        if rate is None or not whole or not _RATES[0] <= rate <= _RATES[1]:
            raise BadInput(
                f"`rate` must be a whole number of hertz from {_RATES[0]} to {_RATES[1]}, not {shown(rate)}.",
                parameter="rate",
            )
        return int(rate)


def full_scale(dtype: np.dtype[Any]) -> float:
    """Return what a sample of ``dtype`` is divided by to lie in [−1, 1]."""
    if dtype == np.int16 or dtype == np.int32:
        return -float(np.iinfo(dtype).min)
    if dtype.kind == "f":
        return 1.0
    raise BadInput(f"sounds of {dtype} are not known: int16, int32 and floating point are accepted.")


def _as_type(samples: Array, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return samples (channels, k) on [−1, 1] as a block (k, channels) of type ``kind``."""
    clipped = np.clip(samples.T, -1.0, 1.0)
    if kind.kind == "f":
        return clipped.astype(kind)
    whole = np.rint(clipped * full_scale(kind))
    return np.minimum(whole, float(np.iinfo(kind).max)).astype(kind)


def sound_shape(shape: Any) -> SoundShape:
    """Return ``shape`` as (samples, channels); a clip without a second axis has one channel."""
    sides = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else []
    whole = all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)
    if len(sides) not in (1, 2) or not whole or min(sides) < 1 or (len(sides) == 2 and sides[1] > _CHANNELS):
        raise BadInput(
            f"`shape` must be (samples,) or (samples, channels), with 1 to {_CHANNELS} channels, not "
            f"{shown(shape)}.",
            parameter="shape",
        )
    return int(sides[0]), int(sides[1]) if len(sides) == 2 else 1


def sound_unit(unit: str | Unit) -> Unit:
    """Return ``unit``, if it is one that sounds have."""
    parsed, units = Unit.parse(unit), SoundMechanism.units
    if parsed.name not in units:
        raise BadInput(f"sounds have the units {Unit.listed(units)}, not {parsed}.", parameter="unit")
    return parsed


def window_samples(unit: Unit, rate: int, samples: int) -> int:
    """Return the most samples of one channel, out of ``samples``, that ``unit`` covers.

    A stretch of L sample periods, open at one end, holds at most ⌈L⌉ samples.
    """
    if unit.name != "window" or unit.size is None:
        return samples
    periods = Fraction(unit.size) * rate / 1000
    # 11.1 ms is meant as a decimal number; its double may lie a hair above.
    nearest = round(periods)
    close = abs(periods - nearest) <= Fraction(1, 10**9) * nearest
    return min(samples, max(1, nearest if close else math.ceil(periods)))
