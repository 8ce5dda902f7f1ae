"""What every mechanism is: calibrated from parameters alone, a transformer, a source of releases."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput
from sfumato.mechanisms.declaration import parameters_of
from sfumato.mechanisms.estimator import Estimator
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.records import check_finite, records
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Keyed, Randomness, Secure, Stream, Units, each_block
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["NESTED", "Mechanism"]

Array = NDArray[np.float64]

#: Part of the terms of a mechanism inside another one: the version of the package when terms were first made.
NESTED = {"sfumato": "0.1.0"}
# Longer arrays are named in a statement by their digest.
_LISTED = 64
# About how many values of keyed rows are drawn together.
_TOGETHER = 1 << 15
_REPRODUCIBLE = "reproducible run: not for release"
_COMPUTATIONAL = "keyed noise: the guarantee is computational and void if the secret leaks"


class Mechanism(Estimator, ABC):
    """Base of all mechanisms.

    ``guarantee()`` is a pure function of parameters and shape and can be read before any data is touched.
    What :meth:`check` lets pass, :meth:`perturb` draws: any finite input is refused before anything is paid,
    for reasons that the guarantee covers, or it is released (``docs/explanation-guarantees.md``).
    ``release(X)`` returns a new array; X is never modified and never kept. ``fit`` learns nothing but
    the number of columns, and ``transform`` is the value of a release, so that mechanisms stand in a
    scikit-learn ``Pipeline``; each call draws fresh noise and must be paid for.
    """

    #: Changes whenever the same parameters and key would give other bytes; part of every keyed stream.
    version: ClassVar[int] = 1
    #: The wire name of the class, its own unless given: ``class New(Mechanism, wire="Old")``.
    wire: ClassVar[str] = "Mechanism"
    #: Whether it is for files of pictures or sound, and not for records.
    of_media: ClassVar[bool] = False
    # Memory for each value of a record, see working_bytes.
    _value_bytes: ClassVar[int] = 160

    def __init_subclass__(cls, *, wire: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.wire = cls.__name__ if wire is None else wire

    @abstractmethod
    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven, as a function of the parameters and, for some, of the number of columns."""

    @abstractmethod
    def claim(self) -> Claim | None:
        """What the method's authors say, or None where they say nothing."""

    @abstractmethod
    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``, rows ``first``, ``first``+1, … of the data; part of one release.

        Streaming callers pass consecutive blocks; blocks of a multiple of :meth:`block_rows` rows give
        the same bytes under seeded or keyed noise as one call with all rows.
        """

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse rows ``first``, ``first``+1, … of the data where :meth:`perturb` would; draws no noise."""
        check_finite(X, first)

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Refuse what :meth:`perturb` could not draw of rows of ``columns`` columns and type ``dtype``.

        Nothing is paid by then, and no data is looked at: ``perturb`` is asked for the release of no rows.
        It checks its parameters, the shape and the type before the first row, so it refuses here what it
        would refuse later, and needs no memory for a row, however wide.
        """
        self._on_trial().perturb(np.zeros((0, columns), dtype=dtype))

    @abstractmethod
    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """What the noise will do to records of ``columns`` columns; known before any data is touched."""

    def block_rows(self, columns: int) -> int:
        """How many rows are worked on at once; a function of the number of columns alone."""
        return max(1, (1 << 17) // max(columns, 1))

    def released_columns(self, columns: int) -> int:
        """How many columns the release of records of ``columns`` columns has."""
        return columns

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """Return an upper bound of the memory that drawing ``rows`` records of ``columns`` columns takes.

        It is what was measured on the whole way of a file, from reading to writing, and a little more.
        """
        return self._value_bytes * columns * rows

    def release(self, X: Any) -> Release:
        """A release of X, of shape (n, d), row by row."""
        data = self._records(X, reset=True)
        rows, columns = data.shape
        return Release(self.perturb(data), self.statement(columns), {"rows": rows, "columns": columns})

    def statement(self, columns: int | None = None) -> Statement:
        """The statement that every release of records of ``columns`` columns carries, not yet audited."""
        proven = self.guarantee(columns)  # first, since it refuses bad parameters in a sentence
        return Statement(
            mechanism=type(self).__name__,
            parameters=self.parameters(),
            claimed=self.claim(),
            proven=proven,
            notes=self._notes(),
            also_proven=self._also(columns),
            terms={"mechanism": self.wire, "parameters": self.terms()},
        )

    def parameters(self) -> dict[str, Any]:
        """Every parameter but the randomness as a JSON value, and the versions that shape the bytes."""
        values = {
            name: _plain(value) for name, value in self.get_params(deep=False).items() if name != "randomness"
        }
        values |= {"mechanism_version": self.version, "sfumato": sfumato.__version__}
        inside = self._nested().items()
        return values | {name: {"mechanism": type(one).__name__} | one.parameters() for name, one in inside}

    def terms(self) -> dict[str, Any]:
        """What keyed noise and commitments are made of: parameters by their wire names, as JSON values.

        Neither Python names nor the version of the package enter them, and a parameter that was added later
        only where it is not at its default: so another version asked for the same release draws the same.
        """
        declared, taken = parameters_of(type(self)), inspect.signature(type(self)).parameters
        values = self.parameters()
        del values["sfumato"]
        inside = self._nested().items()
        values |= {name: {"mechanism": one.wire} | one.terms() | NESTED for name, one in inside}
        for name, parameter in declared.items():
            if parameter.added and _plain(getattr(self, name)) == _plain(taken[name].default):
                values.pop(name, None)
        wires = {name: parameter.wire for name, parameter in declared.items()}
        return {wires.get(name) or name: value for name, value in values.items()}

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and remember the number of columns; nothing else is taken from X."""
        data = self._records(X, reset=True)
        check_finite(data)
        self.guarantee(data.shape[1])
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The value of a release of X."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "n_features_in_")
        rows = self._records(X, reset=False)
        self.check(rows)
        return self.perturb(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _records(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """All rows of a release as one checked array; ``reset`` where their number of columns is new."""
        return records(self, X, reset=reset)

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw the same noise again, and so remove it."""
        return self._randomness().reproducible

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that the noise is drawn from, if it is."""
        source = self._randomness()
        return source if isinstance(source, Keyed) else None

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        """What is proven of further units, where a release says something about several."""
        return ()

    def _nested(self) -> dict[str, Mechanism]:
        """The mechanisms inside this one, each by the parameter that holds it."""
        return {}

    def _notes(self) -> tuple[str, ...]:
        if self.keyed is not None:
            return (_COMPUTATIONAL,)
        return (_REPRODUCIBLE,) if self.reproducible else ()

    def _on_trial(self) -> Self:
        """The same mechanism for a row of zeros, which may lie outside its bounds.

        With noise apart where it is keyed: keyed noise is for one content only.
        """
        given, noise = self.get_params(deep=False), self.keyed
        changed: dict[str, Any] = {}
        if noise is not None and "randomness" in given:
            changed["randomness"] = noise.part("a trial")
        if given.get("outside") == "refuse":
            changed["outside"] = "clip"
        return type(self)(**(given | changed)) if changed else self

    def _randomness(self) -> Randomness:
        source = getattr(self, "randomness", None)
        if source is None:
            return Secure()
        if not isinstance(source, Randomness):
            raise BadInput(
                f"`randomness` must be None, Seeded(…) or Keyed(…), not {source!r}.", parameter="randomness"
            )
        return source

    def _stream(self, first: int, content: NDArray[Any]) -> Stream:
        """Return the stream for a block of rows that starts at row ``first``; one with units if keyed.

        ``content`` is what the rows hold after clipping and gridding; keyed noise depends on it.
        """
        source = self._randomness()
        if isinstance(source, Keyed):
            return source.unit_streams(self._context(content.shape[1]), first, content)
        return source.stream(f"{self.wire} {first}".encode())

    def _streams(self, first: int, content: NDArray[Any]) -> list[Stream]:
        """Return the streams for a block of rows that starts at row ``first``: one, or one a row if keyed."""
        return self._stream(first, content).each()

    def _each_rows(self, X: NDArray[Any], work: Callable[[slice], None]) -> None:
        """Call ``work(rows)`` for every block of rows of ``X``, on as many threads as help."""
        count, size = len(X), self.block_rows(X.shape[1])
        each_block(lambda block: work(slice(block * size, min((block + 1) * size, count))), -(-count // size))

    def _each_stream(
        self,
        X: NDArray[Any],
        first: int,
        read: Callable[[NDArray[Any], int], NDArray[Any]],
        write: Callable[[Stream, slice, NDArray[Any]], None],
        *,
        every_bit: bool = False,
        row_by_row: bool = False,
    ) -> None:
        """Call ``write(stream, rows, values)`` for all rows of ``X``, some at a time.

        ``values`` is what ``read(block, at)`` makes of a block of X that starts at row ``at`` of the data.
        Keyed noise depends on it: on its whole numbers, or on ``every_bit`` of it where it is on no grid.
        Rows with keyed streams of their own come together, unless ``write`` takes them ``row_by_row``; what
        is drawn is the same.
        """
        if not len(X):  # see prepare: what reading and the streams refuse is refused all the same
            self._stream(first, read(X, first))
            return

        def work(rows: slice) -> None:
            at = first + rows.start
            values = read(X[rows], at)
            # −0 is 0.
            stream = self._stream(at, (values + 0.0).view(np.int64) if every_bit else values)
            if not isinstance(stream, Units):
                write(stream, rows, values)
                return
            height = 1 if row_by_row else max(1, _TOGETHER // values.shape[1])
            for start in range(0, len(values), height):
                stop = min(start + height, len(values))
                own = slice(rows.start + start, rows.start + stop)
                write(stream.part(start, stop), own, values[start:stop])

        self._each_rows(X, work)

    def _context(self, columns: int) -> dict[str, Any]:
        """The mechanism and its :meth:`terms`, as a key stream wants them.

        Two spellings of one value (1 and 1.0) give one context: fresh noise for the same release would have
        to be paid for.
        """
        values = {name: _canonical(value) for name, value in self.terms().items()}
        return {"mechanism": self.wire, "columns": columns} | values


def _canonical(value: Any) -> Any:
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    """``value`` as JSON; a long array is named by its length, range and digest."""
    if isinstance(value, np.ndarray | tuple | list):
        array = np.asarray(value)
        if array.ndim == 1 and array.size > _LISTED and array.dtype.kind in "iuf":
            digest = hashlib.sha256(np.ascontiguousarray(array, dtype="<f8").tobytes()).hexdigest()
            low, high = float(array.min()), float(array.max())
            return {"count": array.size, "smallest": low, "largest": high, "sha256": digest}
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
