"""The Pareto frontier against its definition and the knee by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.utility.frontiers import frontier, knee


def choices(*pairs):
    """Costs and utilities of pairs of a utility and a cost."""
    return [cost for _, cost in pairs], [utility for utility, _ in pairs]


points = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0.0, 0.5, 1.0, 2.0, 8.0, math.inf])), max_size=12
)


@settings(deadline=None)
@given(points)
def test_the_frontier_is_what_nobody_beats(pairs):
    kept = frontier(*choices(*pairs))
    costs = [pairs[place][1] for place in kept]
    assert costs == sorted(set(costs))
    for place, (utility, cost) in enumerate(pairs):
        beaten = any(
            other >= utility and price <= cost and (other, price) != (utility, cost) for other, price in pairs
        )
        assert (place in kept) == (not beaten and place == pairs.index((utility, cost)))


def test_the_knee_is_farthest_from_the_line():
    found = choices((0.0, 0.0), (0.5, 1.0), (0.9, 2.0), (0.95, 6.0), (1.0, 10.0), (0.2, 9.0))
    assert knee(*found) == 2
    assert knee(*(side[::-1] for side in found)) == 3


def test_the_knee_does_not_depend_on_units():
    found = choices((10.0, 1.0), (60.0, 2.0), (80.0, 4.0), (90.0, 8.0))
    changed = [100.0 * cost + 5.0 for cost in found[0]], [0.3 * utility - 7.0 for utility in found[1]]
    assert knee(*found) == knee(*changed) == 1


def test_of_equal_knees_the_cheapest():
    assert knee(*choices((0.0, 0.0), (0.5, 0.25), (0.75, 0.5), (1.0, 1.0))) == 1
    assert 0.3 - 0.1 < 0.4 - 0.2  # by rounding alone
    assert knee(*choices((0.0, 0.0), (0.3, 0.1), (0.4, 0.2), (1.0, 1.0))) == 1


@pytest.mark.parametrize(
    "found",
    [
        choices(),
        choices((1.0, 1.0)),
        choices((0.0, 0.0), (1.0, 1.0)),
        choices((0.0, 0.0), (0.5, 0.5), (1.0, 1.0)),
        choices((0.0, 0.0), (0.1, 0.5), (1.0, 1.0)),
        choices((0.0, 0.0), (1.0, 1.0), (1.1, math.inf), (0.5, 3.0)),
        choices((1.0, 0.0), (0.5, 1.0), (0.2, 2.0)),
    ],
)
def test_no_knee(found):
    assert knee(*found) is None


def test_what_proves_nothing_stands_at_the_end_and_is_no_knee():
    found = choices((0.0, 0.0), (0.9, 1.0), (1.0, 5.0), (2.0, math.inf))
    assert frontier(*found) == [0, 1, 2, 3]
    assert knee(*found) == 1


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ((math.nan, 1.0), "utility of choice 0 was nan"),
        ((math.inf, 1.0), "utility of choice 0 was inf"),
        ((1.0, math.nan), "cost of choice 0 was nan"),
        ((1.0, -math.inf), "cost of choice 0 was -inf"),
    ],
)
def test_numbers_that_cannot_be_compared_are_refused(pair, sentence):
    with pytest.raises(BadInput, match=sentence):
        frontier(*choices(pair))
