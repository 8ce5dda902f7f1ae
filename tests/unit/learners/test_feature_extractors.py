"""Extractors by name, pixels and scattering features: rows no longer than 1, each from its picture alone."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, within_length_one
from sfumato.learners.feature_extractors import EXTRACTORS, Pixels, make_extractor
from sfumato.learners.scattering import Scattering, ScatteringFeatures

RNG = np.random.default_rng(8)
PLAIN = ("scattering", "pixels")


def lengths(rows):
    return np.linalg.norm(rows.astype(np.float64), axis=1)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (12, 16, 3), (9, 9, 1)])
def test_rows_have_the_promised_shape_and_are_no_longer_than_one(name, shape) -> None:
    extractor = make_extractor(name, shape)
    extremes = [np.zeros(shape), np.full(shape, 255), 255 * (np.indices(shape).sum(axis=0) % 2)]
    pictures = np.concatenate([np.stack(extremes), RNG.integers(0, 256, (20, *shape))]).astype(np.uint8)
    rows = extractor.transform(pictures)
    assert rows.shape == (23, extractor.dimension)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert lengths(rows).max() <= 1.0


@pytest.mark.parametrize("name", PLAIN)
def test_a_row_is_the_same_bit_by_bit_whatever_the_others_are(name) -> None:
    """Alone, at another place, among other pictures, and in a set one larger or smaller."""
    pictures = RNG.integers(0, 256, (70, 14, 14, 3)).astype(np.uint8)
    extractor = make_extractor(name, (14, 14, 3))
    rows = extractor.transform(pictures)
    order = RNG.permutation(70)
    np.testing.assert_array_equal(extractor.transform(pictures[order]), rows[order])
    np.testing.assert_array_equal(extractor.transform(pictures[1:]), rows[1:])
    np.testing.assert_array_equal(extractor.transform(pictures[65:66]), rows[65:66])
    changed = pictures.copy()
    changed[3] = 255 - changed[3]
    found = extractor.transform(changed)
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(rows, 3, axis=0))
    assert np.abs(found[3] - rows[3]).max() > 0.0


@pytest.mark.parametrize("name", PLAIN)
def test_inputs_are_left_alone_and_values_outside_the_range_count_as_its_ends(name) -> None:
    pictures = RNG.normal(128.0, 200.0, (5, 8, 8))
    pictures[0, 0, 0] = 1e300
    before = pictures.copy()
    extractor = make_extractor(name, (8, 8))
    rows = extractor.transform(pictures)
    np.testing.assert_array_equal(pictures, before)
    np.testing.assert_array_equal(rows, extractor.transform(np.clip(pictures, 0, 255)))
    assert lengths(rows).max() <= 1.0


@pytest.mark.parametrize("name", PLAIN)
def test_no_pictures_give_no_rows_and_progress_ends_at_one(name) -> None:
    extractor, seen = make_extractor(name, (8, 8)), []
    assert extractor.transform(np.zeros((0, 8, 8), dtype=np.uint8)).shape == (0, extractor.dimension)
    extractor.transform(np.zeros((70, 8, 8)), report=lambda stage, share: seen.append((stage, share)))
    assert seen[-1] == (name, 1.0)
    assert [share for _, share in seen] == sorted(share for _, share in seen)


def test_pixels_are_the_formula() -> None:
    picture = np.array([[0, 255], [51, 204]], dtype=np.uint8)
    expected = np.array([[-1.0, 1.0, -0.6, 0.6]]) / 2.0
    np.testing.assert_allclose(Pixels((2, 2)).transform(picture[None]), expected, atol=1e-6)


@pytest.mark.parametrize(("shape", "groups"), [((16, 16), 27), ((16, 12, 3), 27), ((16, 16), 81)])
def test_groups_have_mean_zero_and_deviation_one(shape, groups) -> None:
    """Of a picture with contrast in all channels: up to the number that keeps flat groups finite."""
    extractor = ScatteringFeatures(shape, groups=groups)
    pictures = RNG.integers(0, 256, (6, *shape))
    rows = extractor.transform(pictures) * np.sqrt(extractor.dimension)
    colours = (*shape, 1)[2]
    grouped = rows.astype(np.float64).reshape(6, colours * groups, -1)
    plain = Scattering(shape).transform(pictures / 255.0).astype(np.float64).reshape(grouped.shape)
    np.testing.assert_allclose(grouped.mean(axis=2), 0.0, atol=1e-4)
    variance = plain.var(axis=2)
    np.testing.assert_allclose(grouped.var(axis=2), variance / (variance + 1e-5), rtol=1e-3)


def test_a_constant_picture_speaks_in_its_first_group_alone() -> None:
    """That group holds the low-pass channel, which sees the brightness; nothing is blown up in the others."""
    row = ScatteringFeatures((16, 16)).transform(np.full((1, 16, 16), 200.0)).reshape(27, -1)
    assert np.abs(row[0]).max() > 0.01
    assert np.abs(row[1:]).max() < 1e-3


def test_scattering_features_classify_digits() -> None:
    """A linear classifier on them is right on more than 93 of 100 later digits of scikit-learn."""
    digits = load_digits()
    rows = ScatteringFeatures((8, 8)).transform(digits.images * (255 / 16))
    model = LogisticRegression(C=100.0, max_iter=300).fit(rows[:1200], digits.target[:1200])
    assert model.score(rows[1200:], digits.target[1200:]) > 0.93


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (np.zeros((2, 9, 8)), r"numbers of shape \(n, 8, 8\)"),
        (np.zeros((2, 8, 8), dtype=bool), "numbers of shape"),
        (np.where(np.arange(192).reshape(3, 8, 8) == 100, np.nan, 0.0), "picture 1 holds a value"),
        (np.full((1, 8, 8), np.inf), "picture 0 holds a value"),
    ],
)
def test_other_pictures_are_refused(name, pictures, message) -> None:
    with pytest.raises(BadInput, match=message):
        make_extractor(name, (8, 8)).transform(pictures)


@pytest.mark.parametrize("name", EXTRACTORS)
@pytest.mark.parametrize("shape", [(28,), (0, 28), (28, 28, 3, 1)])
def test_shapes_that_are_no_pictures_are_refused(name, shape) -> None:
    with pytest.raises(BadInput, match="`shape` was"):
        make_extractor(name, shape)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(BadInput, match="divides the 81 channels"):
        ScatteringFeatures((8, 8), groups=10)


def test_unknown_names_are_refused_with_those_that_are_known(tmp_path) -> None:
    with pytest.raises(BadInput, match=f"one of {', '.join(EXTRACTORS)}, or a folder"):
        make_extractor(str(tmp_path / "nowhere"), (8, 8))


def test_rows_that_are_too_long_are_shortened_and_blocks_are_always_full() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=np.float32)
    short = within_length_one(rows)
    assert 1.0 - 1e-5 < lengths(short)[0] <= 1.0
    np.testing.assert_array_equal(short[1:], rows[1:])
    sizes = []

    class Wide(Extractor):
        name, shape, dimension, block = "wide", (2, 1), 2, 2

        def _rows(self, block):
            sizes.append(len(block))
            return block.reshape(-1, 2)

    found = Wide().transform(rows[[0, 1, 2, 0, 1]].reshape(-1, 2, 1))
    assert sizes == [2, 2, 2]
    np.testing.assert_array_equal(found, short[[0, 1, 2, 0, 1]])
