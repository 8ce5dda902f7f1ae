"""A schema says what each column holds; every mistake in it is one sentence."""

import json

import pytest

from sfumato.errors import BadInput
from sfumato.io.schema import Column, Schema

EXAMPLE = """
[columns.age]
kind = "numeric"
bounds = [17, 90]
clamp = true
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
weight = 0.5
[columns.member]
kind = "boolean"
[columns.name]
kind = "identifier"
[columns.income]
kind = "numeric"
bounds = [0.0, 1e6]
"""


def columns(**entries):
    return {"columns": entries}


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(EXAMPLE)
    return Schema.load(path)


def test_reads_columns_by_kind_in_the_order_of_the_file(example):
    assert example.numeric == (
        Column("age", "numeric", bounds=(17.0, 90.0), clamp=True),
        Column("income", "numeric", bounds=(0.0, 1e6)),
    )
    sex = Column("sex", "categorical", categories=("Female", "Male"), weight=0.5)
    assert example.coded == (sex, Column("member", "boolean"))
    assert example.coded[1].categories == (False, True)
    assert [column.name for column in example.identifiers] == ["name"]
    assert [column.name for column in example.coded] == ["sex", "member"]
    assert [column.name for column in example.released] == ["age", "sex", "member", "income"]


def test_goes_through_a_dictionary_and_json_unchanged(example, tmp_path):
    assert Schema.from_dict(example.to_dict()) == example
    (tmp_path / "people.json").write_text(json.dumps(example.to_dict()))
    assert Schema.load(tmp_path / "people.json") == example


def test_cannot_be_changed(example):
    with pytest.raises(AttributeError):
        example.numeric[0].weight = 2.0


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (3, "column 'c' is 3; a table with at least its kind is accepted."),
        ({}, "column 'c' has no kind; one of numeric, categorical, boolean, identifier is accepted."),
        ({"kind": "text"}, "column 'c' has kind 'text'; one of numeric,"),
        ({"kind": ["numeric"]}, "column 'c' has kind ['numeric']; one of numeric,"),
        ({"kind": "numeric"}, "column 'c' has no bounds; two finite numbers [low, high]"),
        ({"kind": "numeric", "bounds": [1]}, "column 'c' has bounds [1];"),
        ({"kind": "numeric", "bounds": [2, 1]}, "column 'c' has bounds [2, 1];"),
        ({"kind": "numeric", "bounds": [1, 1]}, "column 'c' has bounds [1, 1];"),
        ({"kind": "numeric", "bounds": [0, float("nan")]}, "column 'c' has bounds [0, nan];"),
        ({"kind": "numeric", "bounds": [0, float("inf")]}, "column 'c' has bounds [0, inf];"),
        ({"kind": "numeric", "bounds": [-1.7e308, 1.7e308]}, "column 'c' has bounds"),
        ({"kind": "numeric", "bounds": [0, 10**400]}, "column 'c' has bounds"),
        ({"kind": "numeric", "bounds": ["0", "1"]}, "column 'c' has bounds ['0', '1'];"),
        ({"kind": "numeric", "bounds": [False, True]}, "column 'c' has bounds [False, True];"),
        ({"kind": "numeric", "bounds": "01"}, "column 'c' has bounds '01';"),
        ({"kind": "numeric", "bounds": [0, 1], "clamp": 1}, "column 'c' has clamp 1; true or false"),
        ({"kind": "numeric", "bounds": [0, 1], "weight": 0}, "column 'c' has weight 0; a positive number"),
        ({"kind": "numeric", "bounds": [0, 1], "weight": float("inf")}, "column 'c' has weight inf;"),
        ({"kind": "numeric", "bounds": [0, 1], "weight": True}, "column 'c' has weight True;"),
        (
            {"kind": "numeric", "bounds": [0, 1], "bound": 1},
            "has the key 'bound'; it accepts kind, bounds, weight",
        ),
        ({"kind": "boolean", "bounds": [0, 1]}, "column 'c' is boolean and has the key 'bounds';"),
        ({"kind": "boolean", "name": "d"}, "has the key 'name'; it accepts kind, weight."),
        ({"kind": "identifier", "weight": 1}, "column 'c' is identifier and has the key 'weight';"),
        ({"kind": "categorical"}, "column 'c' has categories ();"),
        ({"kind": "categorical", "categories": ["a"]}, "column 'c' has categories ['a'];"),
        ({"kind": "categorical", "categories": "ab"}, "column 'c' has categories 'ab';"),
        ({"kind": "categorical", "categories": ["a", "b", "a"]}, "has the category 'a' 2 times;"),
        ({"kind": "categorical", "categories": [1, "1"]}, "has categories of type int and str;"),
        ({"kind": "categorical", "categories": [1, True]}, "has categories of type bool and int;"),
        ({"kind": "categorical", "categories": [0.5, 1.5]}, "has categories of type float;"),
        ({"kind": "categorical", "categories": [1, 2**63]}, "a category beyond 64 bits;"),
        ({"kind": "categorical", "categories": ["a", "\ud800"]}, "that no text file can hold."),
    ],
)
def test_refuses_a_wrong_entry(entry, sentence):
    with pytest.raises(BadInput) as caught:
        Schema.from_dict(columns(c=entry))
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("content", [{}, {"columns": []}, {"columns": {}, "version": 1}, []])
def test_refuses_another_layout(content):
    with pytest.raises(BadInput, match='one table "columns"'):
        Schema.from_dict(content)


@pytest.mark.parametrize("content", [columns(), columns(name={"kind": "identifier"})])
def test_refuses_a_schema_that_leaves_nothing(content):
    with pytest.raises(BadInput, match="nothing to release"):
        Schema.from_dict(content)


def test_refuses_wrong_columns_built_by_hand():
    flag = Column("a", "boolean")
    with pytest.raises(BadInput, match="declares column 'a' 2 times"):
        Schema((flag, flag))
    with pytest.raises(BadInput, match="a column is named ''"):
        Column("", "boolean")
    with pytest.raises(BadInput, match="has kind 'other'"):
        Column("a", "other")
    with pytest.raises(BadInput, match="is boolean and takes no bounds"):
        Column("a", "boolean", bounds=(0, 1))
    with pytest.raises(BadInput, match="is numeric and takes no categories"):
        Column("a", "numeric", bounds=(0, 1), categories=("x", "y"))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("s.toml", "[columns.a", "s.toml is not valid TOML: Expected ']'"),
        ("s.toml", "[columns.a]\n[columns.a]\n", "s.toml is not valid TOML: Cannot declare"),
        ("s.json", "{", "s.json is not valid JSON: Expecting property name"),
        ("s.json", "[" * 100_000, "s.json is not valid JSON:"),
        (
            "s.json",
            '{"columns": {"a": {"kind": "boolean"}, "a": {}}}',
            "s.json: the name 'a' stands twice in one object; once is accepted.",
        ),
        ("s.json", '{"columns": {"a": {"kind": "x"}}}', "s.json: column 'a' has kind 'x'"),
        ("s.json", "\x00\x01", "s.json is not valid JSON:"),
        ("s.yaml", "columns:", "s.yaml: the schema must be a .toml or .json file."),
    ],
)
def test_refuses_a_file_that_is_no_schema(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput) as caught:
        Schema.load(tmp_path / name)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["s.toml", "s.json"])
def test_refuses_bytes_that_are_no_text(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="is not valid"):
        Schema.load(tmp_path / name)


def test_fits_a_table_with_the_same_columns_in_any_order(example):
    example.check_against(["income", "name", "member", "sex", "age"])


def test_names_the_nearest_column_where_one_is_missing(example):
    with pytest.raises(BadInput, match=r"declares column 'member', which .* its nearest column is 'members'"):
        example.check_against(["age", "sex", "members", "name", "income"])


def test_asks_for_a_column_that_is_not_declared(example):
    with pytest.raises(BadInput, match=r'column .ssn. that the schema does not declare; .* "identifier"'):
        example.check_against(["age", "sex", "member", "name", "income", "ssn"])


def test_refuses_a_table_with_one_name_twice(example):
    with pytest.raises(BadInput, match="2 columns named 'sex'"):
        example.check_against(["age", "sex", "member", "name", "income", "sex"])
