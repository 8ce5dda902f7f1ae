"""Suffixes decide what a file is, and files that cannot be read are refused before anything else."""

import os

import pytest

from sfumato.errors import BadInput
from sfumato.io.formats import file_to_read, kind_of, same_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.npy", "array"),
        ("b.NPZ", "array"),
        ("c.csv", "table"),
        ("folder.npy/d.csv.gz", "table"),
        ("e.Parquet", "table"),
        ("f.JPG", "picture"),
        ("g.tiff", "picture"),
        ("h.wav", "sound"),
        ("i.mp4", "video"),
    ],
)
def test_kind_follows_the_suffix(name, kind):
    assert kind_of(name) == kind
    assert same_kind(name, name) == kind


@pytest.mark.parametrize("name", ["a.txt", "npy", "a.gz", "a.npy.bak"])
def test_unknown_suffix_is_refused_with_those_that_are_known(name):
    with pytest.raises(BadInput, match=r"supported suffixes \.npy, \.npz, .*, \.jpg, .*\.wav, .*\.avi\.$"):
        kind_of(name)


def test_a_table_does_not_become_an_array():
    with pytest.raises(BadInput, match=r"t\.csv is read as a table, so the output x\.npy must end in one of"):
        same_kind("t.csv", "x.npy")
    with pytest.raises(
        BadInput, match=r"read as an array, so the output t\.csv must end in one of \.npy, \.npz"
    ):
        same_kind("x.npy", "t.csv")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match=r"^gone\.npy does not exist\.$"):
        file_to_read(tmp_path / "gone.npy")
    with pytest.raises(BadInput, match="not a regular file"):
        file_to_read(tmp_path)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(BadInput, match=r"pipe\.npy is not a regular file"):
        file_to_read(tmp_path / "pipe.npy")
    (tmp_path / "empty.npy").touch()
    with pytest.raises(BadInput, match=r"^empty\.npy is empty\.$"):
        file_to_read(tmp_path / "empty.npy")
    with pytest.raises(BadInput, match="cannot be opened: Not a directory"):
        file_to_read(tmp_path / "empty.npy" / "x.npy")
    with pytest.raises(BadInput, match="cannot be the name of a file"):
        file_to_read("a\0b.npy")
