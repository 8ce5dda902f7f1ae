"""The multimedia paper's mel noise: its claim, what it proves instead, and its pieces."""

import math

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.audio.loudness import noise_weight
from sfumato.media.audio.mel_laplace import (
    FFT,
    HOP,
    MEL_CENTRES,
    MEL_RATE,
    MELS,
    MelLaplace,
    decibels,
    frames_of,
    griffin_lim,
    inverse_stft,
    magnitudes,
    stft,
)
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

SECOND = (MEL_RATE,)
# Frames that 20 ms, 441 samples, can reach: 2048 + 441 samples hold at most ⌊2487/512⌋ + 1 starts.
REACHED = 5


def tone(samples=MEL_RATE, rate=MEL_RATE, frequency=1000.0):
    return 0.5 * np.sin(2 * math.pi * frequency * np.arange(samples) / rate)


@pytest.mark.parametrize("samples", [100, 2048, 22050, 30001])
def test_spectra_can_be_inverted(samples):
    sound = np.random.default_rng(0).uniform(-1, 1, samples)
    spectra = stft(sound)
    assert spectra.shape == (frames_of(samples), FFT // 2 + 1)
    kept = slice(0, (len(spectra) - 1) * HOP + HOP // 2)
    assert np.abs(inverse_stft(spectra, samples)[kept] - sound[kept]).max() < 1e-9


def test_a_tone_stands_where_it_should_and_full_scale_is_nought():
    levels = decibels(stft(2.0 * tone()))
    assert levels.shape == (frames_of(MEL_RATE), MELS)
    middle = levels[20]
    assert abs(MEL_CENTRES[int(np.argmax(middle))] - 1000.0) < 40.0
    assert -3.0 < middle.max() <= 0.0
    assert decibels(stft(np.zeros(MEL_RATE))).max() == -80.0


def test_levels_of_an_inverted_spectrogram_are_near():
    sound = np.random.default_rng(0).normal(size=MEL_RATE) * 0.05
    levels = decibels(stft(sound))
    again = decibels(stft(griffin_lim(magnitudes(levels), sound.size)))
    assert np.sqrt(np.mean((again - levels)[3:-3] ** 2)) < 4.0


def test_without_fading_the_proven_cost_is_the_sum_over_levels():
    mechanism = MelLaplace(1.0, rate=MEL_RATE, decay=None, shape=SECOND)
    each = float(np.sum(2.0 / (0.8 * noise_weight(MEL_CENTRES))))
    assert mechanism.guarantee().epsilon() == pytest.approx(REACHED * each, rel=1e-6)
    clip = mechanism.proven(Unit("clip"), (MEL_RATE, 1)).epsilon()
    assert clip == pytest.approx(frames_of(MEL_RATE) * each, rel=1e-6)
    # Table 2's factor alone: one level at 1 kHz costs 2.5 times the claim.
    assert 2.0 / 0.8 == 2.5
    assert mechanism.claim().epsilon == 1.0


def test_the_dearest_level_is_where_the_ear_is_most_sensitive():
    """Scale 0.8·A(f)/ε on a level that moves by 2: 2.5ε at 1 kHz, more where A(f) is smaller."""
    least = float(noise_weight(MEL_CENTRES).min())
    assert least < 1.0
    assert MelLaplace(2.0).level_epsilon() == pytest.approx(2.0 / (0.4 * least))


def test_where_the_noise_has_faded_little_is_proven():
    """Half a second from t₀ a level has e^−10 of the noise, so a window costs e^10 as much."""
    plain = MelLaplace(1.0, rate=MEL_RATE, decay=None, shape=SECOND).guarantee().epsilon()
    fading = MelLaplace(1.0, rate=MEL_RATE, shape=SECOND).guarantee().epsilon()
    assert 1e3 * plain < fading < math.exp(10.0) * plain
    minute = MelLaplace(1.0, rate=MEL_RATE, shape=(60 * MEL_RATE,)).guarantee()
    assert minute.epsilon() > 1e200
    start = MelLaplace(1.0, rate=MEL_RATE, moment=0.0, shape=SECOND).guarantee().epsilon()
    assert start > 1e3 * fading


def test_the_clean_phase_proves_nothing():
    mechanism = MelLaplace(1.0, rate=MEL_RATE, phase="keep", shape=SECOND)
    assert mechanism.guarantee().proves_nothing
    assert all(part.proves_nothing for part in mechanism.statement().also_proven)
    # And it shows: with all levels drowned, the signal's own sign pattern still comes through.
    noisy = (
        MelLaplace(0.1, rate=MEL_RATE, phase="keep", decay=None, randomness=Seeded(0)).release(tone()).value
    )
    assert np.corrcoef(noisy, tone())[0, 1] > 0.3


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_other_rates_are_resampled_and_the_filter_is_part_of_the_unit(rate):
    mechanism = MelLaplace(1e5, rate=rate, decay=None, randomness=Seeded(0))
    sound = tone(rate, rate)
    release = mechanism.release(sound)
    assert release.value.shape == (rate,)
    spectrum = np.abs(np.fft.rfft(release.value))
    assert abs(int(np.argmax(spectrum)) - 1000) < 30
    own = MelLaplace(1e5, rate=MEL_RATE, decay=None, shape=SECOND).guarantee().epsilon()
    assert release.statement.proven.epsilon() >= own


def test_the_reach_of_the_resampling_filter_is_counted():
    """No sample of a changed window reaches a frame beyond those that are counted."""
    rate, at, samples = 8000, 4000, 8000
    mechanism = MelLaplace(1.0, rate=rate, decay=None, shape=(samples,))
    up, down = mechanism._ratio()
    from scipy.signal import resample_poly

    sound = np.zeros(samples)
    sound[at : at + 160] = 1.0
    frames = np.flatnonzero(np.abs(stft(resample_poly(sound, up, down))).max(axis=1) > 0.0)
    assert np.ptp(frames) + 1 <= mechanism._frames_reached(Unit("window", 20.0), (samples, 1))


def test_channels_come_back_alike_and_keys_repeat():
    sound = np.stack([tone(), 0.5 * tone()], axis=1)
    key = {"dataset": "d", "version": "1", "release": "r"}
    values = [
        MelLaplace(5.0, rate=MEL_RATE, randomness=Keyed(b"k" * 32, **key)).release(sound).value
        for _ in range(2)
    ]
    assert np.array_equal(*values)
    assert np.array_equal(values[0][:, 0], values[0][:, 1])


def test_the_expected_error_is_in_decibels():
    (error,) = MelLaplace(1.0, rate=MEL_RATE, shape=SECOND).expected_error(MEL_RATE)
    assert error.value == pytest.approx(0.8 * math.sqrt(2.0) * 40.0, rel=0.05)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"decay": 0.0}, "`decay` must be"),
        ({"moment": "start"}, "`moment` must be"),
        ({"phase": "guess"}, "`phase` must be"),
        ({"unit": "frame"}, "units window"),
        ({"shape": (121 * MEL_RATE,)}, "at most 120 seconds"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, says):
    with pytest.raises(BadInput, match=says):
        MelLaplace(**({"epsilon": 1.0, "rate": MEL_RATE, "shape": SECOND} | parameters)).guarantee()
