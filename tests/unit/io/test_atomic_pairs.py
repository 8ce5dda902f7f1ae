"""An output and the file that explains it: the explanation appears first, and never for another output."""

import os

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.io import ArraySink, AtomicFile


def pair(folder, output=AtomicFile, first=AtomicFile):
    files = output(folder / "out"), first(folder / "out.why")
    for file, content in zip(files, (b"newer", b"why newer"), strict=True):
        file.file.write(content)
    return files


def standing(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Broken(AtomicFile):
    """A file that cannot take its place."""

    def _appear(self):
        raise BadInput("the disk went away.")


class Watchful(AtomicFile):
    """A file that notes what stands in its folder at the moment it takes its place."""

    def _appear(self):
        self.seen = standing(self.path.parent)
        super()._appear()


@pytest.mark.parametrize("older", [False, True])
def test_the_first_appears_before_the_output_and_never_beside_an_older_one(tmp_path, older):
    if older:
        (tmp_path / "out").write_bytes(b"older")
        (tmp_path / "out.why").write_bytes(b"why older")
    output, first = pair(tmp_path, Watchful, Watchful)
    output.commit(first)
    assert "out" not in first.seen
    assert "out" not in output.seen
    assert output.seen["out.why"] == b"why newer"
    assert standing(tmp_path) == {"out": b"newer", "out.why": b"why newer"}


def test_an_output_that_cannot_appear_takes_its_first_away_again(tmp_path):
    output, first = pair(tmp_path, output=Broken)
    with pytest.raises(BadInput):
        output.commit(first)
    assert standing(tmp_path) == {}


def test_a_first_that_cannot_appear_keeps_the_output_away(tmp_path):
    output, first = pair(tmp_path, first=Broken)
    with pytest.raises(BadInput):
        output.commit(first)
    assert standing(tmp_path) == {}


def test_bytes_that_cannot_be_made_durable_leave_the_older_pair(tmp_path):
    (tmp_path / "out").write_bytes(b"older")
    (tmp_path / "out.why").write_bytes(b"why older")
    output, first = pair(tmp_path)
    first.file.close()  # flushing it fails now
    with pytest.raises(ValueError, match="closed"):
        output.commit(first)
    assert standing(tmp_path) == {"out": b"older", "out.why": b"why older"}


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sink_is_accompanied_only_if_it_is_complete(tmp_path, rows):
    def write():
        with ArraySink(tmp_path / "out.npy", (2, 1), np.float64) as sink:
            sink.write(np.ones((rows, 1)))
            sink.accompany(tmp_path / "out.npy.why", lambda output: b"why")

    if rows == 2:
        write()
        assert sorted(os.listdir(tmp_path)) == ["out.npy", "out.npy.why"]
    else:
        with pytest.raises(BadInput, match="was to hold 2 rows"):
            write()
        assert os.listdir(tmp_path) == []
