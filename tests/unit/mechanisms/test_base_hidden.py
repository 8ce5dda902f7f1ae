"""What is hidden stays hidden: cells under a mask, columns of a frame that are no numbers, keys."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone

import sfumato as sf
from sfumato.audits import audit
from sfumato.errors import BadInput
from sfumato.learners import CertifiedCompact, PrivateSoftmax, fit_private
from sfumato.noise import secrets_travel
from sfumato.publishers import CertifiedPublisher
from sfumato.utility import assess

_LABELS = np.arange(40) % 2
_NOISE = {"epsilon": 1.0, "randomness": sf.Seeded(1)}


def _masked(*shape: int, dtype: Any = np.float64) -> np.ma.MaskedArray:
    """Numbers from 0 to 1, one of them under a mask: the secret, 77."""
    values = np.random.default_rng(0).uniform(size=shape)
    hidden = np.zeros(shape, dtype=bool)
    hidden.flat[3] = True
    values.flat[3] = 77.0
    return np.ma.array(values.astype(dtype), mask=hidden)


ENTRIES: dict[str, Callable[[], Any]] = {
    "release": lambda: sf.Gaussian(clip=1.0, epsilon=1.0).release(_masked(40, 3)),
    "release of lists": lambda: sf.Gaussian(clip=1.0, epsilon=1.0).release(list(_masked(40, 3))),
    "fit": lambda: sf.Gaussian(clip=1.0, epsilon=1.0).fit(_masked(40, 3)),
    "transform": lambda: sf.Gaussian(clip=1.0, epsilon=1.0).fit(np.ones((2, 3))).transform(_masked(40, 3)),
    "tiers": lambda: sf.TrustAdaptive(clip=1.0, epsilon=(1.0, 8.0)).tiers([0.0, 1.0]).release(_masked(40, 3)),
    "tensors": lambda: sf.TensorLDP(outside="clip", epsilon=1.0).release(_masked(4, 5, 5)),
    "symmetric tensors": lambda: sf.SymmetricTensors(sf.Laplace(clip=1.0, epsilon=1.0)).release(
        _masked(4, 5, 5)
    ),
    "projection": lambda: sf.RandomProjection(2).release(_masked(40, 3)),
    "a transform": lambda: sf.ReverseManifold().release(_masked(40, 3)),
    "pictures": lambda: sf.PlaneMeans(epsilon=4.0).release(_masked(2, 16, 16, 3)),
    "bytes of pictures": lambda: sf.PlaneMeans(epsilon=4.0).release(_masked(2, 16, 16, 3, dtype=np.uint8)),
    "frames": lambda: sf.FrameNoise(sf.PlaneMeans(4.0)).release(_masked(2, 16, 16, 3)),
    "sounds": lambda: sf.BandNoise(rate=8000, epsilon=4.0).release(_masked(800)),
    "a module": lambda: fit_private(torch.nn.Linear(3, 2), _masked(40, 3), _LABELS, epsilon=1.0, steps=2),
    "labels of a module": lambda: fit_private(
        torch.nn.Linear(3, 2), np.ones((40, 3)), np.ma.array(_LABELS, mask=_LABELS == 1), epsilon=1.0, steps=2
    ),
    "a learner": lambda: PrivateSoftmax(classes=2, epsilon=1.0).fit(_masked(40, 3), _LABELS),
    "a certified learner": lambda: CertifiedCompact(classes=2, epsilon=1.0).fit(_masked(40, 3), _LABELS),
    "a publisher": lambda: CertifiedPublisher(shape=(8, 8), classes=2, epsilon=1.0).fit(
        _masked(40, 8, 8), _LABELS
    ),
    "an audit": lambda: audit(
        sf.Gaussian(clip=1.0, **_NOISE).release(np.ones((40, 3))), original=_masked(40, 3)
    ),
    "utility": lambda: assess(_masked(40, 3), np.ones((40, 3))),
    "a parameter": lambda: sf.Personalised(_masked(40), clip=1.0).guarantee(),
}


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_cells_under_a_mask_are_refused_at_every_entry(enter: Callable[[], Any]) -> None:
    with pytest.raises(BadInput) as refused:
        enter()
    assert "masked" in str(refused.value)
    assert "77" not in str(refused.value)


def test_a_mask_that_hides_nothing_changes_nothing() -> None:
    values = np.random.default_rng(0).uniform(size=(5, 3))
    made = [sf.Gaussian(clip=1.0, **_NOISE).release(X).value for X in (values, np.ma.array(values))]
    np.testing.assert_array_equal(*made)


COLUMNS = {
    "a date": pd.to_datetime(["2020-01-01", "2021-01-01"]),
    "a date with a zone": pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True),
    "a duration": pd.to_timedelta([1, 2], "s"),
    "a category": pd.Categorical([1, 2]),
    "a truth": [True, False],
    "a nullable truth": pd.array([True, False], dtype="boolean"),
    "a text": ["1", "2"],
    "an object": np.array([1, 2.5], dtype=object),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_that_are_no_numbers_are_refused_by_name(kind: str) -> None:
    frame = pd.DataFrame({"age": [30.0, 40.0], "count": [1, 2], kind: COLUMNS[kind]})
    entries = (
        lambda: sf.Gaussian(clip=1.0, epsilon=1.0).release(frame),
        lambda: sf.Gaussian(clip=1.0, epsilon=1.0).fit(frame),
        lambda: PrivateSoftmax(classes=2, epsilon=1.0).fit(frame[[kind]], [0, 1]),
        lambda: assess(frame[[kind]], np.ones((2, 1))),
    )
    for enter in entries:
        with pytest.raises(BadInput, match=f"column '{kind}'"):
            enter()


def test_columns_of_numbers_are_taken() -> None:
    frame = pd.DataFrame({"age": [30.0, 40.0], "count": [1, 2], "n": pd.array([1, 2], dtype="Int64")})
    made = [sf.Gaussian(clip=1.0, **_NOISE).release(X).value for X in (frame, frame.to_numpy(np.float64))]
    np.testing.assert_array_equal(*made)


ARROW_COLUMNS = {
    "a date": pa.array([18000, 18001], pa.date32()),
    "a moment": pa.array([18000, 18001], pa.timestamp("us")),
    "a time": pa.array([1, 2], pa.time32("s")),
    "a duration": pa.array([1, 2], pa.duration("s")),
    "a category": pa.array([1, 2]).dictionary_encode(),
    "a truth": pa.array([True, False]),
    "a text": pa.array(["3", "4"]),
}


@pytest.mark.parametrize("kind", ARROW_COLUMNS)
def test_columns_of_arrow_that_are_no_numbers_are_refused_by_name(kind: str) -> None:
    table = pa.table({"age": [30.0, 40.0], kind: ARROW_COLUMNS[kind]})
    mechanism = sf.Gaussian(clip=1.0, epsilon=1.0)
    entries = (
        lambda: mechanism.release(table),
        lambda: mechanism.release(table.select([kind])),
        lambda: mechanism.release(table.to_batches()[0]),
        lambda: mechanism.fit(table),
        lambda: sf.TensorLDP(outside="clip", epsilon=1.0).release(table),
        lambda: PrivateSoftmax(classes=2, epsilon=1.0).fit(table, [0, 1]),
        lambda: assess(table, np.ones((2, 2))),
    )
    for enter in entries:
        with pytest.raises(BadInput, match=f"column '{kind}'"):
            enter()


class _Exchanged:
    """A frame of another library: it can be turned into an array, and tells the types of its columns."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame, self.shape = frame, frame.shape

    def __dataframe__(self, *_: Any, **__: Any) -> Any:
        return self._frame.__dataframe__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._frame.to_numpy(dtype or np.float64)


@pytest.mark.filterwarnings("ignore:.*interchange.*")
def test_columns_of_any_frame_that_tells_their_types_are_checked() -> None:
    mechanism = sf.Gaussian(clip=1.0, epsilon=1.0)
    assert mechanism.release(_Exchanged(pd.DataFrame({"age": [30.0], "n": [1]}))).value.shape == (1, 2)
    with pytest.raises(BadInput, match="column 'born'"):
        mechanism.release(_Exchanged(pd.DataFrame({"age": [30.0], "born": pd.to_datetime(["2020-01-01"])})))


def test_columns_of_numbers_of_arrow_are_taken() -> None:
    table = pa.table({"age": [30.0, 40.0], "n": pa.array([1, 2], pa.uint8()), "x": [1.5, 2.5]})
    expected = np.array([[30.0, 1.0, 1.5], [40.0, 2.0, 2.5]])
    for given in (table, table.to_batches()[0]):
        made = [sf.Gaussian(clip=1.0, **_NOISE).release(X).value for X in (given, expected)]
        np.testing.assert_array_equal(*made)


def test_a_whole_array_of_booleans_holds_zeros_and_ones() -> None:
    truths = np.array([[True, False], [False, True]])
    made = [sf.Gaussian(clip=1.0, **_NOISE).release(X).value for X in (truths, truths.astype(np.float64))]
    np.testing.assert_array_equal(*made)


class _Array:
    """Something that is no NumPy array, and can be turned into one."""

    def __init__(self, array: Any) -> None:
        self._array, self.shape = array, array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._array if dtype is None else self._array.astype(dtype)


@pytest.mark.parametrize(
    "value",
    [np.datetime64(1, "ns"), np.timedelta64(1, "ns"), "1.5", b"1", True, np.array("1"), pa.scalar(1)],
    ids=repr,
)
def test_objects_that_are_no_numbers_are_refused(value: Any) -> None:
    table = np.array([[1.0, 2.0]], dtype=object)
    table[0, 1] = value
    for given in (table, _Array(table)):
        with pytest.raises(BadInput, match="must be numbers"):
            sf.Gaussian(clip=1.0, epsilon=1.0).release(given)


_SECRET = b"a secret that nobody else may know"


def _keyed() -> sf.Keyed:
    return sf.Keyed(_SECRET, dataset="d", version="v", release="r").part("one file")


SECRETS: dict[str, Callable[[], Any]] = {
    "noise": _keyed,
    "a mechanism": lambda: sf.Gaussian(clip=1.0, randomness=_keyed(), epsilon=1.0),
    "a projection": lambda: sf.RandomProjection(2, sf.Gaussian(clip=1.0, randomness=_keyed(), epsilon=1.0)),
    "a transform": lambda: sf.ReverseManifold(key=_SECRET),
}


@pytest.mark.parametrize("make", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_not_pickled(make: Callable[[], Any]) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(BadInput, match="is not pickled"):
            pickle.dumps(make(), protocol)
    with pytest.raises(BadInput, match="is not pickled"):
        joblib.dump(make(), io.BytesIO())


@pytest.mark.parametrize("make", list(SECRETS.values())[1:], ids=list(SECRETS)[1:])
def test_copies_keep_the_secret_and_workers_of_ones_own_get_it(make: Callable[[], Any]) -> None:
    X, made = np.linspace(0.0, 1.0, 12).reshape(4, 3), make()
    with secrets_travel():
        sent = pickle.dumps(made)
    assert _SECRET in sent
    with pytest.raises(BadInput, match="is not pickled"):
        pickle.dumps(made)
    expected = made.release(X).value
    for other in (clone(made), copy.copy(made), copy.deepcopy(made), pickle.loads(sent)):
        np.testing.assert_array_equal(other.release(X).value, expected)


def test_nothing_prints_a_secret() -> None:
    for make in SECRETS.values():
        made = make()
        texts = [repr(made), str(made)]
        if hasattr(made, "get_params"):
            texts += [repr(made.get_params()), made._repr_html_()]
        if hasattr(made, "parameters"):
            texts += [json.dumps(made.parameters()), made.statement(3).to_json()]
        for text in texts:
            assert _SECRET.decode() not in text
