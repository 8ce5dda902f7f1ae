"""Bad parameters and bad records: refused by BadInput, in one sentence that names what was given."""

from __future__ import annotations

import inspect
import math
import re
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import MECHANISMS
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import PictureMechanism

NAN, INF = math.nan, math.inf
GRID = np.zeros((3, 4))  # an array where a number is wanted, and whose repr runs over several lines
NOT_POSITIVE = [0, 0.0, -1.0, INF, -INF, NAN, "1", None, True, [1.0], GRID, 1j, 10**400]
BUDGETS: dict[str, Any] = {
    "Gaussian": lambda epsilon: sf.Gaussian(epsilon, clip=1.0),
    "Laplace": lambda epsilon: sf.Laplace(epsilon, clip=1.0),
    "RandomisedResponse": sf.RandomisedResponse,
    "BinaryEncoding": lambda epsilon: sf.BinaryEncoding(flip=None, epsilon=epsilon),
    "TrustAdaptive-low": lambda epsilon: sf.TrustAdaptive(0.5, (epsilon, 8.0), clip=1.0),
    "TrustAdaptive-high": lambda epsilon: sf.TrustAdaptive(0.5, (1.0, epsilon), clip=1.0),
}
CLIPPED: dict[str, Any] = {
    "Gaussian": sf.Gaussian,
    "Laplace": sf.Laplace,
    "TrustAdaptive": sf.TrustAdaptive,
    "Personalised": sf.Personalised,
}


@pytest.mark.parametrize("make", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("epsilon", NOT_POSITIVE, ids=repr)
def test_epsilon_must_be_a_positive_number(make, epsilon) -> None:
    _refused(lambda: make(epsilon).guarantee(), "epsilon")


@pytest.mark.parametrize(
    "epsilon",
    [
        *(e for e in NOT_POSITIVE if not isinstance(e, list)),
        [],
        [1.0, 0.0],
        [1.0, NAN],
        ["a"],
        ["1", "2"],
        [1, 10**400],
        [[1.0], [2.0]],
        [[1], [2, 3]],
    ],
    ids=repr,
)
def test_a_personal_epsilon_must_be_positive_for_each_record(epsilon) -> None:
    _refused(lambda: sf.Personalised(epsilon, clip=1.0).guarantee(), "epsilon")


@pytest.mark.parametrize("epsilon", [1.0, (1.0,), (1.0, 2.0, 3.0), "ab", None, {1.0, 2.0}, GRID])
def test_a_trust_adaptive_epsilon_must_be_a_range(epsilon) -> None:
    _refused(lambda: sf.TrustAdaptive(0.5, epsilon, clip=1.0).guarantee(), "range such as")


def test_a_reversed_range_is_refused() -> None:
    _refused(
        lambda: sf.TrustAdaptive(0.5, (8.0, 1.0), clip=1.0).guarantee(), r"\(8.0, 1.0\), which is reversed"
    )


@pytest.mark.parametrize("kind", [sf.Gaussian, sf.TrustAdaptive, sf.Personalised])
@pytest.mark.parametrize("delta", [0, 0.0, 1, 1.0, -1e-6, 1.5, INF, NAN, "1e-6", None, True, GRID], ids=repr)
def test_delta_must_lie_strictly_between_0_and_1(kind, delta) -> None:
    _refused(
        lambda: _budgeted(kind, delta=delta, clip=1.0).guarantee(),
        "`delta` must lie strictly between 0 and 1",
    )


@pytest.mark.parametrize(
    "distrust", [-0.1, 1.0001, INF, NAN, True, False, None, "0.5", [0.5], GRID], ids=repr
)
@pytest.mark.parametrize("calibration", ["analytic", "paper", "paper-tables"])
def test_distrust_must_lie_between_0_and_1(distrust, calibration) -> None:
    mechanism = sf.TrustAdaptive(distrust, clip=1.0, calibration=calibration, epsilon=(1.0, 8.0))
    _refused(mechanism.guarantee, "`distrust` must lie between 0 and 1")
    _refused(lambda: mechanism.release(np.ones((2, 2))), "`distrust` must lie between 0 and 1")


@pytest.mark.parametrize("kind", CLIPPED.values(), ids=CLIPPED)
@pytest.mark.parametrize("clip", [0.0, -1.0, INF, NAN, "1", True, [1.0], GRID, 1e-101, 1e101], ids=repr)
def test_clip_must_be_a_positive_number(kind, clip) -> None:
    _refused(lambda: _budgeted(kind, clip=clip).guarantee(), "`clip` must be a positive number")


@pytest.mark.parametrize("kind", CLIPPED.values(), ids=CLIPPED)
def test_exactly_one_bound_is_declared_and_the_message_names_both(kind) -> None:
    for bound in ({}, {"clip": 1.0, "bounds": (0.0, 1.0)}):
        _refused(
            lambda bound=bound: _budgeted(kind, **bound).guarantee(), "exactly one bound.*`clip=.*`bounds="
        )
    _refused(lambda: _budgeted(kind).release(np.ones((2, 2))), "exactly one bound")


@pytest.mark.parametrize("kind", [*CLIPPED.values(), sf.BinaryEncoding])
@pytest.mark.parametrize(
    "bounds",
    [
        (1.0, 0.0),
        (0.0, 0.0),
        (0.0, NAN),
        (NAN, 1.0),
        (-INF, INF),
        (-1e308, 1e308),
        (0.0, 1e-200),
        ([0.0, 0.0], [1.0, -1.0]),
        ([0.0, 0.0], [1.0]),
        ([0.0, 0.0], 1.0),
        ([], []),
        ([[0.0]], [[1.0]]),
        (0.0, 1.0, 2.0),
        (0.0,),
        "01",
        ("a", "b"),
        ("0", "1"),
        (False, True),
        (0, 10**400),
        (None, 1.0),
        (1j, 2.0),
        5.0,
        GRID,
    ],
    ids=repr,
)
def test_bounds_must_be_two_numbers_in_order(kind, bounds) -> None:
    _refused(lambda: _budgeted(kind, bounds=bounds).guarantee(4), "bounds")


@pytest.mark.parametrize("kind", [*CLIPPED.values(), sf.BinaryEncoding])
def test_bounds_must_be_declared_for_every_column(kind) -> None:
    mechanism = _budgeted(kind, bounds=(np.zeros(3), np.ones(3)))
    X = np.zeros((2, 4))
    for call in (mechanism.guarantee, mechanism.statement):
        _refused(lambda call=call: call(4), "declared for 3 columns, but the data has 4")
    for call in (mechanism.fit, mechanism.release):
        _refused(lambda call=call: call(X), "declared for 3 columns, but the data has 4")


def test_columns_too_unlike_for_one_grid_are_refused() -> None:
    mechanism = sf.Gaussian(1e9, bounds=([0.0, 0.0], [1.0, 4e13]))
    _refused(lambda: mechanism.release(np.zeros((1, 2))), "too wide for a grid")


@pytest.mark.parametrize("kind", CLIPPED.values(), ids=CLIPPED)
@pytest.mark.parametrize("neighbours", ["add/remove", "swap", "", None, 1, GRID], ids=repr)
def test_neighbours_are_replace_or_zero_out(kind, neighbours) -> None:
    _refused(
        lambda: _budgeted(kind, clip=1.0, neighbours=neighbours).guarantee(),
        "`neighbours` must be 'replace' or",
    )


@pytest.mark.parametrize("calibration", ["Analytic", "", None, 3, GRID], ids=repr)
def test_an_unknown_calibration_is_refused(calibration) -> None:
    for distrust in (0.0, 1.0):
        mechanism = sf.TrustAdaptive(distrust, clip=1.0, calibration=calibration, epsilon=(1.0, 8.0))
        _refused(mechanism.guarantee, "`calibration` must be one of analytic, paper, paper-tables, not")


@pytest.mark.parametrize("source", [0, 42, np.random.default_rng(0), np.random, "secure", sf.Seeded])
def test_randomness_is_no_seed(make, codes, source) -> None:
    _refused(lambda: make(source).release(codes), r"`randomness` must be None, Seeded\(…\) or Keyed\(…\)")


@pytest.mark.parametrize("scale", [*NOT_POSITIVE, 1e-200, 1e200], ids=repr)
def test_the_scale_of_additive_noise_is_positive(scale) -> None:
    _refused(lambda: sf.AdditiveNoise(scale).guarantee(), "`scale` must be a positive number")


@pytest.mark.parametrize(
    "categories",
    [1, 0, -3, 2.0, "2", None, True, [], [2, 1], [2.0, 3.0], [[2]], [[2], [2, 3]], 2**60, 10**30],
)
def test_categories_are_whole_numbers_from_2(categories) -> None:
    _refused(
        lambda: sf.RandomisedResponse(1.0, categories).guarantee(), "`categories` must be a whole number"
    )


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, -1.0], [1.0, NAN], ["a", "b"], 1.0, [[1.0, 1.0]], []])
def test_weights_are_positive_numbers(weights) -> None:
    for categories in (3, [3, 3]):
        mechanism = sf.RandomisedResponse(1.0, categories, weights=weights)
        _refused(mechanism.guarantee, "`weights` must be positive numbers")
        _refused(mechanism.statement, "`weights` must be positive numbers")


def test_weights_and_categories_are_one_for_each_column() -> None:
    X = np.zeros((2, 3))
    three_weights = sf.RandomisedResponse(1.0, 2, weights=[1.0, 1.0])
    for call in (three_weights.fit, three_weights.release):
        _refused(lambda call=call: call(X), "declared for 2 columns, but the data has 3")
    _refused(lambda: sf.RandomisedResponse(1.0, [2, 2]).fit(X), "declared for 2 columns, but the data has 3")
    _refused(lambda: sf.RandomisedResponse(1.0, [2, 3], weights=[1.0]).guarantee(), "declared for 1 columns")


@pytest.mark.parametrize("code", [3.0, -1.0, 0.5, 1e300])
def test_a_code_out_of_range_is_named_with_its_place(code) -> None:
    X = np.zeros((4, 3))
    X[2, 1] = code
    mechanism = sf.RandomisedResponse(1.0, 3)
    place = "row 3, column 2 holds no category of that column; accepted are the codes 0 to 2"
    _refused(lambda: mechanism.release(X), place)
    _refused(lambda: mechanism.check(X), place)
    _refused(lambda: mechanism.perturb(X[2:], first=2), place)


@pytest.mark.parametrize("count", [2, 4, 5])
def test_personal_epsilons_are_one_for_each_record(count) -> None:
    X = np.zeros((3, 2))
    mechanism = sf.Personalised(np.ones(count), clip=1.0)
    for call in (mechanism.fit, mechanism.release):
        _refused(lambda call=call: call(X), f"declared for {count} records, but the data has 3")


def test_a_stream_longer_than_its_epsilons_is_refused_where_they_end() -> None:
    mechanism = sf.Personalised(np.ones(4), clip=1.0)
    X = np.zeros((3, 2))
    assert mechanism.perturb(X, first=1).shape == (3, 2)
    _refused(lambda: mechanism.perturb(X, first=2), "declared for 4 records, but the data has more")
    _refused(lambda: mechanism.check(X, first=2), "declared for 4 records, but the data has more")


@pytest.mark.parametrize(("value", "name"), [(NAN, "NaN"), (INF, "an infinity"), (-INF, "an infinity")])
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_what_is_not_finite_is_named_with_its_place(make, codes, value, name, kind) -> None:
    X = codes.astype(kind)
    X[7, 3] = value
    mechanism = make(None)
    place = f"row 8, column 4 holds {name}"
    for call in (mechanism.release, mechanism.fit, mechanism.check, mechanism.fit(codes).transform):
        _refused(lambda call=call: call(X), place)
    _refused(lambda: mechanism.perturb(X[6:], first=6), place)
    _refused(lambda: mechanism.release(pd.DataFrame(X)), place)


def test_finite_values_whose_sum_overflows_are_fine() -> None:
    X = np.full((3, 3), 1.7e308)
    assert np.isfinite(sf.Gaussian(clip=1.0, epsilon=1.0).release(X).value).all()


NOT_RECORDS: dict[str, tuple[Any, str]] = {
    "no rows": (np.zeros((0, 3)), "0 sample"),
    "no columns": (np.zeros((3, 0)), "0 feature"),
    "an empty list": ([], r"shape \(0,\)"),
    "a list of an empty list": ([[]], "0 feature"),
    "ragged lists": ([[1.0, 2.0], [3.0]], "rows differ in length"),
    "a vector": (np.zeros(3), r"shape \(3,\)"),
    "a list of numbers": ([1.0, 2.0], r"shape \(2,\)"),
    "a series": (pd.Series([1.0, 2.0]), r"shape \(2,\)"),
    "images": (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
    "a number": (3.0, r"shape \(\)"),
    "nothing": (None, r"shape \(\)"),
    "a word": ("abc", r"shape \(\)"),
    "a dictionary": ({"a": [1.0]}, r"shape \(\)"),
    "a generator": ((x for x in [1.0]), r"shape \(\)"),
    "complex numbers": (np.ones((2, 2)) * 1j, "Complex data not supported"),
    "a list of complex numbers": ([[1j]], "Complex data not supported"),
    "words": (np.array([["a", "b"]]), "must be numbers"),
    "numbers as words": ([["1", "2"]], "must be numbers"),
    "bytes": (np.array([[b"1"]]), "must be numbers"),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), "must be numbers"),
    "durations": (np.array([[5]], dtype="m8[s]"), "must be numbers"),
    "structures": (np.zeros((2, 2), dtype=[("a", float)]), "must be numbers"),
    "objects": (np.array([[1.0, "a"]], dtype=object), "must be numbers, not values of type str"),
    "a frame with words": (
        pd.DataFrame({"a": [1.0], "b": ["x"]}),
        "column 'b' of the records holds",
    ),
    "dictionaries": (np.array([[1.0, {}]], dtype=object), "must be a string or a real number, not 'dict'"),
}


@pytest.mark.parametrize(("X", "message"), NOT_RECORDS.values(), ids=NOT_RECORDS)
def test_what_is_no_table_of_numbers_is_refused(make, X, message) -> None:
    mechanism = make(None)
    _refused(lambda: mechanism.release(X), message)
    _refused(lambda: mechanism.fit(X), message)


def test_a_release_must_have_the_columns_it_was_fitted_to(make, codes) -> None:
    mechanism = make(None).fit(codes)
    _refused(lambda: mechanism.transform(codes[:, 1:]), "X has 4 features, but .* is expecting 5 features")


def test_noise_that_float32_cannot_hold_is_refused() -> None:
    X = np.zeros((2, 2), dtype=np.float32)
    _refused(lambda: sf.Gaussian(1.0, clip=1e37).release(X), "does not fit in float32")
    assert np.isfinite(sf.Gaussian(1.0, clip=1e37).release(X.astype(float)).value).all()


def test_very_many_categories_are_drawn_within_range() -> None:
    codes = np.array([[0.0], [2.0**53 - 1]])
    released = sf.RandomisedResponse(1e-6, 2**53).release(codes).value
    assert ((released >= 0) & (released < 2**53)).all()


def _budgeted(kind: Any, **given: Any) -> Any:
    """A mechanism of ``kind`` with an ε that it accepts, unless its flips promise something by themselves."""
    epsilon = (1.0, 8.0) if kind is sf.TrustAdaptive else 1.0
    return kind(**given) if kind is sf.BinaryEncoding else kind(**({"epsilon": epsilon} | given))


def _refused(call: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        call()
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert not re.search(r"\. [A-Z]", sentence), "one sentence is enough"
    assert len(sentence) < 300


OF_RECORDS = {
    name: kind for name, kind in MECHANISMS.items() if not issubclass(kind, PictureMechanism | SoundMechanism)
}


def _made(kind: Any, **parameters: Any) -> Any:
    accepted = inspect.signature(kind).parameters
    given = {"clip": 1.0, "components": 3} | parameters
    made = {name: value for name, value in given.items() if name in accepted}
    if "bounds" in made and "clip" in made:
        del made["clip"]
    return _budgeted(kind, **made) if "epsilon" in accepted else kind(**made)


@pytest.mark.parametrize("kind", OF_RECORDS.values(), ids=OF_RECORDS)
@pytest.mark.parametrize("parameters", [{}, {"bounds": (0.0, 1.0)}], ids=["as it is", "bounds"])
def test_what_is_asked_before_paying_takes_no_memory_for_a_record(kind, parameters) -> None:
    """A row of 10⁷ columns would be 80 MB; nothing of its width is made."""
    mechanism = _made(kind, **parameters)
    mechanism.prepare(4, np.dtype(np.float64))  # tables that are made once
    mechanism.statement(4)
    tracemalloc.start()
    try:
        mechanism.statement(10_000_000)
        mechanism.prepare(10_000_000, np.dtype(np.float64))
        mechanism.expected_error(10_000_000)
    except BadInput as error:
        assert "columns" in str(error)  # noqa: PT017 - some take so many, and some do not
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.parametrize("kind", OF_RECORDS.values(), ids=OF_RECORDS)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"epsilon": 1e-300},
        {"epsilon": 1e-12},
        {"epsilon": 1e300},
        {"clip": 1e-300},
        {"clip": 1e38},
        {"bounds": (0.0, 1e38)},
        {"bounds": (np.zeros(3), np.ones(3))},
        {"bounds": (np.zeros(4), np.array([1.0, 1e-9, 1e30, 1.0]))},
        {"scale": 1e38},
        {"outside": "drop"},
        {"weights": [0.5, 0.5]},
        {"categories": [2, 3]},
        {"bits": 40},
        {"randomness": 3},
        {"seed": 0.5},
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_cannot_be_drawn_is_refused_before_paying(kind, parameters, dtype) -> None:
    """A trial without rows refuses exactly what a row of zeros is refused for."""
    try:
        mechanism = _made(kind, **parameters)
        mechanism.statement(4)
    except BadInput:
        return
    try:
        mechanism.perturb(np.zeros((1, 4), dtype=dtype))
    except BadInput as error:
        _refused(lambda: mechanism.prepare(4, np.dtype(dtype)), re.escape(str(error)))
    else:
        mechanism.prepare(4, np.dtype(dtype))


def test_bounds_without_zero_can_be_drawn() -> None:
    """The trial used to be a row of zeros, which lies outside such bounds."""
    sf.TensorLDP(1.0, bounds=(10.0, 20.0)).prepare(4, np.dtype(np.float64))


@pytest.mark.parametrize("kind", OF_RECORDS.values(), ids=OF_RECORDS)
def test_how_wide_a_release_is_is_known_beforehand(kind) -> None:
    mechanism = _made(kind, bounds=(0.0, 1.0))
    assert mechanism.perturb(np.zeros((2, 5))).shape == (2, mechanism.released_columns(5))
