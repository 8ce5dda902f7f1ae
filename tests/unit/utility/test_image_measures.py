"""PSNR and SSIM against scikit-image, picture by picture."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from sfumato.errors import BadInput
from sfumato.utility.image_measures import psnr, ssim

CAMERA = data.camera()
ASTRONAUT = data.astronaut()


def patches(picture, size):
    steps = range(0, picture.shape[0] - size + 1, size)
    return np.stack([picture[row : row + size, col : col + size] for row in steps for col in steps])


def oracle(one, other, data_range):
    colours = {"channel_axis": -1} if one.ndim == 3 else {}
    return structural_similarity(
        one.astype(float),
        other.astype(float),
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=data_range,
        **colours,
    )


@pytest.mark.parametrize("size", [11, 28, 64])
@pytest.mark.parametrize("picture", [CAMERA, ASTRONAUT], ids=["grey", "colour"])
def test_both_are_those_of_scikit_image(picture, size):
    originals = patches(picture, size)[:40]
    noise = np.random.default_rng(0).normal(0, 25, originals.shape)
    released = originals + noise
    ratios, likeness = psnr(originals, released, data_range=255), ssim(originals, released, data_range=255)
    assert ratios.shape == likeness.shape == (len(originals),)
    for row, (one, other) in enumerate(zip(originals, released, strict=True)):
        assert ratios[row] == pytest.approx(peak_signal_noise_ratio(one.astype(float), other, data_range=255))
        assert likeness[row] == pytest.approx(oracle(one, other, 255), abs=1e-9)


def test_bytes_are_not_wrapped_around():
    black, white = np.zeros((1, 16, 16), np.uint8), np.full((1, 16, 16), 255, np.uint8)
    assert psnr(black, white, data_range=255)[0] == pytest.approx(0.0)
    assert psnr(white, black, data_range=255)[0] == pytest.approx(0.0)
    assert ssim(black, white, data_range=255)[0] == pytest.approx(oracle(black[0], white[0], 255))


def test_psnr_by_hand():
    assert psnr(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.1), data_range=1.0)[0] == pytest.approx(20.0)
    assert psnr(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.1), data_range=10.0)[0] == pytest.approx(40.0)


def test_batches_larger_than_one_part():
    originals = patches(CAMERA, 64)
    originals = np.concatenate([originals] * 9)
    found = ssim(originals, originals[::-1], data_range=255)
    assert originals.size > 2**21
    for row in (0, 300, 511, len(found) - 1):
        assert found[row] == pytest.approx(oracle(originals[row], originals[-1 - row], 255), abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(11, 20), st.integers(11, 20), st.sampled_from([(), (3,), (1,)]))
def test_the_same_pictures_and_swapped_pictures(seed, height, width, colours):
    rng = np.random.default_rng(seed)
    one, other = rng.random((2, 3, height, width, *colours))
    assert np.isposinf(psnr(one, one, data_range=1.0)).all()
    assert np.allclose(ssim(one, one, data_range=1.0), 1.0, atol=1e-12)
    assert np.allclose(ssim(one, other, data_range=1.0), ssim(other, one, data_range=1.0))
    assert np.allclose(psnr(one, other, data_range=1.0), psnr(other, one, data_range=1.0))
    assert (ssim(one, other, data_range=1.0) < 1.0).all()


@pytest.mark.parametrize(
    ("one", "other", "options", "sentence"),
    [
        (CAMERA, CAMERA, {"data_range": 255}, "expected .n, height, width."),
        (CAMERA[None], CAMERA[None, :9], {"data_range": 255}, "both must agree"),
        (CAMERA[None], CAMERA[None], {"data_range": 0}, "`data_range` was 0"),
        (CAMERA[None], CAMERA[None], {"data_range": np.inf}, "`data_range` was inf"),
        (CAMERA[None], np.full((1, 512, 512), np.inf), {"data_range": 255}, "is not a finite number"),
    ],
)
@pytest.mark.parametrize("measure", [psnr, ssim])
def test_what_is_no_picture_is_refused(measure, one, other, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        measure(one, other, **options)


def test_pictures_smaller_than_the_window_are_refused():
    with pytest.raises(BadInput, match="10 × 40 pixels are smaller"):
        ssim(np.ones((2, 10, 40)), np.ones((2, 10, 40)), data_range=1.0)
