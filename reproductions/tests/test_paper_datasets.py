"""The data sets of papers: what is read, from where, and what is said where it is missing."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import NAMES, check_names, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that SFUMATO_DATA names."""
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    return tmp_path


def test_digits_need_no_files(monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    digits = load("digits")
    assert digits.records.shape == (1797, 64)
    assert digits.records.dtype == np.float32
    assert (digits.records.min(), digits.records.max()) == (0.0, 1.0)
    assert set(digits.labels) == set(range(10))


def test_a_sample_is_drawn_without_replacement_and_again_by_its_seed() -> None:
    digits = load("digits")
    records, labels = digits.sample(100, 3)
    again, _ = digits.sample(100, 3)
    other, _ = digits.sample(100, 4)
    assert records.shape == (100, 64)
    assert labels.shape == (100,)
    assert (records == again).all()
    assert not (records == other).all()
    assert len(digits.sample(10_000, 0)[0]) == 1797
    whole = digits.sample(10_000, 0)[0]
    assert sorted(map(bytes, whole)) == sorted(map(bytes, digits.records))


@pytest.mark.parametrize(
    ("name", "file", "shape", "columns"),
    [
        ("mnist", "mnist.npz", (3, 28, 28), 784),
        ("fashion-mnist", "fashion_mnist.npz", (3, 28, 28), 784),
        ("cifar-10", "cifar10_20k_5k.npz", (3, 32, 32, 3), 3072),
    ],
)
def test_pictures_are_scaled_and_flattened(folder, name, file, shape, columns) -> None:
    pictures = np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(np.uint8)
    np.savez(folder / file, x_train=pictures, y_train=np.array([2, 0, 1], dtype=np.uint8))
    data = load(name)
    assert data.records.shape == (3, columns)
    assert data.records[0, 255] == 1.0
    assert data.records == pytest.approx(pictures.reshape(3, -1) / 255.0, abs=1e-6)
    assert data.labels.tolist() == [2, 0, 1]


def test_a_missing_folder_is_answered_in_a_sentence(monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    with pytest.raises(
        BadInput, match=r"mnist is read from mnist\.npz .* SFUMATO_DATA .* not set; --data digits"
    ):
        check_names(["mnist"])


def test_a_missing_file_is_named(folder) -> None:
    with pytest.raises(BadInput, match=r"cifar10_20k_5k\.npz, which is not in the folder"):
        load("cifar-10")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["no-such-data"], f"there is no data set 'no-such-data' here; choose from {', '.join(NAMES)}."),
        (["digits", "digits"], "the data set 'digits' was given twice; once is enough."),
    ],
)
def test_unknown_and_repeated_names_are_refused(names, said) -> None:
    with pytest.raises(BadInput) as refusal:
        check_names(names)
    assert str(refusal.value) == said


def test_a_file_that_is_something_else_is_refused(folder) -> None:
    (folder / "mnist.npz").write_bytes(b"no archive")
    with pytest.raises(BadInput, match="no NumPy archive with arrays x_train and y_train"):
        load("mnist")
    np.savez(folder / "mnist.npz", x_train=np.zeros((3, 28, 28)), y_train=np.zeros(3))
    with pytest.raises(BadInput, match="bytes are accepted"):
        load("mnist")
