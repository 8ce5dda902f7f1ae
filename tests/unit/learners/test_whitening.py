"""Axes of drawn pictures: always the same ones, features of length 1, each row by itself, kept and taken."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.learners import make_extractor
from sfumato.learners.feature_extractors import Pixels
from sfumato.learners.whitening import Whitened, drawn_pictures


@pytest.mark.parametrize("shape", [(8, 8), (12, 10), (9, 9, 3)])
def test_drawn_pictures_are_always_the_same_and_varied(shape) -> None:
    first, again = drawn_pictures(20, shape), drawn_pictures(20, shape)
    assert first.shape == (20, *shape)
    assert first.dtype == np.uint8
    assert (first == again).all()
    assert (drawn_pictures(10, shape) == first[:10]).all()
    assert (first.reshape(20, -1).std(axis=1) > 1.0).all()
    assert len(np.unique(first.reshape(20, -1), axis=0)) == 20


def test_public_pictures_are_evened_out_and_rows_have_length_one() -> None:
    public = drawn_pictures(60, (8, 8))
    made = Whitened(Pixels((8, 8)), dimension=20)
    maps = made.tensors()
    turned = (Pixels((8, 8)).transform(public) - maps["mean"]) @ maps["axes"]
    spread = turned.std(axis=0)
    assert spread.max() <= 1.0 + 1e-3  # strong axes are brought to 1, weak ones are not blown up
    assert (np.diff(spread) < 1e-3).all()
    assert np.corrcoef(turned.T) == pytest.approx(np.eye(20), abs=1e-3)
    digits = load_digits().images[:50] * 15.9
    rows = made.transform(digits)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    changed = digits.copy()
    changed[7] = 255.0 - changed[7]
    same = np.delete(np.arange(50), 7)
    assert (made.transform(changed)[same] == rows[same]).all()
    assert (made.transform(digits[same]) == rows[same]).all()


def test_axes_are_kept_and_taken() -> None:
    first = Whitened(Pixels((8, 8)), dimension=10)
    digits, kept = load_digits().images[:5] * 15.9, first.tensors()
    second = Whitened(Pixels((8, 8)), dimension=10)
    second.take({"mean": kept["mean"], "axes": kept["axes"][:, ::-1]})
    assert np.abs(first.transform(digits) - second.transform(digits)).max() > 0.01
    second.take(kept)
    assert (first.transform(digits) == second.transform(digits)).all()
    with pytest.raises(BadInput, match="kept axes"):
        Whitened(Pixels((8, 8)), dimension=9).take(first.tensors())
    with pytest.raises(BadInput, match="takes no tensors"):
        Pixels((8, 8)).take(first.tensors())


def test_it_has_a_name_and_says_where_it_comes_from() -> None:
    made = make_extractor("whitened-scattering", (8, 8))
    assert made.name == "whitened-scattering"
    assert "public" in made.origin
    assert made.dimension == 324
