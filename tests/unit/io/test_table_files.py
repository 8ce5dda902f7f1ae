"""Tables are read under their schema, and every bad cell is refused by its column and row."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from real_data import real
from sfumato.errors import BadInput
from sfumato.io.schema import Column, Schema
from sfumato.io.table_files import TableSource

PEOPLE = Schema(
    (
        Column("member", "boolean"),
        Column("age", "numeric", bounds=(17, 90)),
        Column("name", "identifier"),
        Column("sex", "categorical", categories=("Female", "Male")),
        Column("ward", "categorical", categories=(7, 3, 12)),
    )
)
HEADER = "name,age,sex,ward,member\n"


def collect(source, **options):
    blocks = list(source.blocks(**options))
    return np.concatenate([b.numeric for b in blocks]), np.concatenate([b.codes for b in blocks])


def people(tmp_path, text, name="people.csv"):
    path = tmp_path / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return TableSource(path, PEOPLE)


def refusal(tmp_path, text):
    with pytest.raises(BadInput) as caught:
        collect(people(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("people.csv")
    return str(caught.value)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_csv_becomes_numbers_and_codes_in_the_order_of_the_schema(tmp_path, name):
    source = people(
        tmp_path, HEADER + 'Ada,36.5,Female,12,yes\n"Lo,\nve", 28 ,Male,7,FALSE\n\nx,-1e2,Male,3,1', name
    )
    assert source.rows is None
    for _ in range(2):
        numeric, codes = collect(source)
        assert numeric.dtype == np.float64
        assert numeric.tolist() == [[36.5], [28.0], [-100.0]]
        assert codes.dtype == np.int64
        assert codes.tolist() == [[0, 2, 1], [1, 0, 0], [1, 1, 1]]
        assert source.rows == 3


@pytest.mark.parametrize(
    "spelling", ["true", "TRUE", "True", "yes", "YES", "1", "false", "False", "no", "No", "0"]
)
def test_spellings_of_booleans(tmp_path, spelling):
    _, codes = collect(people(tmp_path, HEADER + f"x,1,Male,3,{spelling}\n"))
    assert codes[0, 2] == (spelling.lower() in ("true", "yes", "1"))


def test_a_byte_order_mark_and_windows_line_ends(tmp_path):
    numeric, _ = collect(
        people(tmp_path, "\ufeff" + (HEADER + "x,1,Male,3,1\ny,2,Male,3,0\n").replace("\n", "\r\n"))
    )
    assert numeric.tolist() == [[1.0], [2.0]]


def test_identifiers_may_be_anything_and_are_not_read(tmp_path):
    numeric, _ = collect(people(tmp_path, HEADER.encode() + b"\xff\x00,1,Male,3,1\n"))
    assert numeric.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("x,old,Male,3,1", "column 'age' is not as declared in data row 3; a finite number is accepted."),
        ("x,nan,Male,3,1", "column 'age' is not as declared in data row 3;"),
        ("x,-inf,Male,3,1", "column 'age' is not as declared in data row 3;"),
        ("x,1e999,Male,3,1", "column 'age' is not as declared in data row 3;"),
        ("x,,Male,3,1", "column 'age' is empty in data row 3;"),
        ("x,NA,Male,3,1", "column 'age' is not as declared in data row 3;"),
        (
            "x,1,male,3,1",
            "column 'sex' is not as declared in data row 3; the declared categories are 'Female', 'Male'.",
        ),
        ("x,1, Male,3,1", "column 'sex' is not as declared in data row 3;"),
        ("x,1,,3,1", "column 'sex' is empty in data row 3;"),
        (
            "x,1,Male,4,1",
            "column 'ward' is not as declared in data row 3; the declared categories are 7, 3, 12.",
        ),
        (
            "x,1,Male,3,2",
            "column 'member' is not as declared in data row 3; true, false, yes, no, 1 and 0 are accepted.",
        ),
        ("x,1,Male,3,", "column 'member' is empty in data row 3;"),
        (f"x,1,{'M' * 41},3,1", "column 'sex' is not as declared in data row 3;"),
        ("x,1,Male,3", "another length than its header in data row 3: 5 fields are accepted, not 4."),
        ("x,1,Male,3,1,1", "another length than its header in data row 3: 5 fields are accepted, not 6."),
    ],
)
def test_bad_cells_are_refused_by_column_and_row(tmp_path, row, sentence):
    assert sentence in refusal(tmp_path, HEADER + "x,1,Male,3,1\nx,2,Male,3,1\n" + row + "\n")


def test_a_quote_that_is_never_closed_does_not_swallow_records(tmp_path):
    (tmp_path / "t.csv").write_text('a,note\n1,fine\n2,"open\n3,lost\n4,lost\n')
    schema = Schema((Column("a", "numeric", bounds=(0, 9)), Column("note", "identifier")))
    with pytest.raises(BadInput, match="odd number of double quotes, so a value is never closed"):
        collect(TableSource(tmp_path / "t.csv", schema))


def test_no_thread_of_arrow_enters_the_interpreter(tmp_path, monkeypatch):
    """Arrow's reader may still run when the interpreter ends, and would abort it from inside a callback."""
    opened, given = pyarrow.csv.open_csv, []

    def open_csv(stream, **options):
        given.append((type(stream), options["parse_options"].invalid_row_handler))
        return opened(stream, **options)

    monkeypatch.setattr(pyarrow.csv, "open_csv", open_csv)
    for name in ("people.csv", "people.csv.gz"):
        collect(people(tmp_path, HEADER + "x,1,Male,3,1\n", name))
    assert given == [(pa.OSFile, None), (pa.CompressedInputStream, None)]


def test_rows_are_counted_across_blocks(tmp_path):
    text = HEADER + "x,1,Male,3,1\n" * 1000 + "x,1,Male,3,maybe\n"
    with pytest.raises(BadInput, match="data row 1001;"):
        collect(people(tmp_path, text), max_rows=64)


def test_text_that_is_not_utf8_is_refused_where_it_stands(tmp_path):
    assert "column 'sex' is not as declared in data row 1" in refusal(
        tmp_path, HEADER.encode() + b"x,1,\xff,3,1\n"
    )
    assert "column names that are not UTF-8" in refusal(tmp_path, b"\xff\xfe,b\n1,2\n")


@pytest.mark.parametrize("text", [HEADER, HEADER.strip(), HEADER + "\n\r\n", "\n"])
def test_no_rows(tmp_path, text):
    assert "no data rows" in refusal(tmp_path, text)


def test_a_line_without_end_is_no_header(tmp_path):
    assert "more than 1 MiB" in refusal(tmp_path, "x" * 2_000_000)


def test_an_empty_line_in_a_single_column_is_an_empty_cell(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n\n2\n")
    source = TableSource(tmp_path / "t.csv", Schema((Column("a", "numeric", bounds=(0, 9)),)))
    with pytest.raises(BadInput, match="column 'a' is empty in data row 2"):
        collect(source)


def test_columns_must_be_the_declared_ones(tmp_path):
    with pytest.raises(BadInput, match=r"^people\.csv: .* column 'ward', .* nearest column is 'wards'\.$"):
        people(tmp_path, HEADER.replace("ward", "wards") + "x,1,Male,3,1\n")
    with pytest.raises(BadInput, match=r"^people\.csv: .* column 'ssn' that the schema does not declare"):
        people(tmp_path, "ssn," + HEADER + "1,x,1,Male,3,1\n")
    with pytest.raises(BadInput, match=r"^people\.csv: the table has 2 columns named 'age'"):
        people(tmp_path, "age," + HEADER + "1,x,1,Male,3,1\n")


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-9], lambda d: d + b"more", lambda d: b"plain text, not packed"]
)
def test_damaged_gzip_is_refused(tmp_path, damage):
    path = tmp_path / "people.csv.gz"
    path.write_bytes(damage(gzip.compress((HEADER + "x,1,Male,3,1\n" * 5000).encode())))
    with pytest.raises(BadInput, match=r"^people\.csv\.gz cannot be read as CSV: "):
        collect(TableSource(path, PEOPLE))


def test_reading_can_stop_early(tmp_path):
    source = people(tmp_path, HEADER + "x,1,Male,3,1\n" * 400_000)
    for _ in range(3):
        assert len(next(source.blocks()).codes) > 0
    assert source.rows is None


def arrow_people(**changes):
    table = {
        "name": pa.array(["x", "y"]),
        "age": pa.array([30, 40], pa.int16()),
        "sex": pa.array(["Male", "Female"]).dictionary_encode(),
        "ward": pa.array([3, 12], pa.uint8()),
        "member": pa.array([True, False]),
    }
    return pa.table({**table, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"age": pa.array([30.0, 40.0], pa.float32()), "sex": pa.array(["Male", "Female"], pa.large_string())},
        {"ward": pa.array([3.0, 12.0]), "member": pa.array([1, 0])},
        {"ward": pa.array(["3", "12"]), "member": pa.array(["Yes", "no"]), "age": pa.array(["30", " 40"])},
        {"name": pa.array([[1, 2], [3]])},
    ],
)
def test_parquet_of_every_plain_type(tmp_path, changes):
    pq.write_table(arrow_people(**changes), tmp_path / "people.parquet")
    source = TableSource(tmp_path / "people.parquet", PEOPLE)
    assert source.rows == 2
    numeric, codes = collect(source, max_rows=1)
    assert numeric.tolist() == [[30.0], [40.0]]
    assert codes.tolist() == [[1, 1, 1], [0, 2, 0]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"age": pa.array([1, None])}, "column 'age' is empty in data row 2;"),
        ({"age": pa.array([1.0, float("nan")])}, "column 'age' is not as declared in data row 2;"),
        ({"age": pa.array([True, False])}, "column 'age' has type bool; numbers are accepted"),
        ({"sex": pa.array([None, "Male"])}, "column 'sex' is empty in data row 1;"),
        ({"sex": pa.array([["Male"], ["Male"]])}, "column 'sex' has type list"),
        ({"ward": pa.array([3.0, 3.5])}, "column 'ward' is not as declared in data row 2;"),
        ({"member": pa.array([0, 2])}, "column 'member' is not as declared in data row 2;"),
    ],
)
def test_parquet_with_bad_cells(tmp_path, changes, sentence):
    pq.write_table(arrow_people(**changes), tmp_path / "people.parquet")
    with pytest.raises(BadInput) as caught:
        collect(TableSource(tmp_path / "people.parquet", PEOPLE))
    assert sentence in str(caught.value)


def test_parquet_that_is_none_or_has_no_rows(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(arrow_people().slice(0, 0), path)
    with pytest.raises(BadInput, match="no data rows"):
        TableSource(path, PEOPLE)
    pq.write_table(arrow_people(), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(BadInput, match=r"^people\.parquet cannot be read as Parquet: "):
        TableSource(path, PEOPLE)


def test_an_array_is_no_table(tmp_path):
    with pytest.raises(BadInput, match="suffixes of tables"):
        TableSource(tmp_path / "x.npy", PEOPLE)


def test_the_census_is_read_whole():
    path = real("adult_train.csv.gz")
    dropped = [
        "workclass", "fnlwgt", "education", "marital-status", "occupation", "relationship", "native-country"
    ]  # fmt: skip
    races = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
    schema = Schema(
        (
            Column("age", "numeric", bounds=(17, 90)),
            Column("education-num", "numeric", bounds=(1, 16)),
            Column("capital-gain", "numeric", bounds=(0, 99_999)),
            Column("capital-loss", "numeric", bounds=(0, 4356)),
            Column("hours-per-week", "numeric", bounds=(1, 99)),
            Column("race", "categorical", categories=races),
            Column("sex", "categorical", categories=("Female", "Male")),
            Column("income", "categorical", categories=("<=50K", ">50K")),
            *(Column(name, "identifier") for name in dropped),
        )
    )
    source = TableSource(path, schema)
    numeric, codes = collect(source)
    assert source.rows == 32_561
    for index, column in enumerate(schema.numeric):
        assert (numeric[:, index].min(), numeric[:, index].max()) == column.bounds
    assert np.bincount(codes[:, 2]).tolist() == [24_720, 7_841]
