"""Pixelated and blurred pictures: what they are, in which order, and that nothing is proven of them."""

import numpy as np
import pytest
from skimage.filters import gaussian
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.publishers.baseline_publishers import BlurPublisher, PixelationPublisher

PUBLISHERS = [PixelationPublisher, BlurPublisher]


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images, data.target


@pytest.mark.parametrize("shape", [(7, 9), (7, 9, 3), (3, 3), (2, 2)])
def test_pixelation_shows_the_mean_of_each_block_cut_at_the_edges(shape):
    pictures = np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)
    shown = PixelationPublisher().fit(pictures, [0, 1, 0, 1]).publish().value[0]
    for row in range(0, shape[0], 3):
        for column in range(0, shape[1], 3):
            block = (slice(None), slice(row, row + 3), slice(column, column + 3))
            mean = pictures[block].mean(axis=(1, 2), keepdims=True)
            assert np.allclose(shown[block], mean, atol=1e-3)


def test_blocks_of_one_pixel_change_nothing(digits):
    shown = PixelationPublisher(1, top=16.0).fit(*digits).publish().value[0]
    assert np.allclose(shown, digits[0])


@pytest.mark.parametrize("colours", [None, 3])
def test_blur_is_a_gaussian_filter_of_each_picture_alone(colours):
    rng = np.random.default_rng(1)
    pictures = rng.uniform(0.0, 1.0, (3, 12, 10) if colours is None else (3, 12, 10, colours))
    shown = BlurPublisher(top=1.0).fit(pictures, [0, 1, 1]).publish().value[0]
    for before, after in zip(pictures, shown, strict=True):
        axis = None if colours is None else -1
        assert np.allclose(after, gaussian(before, 1.5, mode="reflect", channel_axis=axis), atol=1e-5)


def test_a_very_wide_blur_leaves_the_mean_of_a_picture(digits):
    shown = BlurPublisher(1e9, top=16.0).fit(*digits).publish(50).value[0]
    assert np.allclose(shown, digits[0][:50].mean(axis=(1, 2), keepdims=True), atol=0.01)


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_records_keep_their_order_and_labels_and_inputs_are_not_modified(publisher, digits):
    pictures, labels = digits[0].copy(), digits[1].copy()
    fitted = publisher(top=16.0).fit(pictures, labels)
    shown, kinds = fitted.publish().value
    assert (shown.dtype, shown.shape, kinds.dtype) == (np.float32, pictures.shape, np.int64)
    assert np.array_equal(kinds, labels)
    assert shown.min() >= 0.0
    assert shown.max() <= 16.0
    few, kinds = fitted.publish(10).value
    assert np.array_equal(few, shown[:10])
    assert np.array_equal(kinds, labels[:10])
    few[:] = -1.0
    assert np.array_equal(fitted.publish().value[0], shown)
    assert np.array_equal(pictures, digits[0])
    assert np.array_equal(labels, digits[1])


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_nothing_is_proven_and_pictures_stay_useful(publisher, digits):
    assert publisher().guarantee().proves_nothing
    assert publisher.one_to_one
    release = publisher(top=16.0).fit(*digits).publish()
    assert release.statement.proven.proves_nothing
    assert "deterministic" in release.statement.proven.theorem
    assert release.statement.claimed is None
    train = release.value[0].reshape(-1, 64)[:1200]
    assert (
        SVC().fit(train, digits[1][:1200]).score(release.value[0].reshape(-1, 64)[1200:], digits[1][1200:])
        > 0.6
    )


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_progress_is_told(publisher, digits):
    told = []
    publisher().fit(*digits, report=lambda stage, share, facts: told.append(share))
    assert told[-1] == 1.0


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_what_cannot_be_published_is_refused(publisher, digits):
    with pytest.raises(BadInput, match="nothing has been fitted"):
        publisher().publish()
    fitted = publisher().fit(*digits)
    with pytest.raises(BadInput, match="there are 1797 pictures"):
        fitted.publish(1798)
    with pytest.raises(BadInput, match="`n` was 0"):
        fitted.publish(0)
    with pytest.raises(BadInput, match="one label"):
        publisher().fit(digits[0], np.zeros(1797, dtype=int))
    with pytest.raises(BadInput, match="not finite"):
        publisher().fit(np.full((2, 3, 3), np.nan), [0, 1])
    with pytest.raises(BadInput, match="labels"):
        publisher().fit(digits[0], digits[1][:5])
    with pytest.raises(BadInput, match="randomness"):
        publisher(randomness=3)


@pytest.mark.parametrize(
    ("publisher", "parameters", "word"),
    [
        (PixelationPublisher, {"block": 0}, "block"),
        (PixelationPublisher, {"block": 1.5}, "block"),
        (BlurPublisher, {"radius": 0.0}, "radius"),
        (BlurPublisher, {"radius": np.nan}, "radius"),
        (BlurPublisher, {"top": -1.0}, "top"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(publisher, parameters, word):
    with pytest.raises(BadInput, match=word):
        publisher(**parameters)


def test_a_statement_carries_the_parameters():
    assert PixelationPublisher(4, randomness=Seeded(1)).statement().parameters["block"] == 4
    assert BlurPublisher(0.5).statement().parameters["radius"] == 0.5
