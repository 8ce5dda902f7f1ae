"""DP-Pix, uniform noise, the paper's noise, bands, blur, pixelation and masks."""

import json

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from sfumato.errors import BadInput
from sfumato.media.images.image_baselines import DPPix, ScaledPixels, SpectralLaplace, UniformPixels
from sfumato.media.images.plane_bands import PlaneBands
from sfumato.media.images.redaction import Blur, Mask, Pixelate
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

MECHANISMS = [
    DPPix(1.0, block=4),
    UniformPixels(4.0),
    UniformPixels(4.0, 1e-6, "pixels(2)"),
    PlaneBands(4.0),
    PlaneBands(4.0, 1e-6, "pixels(3)", restore="none"),
    SpectralLaplace(1.0),
    SpectralLaplace(1.0, "gaussian"),
    ScaledPixels(2.0),
    Blur(2.0),
    Pixelate(4),
    Mask([[1, 0]]),
    Mask(),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_any_shape_and_type_comes_back_in_its_own(mechanism, dtype):
    for shape in ((1, 1), (5, 7, 3), (33, 20, 4), (20, 20, 2)):
        values = np.random.default_rng(0).random(shape)
        original = (values if dtype is np.float32 else values * np.iinfo(dtype).max).astype(dtype)
        release = mechanism.release(original)
        assert release.value.shape == shape
        assert release.value.dtype == dtype
        json.dumps(release.statement.to_dict())
        mechanism.shaped(shape).expected_error(original.size)


@pytest.mark.parametrize("mechanism", MECHANISMS[:5], ids=repr)
def test_what_is_asked_for_is_proven(mechanism):
    for shape in ((40, 30, 1), (40, 30, 3), (12, 12, 4)):
        epsilon = mechanism.shaped(shape).guarantee().epsilon()
        assert mechanism.epsilon * (1.0 - 1e-6) < epsilon <= mechanism.epsilon


@pytest.mark.parametrize(("channels", "block", "pixels"), [(1, 16, 16), (3, 8, 16), (1, 4, 1)])
def test_dp_pix_has_the_noise_of_its_paper(channels, block, pixels):
    mechanism = DPPix(2.0, f"pixels({pixels})", block)
    deviation = mechanism.design((64, 64, channels)).noise.deviations[0]
    scale = channels * 255.0 * pixels / (block**2 * 2.0)
    assert deviation == pytest.approx(np.full((64 // block,) * 2, np.sqrt(2.0) * scale), rel=1e-9)
    with pytest.raises(BadInput, match="any m pixels"):
        DPPix(1.0, "region(4)").release(np.zeros((8, 8), np.uint8))


def test_the_scale_factors_of_the_paper_cost_what_they_leave_out():
    """0.3 of the noise for one grey pixel is ε/0.3; three channels and m² pixels multiply it."""
    proven = {
        (channels, side): ScaledPixels(1.0).proven(Unit("region", side), (32, 32, channels)).epsilon()
        for channels in (1, 3)
        for side in (1, 8)
    }
    assert proven[1, 1] == pytest.approx(1.0 / 0.3)
    assert proven[3, 1] == pytest.approx(3.0 / 0.3)
    assert proven[1, 8] == pytest.approx(64.0 / 0.3)
    claim = ScaledPixels(1.0).claim()
    assert (claim.epsilon, "Table 2" in claim.source) == (1.0, True)


def test_the_spectrum_gets_more_noise_at_high_frequencies():
    scales = SpectralLaplace(2.0).design((16, 24, 3)).scales[0] * 255.0
    assert scales[0, 0] == pytest.approx(0.5 * np.sqrt(16 * 24) / 2.0)
    assert scales[-1, -1] == pytest.approx(2.0**0.6 * scales[0, 0])
    even = SpectralLaplace(2.0, "gaussian").design((16, 24, 3)).scales[0]
    assert np.ptp(even) == 0.0
    shape = (16, 24, 3)
    assert SpectralLaplace(2.0).proven(Unit("pixels", 1), shape).epsilon() > 2.0
    assert SpectralLaplace(2.0, "gaussian", delta=1e-5).proven(Unit("pixels", 1), shape).epsilon() > 2.0


def test_much_budget_gives_the_picture_back_through_cosines():
    original = np.random.default_rng(1).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    value = SpectralLaplace(1e9).release(original).value
    assert np.abs(value.astype(int) - original).max() <= 1
    grey = original[..., 0]
    value = PlaneBands(1e9, unit="pixels(1)", kept=1.0).release(grey).value
    assert np.abs(value.astype(int) - grey).max() <= 1


def test_bands_are_keyed_by_their_coefficients():
    def made(**options):
        key = Keyed(bytes(range(32)), dataset="album", version="1", release="r")
        return PlaneBands(4.0, unit="region(4)", shape=(16, 16), randomness=key, **options)

    original = np.random.default_rng(1).integers(0, 256, (16, 16), dtype=np.uint8)
    assert np.array_equal(made().release(original).value, made().release(original).value)
    assert not np.array_equal(made().release(original).value, made(kept=0.5).release(original).value)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (PlaneBands, {"kept": 0.0}),
        (PlaneBands, {"chroma": 0.0}),
        (PlaneBands, {"restore": "learned"}),
        (SpectralLaplace, {"noise": "uniform"}),
        (SpectralLaplace, {"alpha": -1.0}),
    ],
)
def test_parameters_are_refused_in_a_sentence(make, options):
    with pytest.raises(BadInput, match=next(iter(options))):
        make(1.0, **options).release(np.zeros((8, 8), np.uint8))


def test_seeded_baselines_repeat():
    original = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for make in (DPPix, UniformPixels, PlaneBands, SpectralLaplace, ScaledPixels):
        first, second = (make(2.0, randomness=Seeded(5)).release(original).value for _ in range(2))
        assert np.array_equal(first, second)


def test_obscured_pictures_prove_nothing():
    for mechanism in (Blur(), Pixelate(), Mask([[1, 0]])):
        made = mechanism.shaped((32, 32, 3))
        assert made.guarantee().proves_nothing
        assert all(one.proves_nothing for one in made.statement().also_proven)
        assert made.claim() is None


def test_blur_and_pixelation_are_what_they_say():
    original = np.random.default_rng(1).random((20, 30, 3)).astype(np.float64)
    blurred = Blur(2.0).release(original).value
    assert np.allclose(blurred, gaussian_filter(original, (2.0, 2.0, 0.0), mode="reflect"), atol=1e-4)
    blocks = Pixelate(10).release(original).value
    assert np.allclose(blocks[:10, 10:20], original[:10, 10:20].mean(axis=(0, 1)), atol=1e-4)


def test_a_mask_hides_what_is_under_it_and_shows_the_rest():
    original = np.random.default_rng(1).integers(0, 256, (10, 10, 3), dtype=np.uint8)
    mask = np.zeros((10, 10), bool)
    mask[:5] = True
    value = Mask(mask, 1.0).release(original).value
    assert (value[:5] == 255).all()
    assert np.array_equal(value[5:], original[5:])
    changed = original.copy()
    changed[:5] = 7
    assert np.array_equal(value, Mask(mask, 1.0).release(changed).value)
    notes = Mask(mask).shaped((10, 10, 3)).statement().notes
    assert any("public mask" in note for note in notes)
    everything = Mask(np.ones((3, 3))).shaped((10, 10, 3)).guarantee()
    assert everything.epsilon() == 0.0
    # A pixel that a painted cell of a coarser or finer mask touches is painted.
    assert (Mask([[1, 0, 0]], 0.0).release(np.full((4, 4), 9, np.uint8)).value[0] == [0, 0, 9, 9]).all()
    with pytest.raises(BadInput, match="`mask` must"):
        Mask([1, 0]).release(original)
