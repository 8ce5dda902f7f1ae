import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from people_photos import FACE, astronaut
from sfumato.errors import BadInput
from sfumato.media.images.sensitivity_map import (
    BOUNDARIES,
    CATEGORIES,
    CATEGORY_FACTORS,
    FACTORS,
    SensitivityMap,
    annotated_map,
    heat,
)


def test_categories_are_those_of_table_1_in_order():
    assert [category.epsilon for category in CATEGORIES] == [
        (5.0, 10.0),
        (1.5, 5.0),
        (0.3, 0.7),
        (0.05, 0.2),
        (0.01, 0.1),
    ]
    assert [category.mean for category in CATEGORIES] == [0.091, 0.187, 0.623, 0.892, 0.944]


@given(st.floats(0.0, 1.0))
def test_a_score_belongs_to_the_nearest_mean(score):
    nearest = min(abs(category.mean - score) for category in CATEGORIES)
    assert math.isclose(abs(_category(score).mean - score), nearest, abs_tol=1e-15)


def test_halfway_between_two_categories_the_more_sensitive_one_is_chosen():
    for boundary, upper in zip(BOUNDARIES, CATEGORIES[1:], strict=True):
        low, high = upper.epsilon
        share = float(
            SensitivityMap.from_array([[boundary]], weights=(1, 0, 0, 0)).shares(100.0, low=1e-5)[0, 0]
        )
        assert low / 100.0 <= share <= high / 100.0


def _category(score):
    return CATEGORIES[int(np.searchsorted(BOUNDARIES, score, side="right"))]


def test_the_score_is_the_weighted_sum_of_the_factors():
    maps = {name: np.full((2, 3), value) for name, value in zip(FACTORS, (1.0, 0.5, 0.25, 0.0), strict=True)}
    weights = (0.4, 0.3, 0.2, 0.1)
    assert np.allclose(SensitivityMap(maps, weights=weights).scores, 0.4 + 0.15 + 0.05)
    named = dict(zip(FACTORS, weights, strict=True))
    assert np.array_equal(
        SensitivityMap(maps, weights=named).scores, SensitivityMap(maps, weights=weights).scores
    )


def test_left_out_weights_are_shared_out_among_the_factors_that_are_known():
    one = np.ones((1, 1))
    assert SensitivityMap({"location": one}).weights["location"] == 1.0
    both = SensitivityMap({"identity": one, "behaviour": one}).weights
    assert both["identity"] == pytest.approx(7 / 8)
    assert sum(both.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "weights", [(0.5, 0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (1.5, -0.5, 0.0, 0.0), {"faces": 1.0}, "equal"]
)
def test_weights_that_do_not_sum_to_one_are_refused(weights):
    with pytest.raises(BadInput, match="`weights` must be numbers"):
        SensitivityMap({"identity": [[0.5]]}, weights=weights)


@pytest.mark.parametrize(
    ("factors", "word"),
    [
        ({}, "`factors` must be maps"),
        ({"faces": [[0.5]]}, "`factors` must be maps"),
        ([[0.5]], "`factors` must be maps"),
        ({"identity": [0.5]}, "must be an array"),
        ({"identity": [[1.5]]}, "scores from 0 to 1"),
        ({"identity": [[math.nan]]}, "scores from 0 to 1"),
        ({"identity": [[0.5]], "location": [[0.5, 0.5]]}, "different shapes"),
    ],
)
def test_maps_that_are_none_are_refused(factors, word):
    with pytest.raises(BadInput, match=word):
        SensitivityMap(factors)


def test_a_map_does_not_follow_the_array_it_was_made_of():
    scores = np.zeros((2, 2))
    made = SensitivityMap.from_array(scores)
    before = made.digest()
    scores[:] = 1.0
    assert made.digest() == before
    assert copy.deepcopy(made).digest() == before
    assert SensitivityMap.from_array(scores).digest() != before


@given(
    st.lists(
        st.tuples(st.floats(-30, 90), st.floats(-30, 90), st.floats(0, 60), st.floats(0, 60)), max_size=4
    ),
    st.integers(1, 30),
)
def test_boxes_mark_exactly_the_tiles_that_they_touch(boxes, tile):
    height, width = 50, 70
    mask = np.zeros((height, width))
    for x, y, wide, tall in boxes:
        rows = slice(max(math.floor(y), 0), max(math.ceil(y + tall), 0))
        mask[rows, max(math.floor(x), 0) : max(math.ceil(x + wide), 0)] = 1.0
    made = SensitivityMap.from_boxes({"identity": boxes}, (height, width), tile=tile)
    rows, cols = made.shape
    down = [index * height // rows for index in range(rows)]
    across = [index * width // cols for index in range(cols)]
    expected = np.maximum.reduceat(np.maximum.reduceat(mask, down, axis=0), across, axis=1)
    assert np.array_equal(made.scores, expected)


def test_a_tile_has_the_largest_score_of_its_boxes():
    boxes = {"identity": [(0, 0, 10, 10, 0.5), (5, 5, 20, 20, 0.9), (0, 0, 3, 3, 0.1)]}
    made = SensitivityMap.from_boxes(boxes, (40, 40), tile=20)
    assert made.scores.tolist() == [[0.9, 0.9], [0.9, 0.9]]
    assert not made.private


@pytest.mark.parametrize("box", [(1, 2, 3), (0, 0, -1, 5), (0, 0, 5, 5, 2.0), (0, 0, math.nan, 5), "face"])
def test_boxes_that_are_none_are_refused_by_number(box):
    with pytest.raises(BadInput, match="box 1 of identity"):
        SensitivityMap.from_boxes({"identity": [(0, 0, 5, 5), box]}, (40, 40))


def test_annotations_speak_of_the_factor_of_their_category():
    assert CATEGORY_FACTORS["person"] == ("identity", 1.0)
    boxes = [
        {"category": "person", "bbox_xywh": (0, 0, 16, 16)},
        {"category": "stop sign", "bbox_xywh": (16, 0, 16, 16)},
        {"category": "zebra", "bbox_xywh": (0, 16, 32, 16)},
    ]
    made = annotated_map(boxes, (32, 32))
    assert made.scores[0, 0] == pytest.approx(0.7)
    assert made.scores[0, 1] == pytest.approx(0.08)
    assert made.scores[1].max() == 0.0
    assert annotated_map(boxes, (32, 32), factors=("identity",)).scores.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    with pytest.raises(BadInput, match="annotation 0"):
        annotated_map([(0, 0, 5, 5)], (32, 32))


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
    st.sampled_from([0.03, 0.5, 1.0, 4.0, 20.0]),
    st.sampled_from([0.0, 0.2, 0.9]),
)
def test_shares_stay_inside_the_ranges_of_table_1_and_never_exceed_one(scores, epsilon, reserve):
    made = SensitivityMap.from_array([scores])
    shares = made.shares(epsilon, low=0.001, reserve=reserve)[0]
    for score, part in zip(scores, shares, strict=True):
        low, high = _category(score).epsilon
        assert min(low, epsilon) * (1 - 1e-9) <= part * epsilon or part == 0.001
        assert part * epsilon <= max(min(high, epsilon), 0.001 * epsilon) * (1 + 1e-12)
        assert part <= 1.0


def test_more_sensitive_places_never_get_more():
    scores = np.linspace(0.0, 1.0, 101)
    for epsilon in (0.5, 4.0, 20.0):
        shares = SensitivityMap.from_array([scores]).shares(epsilon, low=0.001)[0]
        assert (np.diff(shares) <= 1e-12).all()
        assert shares[0] > shares[-1]


def test_the_reserve_is_kept_back_where_the_ranges_allow_it():
    made = SensitivityMap.from_array([[0.05, 0.15, 0.6, 0.9]])
    full, less = made.shares(20.0, low=0.001, reserve=0.0), made.shares(20.0, low=0.001)
    assert full.sum() * 20 == pytest.approx(10 + 5 + 0.7 + 0.2)
    assert less.sum() * 20 == pytest.approx(0.8 * (10 + 5 + 0.7 + 0.2))
    assert made.shares(20.0).min() == 0.05


def test_shares_need_a_floor_above_nothing():
    with pytest.raises(BadInput, match="infinitely noisy"):
        SensitivityMap.from_array([[0.5]]).shares(1.0, low=0.0)


def test_a_map_is_drawn_over_the_picture_it_belongs_to():
    picture = astronaut()
    made = SensitivityMap.from_boxes({"identity": [tuple(side / 2 for side in FACE)]}, picture.shape, tile=30)
    drawn = made.picture(picture.shape)
    assert drawn.shape == picture.shape
    assert drawn.dtype == np.uint8
    rows, cols = made.shape
    for row in range(rows):
        for col in range(cols):
            pixel = drawn[row * 224 // rows, col * 224 // cols]
            assert np.array_equal(pixel, heat(made.scores[row, col]))
    assert made.picture().shape == (rows, cols, 3)


def test_heat_is_lighter_where_scores_are_higher():
    lightness = heat(np.linspace(0, 1, 50)).astype(float) @ [0.299, 0.587, 0.114]
    assert (np.diff(lightness) > 0).all()
