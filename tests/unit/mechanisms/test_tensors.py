"""What all mechanisms for tensors and reports have in common: shapes, units, randomness, types, refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.tensors import TensorMechanism, flattened, tensor_size

BOX = {"bounds": (0.0, 8.0), "outside": "clip"}
MAKERS = {
    "TensorLDP": lambda source: sf.TensorLDP(2.0, **BOX, randomness=source),
    "TensorLDP-gaussian": lambda source: sf.TensorLDP(2.0, noise="gaussian", **BOX, randomness=source),
    "WeightedTensorLDP": lambda source: sf.WeightedTensorLDP(2.0, weights=0.5, **BOX, randomness=source),
    "WeightedTensorLDP-grey": lambda source: sf.WeightedTensorLDP(
        2.0, weights="grey", **BOX, randomness=source
    ),
    "WeightedTensorLDP-saliency": lambda source: sf.WeightedTensorLDP(
        2.0, weights="saliency", **BOX, randomness=source
    ),
    "GridTensorLDP": lambda source: sf.GridTensorLDP(2.0, levels=17, **BOX, randomness=source),
    "PrivUnit": lambda source: sf.PrivUnit(2.0, randomness=source),
    "PrivUnitG": lambda source: sf.PrivUnitG(2.0, randomness=source),
    "Duchi": lambda source: sf.Duchi(2.0, **BOX, coordinates=1, randomness=source),
    "Piecewise": lambda source: sf.Piecewise(2.0, **BOX, coordinates=1, randomness=source),
    "Hybrid": lambda source: sf.Hybrid(2.0, **BOX, coordinates=1, randomness=source),
}
TENSORS = [name for name in MAKERS if "TensorLDP" in name]
REPORTS = [name for name in MAKERS if "TensorLDP" not in name]


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request):
    """A function from a randomness to a mechanism; the test runs once for each."""
    return request.param


@pytest.fixture
def X():
    """Forty rows of twelve whole numbers from 0 to 7."""
    return (np.arange(480.0) * 7 % 8).reshape(40, 12)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (1, 12), (12,)])
@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_any_order_keep_their_shape_and_have_the_noise_of_their_rows(name, shape, X):
    made = MAKERS[name](sf.Seeded(3))
    tensors = X.reshape(40, *shape)
    release = made.release(tensors)
    assert release.value.shape == tensors.shape
    if name != "WeightedTensorLDP-saliency":  # a map depends on the sides of the picture
        rows = made.release(X).value
        np.testing.assert_array_equal(release.value.reshape(40, 12), rows)
    if len(shape) > 1:
        assert release.statement.parameters["shape"] == list(shape)
    assert release.provenance == {"rows": 40, "columns": 12}


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("name", TENSORS)
def test_the_statement_holds_both_units_and_the_headline_is_the_one_asked_for(name, unit, X):
    made = MAKERS[name](None).set_params(unit=unit)
    statement = made.release(X.reshape(40, 3, 4)).statement
    (other,) = statement.also_proven
    assert str(statement.proven.unit) == unit
    assert {str(statement.proven.unit), str(other.unit)} == {"component", "tensor"}
    assert str(statement.proven.neighbours) == str(other.neighbours) == "replace"
    component, tensor = sorted((statement.proven, other), key=lambda part: str(part.unit))
    for epsilon in (0.0, 1.0, 30.0):
        assert component.delta(epsilon) <= tensor.delta(epsilon)
    for text in ("per component", "per tensor"):
        assert text in str(statement)
    assert sf.Statement.from_json(statement.to_json()) == statement
    assert made.statement(12).proven == statement.proven


@pytest.mark.parametrize("name", REPORTS)
def test_reports_protect_whole_records(name, X):
    statement = MAKERS[name](None).release(X).statement
    assert str(statement.proven.unit) == "record"
    assert statement.also_proven == ()
    assert statement.proven.epsilon(0.0) <= 2.0


def test_seeded_and_keyed_noise_is_repeatable_and_differs_between_rows(make):
    same = np.tile(np.arange(12.0) % 8, (60, 1))
    keyed = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="a")
    for source in (sf.Seeded(9), keyed):
        first, again = make(source).release(same).value, make(source).release(same).value
        np.testing.assert_array_equal(first, again)
        assert len(np.unique(first, axis=0)) > 1
    other = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="b")
    assert not np.array_equal(make(keyed).release(same).value, make(other).release(same).value)
    assert not np.array_equal(make(None).release(same).value, make(None).release(same).value)


def test_keyed_noise_belongs_to_the_content(make, X):
    keyed = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="a")
    make(keyed).release(X)
    changed = X.copy()
    changed[0, 0] += 1.0
    with pytest.raises(BadInput, match="was made from other content"):
        make(keyed).release(changed)


def test_blocks_give_the_bytes_of_one_call(make):
    made, columns = make(sf.Seeded(8)), 1500
    height = made.block_rows(columns)
    X = np.random.default_rng(0).random((3 * height - 1, columns)) * 8.0
    whole = made.perturb(X)
    parts = [made.perturb(X[: 2 * height]), made.perturb(X[2 * height :], first=2 * height)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_single_precision_stays_and_is_noised_alike(make, X):
    wide, narrow = (make(sf.Seeded(5)).release(X.astype(kind)).value for kind in ("f8", "f4"))
    assert (wide.dtype, narrow.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(narrow, wide, rtol=1e-6, atol=1e-5)
    assert make(None).release(X.astype(np.uint8)).value.dtype == np.float64


def test_single_precision_bounds_are_compared_in_single_precision():
    """0.1 in single precision is more than 0.1, and still no value outside the bounds."""
    X = np.full((3, 4), 0.1, dtype=np.float32)
    for kind in (sf.TensorLDP, sf.GridTensorLDP, sf.Duchi):
        assert kind(1.0, (0.0, 0.1)).release(X).value.shape == (3, 4)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_black_picture_is_kept_no_more_often_than_is_proven(kind):
    """A map of nothing must not become NaN, and its coin anything; false alarm 1e-6 by the binomial law."""
    made = sf.WeightedTensorLDP(0.5, (0.0, 0.3), weights="saliency", shape=(8, 8))
    same = made.release(np.zeros((300, 64), dtype=kind)).value == 0.0
    kept = made.keep_probability(64)
    assert same.sum() <= binom.isf(1e-6, same.size, kept)
    assert same.sum() >= binom.isf(1.0 - 1e-6, same.size, kept)  # a flat map has no weight anywhere


def test_a_kept_value_beyond_the_bounds_is_clipped_where_clipping_was_asked_for():
    X = np.full((200, 5), 7.25)
    released = sf.TensorLDP(50.0, (0.0, 0.3), outside="clip").release(X).value
    assert (released == 0.3).mean() > 0.9
    assert not (released == 7.25).any()


@pytest.mark.parametrize("order", ["F", "strided", "read-only"])
def test_the_array_given_is_left_alone(make, X, order):
    given = np.asfortranarray(X) if order == "F" else X.copy()
    given = np.repeat(X, 2, axis=1)[:, ::2] if order == "strided" else given
    given.flags.writeable = order != "read-only"
    made = make(sf.Seeded(6))
    released = made.release(given).value
    np.testing.assert_array_equal(given, X)
    assert not np.shares_memory(released, given)
    np.testing.assert_array_equal(released, make(sf.Seeded(6)).release(X).value)


def test_nan_and_infinities_are_refused_by_place(make, X):
    for bad, name in ((math.nan, "NaN"), (math.inf, "an infinity")):
        wrong = X.copy()
        wrong[4, 2] = bad
        with pytest.raises(BadInput, match=f"row 5, column 3 holds {name}"):
            make(None).release(wrong)


def test_a_release_survives_as_json_and_names_no_secret(make, X):
    keyed = sf.Keyed(b"a secret of thirty-two bytes....!", dataset="clinic", version="1", release="a")
    release = make(keyed).release(X)
    text = json.dumps(release.to_dict(), allow_nan=False)
    read = sf.Release.from_dict(release.value, json.loads(text))
    assert read.statement == release.statement
    assert "thirty" not in text + repr(make(keyed)) + str(release.statement)
    assert set(release.statement.parameters) >= set(make(None).get_params(deep=False)) - {"randomness"}


def test_scikit_learn_accepts_them(make):
    """Its own checks on a seeded mechanism; a report of directions needs two columns, and says so."""
    made = make(sf.Seeded(3))
    results = check_estimator(made, on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert len(results) >= 40
    assert failed <= ({"check_fit2d_1feature"} if isinstance(made, sf.PrivUnit | sf.PrivUnitG) else set())
    assert clone(made).get_params(deep=False).keys() == made.get_params(deep=False).keys()


def test_they_stand_in_a_pipeline():
    """Reports of 64 pixels at a large ε still tell two digits apart."""
    X, y = load_digits(n_class=2, return_X_y=True)
    pipeline = make_pipeline(
        sf.PrivUnitG(60.0, clip=64.0, randomness=sf.Seeded(1)), LogisticRegression(solver="liblinear")
    )
    assert pipeline.fit(X[:240], y[:240]).score(X[240:], y[240:]) > 0.8


@pytest.mark.parametrize("kind", [sf.TensorLDP, sf.GridTensorLDP])
def test_what_is_no_array_of_tensors_is_refused(kind):
    made = kind(1.0, (0.0, 1.0))
    for wrong in (np.zeros(3), np.zeros((0, 2, 2)), np.zeros((2, 0)), 1.0):
        with pytest.raises(BadInput, match=r"expected tensors as an array .*\.$"):
            made.release(wrong)
    with pytest.raises(BadInput, match=r"the tensors differ in shape; .*\.$"):
        made.release([[[0.1, 0.2]], [[0.1]]])
    with pytest.raises(BadInput, match=r"must be numbers"):
        made.release(np.array([["a"], ["b"]]))


def test_sizes_and_flat_rows():
    assert tensor_size(None) is None
    assert tensor_size((2, np.int64(3), 4)) == 24
    assert tensor_size([2**40, 2**40]) == 2**80  # no overflow
    for wrong in ((), (2, 0), (2, -1), (2.0, 2), (True, 2), "28", 28):
        with pytest.raises(BadInput, match="sides of one tensor"):
            tensor_size(wrong)
    rows, shape = flattened(np.arange(24).reshape(2, 3, 4))
    assert rows.shape == (2, 12)
    assert shape == (3, 4)


def test_a_declared_shape_must_fit_the_data():
    made = sf.GridTensorLDP(1.0, (0.0, 1.0), 4, shape=(2, 3))
    with pytest.raises(BadInput, match="have 6 components, but the data has 8"):
        made.release(np.zeros((5, 2, 4)))
    assert made.release(np.zeros((5, 6))).value.shape == (5, 6)
    assert made.statement().also_proven == made.statement(6).also_proven


NONSENSE = st.sampled_from([0, -1.0, math.nan, math.inf, "1", None, True, 10**400, 1j, (), {}])
EXTREMES = st.sampled_from([5e-324, 1e-300, 1e-12, 1e-6, 1e6, 1e16, 1e100, 1e300])
DATA = st.sampled_from(
    [0.0, -0.0, 1.0, 0.5, -1.0, 3.0, 1e-310, 5e-324, 1e38, -3e38, 1e155, 1.7e308, -1.7e308]
)


def _mostly(valid: st.SearchStrategy[Any], strange: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Seven times in eight what is valid; otherwise a combination of several parameters rarely is."""
    return st.integers(0, 7).flatmap(lambda pick: strange if pick == 7 else valid)


epsilons = _mostly(st.floats(1e-3, 1e3), NONSENSE | EXTREMES)
boxes = _mostly(
    st.just((0.0, 1.0)),
    st.tuples(EXTREMES | NONSENSE | st.floats(-10, 10), EXTREMES | NONSENSE | st.floats(-10, 10)) | NONSENSE,
)
units = _mostly(st.sampled_from(["component", "tensor"]), st.sampled_from(["record", None, 3]))
outsides = _mostly(st.sampled_from(["clip", "refuse"]), st.sampled_from(["wrap", None]))
sources = _mostly(
    st.sampled_from([None, sf.Seeded(1), sf.Keyed(bytes(32), dataset="d", version="v", release="r")]),
    st.sampled_from([7, "os"]),
)
weights = _mostly(
    st.sampled_from([0.0, 0.5, 1.0, "grey", "saliency", [0.5, 1.0], [[0.1]]]), NONSENSE | st.floats()
)
shapes = _mostly(st.none(), st.sampled_from([(2, 2), (4,), (1,), "x", (0,), 5]))


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    shape = draw(st.sampled_from([(1, 1), (2, 4), (3, 2, 2), (1, 2, 1, 2)]))
    size = math.prod(shape)
    cells = st.lists(_mostly(st.floats(0.0, 1.0), DATA), min_size=size, max_size=size)
    kind = draw(st.sampled_from(["f8", "f4"]))
    with np.errstate(over="ignore"):
        return np.array(draw(cells)).reshape(shape).astype(kind)


@given(
    epsilon=epsilons,
    bounds=boxes,
    noise=_mostly(st.sampled_from(["laplace", "gaussian"]), st.just("uniform")),
    retain=_mostly(st.sampled_from(["algorithm", "proof"]), st.just("both")),
    weight=weights,
    unit=units,
    outside=outsides,
    shape=shapes,
    source=sources,
    X=tensors(),
)
@settings(deadline=None, max_examples=150)
def test_any_tensor_ldp(epsilon, bounds, noise, retain, weight, unit, outside, shape, source, X) -> None:
    common = {"noise": noise, "retain": retain, "unit": unit, "outside": outside, "shape": shape}
    _promised_or_refused(sf.TensorLDP(epsilon, bounds, **common, randomness=source), X, math.inf)
    weighted = sf.WeightedTensorLDP(epsilon, bounds, weights=weight, **common, randomness=source)
    _promised_or_refused(weighted, X, math.inf)


@given(
    epsilon=epsilons,
    bounds=boxes,
    levels=_mostly(st.integers(2, 12), NONSENSE | st.integers()),
    unit=units,
    outside=outsides,
    shape=shapes,
    source=sources,
    X=tensors(),
)
@settings(deadline=None, max_examples=120)
def test_any_grid_tensor_ldp(epsilon, bounds, levels, unit, outside, shape, source, X) -> None:
    made = sf.GridTensorLDP(
        epsilon, bounds, levels, unit=unit, outside=outside, shape=shape, randomness=source
    )
    _promised_or_refused(made, X, epsilon)


@given(
    epsilon=epsilons,
    clip=_mostly(st.floats(1e-6, 1e6), NONSENSE | EXTREMES),
    bounds=boxes,
    coordinates=_mostly(st.none() | st.integers(1, 2), NONSENSE),
    outside=outsides,
    source=sources,
    X=tensors(),
)
@settings(deadline=None, max_examples=80)
def test_any_report(epsilon, clip, bounds, coordinates, outside, source, X) -> None:
    rows = X.reshape(len(X), -1)
    for kind in (sf.Duchi, sf.Piecewise, sf.Hybrid):
        made = kind(epsilon, bounds, coordinates=coordinates, outside=outside, randomness=source)
        _promised_or_refused(made, rows, epsilon)
    for ball in (sf.PrivUnit, sf.PrivUnitG):
        _promised_or_refused(ball(epsilon, clip, randomness=source), rows, epsilon)


def _promised_or_refused(mechanism: Mechanism, X: Any, asked: Any) -> None:
    columns, shaped = math.prod(X.shape[1:]), mechanism
    if isinstance(mechanism, TensorMechanism) and mechanism.shape is None and X.ndim > 2:
        shaped = clone(mechanism).set_params(shape=X.shape[1:])  # as a release of tensors learns it
    guarantee = None
    try:
        guarantee = shaped.guarantee(columns)
    except BadInput as refusal:
        _is_a_sentence(refusal)
    else:
        repr(guarantee)
        # The event of a pure guarantee holds a probability near one, and so nine digits of ε.
        assert guarantee.epsilon() <= asked * (1.0 + 1e-9) + 1e-15
    try:
        release = mechanism.release(X)
    except BadInput as refusal:
        _is_a_sentence(refusal)
    else:
        assert release.value.shape == X.shape
        assert release.value.dtype == X.dtype
        assert np.isfinite(release.value).all()
        assert release.statement.proven == guarantee
        assert sf.Statement.from_json(release.statement.to_json()) == release.statement
        if isinstance(mechanism, TensorMechanism):
            assert len(release.statement.also_proven) == 1


def _is_a_sentence(refusal: BadInput) -> None:
    text = str(refusal)
    assert text.endswith(".")
    assert "\n" not in text
