"""Mechanisms as scikit-learn transformers: its own checks, pipelines, types, and arrays left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_pipeline_consistency,
    check_transformer_data_not_an_array,
    check_transformer_general,
)

import sfumato as sf

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore:.*does not inherit from `sklearn.base.BaseEstimator`:UserWarning"),
]

# The checks that scikit-learn leaves out where the tags say that output is not repeatable.
LEFT_OUT = (check_pipeline_consistency, check_transformer_data_not_an_array, check_transformer_general)


def test_scikit_learn_accepts_every_seeded_mechanism(make) -> None:
    results = check_estimator(make(sf.Seeded(3)), on_fail=None)
    outcomes = {result["check_name"]: result["status"] for result in results}
    assert len(results) >= 45
    assert {name for name, status in outcomes.items() if status != "passed"} == {
        check.__name__ for check in LEFT_OUT
    }


@pytest.mark.parametrize("check", LEFT_OUT)
def test_a_seeded_mechanism_passes_what_the_tags_leave_out(make, check) -> None:
    seeded = make(sf.Seeded(3))

    class Repeatable(type(seeded)):  # type: ignore[misc]
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.non_deterministic = False
            return tags

    Repeatable.__name__ = type(seeded).__name__
    check(Repeatable.__name__, Repeatable(**seeded.get_params(deep=False)))


def test_fresh_noise_fails_exactly_the_checks_that_want_it_repeated(make) -> None:
    """Two draws of the mechanisms agree with a probability far below 1e-6, so both checks do fail."""
    results = check_estimator(make(None), on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == {"check_estimators_pickle", "check_fit_idempotent"}


def test_tags_say_what_is_true(make) -> None:
    tags = get_tags(make(None))
    assert tags.non_deterministic
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not tags.input_tags.allow_nan
    assert not tags.input_tags.sparse
    assert not tags.target_tags.required


def test_a_release_stands_in_a_pipeline() -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    pipeline = make_pipeline(
        sf.Gaussian(epsilon=200.0, clip=64.0, randomness=sf.Seeded(1)),
        sf.ReverseManifold(alpha=0.03),
        LogisticRegression(solver="liblinear"),
    )
    assert pipeline.fit(X[:240], y[:240]).score(X[240:], y[240:]) > 0.8
    assert pipeline[:-1].transform(X).shape == (360, 128)


def test_clones_and_parameters(make) -> None:
    mechanism = make(sf.Seeded(4))
    copy = clone(mechanism)
    assert copy is not mechanism
    assert copy.parameters() == mechanism.parameters()
    for name, value in mechanism.get_params(deep=False).items():
        assert copy.set_params(**{name: value}).get_params(deep=False)[name] is value


@pytest.mark.parametrize(
    ("given", "released"), [("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("f2", "f8"), ("?", "f8")]
)
def test_types(make, codes, given, released) -> None:
    X = codes.astype(given)
    mechanism = make(None)
    assert mechanism.release(X).value.dtype == released
    assert mechanism.fit(X).transform(X).dtype == released


def test_float32_and_float64_are_noised_alike(make, codes) -> None:
    wide, narrow = (make(sf.Seeded(5)).release(codes.astype(kind)).value for kind in ("f8", "f4"))
    np.testing.assert_allclose(narrow, wide, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "F", "strided", "read-only"])
def test_the_array_given_is_left_alone(make, codes, order) -> None:
    X = np.asfortranarray(codes) if order == "F" else codes.copy()
    X = np.repeat(codes, 2, axis=1)[:, ::2] if order == "strided" else X
    X.flags.writeable = order != "read-only"
    before = X.copy()
    mechanism = make(sf.Seeded(6))
    released = mechanism.release(X).value
    np.testing.assert_array_equal(X, before)
    assert not np.shares_memory(released, X)
    np.testing.assert_array_equal(released, make(sf.Seeded(6)).release(codes).value)
    assert not any(np.shares_memory(value, X) for value in vars(mechanism).values() if np.ndim(value))


def test_lists_and_data_frames_are_records_too(make, codes) -> None:
    expected = make(sf.Seeded(7)).release(codes).value
    frame = pd.DataFrame(codes, columns=list("abcde"))
    np.testing.assert_array_equal(make(sf.Seeded(7)).release(codes.tolist()).value, expected)
    np.testing.assert_array_equal(make(sf.Seeded(7)).fit(frame).transform(frame), expected)
    mixed = frame.astype({"a": "int64", "b": "float32"})
    np.testing.assert_array_equal(make(sf.Seeded(7)).release(mixed).value, expected)


def test_every_release_has_noise_of_its_own(make) -> None:
    """Two releases of 2000 values agree with a probability far below 1e-6."""
    X = np.zeros((400, 5))
    mechanism = make(None)
    assert not np.array_equal(mechanism.release(X).value, mechanism.release(X).value)


def test_blocks_give_the_bytes_of_one_call(make) -> None:
    mechanism = make(sf.Seeded(8))
    columns = 3000
    height = mechanism.block_rows(columns)
    X = np.arange(3.0 * height * columns).reshape(-1, columns)[: 3 * height - 1] % 8 / 8
    X = np.floor(8 * X) if isinstance(mechanism, sf.RandomisedResponse) else X
    whole = mechanism.perturb(X)
    parts = [mechanism.perturb(X[: 2 * height]), mechanism.perturb(X[2 * height :], first=2 * height)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_keyed_noise_returns_the_same_release_and_depends_on_the_row(make) -> None:
    source = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="a")
    X = np.ones((40, 5))
    first, again = make(source).release(X).value, make(source).release(X).value
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) > 1
