"""``Mechanism``, the base of all mechanisms, and what it is made of.

``Estimator`` has the conventions of a scikit-learn transformer, without loading scikit-learn until it is
needed. ``records`` returns data as the rows of a two-dimensional array of numbers, or refuses it in one
sentence. ``ExpectedError`` is how far a release will be from the data, as far as parameters tell. A
``Release`` is a value with the statement of what it promises.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import TypeVar

import sfumato
from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive
from sfumato.mechanisms.registry import parameters_of
from sfumato.noise import Keyed, Randomness, Secure, Stream, Units, each_block
from sfumato.privacy import Claim, Guarantee, Neighbours, Statement, Unit

__all__ = [
    "NESTED",
    "ExpectedError",
    "Mechanism",
    "Release",
    "as_array",
    "check_finite",
    "check_visible",
    "finite_array",
    "held",
    "records",
]


@cache
def _parameter_names(of: Any) -> tuple[str, ...]:
    """Return the names of the parameters of a class's ``__init__``, sorted."""
    return tuple(sorted(name for name in inspect.signature(of).parameters if name != "self"))


class Estimator:
    """Parameters, tags and output as scikit-learn's own checks want them of a transformer.

    What scikit-learn draws (representations) or routes is what it would for an estimator of its own with the
    same parameters; it is loaded for that.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Parameters and what ``fit`` learns differ from class to class."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters of ``__init__``, sorted."""
        return list(_parameter_names(cls.__init__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` also those of parameters that are estimators."""
        values = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(values.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    values |= {f"{name}__{inner}": held for inner, held in value.get_params().items()}
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__inner`` sets a parameter of the estimator that ``name`` is."""
        known = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, inner = key.partition("__")
            if name not in known:
                # The sentence and the type are those of scikit-learn, whose tools catch them.
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {known!r}."
                )
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """See the class that has data to fit."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """See the class that has data to transform."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to X, and return its transform."""
        return self.fit(X, y, **fit_params).transform(X)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
        )

    def _as_scikit(self) -> Any:
        """Return an estimator of scikit-learn with this one's name and parameters, to be shown."""
        from sklearn.base import BaseEstimator

        own = type(self)
        same = {"__init__": own.__init__, "__module__": own.__module__, "__doc__": own.__doc__}
        shown: Any = object.__new__(type(own.__name__, (BaseEstimator,), same))
        shown.__dict__.update(self.__dict__)
        return shown

    def get_metadata_routing(self) -> Any:
        """Return which metadata ``fit`` and ``transform`` take: none."""
        return self._as_scikit().get_metadata_routing()

    def _repr_html_(self) -> Any:
        return self._as_scikit()._repr_html_()

    def __repr__(self) -> str:
        return repr(self._as_scikit())


_FLOATS = [np.float64, np.float32]
# What Python or NumPy would turn into a number without a word, though nobody wrote one.
_NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)
# Kinds of columns in the dataframe interchange protocol: whole, unsigned and floating-point numbers.
_INTERCHANGED_NUMBERS = (0, 1, 2)


class NotNumbers(BadInput, TypeError):
    """Values that no number can be made of; scikit-learn's conventions call for a ``TypeError`` here."""


def records(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """X as a float array of shape (n, d), with n, d ≥ 1; whether it is finite is for :func:`finite` to say.

    ``reset`` makes ``estimator`` remember the number of columns; otherwise X must have as many as before.
    float32 and float64 stay what they are, everything else becomes float64. X is not modified.
    """
    from sklearn.utils.validation import validate_data

    table = _table(X)
    try:
        data = validate_data(estimator, table, reset=reset, dtype=_FLOATS, ensure_all_finite=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    return np.asarray(data)


def numbers(X: Any) -> NDArray[Any]:
    """X as :func:`records` has it, for no estimator in particular, and known to be finite."""
    from sklearn.utils.validation import check_array

    table = _table(X)
    try:
        data = np.asarray(check_array(table, dtype=_FLOATS, ensure_all_finite=False))
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    check_finite(data)
    return data


def as_array(X: Any, what: str = "the data") -> NDArray[Any]:
    """X as an array of any type and shape, once nothing in it is hidden; ``what`` it is, in refusals."""
    check_visible(X, what)
    return np.asarray(X)


def check_visible(X: Any, what: str = "the data") -> None:
    """Refuse cells under a NumPy mask, and columns of a frame whose values are no numbers.

    Without a word NumPy would release what a mask hides, and count dates, durations, categories and booleans
    as numbers. A masked array without a masked cell is an array like any other. A frame is whatever tells the
    types of its columns: of pandas, Polars or Arrow, or by the dataframe interchange protocol.

    A whole array of type bool is none of these: it holds zeros and ones, as a ``.npy`` file of booleans does.
    """
    if isinstance(X, list | tuple):
        # An array is made of lists without looking at the masks of arrays in them.
        masked = any(isinstance(item, np.ma.MaskedArray) and np.ma.getmaskarray(item).any() for item in X)
    else:
        masked = isinstance(X, np.ma.MaskedArray) and bool(np.ma.getmaskarray(X).any())
    if masked:
        raise BadInput(
            f"{what} are a masked array with masked cells, which have no declared value: fill them, as in "
            "X.filled(0.0), or leave their rows out."
        )
    for name, kind, number in _frame_columns(X):
        if not number:
            raise BadInput(
                f"column {str(name)!r} of {what} holds values of type {kind}: whole and floating-point "
                "numbers are accepted; turn it into numbers yourself, or leave it out."
            )


def finite_array(values: Any, what: str) -> NDArray[Any]:
    """Return ``values`` as an array of finite real numbers, one or more of any shape; ``what`` names it."""
    check_visible(values, what)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
            with np.errstate(over="ignore"):  # what becomes infinite is refused below
                array = array.astype(np.float64)
    except (TypeError, ValueError):
        # Without the words of the error, which may quote a private value.
        raise BadInput(f"{what} must be numbers, with rows of equal length.") from None
    if array.dtype.kind not in "biuf":
        raise BadInput(f"{what} must be real numbers, not values of type {array.dtype}.")
    if array.size == 0 or array.ndim == 0:
        raise BadInput(f"{what} must hold one row of numbers or more; the shape is {array.shape}.")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        place = f"row {bad[0][0] + 1}" + (f", column {bad[0][1] + 1}" if array.ndim == 2 else "")
        raise BadInput(f"{place} of {what} is not a finite number.")
    return array


def _frame_columns(X: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Name and type of each column of a data frame, and whether it holds numbers; none if X is no frame."""
    if isinstance(X, np.ndarray):
        return
    names, kinds = getattr(X, "columns", None), getattr(X, "dtypes", None)
    schema: Any = getattr(X, "schema", None)
    if names is not None and kinds is not None:
        for name, kind in zip(names, kinds, strict=True):
            # Types of pandas and Arrow-backed types have a kind, as NumPy's have; those of Polars answer.
            numeric = (
                kind.is_numeric() if hasattr(kind, "is_numeric") else getattr(kind, "kind", "O") in "iuf"
            )
            yield name, kind, numeric
    elif hasattr(schema, "names") and hasattr(schema, "types"):
        from pyarrow import types

        for name, kind in zip(schema.names, schema.types, strict=True):
            numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            yield name, kind, numeric
    elif hasattr(X, "__dataframe__"):
        frame = X.__dataframe__()
        for name in frame.column_names():
            kind = frame.get_column_by_name(name).dtype[0]
            yield name, getattr(kind, "name", kind), int(kind) in _INTERCHANGED_NUMBERS


def _table(X: Any) -> Any:
    """X, or for lists the array they hold, once its shape and the type of its values can be records."""
    check_visible(X, "the records")
    # Frames, whose columns were checked, keep their names; sparse matrices are for scikit-learn to refuse.
    is_frame = next(_frame_columns(X), None) is not None
    as_given = isinstance(X, np.ndarray) or is_frame or not hasattr(X, "__array__")
    try:
        table = X if as_given and hasattr(X, "shape") else np.asarray(X)
    except ValueError:
        raise BadInput("the rows differ in length; every record must have equally many numbers.") from None
    if len(table.shape) != 2:
        raise BadInput(
            f"expected records as the rows of a table (n, d), got an array of shape {tuple(table.shape)}: "
            "Reshape your data, as in X.reshape(len(X), -1)."
        )
    kind = getattr(getattr(table, "dtype", None), "kind", "O")
    if kind == "c":
        raise BadInput("Complex data not supported: give real and imaginary parts as columns of their own.")
    if kind not in "biufO":
        raise BadInput(f"records must be numbers, not values of type {table.dtype}.")
    if isinstance(table, np.ndarray) and kind == "O":
        for held_type in set(map(type, table.flat)):
            turned = hasattr(held_type, "__float__") or hasattr(held_type, "__index__")
            if issubclass(held_type, _NO_NUMBERS) or (turned and not issubclass(held_type, Real | Decimal)):
                raise BadInput(f"records must be numbers, not values of type {held_type.__name__}.")
    return table


def _refusal(error: Exception) -> BadInput:
    """What scikit-learn or NumPy objected to, as one line."""
    text = " ".join(str(error).split()).rstrip(".")
    kind = NotNumbers if isinstance(error, TypeError) else BadInput
    return kind(f"{text}.")


def finite(block: NDArray[Any], first: int = 0) -> NDArray[np.float64]:
    """A copy of ``block`` in float64, once known to be finite; ``first`` is the index of its first row."""
    values = block.astype(np.float64)
    check_finite(values, first)
    return values


def held(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """``values`` in the floating-point type ``dtype``; what it cannot hold becomes its largest number.

    So that no record can stop a release: an infinity that arithmetic made of finite values is a number again.
    """
    largest = float(np.finfo(dtype).max)
    return np.asarray(np.clip(values, -largest, largest), dtype=dtype)


def check_finite(values: NDArray[Any], first: int = 0) -> None:
    """Refuse the first NaN or infinity, and say where it stands, rows and columns counted from 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(values, dtype=np.float64)
    # The sum of finite values is finite unless it overflows, and is quicker than looking at each.
    if np.isfinite(total):
        return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        name = "NaN" if np.isnan(values[row, column]) else "an infinity (inf)"
        raise BadInput(
            f"row {first + row + 1}, column {column + 1} holds {name}; only finite numbers can be released: "
            "remove or replace it."
        )


Array = NDArray[np.float64]


@dataclass(frozen=True)
class ExpectedError:
    """What the noise does to one kind of value, in the data's own unit; what clipping does is not in it."""

    of: str
    measure: Literal["root mean square error", "share of wrong answers"]
    value: float

    @classmethod
    def each_value(cls, deviation: float) -> ExpectedError:
        """Return the error of noise of ``deviation`` on every value."""
        return cls("each value", "root mean square error", deviation)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        shown = f"{self.value:.4g}" if self.measure == "root mean square error" else f"{self.value:.1%}"
        return f"{self.of}: {self.measure} {shown}"


#: What is released: an array, unless said otherwise.
Value = TypeVar("Value", default=NDArray[Any])


@dataclass(frozen=True, eq=False)
class Release(Generic[Value]):
    """``value`` with its three-column ``statement``; ``provenance`` says how and of what it was made."""

    value: Value
    statement: Statement
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.value, dtype=dtype, copy=copy)

    def to_dict(self) -> dict[str, Any]:
        """The statement and provenance as JSON values; the value itself travels in its own file."""
        return {"statement": self.statement.to_dict(), "provenance": dict(self.provenance)}

    @classmethod
    def from_dict(cls, value: Value, document: Mapping[str, Any]) -> Release[Value]:
        """The release of ``value`` that ``document``, written by :meth:`to_dict`, describes."""
        if not isinstance(document, Mapping) or not isinstance(document.get("provenance"), Mapping):
            raise BadInput("a release is described by an object with a statement and a provenance.")
        return cls(value, Statement.from_dict(document.get("statement", {})), dict(document["provenance"]))

    def __repr__(self) -> str:
        shape = "×".join(str(n) for n in getattr(self.value, "shape", ()))
        return f"<Release of {shape or type(self.value).__name__}: {self.statement!r}>"


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
    #: The kinds of data that doors release by it, such as ``("array", "table")``; none in Python alone.
    kinds: ClassVar[tuple[str, ...]] = ()
    #: Those that go through it unless another mechanism is named.
    default_for: ClassVar[tuple[str, ...]] = ()
    #: The units that it proves something of.
    units: ClassVar[tuple[str, ...]] = ()
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

    def claim(self) -> Claim | None:
        """Return what the method's authors say, or None where they say nothing."""
        return None

    def _claimed(self, text: str, source: str, **numbers: Any) -> Claim:
        """Return a claim of the ε and δ that were asked for, of the first unit; or of other ``numbers``."""
        if "epsilon" not in numbers:
            numbers["epsilon"] = positive("epsilon", self.epsilon)
        if "delta" not in numbers:
            numbers["delta"] = delta_between(self.delta) if hasattr(self, "delta") else 0.0
        neighbours = known_neighbours(getattr(self, "neighbours", Neighbours.REPLACE))
        about: dict[str, Any] = {"unit": Unit(self.units[0]), "neighbours": neighbours}
        return Claim(text=text, source=source, **(about | numbers))

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
            return (_COMPUTATIONAL,) if self.keyed.lasts else ()
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
