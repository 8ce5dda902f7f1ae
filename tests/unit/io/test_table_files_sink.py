"""Tables written by blocks are what other readers and our own source read back."""

import gzip

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.io.schema import Column, Schema
from sfumato.io.table_files import TableSink, TableSource

PEOPLE = Schema(
    (
        Column("member", "boolean"),
        Column("age", "numeric", bounds=(17, 90)),
        Column("name", "identifier"),
        Column("sex", "categorical", categories=("Female", "Male")),
        Column("ward", "categorical", categories=(7, 3, 12)),
    )
)


def test_sink_writes_what_others_read(tmp_path):
    numeric, codes = np.array([[0.1], [1e22], [30.0]]), np.array([[0, 2, 1], [1, 0, 0], [1, 1, 1]])
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        with TableSink(tmp_path / name, PEOPLE) as sink:
            sink.write(numeric[:1], codes[:1])
            sink.write(numeric[1:], codes[1:])
    text = "member,age,sex,ward\ntrue,0.1,Female,12\nfalse,1e+22,Male,7\ntrue,30,Male,3\n"
    assert (tmp_path / "out.csv").read_text() == text
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == text
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.to_pydict() == {
        "member": [True, False, True],
        "age": [0.1, 1e22, 30.0],
        "sex": ["Female", "Male", "Male"],
        "ward": [12, 7, 3],
    }


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@st.composite
def tables(draw):
    columns = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(["numeric", "categorical", "boolean"]))
        if kind == "numeric":
            columns.append(Column(name, kind, bounds=(0, 1)))
        elif kind == "boolean":
            columns.append(Column(name, kind))
        else:
            values = draw(
                st.one_of(
                    st.lists(
                        st.text(st.characters(codec="utf-8"), max_size=5), min_size=2, max_size=4, unique=True
                    ),
                    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=4, unique=True),
                    st.permutations([True, False]),
                )
            )
            columns.append(Column(name, kind, categories=tuple(values)))
    schema = Schema(tuple(columns))
    rows = draw(st.integers(1, 6))
    number = st.floats(allow_nan=False, allow_infinity=False)
    numeric = [[draw(number) for _ in schema.numeric] for _ in range(rows)]
    codes = [[draw(st.integers(0, len(c.categories) - 1)) for c in schema.coded] for _ in range(rows)]
    return (
        schema,
        np.array(numeric, np.float64).reshape(rows, len(schema.numeric)),
        np.array(codes, np.int64).reshape(rows, len(schema.coded)),
    )


@settings(deadline=None)  # the disk decides how long a file takes
@given(table=tables(), suffix=st.sampled_from(["csv", "csv.gz", "parquet"]), cut=st.integers(0, 6))
def test_every_table_comes_back_bit_for_bit(tmp_path_factory, table, suffix, cut):
    schema, numeric, codes = table
    path = tmp_path_factory.mktemp("table") / f"t.{suffix}"
    with TableSink(path, schema) as sink:
        sink.write(numeric[:cut], codes[:cut])
        sink.write(numeric[cut:], codes[cut:])
    blocks = list(TableSource(path, schema).blocks(max_rows=2))
    assert np.concatenate([block.numeric for block in blocks]).tobytes() == numeric.tobytes()
    assert np.array_equal(np.concatenate([block.codes for block in blocks]), codes)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_failure_keeps_the_older_output(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(b"older")

    def write_and_fail():
        with TableSink(path, PEOPLE) as sink:
            sink.write(np.zeros((2, 1)), np.zeros((2, 3), np.int64))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    with pytest.raises(BadInput, match="no rows were written"), TableSink(path, PEOPLE):
        pass
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_equal_tables_give_equal_bytes(tmp_path):
    for suffix in ("csv.gz", "parquet"):
        for name in ("a", "b"):
            with TableSink(tmp_path / f"{name}.{suffix}", PEOPLE) as sink:
                sink.write(np.ones((2, 1)), np.ones((2, 3), np.int64))
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("numeric", "codes", "reason"),
    [
        (np.zeros((2, 2)), np.zeros((2, 3), int), "takes blocks of 1 numeric and 3 coded columns"),
        (np.zeros((2, 1)), np.zeros((1, 3), int), "given 2 rows of numbers and 1 of codes"),
        (np.full((2, 1), np.nan), np.zeros((2, 3), int), "takes finite numbers"),
        (np.zeros((2, 1)), np.full((2, 3), 2), "codes that index the declared categories"),
        (np.zeros((2, 1)), np.full((2, 3), -1), "codes that index the declared categories"),
        (np.zeros((2, 1)), np.zeros((2, 3)), "codes that index the declared categories"),
    ],
)
def test_sink_refuses_blocks_that_do_not_fit(tmp_path, numeric, codes, reason):
    with pytest.raises(BadInput, match=reason), TableSink(tmp_path / "out.csv", PEOPLE) as sink:
        sink.write(numeric, codes)
    assert list(tmp_path.iterdir()) == []


def test_sink_refuses_the_suffix_of_an_array(tmp_path):
    with pytest.raises(BadInput, match="suffixes of tables"):
        TableSink(tmp_path / "x.npy", PEOPLE)
