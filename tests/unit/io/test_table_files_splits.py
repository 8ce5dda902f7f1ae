"""Large files are cut where their parts can be read by themselves, and nothing is lost or read twice."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.io import Schema, TableSource, open_array
from sfumato.io.table_files import _together, cuts_of

SCHEMA = Schema.from_dict({"columns": {"x": {"kind": "numeric", "bounds": [0, 1]}}})


@given(sizes=st.lists(st.integers(0, 50), min_size=1), part=st.integers(1, 120))
def test_ranges_follow_on_one_another_and_all_but_the_last_are_full(sizes, part):
    ranges = _together(sizes, part)
    assert [index for each in ranges for index in each] == list(range(len(sizes)))
    held = [sum(sizes[index] for index in each) for each in ranges]
    assert all(size >= part for size in held[:-1])
    assert all(sum(sizes[index] for index in each[:-1]) < part for each in ranges)


def test_the_parts_of_an_array_are_its_rows(tmp_path):
    values = np.arange(3000.0).reshape(1000, 3)
    np.save(tmp_path / "x.npy", values)
    cuts = cuts_of(tmp_path / "x.npy", part_bytes=5000)
    assert len(cuts) > 3
    source = open_array(tmp_path / "x.npy")
    parts = [np.concatenate(list(source.blocks(500, cut))) for cut in cuts]
    assert np.array_equal(np.concatenate(parts), values)
    assert np.array_equal(np.concatenate(list(source.blocks(500, range(7, 12)))), values[7:12])


def test_a_part_of_an_array_in_fortran_order_is_its_rows(tmp_path):
    values = np.asfortranarray(np.arange(30.0).reshape(10, 3))
    np.save(tmp_path / "x.npy", values)
    blocks = open_array(tmp_path / "x.npy").blocks(48, range(3, 8))
    assert np.array_equal(np.concatenate(list(blocks)), values[3:8])


def test_the_parts_of_a_table_are_its_row_groups(tmp_path):
    file = tmp_path / "t.parquet"
    values = np.linspace(0, 1, 1000)
    pq.write_table(pa.table({"x": values}), file, row_group_size=70)
    cuts = cuts_of(file, part_bytes=2000)
    assert len(cuts) > 3
    parts = [TableSource(file, SCHEMA, groups=cut) for cut in cuts]
    assert [part.first_row for part in parts] == [0, *np.cumsum([part.rows for part in parts])[:-1]]
    read = [np.concatenate([block.numeric for block in part.blocks(50)]) for part in parts]
    assert np.array_equal(np.concatenate(read)[:, 0], values)


def test_a_refused_cell_of_a_part_is_named_by_its_row_in_the_whole_table(tmp_path):
    values = np.linspace(0, 1, 100)
    values[57] = np.nan
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet", row_group_size=10)
    part = TableSource(tmp_path / "t.parquet", SCHEMA, groups=range(5, 7))
    with pytest.raises(BadInput, match="row 58"):
        list(part.blocks())


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "x.npz"])
def test_what_is_read_from_its_beginning_is_not_cut(tmp_path, name):
    assert cuts_of(tmp_path / name) is None
