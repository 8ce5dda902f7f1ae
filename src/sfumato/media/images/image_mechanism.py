"""Image mechanisms: one picture a row, all of one shape, each released in its own shape and type.

A unit of a picture is smaller than the picture: any m×m pixels, any m pixels, or the whole item. A mechanism
states what it proves of the unit that was asked for and, beside it, of a range of others, each from a
certified bound over every placement of that unit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism, Parameter, Release, as_array, records, shown, whole
from sfumato.noise import each_block
from sfumato.privacy import Guarantee, Unit

__all__ = ["PictureMechanism", "footprint", "picture_shape"]

#: Height, width and number of channels of a picture.
Shape = tuple[int, int, int]

#: In pixels; no side of a picture, and of no part of one, is longer.
LONGEST_SIDE = 1 << 24

#: Every release of a picture says what it proves of these, beside the unit that was asked for.
ALSO_STATED = (
    *(Unit("pixels", size) for size in (1, 16)),
    *(Unit("region", size) for size in (8, 32)),
    Unit("item"),
)


class Footprint(NamedTuple):
    """The pixels that one unit covers: ``rows`` × ``columns`` beside each other, or so many ``anywhere``."""

    rows: int
    columns: int
    anywhere: int = 0

    @property
    def pixels(self) -> int:
        """How many they are."""
        return self.anywhere or self.rows * self.columns


#: Units of a picture: what one of a size covers of a picture of a height and a width.
FOOTPRINTS: dict[str, Callable[[int, int, int], Footprint]] = {
    "region": lambda size, height, width: Footprint(min(size, height), min(size, width)),
    "pixels": lambda size, height, width: Footprint(0, 0, min(size, height * width)),
    "item": lambda size, height, width: Footprint(height, width),
}
ImageUnit = Annotated[
    str | Unit,
    Parameter(
        f"Part of a picture that ε is for: {Unit.listed(FOOTPRINTS, 'or', typed=True)}.", symbol="UNIT"
    ),
]
ImageShape = Annotated[
    Sequence[int] | None,
    Parameter("Height, width and channels of one picture.", arity=None, doors=("python",)),
]
# Grey, grey with alpha, colour, colour with alpha.
_CHANNELS = (1, 2, 3, 4)
Block = Annotated[int, Parameter("Side in pixels of what is averaged.", symbol="B")]


@dataclass(eq=False, repr=False)
class PictureMechanism(Mechanism):
    """Base of mechanisms for pictures.

    Subclasses hold ``unit`` (the headline, such as ``"region(16)"``), and ``shape``: (height, width) or
    (height, width, channels) of one picture, or None until pictures are seen. Values lie in [0, ``high``]
    (255 for 8-bit and 65,535 for 16-bit integers, 1 for floating point). ``release`` takes one picture or an
    array of equally large ones, and gives back their shape and type; what falls outside the range is clipped.
    """

    of_media: ClassVar[bool] = True
    units: ClassVar[tuple[str, ...]] = tuple(FOOTPRINTS)
    #: Whether pictures of several files may be drawn at once: all noise is from ``_streams``, row by row.
    batched: ClassVar[bool] = False
    _value_bytes: ClassVar[int] = 80

    _: KW_ONLY
    shape: ImageShape = None

    @abstractmethod
    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return what is proven of ``unit`` in pictures of ``shape``, under replacement of its pixels."""

    @abstractmethod
    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return released pictures (n, height, width, channels) on the scale [0, ``high``], not yet rounded.

        A new floating-point array; ``pictures``, of which the first has the index ``first`` in the data, is
        not modified. Noise comes from ``self._streams(first, content)``, where content (n, …) is what noise
        is added to: an edit that does not change it must not buy fresh noise.
        """

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return what is proven of the unit that was asked for, in pictures of the declared shape."""
        return self.proven(picture_unit(self.unit), self._picture(columns))

    def release(self, X: Any) -> Release:
        """Return a release of one picture (h, w), (h, w, channels), or of several (n, h, w, channels).

        Where a shape is declared, X may hold n pictures of that shape; else three axes are one picture if
        the last has at most four values.
        """
        pictures = as_array(X, "the pictures")
        declared = None if self.shape is None else tuple(self.shape)
        if declared is None:
            one = pictures.ndim == 2 or (pictures.ndim == 3 and pictures.shape[2] in _CHANNELS)
            declared = pictures.shape if one else pictures.shape[1:]
        stack = pictures[None] if pictures.shape == declared else pictures
        if stack.ndim < 3 or stack.shape[1:] != declared or not stack.size:
            raise BadInput(f"expected pictures of shape {declared}, got an array of shape {pictures.shape}.")
        shaped = self.shaped(declared)
        shaped.check(stack.reshape(len(stack), -1))
        value = shaped.perturb(stack.reshape(len(stack), -1)).reshape(pictures.shape)
        columns = int(np.prod(declared))
        return Release(value, shaped.statement(columns), {"pictures": len(stack), "shape": list(declared)})

    def shaped(self, shape: Sequence[int]) -> PictureMechanism:
        """Return the same mechanism for pictures of ``shape``."""
        return type(self)(**(self.get_params(deep=False) | {"shape": tuple(shape)}))

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return released rows for ``X``, whose rows are pictures of the declared shape, of the type of X."""
        shape, high = self._picture(X.shape[1]), white(X.dtype)
        out = np.empty_like(X)
        size = self.block_rows(X.shape[1])

        def work(block: int) -> None:
            rows = slice(block * size, min((block + 1) * size, len(X)))
            pictures = within(X[rows].reshape(-1, *shape), high)
            soft = self.soften(pictures, high, first + rows.start).reshape(len(pictures), -1)
            np.clip(soft, 0.0, high, out=soft)
            out[rows] = np.rint(soft, out=soft) if X.dtype.kind == "u" else soft

        each_block(work, -(-len(X) // size))
        return out

    def _records(self, X: Any, *, reset: bool) -> NDArray[Any]:
        return picture_rows(self, X, reset=reset)

    def block_rows(self, columns: int) -> int:
        """Return how many pictures are worked on at once: about two million values, at least one picture."""
        return max(1, (1 << 21) // max(columns, 1))

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse pictures with values that are not finite, or outside the range of their type."""
        high = white(X.dtype)
        if X.dtype.kind == "f":
            super().check(X, first)
            if X.size and not (X.min() >= 0.0 and X.max() <= high):
                raise BadInput("a picture in floating point must lie between 0 and 1; scale it first.")

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Make all that drawing needs but the pictures; see :meth:`Mechanism.prepare`."""
        self._prepared(self._picture(columns), white(dtype))

    def _prepared(self, shape: Shape, high: float) -> None:
        """Make what :meth:`soften` needs for pictures of ``shape``, or refuse: here by softening a black one.

        Subclasses that know what they need make that alone, which takes far less time.
        """
        self._on_trial().soften(np.zeros((1, *shape)), high, 0)

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        if self.shape is None:
            return ()
        shape, headline = self._picture(columns), picture_unit(self.unit)
        return tuple(self.proven(unit, shape) for unit in ALSO_STATED if unit != headline)

    def _picture(self, columns: int | None) -> Shape:
        if self.shape is None:
            raise BadInput(
                "a guarantee for pictures depends on their size: give `shape=(height, width, 3)`.",
                parameter="shape",
            )
        shape = picture_shape(self.shape)
        if columns is not None and columns != shape[0] * shape[1] * shape[2]:
            raise BadInput(f"pictures of shape {tuple(self.shape)} do not have {columns} values.")
        return shape


def within(pictures: NDArray[Any], high: float) -> NDArray[Any]:
    """Return ``pictures`` with no value outside [0, ``high``], which every bound on a unit rests on."""
    return np.clip(pictures, 0.0, high) if pictures.dtype.kind == "f" else pictures


def picture_rows(mechanism: Mechanism, X: Any, *, reset: bool) -> NDArray[Any]:
    """Return rows (n, values) of pictures; 8-bit and 16-bit values keep their type, which is their scale.

    ``reset`` makes ``mechanism`` remember the number of columns; otherwise X must have as many as before.
    """
    array = as_array(X, "the pictures")
    if array.dtype not in (np.uint8, np.uint16):
        return records(mechanism, X, reset=reset)
    records(mechanism, array[:1], reset=reset)
    return array


def whole_side(name: str, value: Any) -> int:
    """Return ``value``, if it is a whole number of pixels, and of no more than any picture has."""
    return whole(name, value, LONGEST_SIDE, "number of pixels")


def white(dtype: np.dtype[Any]) -> float:
    """Return the largest value of a picture of ``dtype``: 255, 65,535, or 1."""
    if dtype == np.uint8 or dtype == np.uint16:
        return float(np.iinfo(dtype).max)
    if dtype.kind == "f":
        return 1.0
    raise BadInput(f"pictures of {dtype} are not known: uint8, uint16 and floating point are accepted.")


def picture_shape(shape: Any) -> Shape:
    """Return ``shape`` as (height, width, channels); a picture without a third axis has one channel."""
    sides = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else []
    whole = all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)
    if len(sides) not in (2, 3) or not whole or min(sides) < 1 or (len(sides) == 3 and sides[2] > 4):
        raise BadInput(
            f"`shape` must be (height, width) or (height, width, channels), with 1 to 4 channels, not "
            f"{shown(shape)}.",
            parameter="shape",
        )
    return int(sides[0]), int(sides[1]), int(sides[2]) if len(sides) == 3 else 1


def picture_unit(unit: str | Unit) -> Unit:
    """Return ``unit``, if it is one that pictures have."""
    parsed = Unit.parse(unit)
    if parsed.name not in FOOTPRINTS:
        raise BadInput(f"pictures have the units {Unit.listed(FOOTPRINTS)}, not {parsed}.", parameter="unit")
    return parsed


def footprint(unit: str | Unit, shape: Sequence[int]) -> Footprint:
    """Return the pixels that ``unit`` covers in pictures of ``shape``."""
    (height, width, _), parsed = picture_shape(shape), picture_unit(unit)
    found = FOOTPRINTS[parsed.name](int(parsed.size or 0), height, width)
    return Footprint(height, width) if found.anywhere == height * width else found
