"""Transforms as scikit-learn transformers, and as post-processing of releases."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.transforms import Transform

KEY = b"a key of sixteen bytes or more"
MAKERS: dict[str, Callable[[], Transform]] = {
    "ReverseManifold": sf.ReverseManifold,
    "ReverseManifold-secret": lambda: sf.ReverseManifold(0.7, KEY),
    "LocalitySensitiveHash": lambda: sf.LocalitySensitiveHash(16),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[], Transform]:
    maker: Callable[[], Transform] = request.param
    return maker


@pytest.fixture
def release() -> sf.Release:
    X = np.linspace(-2.0, 2.0, 12).reshape(4, 3)
    return sf.Gaussian(5.0, clip=1.0, randomness=sf.Seeded(1)).release(X)


PICKLING = {"check_estimators_pickle", "check_estimators_overwrite_params"}


def test_scikit_learn_accepts_every_transform(make) -> None:
    results = check_estimator(make(), on_fail=None)
    assert len(results) >= 47
    # A secret key is not pickled; the second check pickles parameters to compare them.
    secret = getattr(make(), "key", None) is not None
    failed = {result["check_name"] for result in results if result["status"] != "passed"}
    assert failed == (PICKLING if secret else set())


def test_tags_say_what_is_true(make) -> None:
    tags = get_tags(make())
    assert not tags.non_deterministic
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not tags.input_tags.allow_nan


@pytest.mark.parametrize(("given", "returned"), [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8")])
def test_types(make, given, returned) -> None:
    X = np.arange(12).reshape(4, 3).astype(given)
    assert make().fit_transform(X).dtype == returned


def test_the_array_given_is_left_alone(make) -> None:
    X = np.asfortranarray(np.linspace(-2.0, 2.0, 12).reshape(4, 3))
    X.flags.writeable = False
    before = X.copy()
    mapped = make().fit_transform(X)
    np.testing.assert_array_equal(X, before)
    assert not np.shares_memory(mapped, X)
    np.testing.assert_array_equal(make().fit_transform(pd.DataFrame(X)), mapped)
    np.testing.assert_array_equal(clone(make()).fit_transform(X.tolist()), mapped)


def test_rows_are_mapped_one_by_one(make) -> None:
    X = np.linspace(-2.0, 2.0, 12).reshape(4, 3)
    transform = make().fit(X)
    rows = [transform.transform(row[None]) for row in X]
    np.testing.assert_array_equal(np.concatenate(rows), transform.transform(X))


def test_a_release_keeps_its_guarantee(make, release) -> None:
    transform = make()
    applied = transform.apply(release)
    assert applied.statement.proven == release.statement.proven
    assert applied.statement.claimed == release.statement.claimed
    assert applied.statement.mechanism == "Gaussian"
    assert applied.provenance == release.provenance
    np.testing.assert_array_equal(applied.value, transform.fit_transform(release.value))
    note = f"then {transform!r}: post-processing, the guarantee passes through unchanged"
    cautions = () if transform.caution() is None else (transform.caution(),)
    assert applied.statement.notes == (*release.statement.notes, note, *cautions)
    assert transform.state(release.statement) == applied.statement


def test_transforms_follow_one_another(release) -> None:
    twice = sf.LocalitySensitiveHash(8).apply(sf.ReverseManifold().apply(release))
    assert twice.value.shape == (4, 8)
    assert twice.statement.proven == release.statement.proven
    assert [note for note in twice.statement.notes if "post-processing" in note] == [
        "then ReverseManifold(alpha=1.0): post-processing, the guarantee passes through unchanged",
        "then LocalitySensitiveHash(bits=8): post-processing, the guarantee passes through unchanged",
    ]


def test_raw_data_has_no_guarantee(make) -> None:
    X = np.linspace(-2.0, 2.0, 12).reshape(4, 3)
    transform = make()
    released = transform.release(X)
    assert released.statement.proven.proves_nothing
    assert released.statement.mechanism == type(transform).__name__
    np.testing.assert_array_equal(released.value, transform.transform(X))
    document = json.loads(json.dumps(released.to_dict(), allow_nan=False))
    assert sf.Release.from_dict(released.value, document).statement == released.statement
    assert max(map(len, str(released.statement).splitlines())) <= 100


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0.0, np.nan]], "row 1, column 2 holds NaN"),
        ([[0.0, 0.0], [np.inf, 0.0]], "row 2, column 1 holds an infinity"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((0, 2)), "0 sample"),
        ([[1.0], [1.0, 2.0]], "rows differ in length"),
        (np.ones((1, 2)) * 1j, "Complex data not supported"),
        ([["a", "b"]], "must be numbers"),
    ],
)
def test_refused_records(make, X, message) -> None:
    transform = make().set_params(**({"alpha": 2.0} if isinstance(make(), sf.ReverseManifold) else {}))
    with pytest.raises(BadInput, match=message) as caught:
        transform.release(X)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
