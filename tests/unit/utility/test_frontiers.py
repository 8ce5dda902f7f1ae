"""The Pareto frontier against its definition and the knee by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.utility.frontiers import Choice, frontier, knee


def choices(*pairs):
    return [Choice(str(number), utility, cost) for number, (utility, cost) in enumerate(pairs)]


points = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0.0, 0.5, 1.0, 2.0, 8.0, math.inf])), max_size=12
)


@settings(deadline=None)
@given(points)
def test_the_frontier_is_what_nobody_beats(pairs):
    given_ = choices(*pairs)
    kept = frontier(given_)
    assert [one.cost for one in kept] == sorted({one.cost for one in kept})
    for one in given_:
        beaten = any(
            other.utility >= one.utility
            and other.cost <= one.cost
            and (other.utility, other.cost) != (one.utility, one.cost)
            for other in given_
        )
        first = next(other for other in given_ if (other.utility, other.cost) == (one.utility, one.cost))
        assert (one in kept) == (not beaten and one is first)


def test_the_knee_is_farthest_from_the_line():
    found = choices((0.0, 0.0), (0.5, 1.0), (0.9, 2.0), (0.95, 6.0), (1.0, 10.0), (0.2, 9.0))
    assert knee(found).name == "2"
    assert knee(reversed(found)).name == "2"


def test_the_knee_does_not_depend_on_units():
    found = choices((10.0, 1.0), (60.0, 2.0), (80.0, 4.0), (90.0, 8.0))
    changed = [Choice(one.name, 0.3 * one.utility - 7.0, 100.0 * one.cost + 5.0) for one in found]
    assert knee(found).name == knee(changed).name == "1"


def test_of_equal_knees_the_cheapest():
    assert knee(choices((0.0, 0.0), (0.5, 0.25), (0.75, 0.5), (1.0, 1.0))).name == "1"
    assert 0.3 - 0.1 < 0.4 - 0.2  # by rounding alone
    assert knee(choices((0.0, 0.0), (0.3, 0.1), (0.4, 0.2), (1.0, 1.0))).name == "1"


@pytest.mark.parametrize(
    "found",
    [
        [],
        choices((1.0, 1.0)),
        choices((0.0, 0.0), (1.0, 1.0)),
        choices((0.0, 0.0), (0.5, 0.5), (1.0, 1.0)),
        choices((0.0, 0.0), (0.1, 0.5), (1.0, 1.0)),
        choices((0.0, 0.0), (1.0, 1.0), (1.1, math.inf), (0.5, 3.0)),
        choices((1.0, 0.0), (0.5, 1.0), (0.2, 2.0)),
    ],
)
def test_no_knee(found):
    assert knee(found) is None


def test_what_proves_nothing_stands_at_the_end_and_is_no_knee():
    found = choices((0.0, 0.0), (0.9, 1.0), (1.0, 5.0), (2.0, math.inf))
    assert [one.name for one in frontier(found)] == ["0", "1", "2", "3"]
    assert knee(found).name == "1"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Choice("a", math.nan, 1.0), "utility of 'a' was nan"),
        (lambda: Choice("a", math.inf, 1.0), "utility of 'a' was inf"),
        (lambda: Choice("a", 1.0, math.nan), "cost of 'a' was nan"),
        (lambda: Choice("a", 1.0, -math.inf), "cost of 'a' was -inf"),
    ],
)
def test_numbers_that_cannot_be_compared_are_refused(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()
