"""Sounds as records: shapes, units, types, and the public statistics that stand beside the code."""

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from real_data import real
from sfumato.errors import BadInput
from sfumato.media.audio.audio_mechanism import full_scale, sound_shape, sound_unit, window_samples
from sfumato.media.audio.band_noise import BandNoise
from sfumato.media.audio.loudness import band_levels
from sfumato.noise import Seeded
from sfumato.privacy import Unit


@pytest.mark.parametrize("rate", [1000, 8000, 11025, 22050, 44100, 96000])
@pytest.mark.parametrize("size", [0.01, 1.0, 5.0, 11.1, 20.0, 100.0])
def test_a_window_holds_as_many_samples_as_fit_at_its_best_place(rate, size):
    """Sample instants n/rate in [a, a + size), over a that stand on a sample: no other start holds more."""
    length = Fraction(str(size)) * rate / 1000
    inside = max(1, math.ceil(length))
    assert window_samples(Unit("window", size), rate, 10**9) == inside
    assert window_samples(Unit("window", size), rate, 3) == min(3, inside)


@pytest.mark.parametrize("name", ["clip", "item", "channel"])
def test_other_units_cover_every_sample(name):
    assert window_samples(Unit(name), 8000, 1234) == 1234


@pytest.mark.parametrize(
    ("given", "shape"), [((10,), (10, 1)), ((10, 2), (10, 2)), ([7, 1], (7, 1)), ((np.int64(3),), (3, 1))]
)
def test_shapes_are_samples_and_channels(given, shape):
    assert sound_shape(given) == shape


@pytest.mark.parametrize("given", [(), (0,), (1, 0), (1, 33), (1, 1, 1), (1.5,), (True,), "12", 12, None])
def test_what_is_no_shape_is_refused(given):
    with pytest.raises(BadInput, match="`shape` must be"):
        sound_shape(given)


@pytest.mark.parametrize("unit", ["frame", "record", "pixels(4)"])
def test_units_of_other_things_are_refused(unit):
    with pytest.raises(BadInput, match=r"window\(ms\), clip, channel and item"):
        sound_unit(unit)


def test_full_scale_by_type():
    assert full_scale(np.dtype(np.int16)) == 32768.0
    assert full_scale(np.dtype(np.int32)) == 2.0**31
    assert full_scale(np.dtype(np.float32)) == full_scale(np.dtype(np.float64)) == 1.0
    with pytest.raises(BadInput, match="int8"):
        full_scale(np.dtype(np.int8))


def test_a_shape_and_a_rate_are_given_to_a_copy():
    mechanism = BandNoise(3.0, weighting="flat")
    shaped = mechanism.shaped((500, 2), 16000)
    assert (mechanism.shape, mechanism.rate) == (None, None)
    assert (shaped.shape, shaped.rate, shaped.weighting) == ((500, 2), 16000, "flat")
    assert shaped.shaped((10,)).rate == 16000
    with pytest.raises(BadInput, match="`rate` must be"):
        mechanism.release(np.zeros(100))


def test_rows_are_clips_and_a_pipeline_releases_them():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 600))
    mechanism = BandNoise(rate=8000, shape=(300, 2), randomness=Seeded(0), epsilon=4.0)
    value = make_pipeline(clone(mechanism)).fit_transform(X)
    assert np.array_equal(value, mechanism.perturb(X))
    # Rows from the second on, told that they are: the same bytes.
    assert np.array_equal(mechanism.perturb(X[1:], 1), value[1:])
    assert np.array_equal(mechanism.release(X.reshape(3, 300, 2)).value.reshape(3, 600), value)
    assert mechanism.block_rows(600) == 1
    kept = X.copy()
    mechanism.perturb(X)
    assert np.array_equal(X, kept)


def test_the_public_shapes_count_the_takes_that_are_set_aside_for_them():
    """Every pair of blocks in a row, of takes 25 to 49 and no others, was counted once."""
    path = real("fsdd.npz")
    from importlib import resources

    with np.load(path) as archive:
        lengths = np.diff(archive["offsets"])[archive["take"] >= 25]
    pairs = sum(band_levels(8000).transform.blocks(int(length)) - 1 for length in lengths)
    with np.load(resources.files("sfumato.media.audio") / "speech.npz") as stored:
        for size in (2, 64, 256):
            assert int(stored[f"pairs{size}"].sum()) == pairs
