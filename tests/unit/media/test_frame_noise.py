"""Frames through a picture mechanism: what is proven of each unit, correlated noise, whole videos."""

import math
from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.audio.band_noise import BandNoise
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.video.clip_noise import ClipNoise, soften_video
from sfumato.media.video.frame_noise import FrameNoise, Innovations
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit, ar1_factor, gaussian_mu

SHAPE, FRAMES = (48, 64, 3), 12


def clip(frames=FRAMES, shape=SHAPE, dtype=np.uint8):
    """A bright square that moves over a gradient."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    one = np.repeat((x + y)[..., None], shape[2], axis=2)
    made = np.repeat(one[None], frames, axis=0)
    for t in range(frames):
        made[t, 8:24, 2 * t : 2 * t + 16] = 240
    return (made / 255.0).astype(dtype) if np.dtype(dtype).kind == "f" else made.astype(dtype)


def noise(epsilon=4.0, delta=0.0, unit=None, *, randomness=None, **options):
    mechanism = PlaneMeans(epsilon, delta, "region(8)", randomness=randomness)
    return FrameNoise(mechanism, unit, **options)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_a_release_keeps_shape_and_type_and_leaves_the_clip_alone(dtype):
    frames = clip(dtype=dtype)
    before = frames.copy()
    release = noise(40.0).release(frames)
    assert release.value.shape == frames.shape
    assert release.value.dtype == dtype
    assert np.array_equal(frames, before)
    assert release.statement.proven.epsilon() <= 40.0


def test_grey_clips_without_a_channel_axis_are_clips():
    grey = clip(shape=(48, 64, 1))[..., 0]
    assert noise(40.0).release(grey).value.shape == grey.shape


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("unit", ["region(8)", "region(16)", "pixels(4)", "frame", "clip", "channel", "item"])
def test_the_asked_epsilon_is_what_is_proven_of_the_asked_unit(unit, delta):
    made = noise(2.0, delta, unit, frames=FRAMES, shape=SHAPE)
    proven = made.guarantee()
    assert proven.unit == Unit.parse(unit)
    assert proven.at_delta == delta
    assert 2.0 * (1 - 1e-6) < proven.epsilon() <= 2.0


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("unit", ["region(8)", "frame", "clip"])
def test_correlated_noise_is_calibrated_too(unit, beta):
    proven = noise(2.0, 1e-6, unit, beta=beta, frames=FRAMES, shape=SHAPE).guarantee()
    assert 2.0 * (1 - 1e-6) < proven.epsilon() <= 2.0


def test_a_clip_composes_over_its_frames():
    laplace, gaussian = noise(2.0, frames=FRAMES), noise(2.0, 1e-6, frames=FRAMES)
    one, all_ = (laplace.proven(unit, SHAPE) for unit in ("frame", "clip"))
    assert all_.epsilon() == pytest.approx(FRAMES * one.epsilon())
    one, all_ = (gaussian.proven(unit, SHAPE) for unit in ("frame", "clip"))
    mu = 1.0 / one.event.noise_multiplier
    assert gaussian_mu(all_.epsilon(1e-6), 1e-6) == pytest.approx(math.sqrt(FRAMES) * mu, rel=1e-6)


def test_a_statement_has_several_units_and_says_what_a_lasting_region_costs():
    statement = noise(2.0).release(clip()).statement
    units = {str(proven.unit) for proven in (statement.proven, *statement.also_proven)}
    assert {"region(8)", "pixels(1)", "pixels(16)", "region(32)", "frame", "clip"} <= units
    assert "of a region(8) that changes in each of the 12 frames, ε=24 is proven" in statement.notes
    assert statement.parameters["picture"]["mechanism"] == "PlaneMeans"
    assert statement.parameters["smoothing"] == 0.88


def test_a_seed_gives_the_same_bytes_and_a_note():
    one, two = (noise(randomness=Seeded(7)).release(clip()) for _ in range(2))
    assert np.array_equal(one.value, two.value)
    assert any("not for release" in note for note in one.statement.notes)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_keyed_noise_gives_the_same_bytes_again(beta):
    def keyed():
        return Keyed(b"k" * 32, dataset="clips", version="1", release="a")

    delta = 1e-6 if beta else 0.0
    one, two = (noise(delta=delta, beta=beta, randomness=keyed()).release(clip()) for _ in range(2))
    assert np.array_equal(one.value, two.value)
    other = noise(delta=delta, beta=beta, randomness=keyed()).release(clip()[::-1])
    assert not np.array_equal(other.value[::-1], one.value)


def test_a_filter_over_time_makes_the_picture_better_where_nothing_moves():
    from skimage.data import astronaut

    still = np.repeat(astronaut()[None, ::2, ::2], 30, axis=0)
    errors = {}
    for smoothing in (0.0, 0.88):
        made = FrameNoise(PlaneMeans(8.0), smoothing=smoothing, randomness=Seeded(1)).release(still)
        errors[smoothing] = np.square(made.value[20:].astype(float) - still[20:]).mean()
    assert errors[0.88] < 0.9 * errors[0.0]


@pytest.mark.parametrize("beta", [1 / 128, 0.5, 0.9, 127 / 128])
def test_innovations_lose_nothing(beta):
    """Without noise, what comes back is what went in: averages of one pixel each."""
    innovations, frames = Innovations(beta), clip(6, (5, 7, 1))
    made = innovations.encode(frames[:4]), innovations.encode(frames[4:])
    levels = np.concatenate(made).astype(np.float64)
    for frame, level in zip(frames, levels, strict=True):
        (back,) = innovations.decode([(level[..., 0] * 255 / 65_535).astype(np.float32)])
        assert np.abs(back - frame[..., 0]).max() < 0.05


@pytest.mark.parametrize("beta", [0.0625, 0.5, 0.90625, 127 / 128])
def test_innovations_fill_sixteen_bits_and_no_more(beta):
    frames = np.stack([np.full((2, 2, 1), level, dtype=np.uint8) for level in (255, 0, 255, 255, 0, 0)])
    innovations = Innovations(beta)
    k, made = innovations.k, innovations.encode(frames).astype(int)[:, 0, 0, 0]
    assert list(made[1:]) == [0, 255 * (128 + k), 255 * 128, 0, 255 * k]
    assert made[0] == 255 * innovations.c


@pytest.mark.parametrize("beta", [0.25, 0.5, 0.75, 0.90625])
def test_correlation_costs_what_theory_says(beta):
    """The factors on the sensitivity, at equal noise on each frame, are those of ``privacy.correlated``."""
    innovations = Innovations(beta)
    size = innovations.deviation_factor  # of a frame's noise, over that of an innovation
    assert innovations.frame_factor * size == pytest.approx(ar1_factor(beta, "frame"), rel=0.02)
    long = innovations.clip_factor(10_000) * size / 100.0
    assert long == pytest.approx(ar1_factor(beta, "clip"), rel=0.02)
    assert long >= ar1_factor(beta, "clip") * (1 - 1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": 0.5}, "Laplace noise is drawn anew"),
        ({"beta": 1.0, "delta": 1e-6}, "`beta` must be 0, or lie between"),
        ({"beta": -0.1, "delta": 1e-6}, "`beta` must be 0, or lie between"),
        ({"smoothing": 1.0}, "`smoothing` must be less than 1"),
        ({"smoothing": -0.1}, "`smoothing` must lie between 0 and 1"),
        ({"follow": "the ball"}, "`follow` must be one of motion, nothing"),
        ({"unit": "window(20)"}, "frames have the units"),
    ],
)
def test_bad_parameters_are_refused_in_a_sentence(options, words):
    with pytest.raises(BadInput, match=words):
        noise(**options).release(clip())


def test_bad_clips_are_refused():
    with pytest.raises(BadInput, match="a clip is an array"):
        noise().release(np.zeros((4, 4), dtype=np.uint8))
    with pytest.raises(BadInput, match="8-bit frames"):
        noise(delta=1e-6, beta=0.5).release(clip(dtype=np.uint16))
    with pytest.raises(BadInput, match="was to have 12 frames, and 3 came"):
        list(noise(frames=12, shape=SHAPE).released(iter(clip(3))))
    with pytest.raises(BadInput, match="give `frames`"):
        noise(unit="clip", shape=SHAPE).guarantee()
    with pytest.raises(BadInput, match="`mechanism` must be one for pictures"):
        FrameNoise(BandNoise(epsilon=4.0)).release(clip())


Track = namedtuple("Track", "rate channels samples")
Shown = namedtuple("Shown", "pixels ticks")


class Source:
    """A video in memory."""

    height, width, frames, time_base = 48, 64, FRAMES, Fraction(1, 25)
    sound = Track(8_000, 1, 3_840)

    def pictures(self):
        return (Shown(pixels, t) for t, pixels in enumerate(clip()))

    def sound_blocks(self):
        wave = 0.3 * np.sin(np.arange(3_840) * 0.2).astype(np.float32)[:, None]
        return iter(np.split(wave, [1_000, 2_500]))


class Sink:
    """What was written, and how far sound was ahead of the pictures."""

    def __init__(self):
        self.frames, self.samples, self.behind = [], 0, 0

    def write(self, pixels, ticks):
        self.frames.append((ticks, pixels))
        missing = ticks * Fraction(8_000, 25) - self.samples
        self.behind = max(self.behind, 0 if self.samples == 3_840 else missing)

    def write_sound(self, block):
        self.samples += len(block)


def test_a_whole_video_goes_through_with_its_times_and_its_sound():
    sink, heard = Sink(), []
    made = ClipNoise.of(noise(4.0), BandNoise(4.0))
    statement = soften_video(Source(), sink, made, report=lambda stage, done: heard.append((stage, done)))
    assert [ticks for ticks, _ in sink.frames] == list(range(FRAMES))
    assert all(pixels.shape == SHAPE and pixels.dtype == np.uint8 for _, pixels in sink.frames)
    assert sink.samples == 3_840
    assert sink.behind <= 0
    assert heard[-1] == ("frames", 1.0)
    units = {str(proven.unit) for proven in (statement.proven, *statement.also_proven)}
    assert {"region(8)", "frame", "window(20)", "channel", "clip"} <= units


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_channels_add_up_for_a_clip_and_stand_alone_for_a_channel(delta):
    made = ClipNoise.of(noise(3.0, delta), BandNoise(5.0)).shaped(Source())
    picture = made.picture.proven("clip", SHAPE)
    sound = made.sound.proven(Unit("clip"), (3_840, 1))
    both, one = made.proven("clip"), made.proven("channel")
    assert both.epsilon(1e-6) <= picture.epsilon(1e-6) + sound.epsilon(0.0) + 1e-9
    assert both.epsilon(1e-6) > max(picture.epsilon(1e-6), sound.epsilon(0.0))
    assert one.epsilon(delta) == pytest.approx(max(picture.epsilon(delta), sound.epsilon(0.0)))
    if delta == 0.0:
        assert both.epsilon() == pytest.approx(picture.epsilon() + sound.epsilon())


@pytest.mark.parametrize("unit", ["clip", "item", "channel", "frame", "window(40)"])
def test_the_asked_budget_of_a_video_is_kept(unit):
    made = ClipNoise.of(noise(4.0, unit="frame"), BandNoise(4.0), unit=unit).shaped(Source())
    assert made.guarantee().unit == Unit.parse(unit)
    assert 3.999 < made.guarantee().epsilon() <= 4.0


def test_sound_without_a_mechanism_is_left_out_and_the_notes_say_so():
    sink = Sink()
    statement = soften_video(Source(), sink, ClipNoise.of(noise(4.0), None))
    assert sink.samples == 0
    assert "the sound track is left out" in statement.notes
    with pytest.raises(BadInput, match="a unit of sound"):
        ClipNoise.of(noise(4.0), None, unit="window(20)").shaped(Source())
    with pytest.raises(BadInput, match="`share` must lie"):
        ClipNoise.of(noise(4.0), BandNoise(4.0), unit="clip", share=1.0).shaped(Source())
