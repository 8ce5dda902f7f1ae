"""Aligned tables: every cell survives, widths are kept where they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.privacy.formatting import format_table

WORDS = st.text("abc def", max_size=30)


def test_columns_are_as_wide_as_their_longest_cell():
    assert format_table(["n", "word"], [["1", "a"], ["22", "long"]]) == [
        "┌────┬──────┐",
        "│ n  │ word │",
        "├────┼──────┤",
        "│ 1  │ a    │",
        "│ 22 │ long │",
        "└────┴──────┘",
    ]


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_every_word_is_there_and_lines_are_equally_long(rows):
    lines = format_table(["x", "y", "z"], [list(row) for row in rows], 50)
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= 50
    columns = zip(*(line.split("│")[1:-1] for line in lines if line.startswith("│")), strict=True)
    for name, shown, cells in zip("xyz", columns, zip(*rows, strict=True), strict=True):
        # A word that is longer than a line goes on in the next one.
        assert "".join("".join(shown).split()) == name + "".join("".join(cells).split())


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 cells"):
        format_table(["a", "b"], [["only one"]])
