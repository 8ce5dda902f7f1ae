"""What an audit reads of files: arrays of any order, tables scaled by their schema, labels from anywhere."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.release.file_audit import read_labels, read_records

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "name": {"kind": "identifier"},
            "age": {"kind": "numeric", "bounds": [0, 100]},
            "group": {"kind": "categorical", "categories": ["a", "b"]},
        }
    }
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("name,age,group\nx,25,b\ny,100,a\n")
    return tmp_path


def test_tensors_are_flattened_and_remember_their_shape(folder):
    np.save("x.npy", np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    read = read_records("x.npy")
    assert read.values.shape == (2, 12)
    assert read.values.dtype == np.float64
    assert read.shape == (3, 4)


def test_the_array_beside_the_labels_is_meant(folder):
    np.savez("x.npz", X=np.ones((3, 2)), y=np.array([5, 7, 5]))
    assert read_records("x.npz", beside="y").values.shape == (3, 2)
    assert read_labels("y", "x.npz").tolist() == [0, 1, 0]
    with pytest.raises(BadInput, match="name one of them by `array`"):
        read_records("x.npz")


def test_labels_come_from_a_file_too(folder):
    np.save("x.npy", np.ones((3, 2)))
    np.save("y.npy", np.array([[2.0], [1.0], [2.0]]))
    assert read_labels("y.npy", "x.npy").tolist() == [1, 0, 1]
    np.save("wide.npy", np.ones((3, 2)))
    with pytest.raises(BadInput, match="one value a record"):
        read_labels("wide.npy", "x.npy")


def test_a_table_is_scaled_by_its_schema(folder):
    read = read_records("t.csv", schema=SCHEMA)
    assert read.values.tolist() == [[-0.5, 0.0, 1.0], [1.0, 1.0, 0.0]]
    assert read_labels("group", "t.csv", SCHEMA).tolist() == [1, 0]


def test_refusals(folder):
    with pytest.raises(BadInput, match="give the `schema`"):
        read_records("t.csv")
    with pytest.raises(BadInput, match="`array` is for"):
        read_records("t.csv", schema=SCHEMA, array="X")
    with pytest.raises(BadInput, match="no categorical or boolean column of the schema; accepted: group"):
        read_labels("age", "t.csv", SCHEMA)
    np.save("x.npy", np.array([[1.0], [np.inf]]))
    with pytest.raises(BadInput, match="not finite in row 2"):
        read_records("x.npy")
    with pytest.raises(BadInput, match="nor a file"):
        read_labels("missing", "x.npy")


@pytest.mark.parametrize("name", ["a.jpg", "b.wav", "c.mp4", "folder"])
def test_media_are_no_records_to_compare(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="holds pictures or sound, and records are compared here"):
        read_records(tmp_path / name)
