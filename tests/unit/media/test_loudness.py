"""Equal loudness: published points of the contours, and the weights read off them."""

import numpy as np
import pytest

from sfumato.media.audio.loudness import FREQUENCIES, contour, noise_weight, sound_pressure


@pytest.mark.parametrize("phon", [20.0, 40.0, 60.0, 80.0])
def test_at_one_kilohertz_phons_are_decibels(phon):
    assert sound_pressure(1000.0, phon) == pytest.approx(phon, abs=0.05)


@pytest.mark.parametrize(
    ("phon", "frequency", "level"),
    # Levels printed in the standard's table of contours.
    [
        (40, 20, 99.85),
        (40, 100, 64.37),
        (40, 4000, 36.65),
        (40, 12500, 51.49),
        (80, 20, 118.99),
        (20, 1000, 20.01),
    ],
)
def test_published_points(phon, frequency, level):
    assert sound_pressure(frequency, phon) == pytest.approx(level, abs=0.02)


def test_there_are_29_frequencies_and_louder_contours_lie_above():
    assert FREQUENCIES.shape == (29,)
    levels = np.stack([contour(phon) for phon in (20, 40, 60, 80, 90)])
    assert (np.diff(levels, axis=0) > 0).all()


def test_noise_may_be_louder_where_hearing_is_poor():
    weight = noise_weight([50.0, 1000.0, 3150.0, 10000.0])
    assert weight[1] == 1.0
    assert weight[0] > 8 > 1 > weight[2]
    assert weight[3] > 2


def test_beyond_the_table_the_contour_goes_on_level():
    assert noise_weight(0.0) == noise_weight(20.0)
    assert noise_weight(20000.0) == noise_weight(12500.0)
