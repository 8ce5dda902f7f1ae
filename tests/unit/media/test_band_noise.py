"""BandNoise: what it promises, what it keeps, and that the bytes do not depend on how a clip was cut."""

import math
import tracemalloc

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.audio.band_noise import BandNoise, kept_blocks, kept_touched, smallest_stride
from sfumato.media.audio.loudness import BANDS, FLOOR, band_levels
from sfumato.media.audio.mdct import Lapped
from sfumato.media.audio.speech import SIZES, best_size, metric, shapes, steps_ahead
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

RATES = [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 96000]
MODES = [
    {},
    {"restore": "none"},
    {"epsilon": 9.0, "weighting": "flat"},
    {"keep": "coefficients", "epsilon": 3000.0},
    {"keep": "coefficients", "epsilon": 3000.0, "delta": 1e-6, "restore": "none", "cutoff": 1500.0},
]


def speech(samples, channels=1, rate=8000, seed=0):
    """Noise through two formants that move, in syllables: enough like speech to have shapes."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    beat = np.clip(np.sin(2 * math.pi * 3.0 * time), 0.0, 1.0)
    tones = sum(np.sin(2 * math.pi * f * time + 2.0 * np.sin(7.0 * time)) for f in (180.0, 700.0, 1700.0))
    sound = 0.15 * beat * tones + 0.002 * rng.normal(size=samples)
    return np.repeat(sound[:, None], channels, axis=1) * np.linspace(1.0, 0.5, channels)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("shape", [(1,), (60,), (7001,), (30011, 2)])
def test_a_clip_keeps_its_shape_and_is_the_same_however_it_is_cut(mode, shape):
    sound = speech(shape[0], shape[1] if len(shape) > 1 else 1).reshape(shape)
    mechanism = BandNoise(**{"epsilon": 4.0, "rate": 8000, "randomness": Seeded(1), **mode})
    value = mechanism.release(sound).value
    assert value.shape == shape
    assert np.abs(value).max() <= 1.0
    cuts = np.sort(np.random.default_rng(2).integers(0, shape[0], 6))
    blocks = list(mechanism.shaped(shape).blocks(np.split(sound, cuts)))
    assert np.array_equal(np.concatenate(blocks).reshape(shape), value)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 20.0])
def test_the_window_that_was_asked_for_costs_what_was_asked_for(rate, epsilon):
    mechanism = BandNoise(epsilon, rate=rate, shape=(2 * rate, 2))
    assert mechanism.guarantee().unit == Unit("window", 20.0)
    assert epsilon * (1.0 - 1e-9) <= mechanism.guarantee().epsilon() <= epsilon
    # One kept block each 32 ms or so.
    assert mechanism.proven(Unit("clip"), (2 * rate, 2)).epsilon() == pytest.approx(63 * epsilon, rel=0.05)


@pytest.mark.parametrize(
    "unit", ["window(1)", "window(5)", "window(20)", "window(33.3)", "window(250)", "clip", "item", "channel"]
)
@pytest.mark.parametrize("keep", ["shapes", "coefficients"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_unit_can_be_asked_for(unit, keep, delta):
    mechanism = BandNoise(40.0, delta, unit, rate=8000, keep=keep, shape=(9000, 2))
    statement = mechanism.statement(18000)
    assert statement.proven.unit == Unit.parse(unit)
    assert statement.proven.epsilon() <= 40.0 * (1.0 + 1e-12)
    assert statement.proven.epsilon() >= 39.8
    others = {str(part.unit): part.epsilon() for part in statement.also_proven}
    assert set(others) == {"window(5)", "window(20)", "window(100)", "clip", "item"} - {unit}
    stated = others | {unit: statement.proven.epsilon()}
    assert stated["window(5)"] <= stated["window(20)"] <= stated["window(100)"] <= stated["clip"]


def test_a_channel_costs_less_than_a_clip_where_channels_are_kept_apart():
    mechanism = BandNoise(100.0, rate=8000, keep="coefficients", shape=(9000, 2))
    clip, channel = (mechanism.proven(Unit(name), (9000, 2)).epsilon() for name in ("clip", "channel"))
    assert clip == pytest.approx(2.0 * channel, rel=1e-9)
    together = BandNoise(4.0, rate=8000, shape=(9000, 2))
    assert (
        together.proven(Unit("clip"), (9000, 2)).epsilon()
        == together.proven(Unit("channel"), (9000, 2)).epsilon()
    )


@pytest.mark.parametrize("transform", [Lapped(8, 1), Lapped(8, 4), Lapped(5, 0)])
@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize("window", [1, 2, 8, 15, 16, 50])
def test_kept_blocks_are_counted_exactly(transform, stride, window):
    samples = 40 * transform.hop
    touched = np.abs(transform.forward(np.eye(samples))).max(axis=2) > 0
    kept = touched[:, ::stride]
    assert kept.shape[1] == kept_blocks(transform, stride, samples)
    counts = [kept[at : at + window].any(axis=0).sum() for at in range(samples - window + 1)]
    assert max(counts) == kept_touched(transform, stride, window, samples)
    assert kept_touched(transform, smallest_stride(transform, window), window, samples) == 1


def test_what_lies_between_kept_blocks_is_not_used():
    """The release of a clip is the same, to the bit, whatever stands in the gaps."""
    mechanism = BandNoise(6.0, rate=8000, shape=(8000,), randomness=Seeded(3))
    transform = band_levels(8000).transform
    used = np.zeros(8000, dtype=bool)
    for block in range(0, transform.blocks(8000), 3):
        start = block * transform.hop
        used[max(0, start - transform.lap) : start + transform.hop + transform.lap] = True
    assert 0.3 < used.mean() < 0.5
    sound = speech(8000)[:, 0]
    other = np.where(used, sound, np.random.default_rng(0).uniform(-1, 1, 8000))
    assert np.array_equal(mechanism.release(sound).value, mechanism.release(other).value)
    # And a change of one kept block changes the release by that block alone, once nothing is smoothed.
    plain = BandNoise(60.0, rate=8000, shape=(8000,), restore="none", randomness=Seeded(3))
    loud = sound.copy()
    loud[30 * 85 : 31 * 85] = 0.8
    changed = np.flatnonzero(plain.release(sound).value != plain.release(loud).value)
    assert changed.size
    assert changed.min() >= 30 * 85 - 5
    assert changed.max() < 33 * 85 + 5


@pytest.mark.parametrize(("dtype", "scale"), [(np.int16, 2.0**15), (np.int32, 2.0**31), (np.float32, 1.0)])
def test_every_type_of_samples_is_the_same_sound(dtype, scale):
    sound = np.clip(speech(4000)[:, 0], -0.99, 0.99)
    mechanism = BandNoise(rate=8000, randomness=Seeded(0), epsilon=4.0)
    whole = np.rint(sound * 2.0**15) / 2.0**15
    expected = mechanism.release(whole).value
    value = mechanism.release((whole * scale).astype(dtype)).value
    assert value.dtype == dtype
    assert np.abs(value / scale - expected).max() <= 1.0 / 2.0**15


def test_several_clips_are_released_independently():
    sound = speech(3000)[:, 0]
    value = (
        BandNoise(rate=8000, shape=(3000,), randomness=Seeded(0), epsilon=4.0)
        .release(np.stack([sound, sound]))
        .value
    )
    assert value.shape == (2, 3000)
    assert not np.array_equal(value[0], value[1])


def test_keyed_noise_repeats_for_one_release_and_not_for_another():
    def made(sound, version="1", **more):
        key = Keyed(b"k" * 32, dataset="voices", version=version, release="r")
        return BandNoise(**{"epsilon": 4.0, "rate": 8000, "randomness": key, **more}).release(sound).value

    sound = speech(20000)[:, 0]
    assert np.array_equal(made(sound), made(sound))
    assert not np.array_equal(made(sound), made(sound, version="2"))
    assert not np.array_equal(made(sound, epsilon=4.0), made(sound, epsilon=3.9))
    # An edit that changes no shape buys no fresh noise: below the level of a bit of 16.
    assert np.array_equal(made(sound), made(sound + 1e-9))


def test_a_changed_recording_is_refused_under_the_same_release():
    key = Keyed(b"k" * 32, dataset="voices", version="1", release="r")
    mechanism = BandNoise(40.0, rate=8000, randomness=key)
    mechanism.release(speech(8000)[:, 0])
    with pytest.raises(BadInput, match="other content"):
        mechanism.release(0.01 * speech(8000, seed=1)[::-1, 0])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_memory_does_not_grow_with_the_clip(mode):
    """The peak of a clip four times as long is less than 1.5 times as high."""
    peaks = []
    BandNoise(**{"epsilon": 4.0, "rate": 8000, "shape": (4000,), **mode}).perturb(np.zeros((1, 4000)))
    for seconds in (60, 240):
        mechanism = BandNoise(**{"epsilon": 4.0, "rate": 8000, "shape": (8000 * seconds,), **mode})
        tracemalloc.start()
        for block in mechanism.blocks(np.full((8000, 1), 0.1) for _ in range(seconds)):
            assert len(block)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    "mode", [{"epsilon": 5.0}, {"keep": "coefficients", "epsilon": 20000.0, "cutoff": 3000.0}]
)
def test_restoring_brings_the_release_nearer(mode):
    """In band levels, root mean square over 40 s; noise is seeded."""
    sound = speech(320000)[:, 0]
    bands = band_levels(8000)
    true = bands.levels(bands.transform.forward(sound[None]))
    errors = []
    for restore in ("wiener", "none"):
        mechanism = BandNoise(rate=8000, restore=restore, randomness=Seeded(0), **mode)
        heard = bands.levels(bands.transform.forward(mechanism.release(sound).value[None]))
        errors.append(float(np.sqrt(np.mean((heard - true) ** 2))))
    assert errors[0] < 0.95 * errors[1]


def test_quiet_recordings_are_declared_by_their_clip():
    sound = speech(8000)[:, 0]
    loud = BandNoise(rate=8000, randomness=Seeded(0), epsilon=4.0).release(sound).value
    quiet = BandNoise(rate=8000, clip=0.125, randomness=Seeded(0), epsilon=4.0).release(0.125 * sound).value
    assert np.allclose(quiet, 0.125 * loud, atol=1e-12)


def test_a_statement_names_what_shaped_the_bytes():
    release = BandNoise(rate=8000, epsilon=4.0).release(speech(8000)[:, 0])
    parameters = release.statement.parameters
    assert parameters["keep"] == "shapes"
    assert parameters["unit"] == "window(20)"
    assert parameters["shape"] == [8000]
    assert release.statement.claimed is None
    assert release.provenance == {"clips": 1, "shape": [8000], "rate": 8000}
    assert BandNoise(rate=8000, randomness=Seeded(0), shape=(10,), epsilon=4.0).statement().notes


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_the_expected_error_is_the_share_of_wrong_shapes(epsilon):
    mechanism = BandNoise(epsilon, rate=8000, shape=(8000,))
    (error,) = mechanism.expected_error(8000)
    size = best_size(epsilon)
    assert error.value == pytest.approx((size - 1) / (math.exp(epsilon) + size - 1), rel=1e-6)
    (noise,) = BandNoise(epsilon, rate=8000, shape=(8000,), keep="coefficients").expected_error(8000)
    assert noise.value > 10.0


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"rate": None}, "`rate` must be"),
        ({"rate": 10}, "`rate` must be"),
        ({"rate": 8000.0}, "`rate` must be"),
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"epsilon": float("nan")}, "`epsilon` must be"),
        ({"delta": 1.0}, "`delta` must be"),
        ({"delta": -0.1}, "`delta` must be"),
        ({"clip": 0.0}, "`clip` must be"),
        ({"unit": "region(16)"}, "units window"),
        ({"keep": "everything"}, "`keep` must be"),
        ({"shapes": 3}, "`shapes` must be"),
        ({"weighting": "a"}, "`weighting` must be"),
        ({"restore": "b"}, "`restore` must be"),
        ({"keep": "coefficients", "cutoff": -1.0}, "`cutoff` must be"),
        ({"shape": None}, "give `shape="),
        ({"shape": (10, 99)}, "`shape` must be"),
        ({"shape": "ten"}, "`shape` must be"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, says):
    with pytest.raises(BadInput, match=says):
        BandNoise(**({"epsilon": 4.0, "rate": 8000, "shape": (100,)} | parameters)).guarantee()


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        (np.full(100, np.nan), "NaN"),
        (np.array([0.0, np.inf]), "infinity"),
        (np.zeros(100, dtype=np.uint8), "uint8"),
        (np.zeros((2, 2, 2, 2)), "expected clips|`shape` must be"),
        (np.zeros(0), "expected clips"),
    ],
)
def test_what_is_no_sound_is_refused(sound, says):
    with pytest.raises(BadInput, match=says):
        BandNoise(rate=8000, epsilon=4.0).release(sound)


def test_blocks_must_add_up_to_the_declared_clip():
    mechanism = BandNoise(rate=8000, shape=(100, 1), epsilon=4.0)
    with pytest.raises(BadInput, match="and 60 came"):
        list(mechanism.blocks([np.zeros((60, 1))]))
    with pytest.raises(BadInput, match="cannot hold a block"):
        list(mechanism.blocks([np.zeros((60, 1)), np.zeros((60, 1))]))
    with pytest.raises(BadInput, match="cannot hold a block"):
        list(mechanism.blocks([np.zeros((60, 2))]))
    with pytest.raises(BadInput, match="do not have 99 values"):
        mechanism.guarantee(99)


@pytest.mark.parametrize("size", SIZES)
def test_public_shapes_of_speech_are_complete(size):
    public = shapes(size)
    assert public.levels.shape == (size, BANDS)
    assert (public.levels >= FLOOR).all()
    assert (public.levels < 0.0).all()
    assert public.share.sum() == pytest.approx(1.0)
    assert public.steps.sum(axis=1) == pytest.approx(np.ones(size))
    assert (public.steps > 0.0).all()
    assert steps_ahead(size, 3) == pytest.approx(public.steps @ public.steps @ public.steps)
    for weighting in ("iso226", "flat"):
        # Each shape is its own nearest.
        assert np.array_equal(public.nearest(public.levels, weighting), np.arange(size))


def test_more_epsilon_tells_more_shapes_apart():
    sizes = [best_size(epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0, 8.0, 1000.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 2
    assert best_size(4.0) == 16
    assert sizes[-1] == 256


def test_gain_and_voices_count_less_than_shape_and_bands_by_how_well_they_are_heard():
    # Two speakers that differ in every band alike leave nothing but the gain to suppress.
    heard = metric("iso226", np.array([[-40.0] * BANDS, [-30.0] * BANDS]))
    gain = np.linalg.norm(np.ones(BANDS) @ heard)
    shape = np.linalg.norm(np.where(np.arange(BANDS) % 2, 1.0, -1.0) @ heard)
    assert gain**2 == pytest.approx(0.1 * 0.05 * BANDS)
    assert shape > 5.0 * gain
    assert np.linalg.norm(heard[0]) < 0.6 * np.linalg.norm(heard[7])
    # What tells the two apart counts a twentieth of what it did.
    tilt = np.linspace(-5.0, 5.0, BANDS)
    before, after = (
        metric("flat", np.stack([np.zeros(BANDS), np.ones(BANDS)])),
        metric("flat", np.stack([tilt, -tilt])),
    )
    assert np.sum((tilt @ after) ** 2) == pytest.approx(0.05 * np.sum((tilt @ before) ** 2))


@pytest.mark.parametrize("rate", [1000, 8000, 44100])
def test_levels_are_power_in_bands_at_any_rate(rate):
    bands = band_levels(rate)
    time = np.arange(2 * rate) / rate
    tone = 0.5 * np.sin(2 * math.pi * 300.0 * time)
    levels = bands.levels(bands.transform.forward(tone[None]))[1:-1]
    # The power of the tone, 1/8, lies in one band or two.
    assert 10.0 * np.log10(np.sum(10.0 ** (levels / 10.0), axis=1).mean()) == pytest.approx(-9.0, abs=1.0)
    made = bands.sounding(levels, 0)
    again = bands.levels(made[None])
    there = bands.members.sum(axis=0) > 0
    assert np.abs(again - levels)[:, there].max() < 1e-9
