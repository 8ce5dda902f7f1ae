import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import RECORD, Neighbours, Unit

PLAIN = ["record", "tensor", "component", "frame", "clip", "channel", "item", "client"]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_units_carry_no_size(name):
    assert Unit.parse(name) == Unit(name)
    assert str(Unit(name)) == name
    with pytest.raises(BadInput, match=f"{name}.*takes none"):
        Unit(name, 3)


@given(name=st.sampled_from(["region", "pixels"]), size=st.integers(1, 10**9))
def test_sized_units_round_trip_through_text(name, size):
    unit = Unit(name, size)
    assert str(unit) == f"{name}({size})"
    assert Unit.parse(str(unit)) == unit
    assert isinstance(unit.size, int)


@given(size=st.floats(1e-6, 1e9))
def test_windows_round_trip_to_the_last_digit(size):
    assert Unit.parse(str(Unit("window", size))).size == size


def test_parse_accepts_a_unit_spaces_and_capitals():
    assert Unit.parse(RECORD) is RECORD
    assert Unit.parse(" Region( 8 ) ") == Unit("region", 8)
    assert str(Unit.parse("window(20.0)")) == "window(20)"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("region:16", Unit("region", 16)),
        (" Pixels : 4 ", Unit("pixels", 4)),
        ("window:2.5", Unit("window", 2.5)),
    ],
)
def test_a_colon_stands_for_parentheses(text, unit):
    assert Unit.parse(text) == unit
    assert Unit.parse(str(unit)) == unit


@pytest.mark.parametrize(
    "text",
    [
        "region",
        "region()",
        "region(0)",
        "region(-1)",
        "region(2.5)",
        "pixels(nan)",
        "window(inf)",
        "window(0)",
        "region:",
        "region:0",
        "region:two",
        "window:-3",
    ],
)
def test_sizes_are_required_and_positive(text):
    with pytest.raises(BadInput, match=r"positive|whole|not a number"):
        Unit.parse(text)


@pytest.mark.parametrize("text", ["person", "record)", "", "region(8)(8)", "region:(8)", "region(8", None, 7])
def test_unknown_units_are_refused_with_the_accepted_ones(text):
    with pytest.raises(BadInput, match=r"record, tensor, component, region\(m\)"):
        Unit.parse(text)


def test_neighbours_read_their_own_names_and_refuse_others():
    assert [str(n) for n in Neighbours] == ["replace", "zero-out", "add/remove"]
    assert Neighbours("zero-out") is Neighbours.ZERO_OUT
    with pytest.raises(BadInput, match=r"substitute.*replace, zero-out or add/remove"):
        Neighbours("substitute")
